"""Intervals over runs, and the interval of a median inside a run (R2, R4).

Functions take arrays whose last axis is the run (or the iteration) and keep every other axis, so
the calibration puts thousands of simulated sessions through the very code that judges one.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.special import bdtr, stdtr, stdtrit

from hipbook.errors import BadArgument
from hipbook.measure.thresholds import CONFIDENCE, MIN_VALUES_FOR_MEDIAN_INTERVAL


@dataclass(frozen=True)
class Estimate:
    """Mean with interval and two-sided p against 0; arrays of one shape (or 0-d)."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    error: np.ndarray  # standard error of the mean
    freedom: np.ndarray  # degrees of freedom

    def widened(self, confidence: float) -> "Estimate":
        """The same estimate with another confidence (Bonferroni-widened intervals of R13)."""
        half = _quantile(self.freedom, confidence) * self.error
        return Estimate(self.mean, self.mean - half, self.mean + half, self.p, self.error, self.freedom)


def student(values: np.ndarray, *, confidence: float = CONFIDENCE, sd_floor: float = 0.0) -> Estimate:
    """Student's t over the last axis (at least 2 values); for log ratios of paired runs.

    `sd_floor` is the standard deviation the clock's resolution alone would give: equal readings of a
    coarse clock are not infinitely precise.
    """
    values = np.asarray(values, dtype=float)
    n = values.shape[-1]
    if n < 2:
        raise BadArgument("runs", n, "an interval needs at least 2", fix="make more runs; 4 carry a verdict")
    sd = np.maximum(values.std(axis=-1, ddof=1), sd_floor)
    return _estimate(values.mean(axis=-1), sd / np.sqrt(n), np.asarray(float(n - 1)), confidence)


def welch(
    base: np.ndarray, new: np.ndarray, *, confidence: float = CONFIDENCE, sd_floor: float = 0.0
) -> Estimate:
    """Welch's t of mean(base) - mean(new) over the last axes: runs that have no partner, as in reports."""
    parts = []
    for name, side in (("base", base), ("new", new)):
        side = np.asarray(side, dtype=float)
        n = side.shape[-1]
        if n < 2:
            raise BadArgument(f"runs of {name}", n, "an interval needs at least 2 a side")
        variance = np.maximum(side.var(axis=-1, ddof=1), sd_floor**2)
        parts.append((side.mean(axis=-1), variance / n, n))
    (mean_b, var_b, n_b), (mean_n, var_n, n_n) = parts
    total = var_b + var_n
    spread = var_b**2 / (n_b - 1) + var_n**2 / (n_n - 1)
    freedom = np.where(spread > 0, total**2 / np.where(spread > 0, spread, 1.0), float(min(n_b, n_n) - 1))
    return _estimate(mean_b - mean_n, np.sqrt(total), freedom, confidence)


def median_interval(values: np.ndarray, *, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Order-statistic interval of the median of one run's iterations; None below 6 values.

    The narrowest pair of order statistics k and n+1-k whose coverage 1 - 2 P(Binomial(n, 1/2) < k) is at
    least `confidence`; no assumption on the distribution.
    """
    values = np.sort(np.asarray(values, dtype=float))
    n = len(values)
    if n < MIN_VALUES_FOR_MEDIAN_INTERVAL:
        return None
    k = 1  # the largest k with P(Binomial(n, 1/2) < k) at most alpha / 2
    while bdtr(k, n, 0.5) <= (1 - confidence) / 2:
        k += 1
    return float(values[k - 1]), float(values[n - k])


def rank_test_floor(base_runs: int, new_runs: int) -> float:
    """The smallest two-sided p a rank test can give: 2 / C(n + m, n), a perfect separation."""
    return min(1.0, 2 / comb(base_runs + new_runs, new_runs)) if base_runs and new_runs else 1.0


def trend(values: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least-squares change of `values` over the whole span of `positions`, and its two-sided p.

    `positions` is one axis, shared by all leading axes of `values` or of the same shape. Fewer than 3
    values carry no trend: (0, 1).
    """
    values = np.asarray(values, dtype=float)
    positions = np.asarray(positions, dtype=float)
    n = values.shape[-1]
    if n < 3:
        return np.zeros(values.shape[:-1]), np.ones(values.shape[:-1])
    x = positions - positions.mean(axis=-1, keepdims=True)
    y = values - values.mean(axis=-1, keepdims=True)
    xx = (x * x).sum(axis=-1)
    slope = (x * y).sum(axis=-1) / xx
    residual = ((y - slope[..., None] * x) ** 2).sum(axis=-1)
    error = np.sqrt(residual / (n - 2) / xx)
    span = positions.max(axis=-1) - positions.min(axis=-1)
    return slope * span, _two_sided(slope, error, n - 2)


def _estimate(mean, error, freedom, confidence: float) -> Estimate:
    half = _quantile(freedom, confidence) * error
    return Estimate(mean, mean - half, mean + half, _two_sided(mean, error, freedom), error, freedom)


def _quantile(freedom, confidence: float):
    return stdtrit(freedom, (1 + confidence) / 2)


def _two_sided(mean, error, freedom) -> np.ndarray:
    """Two-sided p; without any scatter a difference is certain and no difference is p = 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, np.abs(mean) / error, np.where(np.abs(mean) > 0, np.inf, 0.0))
    return 2 * stdtr(freedom, -t)
