"""The architectures kernels are built for, and the few hardware facts the build needs of each.

Register-file and LDS sizes are those of LLVM's AMDGPU target (llvm/docs/AMDGPUUsage.rst and the
subtarget features it documents) and AMD's ISA documents; `occupancy` is computed from them.
"""

from dataclasses import dataclass

from hipbook.errors import BuildError


@dataclass(frozen=True)
class Arch:
    """One GPU architecture. `wave_size` is the width every kernel is built for (HIPBOOK_WAVE)."""

    name: str
    wave_size: int  # lanes
    isa_version: int  # what the device libraries call __oclc_ISA_version
    vgprs_per_simd: int  # registers a lane can share out among the waves of one SIMD
    vgpr_granule: int
    max_waves_per_simd: int
    lds_bytes: int  # of one WGP (RDNA) or CU (CDNA)
    simds: int  # that share those bytes
    sgpr_limits: tuple[tuple[int, int], ...] = ()  # (most SGPRs, waves); RDNA allots a fixed number


_CDNA_SGPR = ((80, 10), (88, 9), (100, 8), (1 << 30, 7))

ARCHS = {
    arch.name: arch
    for arch in (
        Arch("gfx1200", 32, 12000, 1536, 24, 16, 128 << 10, 4),
        Arch("gfx1201", 32, 12001, 1536, 24, 16, 128 << 10, 4),
        Arch("gfx1100", 32, 11000, 1536, 24, 16, 128 << 10, 4),
        Arch("gfx1151", 32, 11501, 1536, 24, 16, 128 << 10, 4),
        Arch("gfx942", 64, 9402, 512, 8, 8, 64 << 10, 4, _CDNA_SGPR),
    )
}

# NVIDIA's, built by nvcc. Occupancy is not computed for them: registers are per multiprocessor there.
NVIDIA_ARCHS = {
    name: Arch(name, 32, 0, 0, 1, 0, 0, 1)
    for name in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
}


def arch_of(name: str) -> Arch:
    """The architecture called `name`, or a `BuildError` that lists those known."""
    known = {**ARCHS, **NVIDIA_ARCHS}
    if name not in known:
        raise BuildError(
            f"unknown architecture {name!r}",
            fix=f"one of {', '.join(known)}; a new one is a line in lib/hipbook/build/archs.py",
        )
    return known[name]


def occupancy(arch: Arch, *, vgprs: int, sgprs: int, lds_bytes: int, workgroup_size: int) -> int:
    """Waves per SIMD that registers and static LDS allow, with workgroups at their largest size.

    Registers as LLVM counts them (its `Occupancy` remark); LDS for whole workgroups of
    `workgroup_size` work-items, where LLVM's remark assumes the size that suits best.
    """
    granules = max(1, -(-vgprs // arch.vgpr_granule))
    waves = min(arch.max_waves_per_simd, arch.vgprs_per_simd // (granules * arch.vgpr_granule))
    if arch.sgpr_limits:
        waves = min(waves, next(limit for most, limit in arch.sgpr_limits if sgprs <= most))
    if lds_bytes:
        waves_per_group = -(-workgroup_size // arch.wave_size)
        groups = arch.lds_bytes // lds_bytes
        waves = min(waves, -(-groups * waves_per_group // arch.simds))
    return max(1, waves)
