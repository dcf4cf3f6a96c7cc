"""Outlier classes (R10): found, named, shown and kept. Nothing here removes a value."""

from enum import StrEnum

import numpy as np

from hipbook.measure.thresholds import MAD_TO_SIGMA, MILD_OUTLIER, SEVERE_OUTLIER


class Outlier(StrEnum):
    NONE = "none"
    MILD = "mild"
    SEVERE = "severe"


def scores(values: np.ndarray, *, resolution: float) -> np.ndarray:
    """|x - median| / (1.4826 MAD) along the last axis, the MAD floored at the clock's resolution.

    `resolution` is the smallest step of the clock (or the last printed digit), in the values' unit: of
    four equal readings and one a step away, the step is no outlier.
    """
    values = np.asarray(values, dtype=float)
    distance = np.abs(values - np.median(values, axis=-1, keepdims=True))
    mad = np.maximum(np.median(distance, axis=-1, keepdims=True), resolution)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance > 0, distance / (MAD_TO_SIGMA * mad), 0.0)


def classify(values: np.ndarray, *, resolution: float) -> list[Outlier]:
    """The class of each value of one series, in order."""
    return [
        Outlier.SEVERE if score > SEVERE_OUTLIER else Outlier.MILD if score > MILD_OUTLIER else Outlier.NONE
        for score in scores(values, resolution=resolution)
    ]


def describe(values: np.ndarray, *, resolution: float, noun: str = "repetition") -> list[str]:
    """One clause per outlier, by its place: `repetition 1 (31.14) is a severe outlier, 55 sigma ...`."""
    middle = float(np.median(values))
    return [
        f"{noun} {place} ({value:g}) is a {kind} outlier, {score:.0f} robust sigma from the median {middle:g}"
        for place, (value, kind, score) in enumerate(
            zip(
                values,
                classify(values, resolution=resolution),
                scores(values, resolution=resolution),
                strict=True,
            ),
            start=1,
        )
        if kind is not Outlier.NONE
    ]
