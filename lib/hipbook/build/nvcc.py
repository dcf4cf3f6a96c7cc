"""NVIDIA boards: nvcc builds the same .hip sources into cubins. A row of `TOOLCHAINS`."""

import functools
import os
import re
import shutil
import subprocess

from hipbook.build import cubin
from hipbook.build.archs import NVIDIA_ARCHS
from hipbook.build.toolchain import TOOLCHAINS, Job, Toolchain, environment
from hipbook.errors import BuildError

_OLDEST = (12, 4)  # the sources are C++17 with inline PTX of Hopper's time
_INSTALL = "install the CUDA toolkit, put its bin folder on PATH, or set HIPBOOK_NVCC to nvcc"
# clang's spelling of what flags say, where nvcc has another one.
_SPELLED = {"-ffp-contract=off": "-fmad=false", "-ffp-contract=fast": "-fmad=true", "-g": "-lineinfo"}


def nvcc() -> tuple[str, str]:
    """(path, version) of nvcc: $HIPBOOK_NVCC, PATH, /usr/local/cuda; a `BuildError` when there is none."""
    return _find(os.environ.get("HIPBOOK_NVCC"), os.environ.get("PATH"))


@functools.cache
def _find(override: str | None, path: str | None) -> tuple[str, str]:
    names = [override] if override else ["nvcc", "/usr/local/cuda/bin/nvcc"]
    for name in names:
        found = shutil.which(name, path=path)
        if not found:
            continue
        said = subprocess.run(
            [found, "--version"], capture_output=True, text=True, check=False, env=environment()
        ).stdout
        match = re.search(r"release (\d+)\.(\d+), (V\S+)", said)
        if not match:
            raise BuildError(f"{found} --version says {said.strip()!r}, no release", fix=_INSTALL)
        if (int(match[1]), int(match[2])) < _OLDEST:
            raise BuildError(
                f"{found} is CUDA {match[1]}.{match[2]}; {_OLDEST[0]}.{_OLDEST[1]} is needed", fix=_INSTALL
            )
        return found, match[3]
    raise BuildError(f"no nvcc ({' or '.join(names)})", fix=_INSTALL)


def _identity() -> str:
    return f"nvcc {nvcc()[1]}"


def _command(job: Job) -> list[str]:
    flags = [
        _SPELLED.get(flag, flag) for flag in job.flags if not flag.startswith("-W")
    ]  # warnings are the pinned compiler's business
    return [
        nvcc()[0], "-x", "cu", job.source.name, f"-arch={job.arch}", "-cubin", "-std=c++17", "-O3",
        f"-DHIPBOOK_WAVE={NVIDIA_ARCHS[job.arch].wave_size}", "-MD", "-MF", str(job.depfile), *flags,
        "-o", str(job.output),
    ]  # fmt: skip


def _advice(words: str) -> str:
    if "Unsupported gpu architecture" in words or "is not defined for option 'gpu-architecture'" in words:
        return "this nvcc does not know the board's architecture: install a newer CUDA toolkit"
    if "hip/" in words:
        return "HIP's own headers do not build with nvcc; include kernels/common/hip.h instead"
    return "the message above is the compiler's; run the command in that folder to see it again"


TOOLCHAINS["nvcc"] = Toolchain("nvcc", frozenset(NVIDIA_ARCHS), _identity, _command, cubin.read, _advice)
