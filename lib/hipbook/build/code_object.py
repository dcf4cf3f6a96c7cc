"""A built code object and the static facts of its kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hipbook import paths


@dataclass(frozen=True)
class KernelArg:
    """One explicit or hidden argument as the code object's metadata lays it out."""

    name: str
    offset: int
    size: int
    kind: str  # "global_buffer", "by_value", "hidden_block_count_x", "dynamic_shared_pointer", ...


@dataclass(frozen=True)
class KernelFacts:
    """What is known of a kernel without running it."""

    name: str
    symbol: str  # the kernel descriptor's symbol, "<name>.kd" on AMD
    vgprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    lds_bytes: int  # static only
    scratch_bytes: int  # private segment, per lane
    kernarg_bytes: int
    max_workgroup_size: int
    wave_size: int
    code_bytes: int
    occupancy_waves: int | None  # waves per SIMD the registers and static LDS allow; None: not said
    args: tuple[KernelArg, ...] = ()


@dataclass(frozen=True)
class CodeObject:
    """A file a board can load. `identity` is what a record needs to tell two binaries apart."""

    path: Path
    arch: str
    sha256: str  # of the file
    source: Path | None  # None: handed as a binary
    source_sha256: str | None  # of the source and every header it read
    flags: tuple[str, ...]
    compiler: str  # name and version, or "unknown"
    kernels: Mapping[str, KernelFacts] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, object]:
        return {
            "arch": self.arch,
            "sha256": self.sha256,
            "source": self._source_name,
            "source_sha256": self.source_sha256,
            "flags": list(self.flags),
            "compiler": self.compiler,
        }

    @property
    def _source_name(self) -> str | None:
        """The source as `build` takes it again in another checkout: its path under kernels/."""
        kernels = paths.kernels().resolve()
        if self.source is None or not self.source.is_relative_to(kernels):
            return None
        return self.source.relative_to(kernels).as_posix()
