"""What this machine can build and run, and the fix for what it cannot (`hipbook doctor`)."""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hipbook import paths
from hipbook.errors import HipbookError

MIN_DISK_BYTES = 2_000_000_000  # caches, runs and the emulator's compiled parts


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `needed`: the default board does not work without it."""

    what: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True


def examine() -> Iterator[Finding]:
    """Everything worth knowing, one finding at a time, the quick ones first."""
    yield _python()
    yield _packages()
    yield _disk()
    yield _probe("cache", _cache, "set HIPBOOK_CACHE to a folder you can write to")
    yield _probe("compiler for AMD GPUs", _device_compiler, "")
    yield _probe("C compiler", _host_compiler, "")
    yield _probe("build for gfx1200", _build, "")
    yield from _boards()
    yield _tool("ROCm", "hipcc", "real AMD boards need ROCm with hipcc on the path")
    yield _tool("CUDA", "nvcc", "NVIDIA boards need the CUDA toolkit with nvcc on the path")
    yield _tool("AMD's profiler", "rocprofv3", "profiling an AMD board needs ROCm's rocprofiler-sdk")
    yield _tool("NVIDIA's counters", "ncu", "profiling an NVIDIA board counts with Nsight Compute's ncu")
    yield _tool("git", "git", "records name the commit they were made at: apt-get install git")


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    return Finding("Python", ok, platform.python_version(), "" if ok else "3.11 or newer: make PYTHON=...")


def _packages() -> Finding:
    from hipbook.records.environment import packages

    found = packages()
    missing = [name for name, version in found.items() if version == "missing" and name != "triton"]
    if importlib.util.find_spec("triton") is None:
        missing.append("triton")
    detail = f"{len(found)} asked for, torch {found['torch']}" + (
        f"; missing: {', '.join(missing)}" if missing else ""
    )
    return Finding("packages", not missing, detail, "make run sets them up" if missing else "")


def _disk() -> Finding:
    free = shutil.disk_usage(_existing(paths.cache())).free
    return Finding("disk", free > MIN_DISK_BYTES, f"{free / 1e9:.1f} GB free for the cache", "hipbook clean")


def _existing(path):
    while not path.exists():
        path = path.parent
    return path


def _probe(what: str, look: Callable[[], str], fix: str) -> Finding:
    """A finding from a function that returns what it found or raises."""
    try:
        return Finding(what, True, look())
    except HipbookError as error:
        return Finding(what, False, error.what, error.fix or fix)
    except OSError as error:
        return Finding(what, False, str(error), fix)


def _cache() -> str:
    folder = paths.cache()
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".doctor-{os.getpid()}"
    probe.touch()
    probe.unlink()
    return str(folder)


def _device_compiler() -> str:
    from hipbook.build.toolchain import pinned_clang

    clang = pinned_clang()
    return f"{clang.version} ({clang.path})"


def _host_compiler() -> str:
    from hipbook.emulator.native import compiler

    path = compiler()
    told = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    return f"{told.partition(chr(10))[0]} ({path})"


def _build() -> str:
    from hipbook.boards import selfcheck
    from hipbook.build import build

    built = build(selfcheck.SOURCE, "gfx1200", ["-DHIPBOOK_BREAK=0"])
    return f"{len(built.kernels)} kernel, {sum(k.code_bytes for k in built.kernels.values())} bytes of code"


def _boards() -> Iterator[Finding]:
    """Every board the inventory knows; the default one must execute a kernel with exact answers."""
    from hipbook import boards

    default = boards.default_name()
    known = boards.inventory()
    if default not in {board.name for board in known}:
        fix = f"HIPBOOK_BOARD names one of {', '.join(board.name for board in known)}, or is unset"
        yield Finding(f"board {default}", False, "HIPBOOK_BOARD names no board", fix)
    for board in known:
        if board.name == default:
            yield _probe(f"board {board.name}", lambda name=board.name: _selfcheck(name), "")
        else:
            yield Finding(
                f"board {board.name}", board.available, board.kind, board.why_not or "", needed=False
            )


def _selfcheck(name: str) -> str:
    from hipbook import boards
    from hipbook.boards import selfcheck

    check = selfcheck.run(boards.get(name))
    if not check.passed:
        raise HipbookError(f"{check.mismatches} of {check.values_compared} values wrong", fix="report this")
    return f"executes machine code; {check.values_compared} of {check.values_compared} values as expected"


def _tool(what: str, program: str, fix: str) -> Finding:
    found = shutil.which(program)
    return Finding(what, bool(found), found or "not found", "" if found else fix, needed=False)
