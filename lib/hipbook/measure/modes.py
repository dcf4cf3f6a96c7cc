"""Two modes: a board that runs at one of two clocks puts a run's median on either."""

import numpy as np

from hipbook.measure.thresholds import MODE_DISTANCE, MODE_MIN_VALUES, MODE_RUNS_SHARE, MODE_SHARE


def mode_gap(values: np.ndarray, *, resolution: float = 0.0) -> np.ndarray:
    """Distance between two modes along the last axis (log values in, log distance out); 0 where there is one.

    The values are cut where the variance within the two parts is least, each part holding at least
    MODE_SHARE of them. They are modes when their means stand MODE_DISTANCE standard deviations (within
    the parts, at least the resolution's) apart.
    """
    ordered = np.sort(np.asarray(values, dtype=float), axis=-1)
    n = ordered.shape[-1]
    if n < MODE_MIN_VALUES:
        return np.zeros(ordered.shape[:-1])
    ordered = ordered - ordered.mean(axis=-1, keepdims=True)  # keeps the sums of squares well conditioned
    left = np.arange(1, n)
    sums = np.cumsum(ordered, axis=-1)[..., :-1]
    squares = np.cumsum(ordered**2, axis=-1)
    total_squares = squares[..., -1:]
    # sum of squares about the two means; the whole sums to 0, so the right part sums to -sums
    within = (total_squares - sums**2 / left - sums**2 / (n - left)) / n
    least = int(np.ceil(MODE_SHARE * n))
    allowed = (left >= least) & (n - left >= least)
    within = np.where(allowed, within, np.inf)
    cut = within.argmin(axis=-1)[..., None]
    sums_at = np.take_along_axis(sums, cut, axis=-1)[..., 0]
    left_at = left[cut[..., 0]]
    gap = -sums_at / (n - left_at) - sums_at / left_at
    sd = np.sqrt(np.maximum(np.take_along_axis(within, cut, axis=-1)[..., 0], 0.0))
    return np.where(gap > MODE_DISTANCE * np.maximum(sd, resolution), gap, 0.0)


def session_mode_gap(
    run_levels: np.ndarray, samples: np.ndarray | None = None, *, resolution: float = 0.0
) -> np.ndarray:
    """The larger of the gap between runs and the gap inside them, for one session or many.

    run_levels [..., runs]: log medians of every run, the arms aligned with one another. samples
    [..., runs, iterations]: log times inside each run. Inside, more than MODE_RUNS_SHARE of the runs must
    be bimodal; the gap is then the largest of theirs.
    """
    between = mode_gap(run_levels, resolution=resolution)
    if samples is None:
        return between
    inside = mode_gap(samples, resolution=resolution)
    enough = (inside > 0).mean(axis=-1) > MODE_RUNS_SHARE
    return np.maximum(between, np.where(enough, inside.max(axis=-1), 0.0))
