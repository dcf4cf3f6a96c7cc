"""The three lists of packages agree: pyproject.toml, environment.yml and requirements.lock."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from hipbook import paths

CONDA_NAMES = {
    "pytorch": "torch",
    "jupyter_client": "jupyter-client",
}  # conda's name -> PyPI's, where they differ
CONDA_ONLY = {"python", "pip", "clangxx", "lld", "llvm-tools"}
CLANG_MAJOR = "22"


def pyproject() -> dict[str, Requirement]:
    project = tomllib.loads((paths.root() / "pyproject.toml").read_text())
    lines = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
        *project["build-system"]["requires"],
    ]
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in requirements}


def conda() -> tuple[dict[str, str], dict[str, str]]:
    """(what only conda has, what pyproject.toml has too): name -> bound."""
    environment = yaml.safe_load((paths.root() / "environment.yml").read_text())
    own, shared = {}, {}
    for item in environment["dependencies"]:
        for line in item["pip"] if isinstance(item, dict) else [item]:
            name, bound = re.fullmatch(r"([\w.-]+)(.*)", line).groups()
            (own if name in CONDA_ONLY else shared)[CONDA_NAMES.get(name, name)] = bound
    return own, shared


def lock() -> dict[str, Version]:
    lines = (paths.root() / "requirements.lock").read_text().splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pins}


def test_conda_asks_for_what_pyproject_asks_for():
    wanted = {name: str(r.specifier) for name, r in pyproject().items()}
    assert conda()[1] == wanted


def test_conda_has_the_compiler_the_build_wants():
    from hipbook.build import toolchain

    own = conda()[0]
    assert str(toolchain.CLANG_MAJOR) == CLANG_MAJOR
    assert {own[name] for name in ("clangxx", "lld", "llvm-tools")} == {f"={CLANG_MAJOR}"}
    assert own["python"] == ">=3.11"


@pytest.mark.parametrize("name", sorted(pyproject()))
def test_the_lock_pins_a_version_pyproject_allows(name):
    assert pyproject()[name].specifier.contains(lock()[name], prereleases=False)


def test_the_lock_pins_releases_not_local_builds():
    assert lock()["torch"] == Version("2.13.0")
    assert [name for name, version in lock().items() if version.local] == []


def test_what_is_installed_is_what_the_lock_says():
    """Only where `make` set this environment up with the locked torch; another torch brings its own."""
    import json
    from importlib import metadata

    stamp = paths.root() / ".venv" / "hipbook-setup.json"
    if not stamp.is_file() or json.loads(stamp.read_text())["torch"]:
        pytest.skip("not an environment that `make` set up with the locked torch")
    installed = {n: Version(Version(metadata.version(n)).public) for n in lock()}
    assert installed == lock()


def test_the_lock_serves_the_python_of_debian_12():
    """Debian's own is 3.11.2; a newer one here must not lock a package that one cannot have."""
    from importlib import metadata

    from packaging.specifiers import SpecifierSet

    asked = {name: metadata.metadata(name).get("Requires-Python") or "" for name in lock()}
    assert [name for name, said in asked.items() if not SpecifierSet(said).contains("3.11.2")] == []
