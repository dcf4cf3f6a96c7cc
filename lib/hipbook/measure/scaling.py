"""What a series without a unit might be (T10): tested for how it scales, never turned into a verdict.

A table of one kernel change had no unit. Read as latency it said 1.6 x slower; it grows with
concurrency as throughput does, so it more likely said 1.6 x faster. The test below tells the two
apart and stops there: `Scaling` carries no verdict, and `require_unit` refuses such a series one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hipbook.errors import BadArgument, Refused
from hipbook.measure.thresholds import LATENCY_EXPONENT, THROUGHPUT_EXPONENT

NO_UNIT = frozenset({"", "unknown", "?", "unlabelled"})


class Growth(StrEnum):
    THROUGHPUT = "scales as throughput"
    LATENCY = "scales as latency"
    UNCLEAR = "scales as neither"


@dataclass(frozen=True)
class Scaling:
    """How a series grows with concurrency: value ~ concurrency ** exponent."""

    growth: Growth
    exponent: float
    worst_misfit: float  # largest |log(value / fit)|

    def __str__(self) -> str:
        return f"{self.growth} (value ~ concurrency^{self.exponent:.2f}); a likely reading, not a unit"


def scaling(concurrency: Sequence[float], values: Sequence[float]) -> Scaling:
    """Fit the exponent over at least 3 concurrencies and name the reading."""
    load, series = np.asarray(concurrency, dtype=float), np.asarray(values, dtype=float)
    if len(load) != len(series) or len(set(load)) < 3:
        raise BadArgument("concurrency", list(concurrency), "at least 3 different loads, one value each")
    if not ((load > 0).all() and (series > 0).all()):
        raise BadArgument("values", list(values), "loads and values are positive")
    exponent, offset = np.polyfit(np.log(load), np.log(series), 1)
    misfit = float(np.abs(np.log(series) - exponent * np.log(load) - offset).max())
    if exponent >= THROUGHPUT_EXPONENT:
        growth = Growth.THROUGHPUT
    elif abs(exponent) <= LATENCY_EXPONENT:
        growth = Growth.LATENCY
    else:
        growth = Growth.UNCLEAR
    return Scaling(growth, float(exponent), misfit)


def require_unit(what: str, unit: str) -> str:
    """The unit, or Refused: a figure without one carries no verdict."""
    if unit.strip().lower() in NO_UNIT:
        raise Refused(
            f"{what} has no unit: which direction is better is unknown",
            fix="find the unit at its source, or look at how it scales (hipbook.measure.scaling)",
        )
    return unit
