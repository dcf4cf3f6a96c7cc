"""From runs to a verdict: reads the signs off one measuring session and asks the tree.

A run is one process (R2) and has one level, the median of its iterations. Everything here works on
arrays [..., runs], so simulated sessions by the thousand pass through it in one call; `judge` is the
form for one session and adds what people need: ratio, interval, floor, outliers, notes.
"""

from dataclasses import dataclass, field
from math import exp, log1p, sqrt
from typing import Literal

import numpy as np

from hipbook.errors import BadArgument
from hipbook.measure import outliers
from hipbook.measure.clocks import flagged_share
from hipbook.measure.intervals import Estimate, rank_test_floor, student, trend, welch
from hipbook.measure.modes import session_mode_gap
from hipbook.measure.schedule import is_interleaved
from hipbook.measure.thresholds import DRIFT_P, MIN_RUNS_A_SIDE, MINIMUM_EFFECT
from hipbook.measure.verdict import Signs, Verdict, percent, verdict

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Runs:
    """The runs of one arm, in run order.

    levels [..., runs]: one figure a run (median of its iterations), any positive unit. places [runs]:
    each run's place in the session's recorded order, None where nobody recorded it. samples
    [..., runs, iterations]: the steady iterations behind the levels, where they were kept.
    """

    levels: np.ndarray
    places: np.ndarray | None = None
    samples: np.ndarray | None = None

    def __post_init__(self):
        levels = np.asarray(self.levels, dtype=float)
        if levels.size and not (levels > 0).all():
            raise BadArgument("levels", float(np.min(levels)), "times and rates are positive")
        if self.places is not None and len(self.places) != levels.shape[-1]:
            raise BadArgument("places", len(self.places), f"one place per run, {levels.shape[-1]} runs")
        if self.places is not None and (np.diff(self.places) <= 0).any():
            raise BadArgument("places", list(self.places), "runs are listed in the order they were made")
        object.__setattr__(self, "levels", levels)

    @classmethod
    def of_samples(cls, samples: np.ndarray, places: np.ndarray | None = None) -> "Runs":
        """Runs from their iterations [..., runs, iterations]: the level is the median."""
        samples = np.asarray(samples, dtype=float)
        return cls(np.median(samples, axis=-1), places, samples)

    @property
    def count(self) -> int:
        return self.levels.shape[-1]


@dataclass(frozen=True)
class Judgement:
    """A verdict with all that a report prints beside it."""

    verdict: Verdict
    ratio: float  # base / new over runs (new / base for rates): above 1 is better
    interval: tuple[float, float]  # 95 %, of the ratio
    noise_floor: float | None  # |ratio - 1| that the A/A control cannot exclude; None without a control
    minimum_effect: float
    runs: tuple[int, int]  # base, new
    p: float  # two-sided, of no effect; corrected over a family by families.py
    estimate: Estimate  # of the log ratio
    outliers: tuple[str, ...] = ()  # named and kept
    notes: tuple[str, ...] = ()
    signs: Signs | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.verdict}: ratio {self.ratio:.3f} (95 % interval {low:.3f} .. {high:.3f})"


def read_signs(
    base: Runs,
    new: Runs,
    control: Runs | None = None,
    *,
    minimum_effect: float = MINIMUM_EFFECT,
    better: Better = "lower",
    resolution: float = 0.0,
    block_mhz: np.ndarray | None = None,
    second_clock: tuple[Runs, Runs] | None = None,
    negative: tuple[Runs, Runs] | None = None,
    unsettled_share: float = 0.0,
) -> tuple[Signs, Estimate]:
    """The signs of one session, or of many along leading axes, and the estimate of the log ratio.

    control: the A/A runs of the base. resolution: the clock's step in the levels' unit. block_mhz
    [..., blocks]: the lowest clock of each block. second_clock: the same runs by another clock.
    negative: base and new of a case that the change cannot reach (R12). unsettled_share: of runs whose
    warm-up never ended (R6).
    """
    sides = [side for side in (base, new, control) if side is not None]
    relative_step = resolution / float(np.median(base.levels)) if resolution else 0.0
    sd_floor = relative_step / sqrt(6)  # of a log ratio: two uniform errors of one step
    minimum = log1p(minimum_effect)
    interleaved = _interleaved(sides)
    effect = _log_ratio(base, new, better, paired=interleaved, sd_floor=sd_floor)
    shape = np.shape(effect.mean)
    floor = np.full(shape, np.nan)
    if control is not None:
        floor = _reach(_log_ratio(base, control, better, paired=interleaved, sd_floor=sd_floor))
    drift = ratio_trend = np.zeros(shape)
    ratio_trend_p = np.ones(shape)
    if interleaved:
        drift = _common_drift(sides)
        blocks = np.arange(base.count, dtype=float)
        ratio_trend, ratio_trend_p = trend(np.log(base.levels) - np.log(new.levels), blocks)
    signs = Signs(
        runs=np.full(shape, min(base.count, new.count)),
        interleaved=np.full(shape, interleaved),
        effect=effect.mean,
        low=effect.low,
        high=effect.high,
        minimum_effect=np.full(shape, minimum),
        floor=floor,
        drift=drift,
        ratio_trend=ratio_trend,
        ratio_trend_p=ratio_trend_p,
        mode_gap=_modes(sides, better, relative_step),
        throttled_share=np.full(shape, np.nan) if block_mhz is None else flagged_share(block_mhz),
        control_moved=_moved(negative, minimum, floor, better, interleaved, sd_floor, shape),
        clock_gap=_clock_gap(base, new, second_clock, shape),
        unsettled_share=np.full(shape, unsettled_share),
    )
    return signs, effect


def judge(
    base: Runs, new: Runs, control: Runs | None = None, *, exploratory: bool = False, **context
) -> Judgement:
    """The verdict of one session. `context` is what `read_signs` takes."""
    signs, effect = read_signs(base, new, control, **context)
    resolution = context.get("resolution", 0.0)
    named = []
    for side, runs in (("base", base), ("new", new), ("A/A", control)):
        if runs is not None:
            found = outliers.describe(runs.levels, resolution=resolution)
            named += [f"{side}: {one}" for one in found]
    floor = float(signs.floor)
    return Judgement(
        verdict=verdict(signs, exploratory=exploratory),
        ratio=exp(effect.mean),
        interval=(exp(effect.low), exp(effect.high)),
        noise_floor=None if np.isnan(floor) else exp(floor) - 1,
        minimum_effect=context.get("minimum_effect", MINIMUM_EFFECT),
        runs=(base.count, new.count),
        p=float(effect.p),
        estimate=effect,
        outliers=tuple(named),
        notes=tuple(_notes(base, new, control, signs, context)),
        signs=signs,
    )


def _notes(base: Runs, new: Runs, control: Runs | None, signs: Signs, context: dict) -> list[str]:
    """What a reader must know beside the word."""
    notes = []
    if int(signs.runs) < MIN_RUNS_A_SIDE:
        p = rank_test_floor(base.count, new.count)
        can = "can" if p < 0.05 else "cannot"
        notes.append(
            f"{base.count} against {new.count} runs: a perfect separation has a rank-test p of {p:.2g}, "
            f"which {can} reach 0.05; both sides need {MIN_RUNS_A_SIDE} runs"
        )
    if base.places is None or new.places is None:
        notes.append("the order of the runs is not recorded")
    if control is None:
        notes.append("no A/A control: the noise floor is unknown")
    if context.get("block_mhz") is None:
        notes.append("clocks were not sampled: throttling would not be seen")
    if abs(float(signs.drift)) > 0:
        notes.append(f"all arms drifted together by {percent(float(signs.drift))} over the session")
    return notes


def _interleaved(sides: list[Runs]) -> bool:
    """True when every side's places are known, equally many, and split into blocks of all arms."""
    if any(side.places is None for side in sides):
        return False
    placed = sorted((place, arm) for arm, side in enumerate(sides) for place in side.places)
    if len({place for place, _ in placed}) != len(placed):
        raise BadArgument("places", "shared", "a place in the session's order belongs to one run")
    return is_interleaved([str(arm) for _, arm in placed])


def _log_ratio(base: Runs, new: Runs, better: Better, *, paired: bool, sd_floor: float) -> Estimate:
    """ln(base / new), positive when new is better; paired within blocks where the order allows it (R3)."""
    up, down = (base, new) if better == "lower" else (new, base)
    up_logs, down_logs = np.log(up.levels), np.log(down.levels)
    if min(base.count, new.count) < 2:
        effect = up_logs.mean(axis=-1) - down_logs.mean(axis=-1)
        endless = np.full(np.shape(effect), 700.0)  # exp() of it is still a number
        return Estimate(effect, -endless, endless, np.ones_like(effect), endless, np.ones_like(effect))
    if paired:
        return student(up_logs - down_logs, sd_floor=sd_floor)
    return welch(up_logs, down_logs, sd_floor=sd_floor)


def _reach(estimate: Estimate) -> np.ndarray:
    """The largest |log ratio| inside the interval: what an A/A comparison cannot exclude (R4)."""
    return np.maximum(np.abs(estimate.low), np.abs(estimate.high))


def _common_drift(sides: list[Runs]) -> np.ndarray:
    """Log change of all arms' common level over the session; 0 where it is not significant."""
    logs = [np.log(side.levels) for side in sides]
    centred = np.concatenate([one - one.mean(axis=-1, keepdims=True) for one in logs], axis=-1)
    change, p = trend(centred, np.concatenate([side.places for side in sides]))
    return np.where(p < DRIFT_P, change, 0.0)


def _modes(sides: list[Runs], better: Better, relative_step: float) -> np.ndarray:
    """Gap between two modes over all arms, each aligned on its best run.

    The best run of an arm that has seen both modes is in the better one, whatever the proportions; its
    median is in either. Slow outliers, the usual kind, leave the alignment alone.
    """
    sign = 1.0 if better == "lower" else -1.0
    logs = [sign * np.log(side.levels) for side in sides]
    levels = np.concatenate([one - one.min(axis=-1, keepdims=True) for one in logs], axis=-1)
    samples = None
    if all(side.samples is not None for side in sides):
        samples = np.concatenate([np.log(side.samples) for side in sides], axis=-2)
    return session_mode_gap(levels, samples, resolution=relative_step)


def _moved(negative, minimum, floor, better, paired, sd_floor, shape) -> np.ndarray:
    """R12: whether the case out of reach moved, by the same rule that names a difference."""
    if negative is None:
        return np.zeros(shape, dtype=bool)
    base, new = negative
    if min(base.count, new.count) < 2:
        raise BadArgument("runs of the negative control", min(base.count, new.count), "at least 2 a side")
    moved = _log_ratio(base, new, better, paired=paired and base.count == new.count, sd_floor=sd_floor)
    outside = (moved.low > 0) | (moved.high < 0)
    return outside & (np.abs(moved.mean) > np.fmax(minimum, floor))


def _clock_gap(base: Runs, new: Runs, second, shape) -> np.ndarray:
    """|log ratio by one clock - by the other| over the same runs, 0 where it is not significant."""
    if second is None:
        return np.zeros(shape)
    base_2, new_2 = second
    if (base_2.count, new_2.count) != (base.count, new.count) or base.count != new.count:
        raise BadArgument("second_clock", (base_2.count, new_2.count), "the same runs by another clock")
    first = np.log(base.levels) - np.log(new.levels)
    other = np.log(base_2.levels) - np.log(new_2.levels)
    gap = student(first - other)
    significant = (gap.low > 0) | (gap.high < 0)
    return np.where(significant, np.abs(gap.mean), 0.0)
