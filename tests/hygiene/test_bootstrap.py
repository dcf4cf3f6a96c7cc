"""The set-up that `make` does: chosen Python, missing system packages, announced downloads, the stamp."""

import functools
import http.server
import importlib.util
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from hipbook import paths


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """scripts/bootstrap.py as a module whose checkout is a temporary folder."""
    spec = importlib.util.spec_from_file_location("bootstrap", paths.root() / "scripts" / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp.json")
    monkeypatch.setattr(module, "LOCK", tmp_path / "requirements.lock")
    (tmp_path / ".venv").mkdir()
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "requirements.lock").write_text("numpy==2.0.0\npip==26.3\ntorch==2.13.0\ntriton==3.7.1\n")
    return module


def report(**sizes: int | None) -> dict:
    return {
        "install": [
            {
                "download_info": {"url": f"https://example.org/{name}"},
                "metadata": {"name": name, "version": "1"},
            }
            for name in sizes
        ]
    }


def test_a_large_download_is_announced_with_its_size(bootstrap):
    sizes = {"torch": 900_000_000, "cublas": 600_000_000, "six": 10_000}
    told = bootstrap.announcement(report(**sizes), lambda url: sizes[url.rsplit("/", 1)[1]])
    assert told.startswith("downloading 1.5 GB: torch 1 (0.90 GB), cublas 1 (0.60 GB)")


@pytest.mark.parametrize("size", [1_000_000_000, 200_000_000, None])
def test_a_small_download_is_not(bootstrap, size):
    assert bootstrap.announcement(report(torch=size), lambda url: size) == ""


def test_a_local_file_is_no_download(bootstrap):
    local = report(torch=None)
    local["install"][0]["download_info"]["url"] = "file:///wheels/torch.whl"
    assert bootstrap.announcement(local, lambda url: 5_000_000_000) == ""


def test_files_of_unknown_size_are_counted(bootstrap):
    sizes = {"torch": 2_000_000_000, "nccl": None}
    told = bootstrap.announcement(report(**sizes), lambda url: sizes[url.rsplit("/", 1)[1]])
    assert told.startswith("downloading 2.0 GB and 1 files of unknown size: torch")


@pytest.fixture
def index(tmp_path):
    """A package index on this machine with one package of 1.2 GB (sparse, and never sent)."""
    folder = tmp_path / "index" / "simple" / "bigtorch"
    folder.mkdir(parents=True)
    metadata = b"Metadata-Version: 2.1\nName: bigtorch\nVersion: 1.0\n"
    wheel = folder / "bigtorch-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("bigtorch-1.0.dist-info/METADATA", metadata)
    os.truncate(wheel, 1_200_000_000)
    wheel.with_name(f"{wheel.name}.metadata").write_bytes(metadata)
    (folder / "index.html").write_text(f'<a href="{wheel.name}" data-core-metadata="true">{wheel.name}</a>')
    sent = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            sent.append((self.command, self.path))

    handler = functools.partial(Handler, directory=tmp_path / "index")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple", sent
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_announcement_with_a_real_pip_and_a_real_index(bootstrap, index, monkeypatch, capsys):
    url, sent = index
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    bootstrap.announce_download(["bigtorch==1.0"])
    assert "setup: downloading 1.2 GB: bigtorch 1.0 (1.20 GB)" in capsys.readouterr().out
    assert ("HEAD", "/simple/bigtorch/bigtorch-1.0-py3-none-any.whl") in sent
    assert ("GET", "/simple/bigtorch/bigtorch-1.0-py3-none-any.whl") not in sent
    with pytest.raises(bootstrap.Stop, match="pip cannot find bigtorch==9"):
        bootstrap.announce_download(["bigtorch==9", "-c", os.devnull])


def test_nothing_is_done_when_nothing_is_to_be_done(bootstrap, monkeypatch, capsys):
    steps = []
    monkeypatch.setattr(bootstrap, "system_packages", lambda: None)
    monkeypatch.setattr(bootstrap, "virtual_environment", lambda: steps.append("venv"))
    monkeypatch.setattr(bootstrap, "install_packages", lambda torch: steps.append(f"packages {torch}"))
    monkeypatch.setattr(bootstrap, "pip", lambda *a, **k: steps.append("hipbook"))
    bootstrap.set_up("")
    assert steps == ["venv", "packages ", "hipbook"]
    capsys.readouterr()
    bootstrap.set_up("")
    assert len(steps) == 3
    assert capsys.readouterr().out == ""
    bootstrap.set_up("torch==2.9.1")  # another torch is taken and remembered
    assert steps[3:] == ["venv", "packages torch==2.9.1", "hipbook"]
    bootstrap.set_up("")
    assert len(steps) == 6
    bootstrap.set_up("lock")
    assert steps[7] == "packages "
    bootstrap.LOCK.write_text("numpy==2.0.1\npip==26.3\ntorch==2.13.0\ntriton==3.7.1\n")
    bootstrap.set_up("")
    assert len(steps) == 12


def test_an_interrupted_set_up_begins_again(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap, "system_packages", lambda: None)
    monkeypatch.setattr(bootstrap, "virtual_environment", lambda: None)
    monkeypatch.setattr(bootstrap, "pip", lambda *a, **k: None)
    monkeypatch.setattr(bootstrap, "install_packages", lambda torch: None)
    bootstrap.set_up("")

    def interrupted(torch):
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "install_packages", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.set_up("torch==2.9.1")
    assert not bootstrap.STAMP.exists()


@pytest.mark.parametrize(("own", "present", "wanted"), [(True, True, []), (False, False, ["triton==3.7.1"])])
def test_torchs_own_triton_is_never_replaced(bootstrap, monkeypatch, own, present, wanted):
    asked = []
    monkeypatch.setattr(bootstrap, "announce_download", lambda requirements: None)
    monkeypatch.setattr(bootstrap, "brings_triton", lambda: own and present)
    monkeypatch.setattr(bootstrap, "pip", lambda *a, **k: asked.append(a))
    bootstrap.install_packages("torch==2.9.1 --pre")
    rest = str(bootstrap.VENV / "hipbook-lock.txt")
    assert asked == [
        ("install", "pip==26.3"),
        ("install", "--no-compile", "torch==2.9.1", "--pre", "-c", rest),
        ("install", "--no-compile", "-r", rest, *wanted),
    ]
    assert (bootstrap.VENV / "hipbook-lock.txt").read_text() == "numpy==2.0.0\n"


def test_missing_system_packages_are_installed_or_named(bootstrap, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("HIPBOOK_CLANG", raising=False)
    missing = bootstrap.missing_packages()
    assert {"clang-22", "lld-22", "llvm-22"} <= set(missing)
    with pytest.raises(bootstrap.Stop) as raised:  # no apt-get on this path: it may not install
        bootstrap.system_packages()
    assert "apt-get install -y --no-install-recommends clang-22 lld-22 llvm-22" in str(raised.value)
    assert "builds the kernels" in str(raised.value)


def test_apt_is_called_with_no_questions_and_its_failure_is_told(bootstrap, monkeypatch, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "calls"
    (folder / "apt-get").write_text(
        f'#!/bin/sh\necho "$DEBIAN_FRONTEND $@" >> "{log}"\necho E: no such package\n'
    )
    (folder / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(bootstrap.Stop, match="E: no such package"):
        bootstrap.system_packages()
    first, second = log.read_text().splitlines()
    assert first == "noninteractive update -q"
    assert second.startswith("noninteractive install -y --no-install-recommends clang-22 lld-22 llvm-22")


def setup(**env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["/bin/sh", paths.root() / "scripts" / "setup.sh"],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )


def test_an_old_python_is_refused_with_the_fix(tmp_path):
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = setup(PYTHON=str(old))
    assert done.returncode == 2
    assert "no Python 3.11 or newer" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_no_package_host_is_named_anywhere():
    words = ("pypi" + ".org", "pythonhosted" + ".org", "download.pytorch" + ".org", "deb.debian" + ".org")
    listed = subprocess.run(
        ["git", "-C", paths.root(), "grep", "-lIiE", "|".join(w.replace(".", r"\.") for w in words)],
        capture_output=True,
        text=True,
    )
    assert listed.stdout == ""
