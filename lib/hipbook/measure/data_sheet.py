"""What a vendor publishes of a board: data/boards/*.toml, each rate with its source."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hipbook import paths
from hipbook.errors import BadArgument, HipbookError

NEEDED = (
    "compute_units", "boost_clock_mhz", "memory_bandwidth_gb_s", "simds_per_compute_unit",
    "valu_instructions_per_clock_and_simd", "salu_instructions_per_clock_and_simd",
    "transcendental_lanes_per_clock_and_simd", "lds_bytes_per_clock_and_compute_unit",
    "instructions_per_clock_and_wave",
)  # fmt: skip


@dataclass(frozen=True)
class DataSheet:
    """One board. `sources` names where each of `rates` is published; `not_public` what was not found."""

    arch: str
    name: str
    rates: Mapping[str, float]
    sources: Mapping[str, str]
    not_public: Mapping[str, str]

    def rate(self, name: str) -> float:
        return float(self.rates[name])


def read(path: Path) -> DataSheet:
    """A data sheet; HipbookError when a rate lacks, is not positive, or has no source."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    sheet = DataSheet(
        values["arch"], values["name"], values["rates"], values["sources"], values.get("not_public", {})
    )
    for name in NEEDED:
        if not sheet.rates.get(name, 0) > 0:
            raise HipbookError(f"{path.name}: rates.{name} must be a positive number")
    if unsourced := sorted(sheet.rates.keys() - sheet.sources.keys()):
        raise HipbookError(f"{path.name}: no source for {', '.join(unsourced)}", fix="add it under [sources]")
    return sheet


def of_arch(arch: str) -> DataSheet:
    """The data sheet of the board that stands for `arch`."""
    path = paths.data() / "boards" / f"{arch}.toml"
    if not path.is_file():
        known = sorted(p.stem for p in path.parent.glob("*.toml"))
        raise BadArgument("arch", arch, f"has no data sheet in data/boards; there are {', '.join(known)}")
    return read(path)
