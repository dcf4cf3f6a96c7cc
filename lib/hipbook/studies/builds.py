"""Static facts of the paged-attention arms: what to build, and what each binary says of itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hipbook.build import CodeObject, build
from hipbook.errors import BuildError
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_call import DTYPES
from hipbook.oracle.decode_step import decode_call

_MISSPELT = """#include <hip/hip_runtime.h>
extern "C" __global__ void misspelt(int *x) { *x = blokIdx.x; }
"""


@dataclass(frozen=True)
class Job:
    """One specialisation of one arm for one architecture."""

    arm: str
    arch: str
    head_dim: int
    source: str
    flags: tuple[str, ...]


def jobs(arch: str, head_dim: int, ratio: int, dtype: str, arms: Sequence[str] = tuple(ARMS)) -> list[Job]:
    """A build a arm, for `ratio` query heads per kv head, q, kv and out all of `dtype` ("bf16", ...)."""
    call = decode_call([1], num_q_heads=ratio, num_kv_heads=1, head_dim=head_dim, dtype=DTYPES[dtype])
    return [Job(name, arch, head_dim, ARMS[name].source, ARMS[name].flags(call)) for name in arms]


def facts(job: Job, code: CodeObject) -> dict[str, object]:
    """A table row of the kernel's static facts."""
    kernel = code.kernels[ARMS[job.arm].kernel]
    return {
        "arch": job.arch,
        "arm": job.arm,
        "D": job.head_dim,
        "wave": kernel.wave_size,
        "VGPRs": kernel.vgprs,
        "SGPRs": kernel.sgprs,
        "VGPR spills": kernel.vgpr_spills,
        "LDS bytes": kernel.lds_bytes,
        "scratch bytes": kernel.scratch_bytes,
        "code bytes": kernel.code_bytes,
        "waves per SIMD": kernel.occupancy_waves,
    }


def compiler_says(arch: str) -> str:
    """Build a kernel with a misspelt name in it and return what the error quotes of the compiler's words.

    Raises BuildError when the build says nothing of the kind (no compiler here, or it accepted the kernel).
    """
    with TemporaryDirectory() as folder:
        source = Path(folder) / "misspelt.hip"
        source.write_text(_MISSPELT)
        try:
            build(source, arch)
        except BuildError as error:
            words = [line for line in str(error).splitlines() if line.startswith("misspelt.hip")]
            if not words:
                raise
            return words[0]
    raise BuildError("a kernel that uses an undeclared name was compiled without an error")
