"""Warm-up until the trend is gone (R6), not for a fixed count; how many were dropped is kept."""

from dataclasses import dataclass

import numpy as np

from hipbook.measure.thresholds import (
    MAD_TO_SIGMA,
    MILD_OUTLIER,
    WARMUP_MAX_SHARE,
    WARMUP_TOLERANCE,
    WARMUP_WINDOW,
)


@dataclass(frozen=True)
class Steady:
    """Where the steady part of a run begins. `settled` False: the trend outlived the run's allowance."""

    dropped: int
    settled: bool
    why: str


def steady_from(samples: np.ndarray) -> Steady:
    """How many leading iterations to drop: the first place from which two windows agree.

    Two neighbouring windows of WARMUP_WINDOW agree when their medians differ by less than
    WARMUP_TOLERANCE or than their scatter explains, and the first iteration is no outlier among them (a
    first launch 33 % off hides from a median). A run of fewer than two windows is never settled.
    """
    logs = np.log(np.asarray(samples, dtype=float))
    last = min(len(logs) - 2 * WARMUP_WINDOW, int(len(logs) * WARMUP_MAX_SHARE))
    for start in range(last + 1):
        if _agree(
            logs[start : start + WARMUP_WINDOW], logs[start + WARMUP_WINDOW : start + 2 * WARMUP_WINDOW]
        ):
            return Steady(start, True, f"the first {start} of {len(logs)} iterations dropped as warm-up")
    if last < 0:
        why = f"{len(logs)} iterations are too few to see a trend end; make at least {2 * WARMUP_WINDOW}"
        return Steady(0, False, why)
    return Steady(last, False, f"still drifting after {last} of {len(logs)} iterations")


def _agree(early: np.ndarray, late: np.ndarray) -> bool:
    middle = np.median(late)
    sigma = MAD_TO_SIGMA * np.median(np.abs(late - middle))
    # 1.25 sigma / sqrt(n) is the standard error of a median; two medians, two standard errors
    explained = 2 * 1.25 * sigma * np.sqrt(2 / len(late))
    first_fits = abs(early[0] - middle) <= max(MILD_OUTLIER * sigma, WARMUP_TOLERANCE)
    return bool(first_fits and abs(np.median(early) - middle) <= max(explained, WARMUP_TOLERANCE))
