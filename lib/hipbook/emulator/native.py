"""Compiles the C runtime once per machine and loads it.

The library lies in the cache under a name made of the sources, the flags, the compiler and the processor;
it is built in a folder of its own under a file lock and moved into place, so two processes never see half
of one. Any C11 compiler with GNU extensions and _Float16 will do; clang 22 is what the project pins.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from hipbook import paths
from hipbook.emulator import generate
from hipbook.errors import BuildError

RUNTIME = Path(__file__).parent / "runtime"
COMPILERS = ("clang-22", "clang", "cc", "gcc")
# -ffp-contract=off: only what the kernel fuses is fused. -fwrapv: integer overflow wraps, as in the ISA.
FLAGS = (
    "-std=gnu11", "-O2", "-march=native", "-fPIC", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fno-strict-aliasing", "-fwrapv", "-pthread", "-Wall", "-Wno-unused-function",
)  # fmt: skip
PARTS = 4


def compiler() -> str:
    """Path of the C compiler: $HIPBOOK_CC, else the first of COMPILERS that is installed."""
    override = os.environ.get("HIPBOOK_CC")
    for name in (override,) if override else COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    raise BuildError(
        f"no C compiler for the emulated board: tried {override or ', '.join(COMPILERS)}",
        fix="apt-get install clang-22 (or gcc), or set HIPBOOK_CC to a C compiler",
    )


def cpu_model() -> str:
    """The processor's name as the kernel gives it; -march=native code depends on it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part", "cpu model")):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _cpu_features() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return " ".join(sorted(line.split(":", 1)[1].split()))
    except OSError:
        pass
    return platform.machine()


def _sources() -> list[Path]:
    return sorted([*RUNTIME.glob("*.c"), *RUNTIME.glob("*.h")])


def _run(command: list[str], cwd: Path) -> None:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if result.returncode:
        raise BuildError(
            f"the emulator's runtime does not compile\n  command: {' '.join(command)}\n"
            f"{result.stderr[:4000].rstrip()}",
            fix="set HIPBOOK_CC to another C compiler (clang 14 or gcc 12 and later)",
        )


def _build(into: Path, cc: str) -> None:
    with tempfile.TemporaryDirectory(dir=into.parent) as scratch:
        folder = Path(scratch)
        for file in _sources():
            shutil.copy(file, folder / file.name)
        for name, text in generate.sources(PARTS).items():
            (folder / name).write_text(text)
        units = sorted(folder.glob("*.c"), key=lambda p: -p.stat().st_size)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(
                pool.map(
                    lambda unit: _run([cc, *FLAGS, "-c", unit.name, "-o", f"{unit.stem}.o"], folder), units
                )
            )
        objects = [f"{unit.stem}.o" for unit in units]
        _run([cc, "-shared", "-pthread", "-o", "runtime.so", *objects, "-lm"], folder)
        if not (folder / "runtime.so").is_file():
            raise BuildError(f"{cc} ended with 0 and wrote no library", fix="set HIPBOOK_CC to a C compiler")
        os.replace(folder / "runtime.so", into)


def library_path() -> Path:
    """The compiled runtime in the cache, built if it is not there. About 20 s, once."""
    cc = compiler()
    version = subprocess.run([cc, "--version"], capture_output=True, text=True).stdout.splitlines()[:1]
    digest = hashlib.sha256()
    for part in (cc, str(version), *FLAGS, cpu_model(), _cpu_features()):
        digest.update(part.encode() + b"\0")
    for file in _sources():
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    for name, text in sorted(generate.sources(PARTS).items()):
        digest.update(name.encode() + b"\0" + text.encode())
    folder = paths.cache() / "emulator"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"runtime-{digest.hexdigest()[:20]}.so"
    if not library.exists():
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not library.exists():
                _build(library, cc)
    return library


@cache
def library() -> ctypes.CDLL:
    """The loaded runtime, with the types of its functions set. Calls release the GIL."""
    lib = ctypes.CDLL(str(library_path()))
    for size_of in (lib.emu_record_size, lib.emu_launch_size, lib.emu_view_size, lib.emu_track_size):
        size_of.restype = ctypes.c_uint64
    lib.emu_link.argtypes, lib.emu_link.restype = [ctypes.c_void_p, ctypes.c_uint64], ctypes.c_uint64
    lib.emu_start.argtypes, lib.emu_start.restype = [ctypes.c_void_p], ctypes.c_void_p
    lib.emu_wait.argtypes, lib.emu_wait.restype = [ctypes.c_void_p, ctypes.c_uint32], ctypes.c_int
    lib.emu_finish.argtypes, lib.emu_finish.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.c_int
    lib.emu_reserve.argtypes, lib.emu_reserve.restype = [ctypes.c_uint64], ctypes.c_void_p
    lib.emu_release.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    lib.emu_run_wave.argtypes, lib.emu_run_wave.restype = [ctypes.c_void_p] * 4, ctypes.c_int
    lib.emu_unwritten.argtypes, lib.emu_unwritten.restype = [ctypes.c_void_p], ctypes.c_uint64
    return lib
