"""Figures that others reported (data/reported/reported.csv): read with their unit, or not as figures at all.

Nothing in that file was measured here. A row without a unit can be looked at, listed and tested for
how it scales (measure/scaling.py), but never becomes a figure (T10).
"""

import csv
from dataclasses import dataclass
from functools import cache

from hipbook import paths
from hipbook.errors import BadArgument, Refused

COLUMNS = [
    *("source", "board", "model", "workload", "concurrency", "arm"),
    *("quantity", "value", "unit", "reps", "status", "note"),
]
UNIT_UNKNOWN = "unit-unknown"


@dataclass(frozen=True)
class Reported:
    """One row, as its public source gives it; every text field may be empty but source, quantity, unit."""

    source: str
    board: str
    model: str
    workload: str
    concurrency: str
    arm: str
    quantity: str
    value: float
    unit: str
    reps: str  # which repetition, or how many stand behind the figure; empty: not said
    status: str  # measured, directional or unit-unknown, by the source's own words
    note: str

    def __str__(self) -> str:
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{self.source}: {self.arm} {self.quantity} {self.value:g}{unit}"


@cache
def rows() -> tuple[Reported, ...]:
    """Every reported figure, in the file's order."""
    path = paths.data() / "reported" / "reported.csv"
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise BadArgument("reported.csv", reader.fieldnames, f"its columns are {COLUMNS}")
        return tuple(Reported(**{**row, "value": float(row["value"])}) for row in reader)


def find(**wanted: str) -> tuple[Reported, ...]:
    """Rows whose named columns equal the given texts; `workload` and `model` match by their beginning.

    BadArgument for an unknown column or when nothing matches: a claim about no row is no claim.
    """
    unknown = set(wanted) - set(COLUMNS)
    if unknown:
        raise BadArgument("columns", sorted(unknown), f"reported.csv has {', '.join(COLUMNS)}")
    found = tuple(row for row in rows() if all(_fits(row, *item) for item in wanted.items()))
    if not found:
        raise BadArgument("reported", wanted, "no such row in data/reported/reported.csv")
    return found


def values(**wanted: str) -> list[float]:
    """The figures of `find`, all of one known unit. Refused where the source printed none (T10)."""
    found = find(**wanted)
    units = {row.unit for row in found}
    if any(row.status == UNIT_UNKNOWN for row in found):
        raise Refused(
            f"{found[0]}: its source prints no unit", fix="look at how it scales (hipbook.measure.scaling)"
        )
    if len(units) > 1:
        raise BadArgument("reported", sorted(units), "figures of one unit", fix="name the quantity")
    return [row.value for row in found]


def _fits(row: Reported, column: str, text: str) -> bool:
    own = getattr(row, column)
    return own.startswith(text) if column in ("workload", "model") else own == str(text)
