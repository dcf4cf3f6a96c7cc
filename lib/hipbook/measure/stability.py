"""A figure that stands for repetitions must be stable across them (T5), and no average hides one (T4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hipbook.errors import Refused
from hipbook.measure import outliers
from hipbook.measure.thresholds import SPREAD_LIMIT


@dataclass(frozen=True)
class Stability:
    """How far repetitions of one figure lie apart, and whether one number may stand for them."""

    spread: float  # (max - min) / median
    repetitions: int
    outliers: tuple[str, ...]

    @property
    def stable(self) -> bool:
        return self.repetitions >= 2 and self.spread <= SPREAD_LIMIT

    def __str__(self) -> str:
        if self.repetitions < 2:
            return "unstable: one repetition shows no spread"
        word = "stable" if self.stable else "unstable"
        told = f"{word}: {self.repetitions} repetitions spread over {self.spread:.1%} of their median"
        return f"{told}, limit {SPREAD_LIMIT:.0%}" + "".join(f"; {one}" for one in self.outliers)


def stability(values: Sequence[float], *, resolution: float) -> Stability:
    """The gate's reading of repetitions (positive, one unit); `resolution` is the last printed digit."""
    series = np.asarray(values, dtype=float)
    spread = float(np.ptp(series) / np.median(series)) if len(series) else float("inf")
    return Stability(spread, len(series), tuple(outliers.describe(series, resolution=resolution)))


def figure(values: Sequence[float], *, what: str, unit: str, resolution: float) -> float:
    """The one number that may be quoted for repetitions: their median. Refused when they are unstable."""
    seen = stability(values, resolution=resolution)
    if not seen.stable:
        told = ", ".join(f"{value:g}" for value in values)
        raise Refused(
            f"{what}: {told} {unit} is {seen}",
            fix="longer repetitions (more prompts or iterations) and a dropped warm-up",
        )
    return float(np.median(values))
