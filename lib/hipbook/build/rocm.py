"""Real AMD boards: ROCm's own clang, with ROCm's headers and device libraries. A row of `TOOLCHAINS`.

It claims no architecture: emulated boards always take the pinned toolchain, a GPU board names this one.
"""

import functools
import os
import shutil
import subprocess

from hipbook.build import facts
from hipbook.build.archs import ARCHS
from hipbook.build.toolchain import TOOLCHAINS, Job, Toolchain, environment
from hipbook.errors import BuildError

_INSTALL = "install ROCm, put its bin folder on PATH, or set HIPBOOK_HIPCC to hipcc or amdclang++"
_NAMES = ("amdclang++", "hipcc", "/opt/rocm/bin/amdclang++", "/opt/rocm/bin/hipcc")


def compiler() -> tuple[str, str]:
    """(path, version): $HIPBOOK_HIPCC, PATH, /opt/rocm; a `BuildError` when there is none."""
    return _find(os.environ.get("HIPBOOK_HIPCC"), os.environ.get("PATH"))


@functools.cache
def _find(override: str | None, path: str | None) -> tuple[str, str]:
    names = (override,) if override else _NAMES
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            said = subprocess.run(
                [found, "--version"], capture_output=True, text=True, check=False, env=environment()
            ).stdout
            return found, "; ".join(line.strip() for line in said.splitlines()[:2])
    raise BuildError(f"no ROCm compiler ({', '.join(names)})", fix=_INSTALL)


def _identity() -> str:
    return f"ROCm {compiler()[1]}"


def _command(job: Job) -> list[str]:
    return [
        compiler()[0], "-x", "hip", job.source.name, "--cuda-device-only", "--no-gpu-bundle-output",
        f"--offload-arch={job.arch}", "-std=c++17", "-O3", f"-DHIPBOOK_WAVE={ARCHS[job.arch].wave_size}",
        "-fhip-kernel-arg-name", "-fuse-cuid=none", f"-fdebug-compilation-dir={job.label}",
        "-MD", "-MF", str(job.depfile), *job.flags, "-o", str(job.output),
    ]  # fmt: skip


def _advice(words: str) -> str:
    if "cannot find ROCm device library" in words or "unsupported HIP gpu architecture" in words:
        return "this ROCm does not serve the board's architecture: install a newer one"
    return "the message above is the compiler's; run the command in that folder to see it again"


TOOLCHAINS["rocm"] = Toolchain("rocm", frozenset(), _identity, _command, facts.read, _advice)
