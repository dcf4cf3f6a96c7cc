"""Where a run happened, as far as it can change a result; never who or on which host."""

import os
import platform
import re
import subprocess
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import hipbook
from hipbook import paths
from hipbook.records.schema import Environment

# Variables that choose an arm or the arithmetic. Anything else in a user's environment stays private.
_VARIABLES = re.compile(r"VT_[A-Z0-9_]+|OMP_NUM_THREADS|OPENBLAS_CORETYPE|HIPBOOK_BOARD")


def capture() -> Environment:
    """The environment of this process."""
    commit, dirty = git_state()
    return Environment(
        hipbook=hipbook.__version__,
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()} {' '.join(platform.libc_ver())}".strip(),
        processor=_processor(),
        cores=_cores(),
        packages=packages(),
        variables={k: v for k, v in sorted(os.environ.items()) if _VARIABLES.fullmatch(k)},
    )


def git_state() -> tuple[str | None, bool | None]:
    """(commit, whether tracked files differ from it); (None, None) outside a git checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return commit, bool(_git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _git(*args: str) -> str:
    done = subprocess.run(
        ["git", "-C", paths.root(), "--no-optional-locks", *args], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@cache
def requirement_names() -> tuple[str, ...]:
    """The packages pyproject.toml asks for, without the extras."""
    project = tomllib.loads((paths.root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(re.match(r"[A-Za-z0-9._-]+", line).group() for line in project["dependencies"])


def packages() -> dict[str, str]:
    """Installed versions of what pyproject.toml asks for; "missing" where one is not installed."""
    found = {}
    for name in sorted(requirement_names()):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()
