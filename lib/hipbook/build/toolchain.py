"""Compilers: which one builds for an architecture, where it is, and the command it takes.

A `Toolchain` is a row of `TOOLCHAINS`. `pinned` is clang 22 with the device libraries of the triton
wheel: the only one emulated boards use, so that their counts are the same everywhere. ROCm's own
compiler (real AMD boards, rocm.py) and nvcc (NVIDIA boards, nvcc.py) are further rows: the cache, the
errors and `build_many` know nothing of clang.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipbook.build import facts
from hipbook.build.archs import ARCHS
from hipbook.build.code_object import KernelFacts
from hipbook.build.rocm_root import device_libs_identity, rocm_root
from hipbook.errors import BuildError

CLANG_MAJOR = 22  # reads the wheel's bitcode (LLVM 20) and knows gfx1200; older ones fail in odd ways
_INSTALL = (
    "Debian: apt-get install clang-22 lld-22; conda: clangxx=22 and lld=22; or set HIPBOOK_CLANG to one"
)
# Variables that would change what clang reads: a build is a function of its arguments alone.
_CLEARED = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "COMPILER_PATH",
    "GCC_EXEC_PREFIX", "HIP_PATH", "HIP_DEVICE_LIB_PATH", "ROCM_PATH", "HIPCC_COMPILE_FLAGS_APPEND",
    "SOURCE_DATE_EPOCH",
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What a command is made from. The compiler runs in the source's folder, so names stay relative."""

    source: Path  # absolute
    arch: str
    flags: tuple[str, ...]
    label: str  # what debug information calls the source's folder
    output: Path
    depfile: Path  # the compiler lists here every file it read, make-style


@dataclass(frozen=True)
class Toolchain:
    """One compiler: what it serves and how it is called."""

    name: str
    archs: frozenset[str]
    identity: Callable[[], str]  # everything but source and flags that decides the output
    command: Callable[[Job], list[str]]
    facts: Callable[[bytes], tuple[str, dict[str, KernelFacts]]]
    advice: Callable[[str], str]  # the compiler's words -> what to do


def toolchain_for(arch: str) -> Toolchain:
    """The toolchain that emulated boards use for `arch`."""
    for toolchain in TOOLCHAINS.values():
        if arch in toolchain.archs:
            return toolchain
    raise BuildError(
        f"unknown architecture {arch!r}",
        fix=f"one of {', '.join(ARCHS)}; a new one is a line in lib/hipbook/build/archs.py",
    )


def toolchain_identity(arch: str) -> str:
    """Compiler version and device libraries that decide the code built for `arch`."""
    return toolchain_for(arch).identity()


def environment() -> dict[str, str]:
    """The environment compilers run in."""
    kept = {name: value for name, value in os.environ.items() if name not in _CLEARED}
    return {**kept, "LC_ALL": "C"}


# --- pinned: clang 22 and the triton wheel --------------------------------------------------------


@dataclass(frozen=True)
class Clang:
    path: Path
    version: str  # its own first line
    resources: Path  # its headers


def pinned_clang() -> Clang:
    """Clang 22, from HIPBOOK_CLANG or PATH (clang++-22, then clang++); a `BuildError` when there is none."""
    return _find_clang(os.environ.get("HIPBOOK_CLANG"), os.environ.get("PATH"))


@functools.cache
def _find_clang(override: str | None, path: str | None) -> Clang:
    names = [override] if override else [f"clang++-{CLANG_MAJOR}", "clang++"]
    seen = []
    for name in names:
        found = shutil.which(name, path=path)
        if not found:
            seen.append(f"{name}: not found")
            continue
        version = _ask(found, "--version").partition("\n")[0]
        match = re.search(r"clang version (\d+)\.", version)
        if not match or int(match[1]) != CLANG_MAJOR:
            seen.append(f"{found} says {version!r}: version {CLANG_MAJOR} is needed")
            continue
        lld = _ask(found, "-print-prog-name=lld")
        if not shutil.which(lld, path=path):
            seen.append(f"{found}: no linker ({lld!r} not found)")
            continue
        return Clang(Path(found), version, Path(_ask(found, "-print-resource-dir")))
    raise BuildError(
        f"no clang {CLANG_MAJOR} that can build for AMD GPUs\n  " + "\n  ".join(seen), fix=_INSTALL
    )


def _ask(compiler: str, question: str) -> str:
    """One answer of a compiler, or the reason there is none (the caller finds it no version)."""
    try:
        done = subprocess.run(
            [compiler, question], capture_output=True, text=True, timeout=60, check=False, env=environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout or done.stderr).strip()


def _pinned_identity() -> str:
    return f"{pinned_clang().version}; {device_libs_identity()}"


def _pinned_command(job: Job) -> list[str]:
    clang = pinned_clang()
    root = rocm_root(clang.path, clang.version)
    read = [
        f"-Xclang={word}"
        for word in ("-dependency-file", str(job.depfile), "-MT", "object", "-sys-header-deps")
    ]
    return [
        str(clang.path), "-x", "hip", job.source.name,
        "--cuda-device-only", "--no-gpu-bundle-output", f"--offload-arch={job.arch}", f"--rocm-path={root}",
        "-std=c++17", "-O3", f"-DHIPBOOK_WAVE={ARCHS[job.arch].wave_size}",
        # Argument names for fault reports; then the same bytes from every checkout: no unit id made
        # from paths, no absolute name in debug lines.
        "-fhip-kernel-arg-name", "-fuse-cuid=none", f"-fdebug-compilation-dir={job.label}",
        f"-ffile-prefix-map={root}=rocm", f"-ffile-prefix-map={clang.resources}=clang",
        *read, *job.flags, "-o", str(job.output),
    ]  # fmt: skip


def _pinned_advice(words: str) -> str:
    missing = re.search(r"'([^']+)' file not found", words)
    if missing and missing[1].startswith("hip/"):
        return (
            f"{missing[1]} is not among the HIP headers of the triton wheel. For bf16 and f16 use the"
            " compiler's __bf16 and _Float16 (kernels/common/hip.h shows how); otherwise build with ROCm's"
            " own compiler"
        )
    if missing and not missing[1].endswith((".h", ".hpp", ".hip")):
        return f"<{missing[1]}> is a header of the C++ library: Debian: apt-get install libstdc++-12-dev"
    if "unable to execute command" in words or "unable to find" in words:
        return _INSTALL
    return "the message above is the compiler's; run the command in that folder to see it again"


def _wheel_toolchain() -> Toolchain:
    return Toolchain(
        "pinned", frozenset(ARCHS), _pinned_identity, _pinned_command, facts.read, _pinned_advice
    )


TOOLCHAINS: dict[str, Toolchain] = {"pinned": _wheel_toolchain()}


def words_of(command: Sequence[str], words: str, most_lines: int = 60) -> str:
    """The compiler's own words, shortened when they run on."""
    lines = words.strip().splitlines()
    if len(lines) > most_lines:
        lines = [*lines[:most_lines], f"... {len(lines) - most_lines} more lines"]
    return "\n".join(lines) or f"{command[0]} said nothing"
