"""The verdict's decision tree (R5), in one place.

`TREE` below is the tree: branches in order, the first whose test holds decides. docs/measuring.md
explains each; `explain()` prints it. A branch looks only at `Signs`, the handful of numbers that
judge.py reads off a session; tests are array expressions, so the calibration runs this very tree.

    1  few_runs           too few runs for any word
    2  drift              the arms were not interleaved: time and arm cannot be told apart
    3  throttled          the board left its clock
    4  control_moved      a case that the change cannot reach moved too (R12)
    5  clock_disagrees    two clocks tell two stories (R8)
    6  drift              conditions, or the ratio itself, moved further than the effect; unsettled runs
    7  bimodal            two modes further apart than the effect
    8  EQUIVALENT         the whole interval lies inside the minimum effect
    9  wide_interval      the interval includes 1
    10 below_noise_floor  not beyond the minimum effect and what the A/A control shows
    11 FASTER, else SLOWER
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import exp
from typing import NamedTuple

import numpy as np

from hipbook.measure.thresholds import (
    DRIFT_LIMIT,
    DRIFT_P,
    MIN_RUNS_A_SIDE,
    THROTTLED_SHARE,
    UNSETTLED_SHARE,
)


class Word(StrEnum):
    """The four words for times on a real board. Exact counts have their own (counts.py)."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"


class Reason(StrEnum):
    """Why INCONCLUSIVE. All of R5's, and R12's `control_moved`."""

    FEW_RUNS = "few_runs"
    DRIFT = "drift"
    THROTTLED = "throttled"
    CONTROL_MOVED = "control_moved"
    CLOCK_DISAGREES = "clock_disagrees"
    BIMODAL = "bimodal"
    WIDE_INTERVAL = "wide_interval"
    BELOW_NOISE_FLOOR = "below_noise_floor"


@dataclass(frozen=True)
class Signs:
    """All that the tree looks at: scalars, or arrays of one shape. Log ratios are ln(base / new).

    What was not measured is nan (floor, throttled_share, clock_gap) and leaves its branch untaken, but
    for the noise floor: without an A/A control nothing is known to exceed it.
    """

    runs: np.ndarray  # the smaller side's
    interleaved: np.ndarray  # bool: the recorded order splits into blocks of all arms
    effect: np.ndarray  # log ratio over runs
    low: np.ndarray  # its interval
    high: np.ndarray
    minimum_effect: np.ndarray  # log
    floor: np.ndarray  # log: largest |A/A ratio| inside the control's interval
    drift: np.ndarray  # log change of all arms' common level over the session, 0 if not significant
    ratio_trend_p: np.ndarray  # p of a trend in the ratio over blocks
    ratio_trend: np.ndarray  # log change of the ratio over the session
    mode_gap: np.ndarray  # log distance of two modes, 0 = one
    throttled_share: np.ndarray  # of blocks under 95 % of the median clock
    control_moved: np.ndarray  # bool
    unsettled_share: np.ndarray  # of runs whose warm-up never ended
    clock_gap: np.ndarray  # |log ratio by one clock - by the other| where significant, else 0

    @property
    def near_edge(self) -> np.ndarray:
        """The part of the effect that the interval guarantees: 0 when it includes 1."""
        return np.maximum(np.maximum(self.low, -np.asarray(self.high)), 0.0)


class Branch(NamedTuple):
    word: Word
    reason: Reason | None
    test: Callable[[Signs], np.ndarray]
    says: str  # for the docs and `explain()`


def _drifted(s: Signs) -> np.ndarray:
    """Conditions moved far enough for the effect to be theirs, or the ratio or the runs never settled."""
    conditions = (np.abs(s.drift) > DRIFT_LIMIT) & (s.near_edge <= np.abs(s.drift))
    moving = (s.ratio_trend_p < DRIFT_P) & (np.abs(s.ratio_trend) > s.minimum_effect)
    unsettled = s.unsettled_share > UNSETTLED_SHARE
    return unsettled | conditions | (moving & (s.near_edge <= np.abs(s.ratio_trend)))


TREE: tuple[Branch, ...] = (
    Branch(
        Word.INCONCLUSIVE, Reason.FEW_RUNS, lambda s: s.runs < MIN_RUNS_A_SIDE, "fewer than 4 runs a side"
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.DRIFT,
        lambda s: ~np.asarray(s.interleaved, dtype=bool),
        "the arms were not interleaved, or their order was not recorded",
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.THROTTLED,
        lambda s: s.throttled_share > THROTTLED_SHARE,
        "more than 10 % of blocks ran under 95 % of the session's median clock",
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.CONTROL_MOVED,
        lambda s: np.asarray(s.control_moved, dtype=bool),
        "the negative control, which the change cannot reach, moved as well",
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.CLOCK_DISAGREES,
        lambda s: s.clock_gap > s.minimum_effect,
        "two clocks give ratios that differ by more than the minimum effect",
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.DRIFT,
        _drifted,
        "conditions drifted beyond 5 %, the ratio itself drifted, or runs never settled",
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.BIMODAL,
        lambda s: (s.mode_gap > s.minimum_effect) & (s.near_edge <= s.mode_gap),
        "times fall into two modes further apart than the effect",
    ),
    Branch(
        Word.EQUIVALENT,
        None,
        lambda s: (s.low > -np.asarray(s.minimum_effect)) & (s.high < s.minimum_effect),
        "the whole interval lies inside the minimum effect",
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.WIDE_INTERVAL,
        lambda s: (s.low <= 0) & (s.high >= 0),
        "the interval includes 1 and reaches beyond the minimum effect",
    ),
    Branch(
        Word.INCONCLUSIVE,
        Reason.BELOW_NOISE_FLOOR,
        lambda s: ~(np.abs(s.effect) > np.maximum(s.minimum_effect, s.floor)),  # nan floor: not above it
        "the effect does not exceed the minimum effect and the A/A control's noise floor",
    ),
    Branch(
        Word.FASTER,
        None,
        lambda s: np.asarray(s.effect) > 0,
        "the interval excludes 1, beyond the minimum effect and the noise floor, for the better",
    ),
    Branch(
        Word.SLOWER,
        None,
        lambda s: np.ones(np.shape(s.effect), dtype=bool),
        "the interval excludes 1, beyond the minimum effect and the noise floor, for the worse",
    ),
)


def decide(signs: Signs) -> np.ndarray:
    """Index into TREE of the branch that decides each session."""
    taken = [np.broadcast_to(branch.test(signs), np.shape(signs.effect)) for branch in TREE]
    return np.argmax(np.stack(taken), axis=0)


def is_difference(branches: np.ndarray) -> np.ndarray:
    """True where `decide` said FASTER or SLOWER."""
    named = [branch.word in (Word.FASTER, Word.SLOWER) for branch in TREE]
    return np.asarray(named)[branches]


@dataclass(frozen=True)
class Verdict:
    """One word, its reason and one sentence; `str()` is the form of tables and records."""

    word: Word
    reason: Reason | None
    why: str
    exploratory: bool = False  # runs were added after looking (R15)

    def __str__(self) -> str:
        told = f"{self.word}({self.reason})" if self.reason else str(self.word)
        return f"{told} (exploratory)" if self.exploratory else told


def verdict(signs: Signs, *, exploratory: bool = False) -> Verdict:
    """The verdict of one session's signs (scalars)."""
    branch = TREE[int(decide(signs))]
    return Verdict(branch.word, branch.reason, _why(branch, signs), exploratory)


def explain() -> str:
    """The tree as text, numbered, for `hipbook` and the notebooks."""
    lines = []
    for number, branch in enumerate(TREE, start=1):
        name = f"{branch.word}({branch.reason})" if branch.reason else branch.word
        lines.append(f"{number:2d}. {name:<32} {branch.says}")
    return "\n".join(lines)


def percent(log_ratio: float) -> str:
    return f"{abs(exp(log_ratio) - 1) * 100:.2g} %"


def _why(branch: Branch, s: Signs) -> str:
    """The branch's sentence with this session's numbers."""
    interval = f"ratio {exp(s.effect):.3f}, interval {exp(s.low):.3f} .. {exp(s.high):.3f}"
    floor = "no A/A control" if np.isnan(s.floor) else f"A/A noise floor {percent(float(s.floor))}"
    numbers = {
        Reason.FEW_RUNS: f"{int(s.runs)} a side; {MIN_RUNS_A_SIDE} are needed",
        Reason.THROTTLED: f"{float(s.throttled_share):.0%} of blocks flagged",
        Reason.CONTROL_MOVED: "see the control's own ratio",
        Reason.CLOCK_DISAGREES: f"they differ by {percent(float(s.clock_gap))}",
        Reason.BIMODAL: f"modes {percent(float(s.mode_gap))} apart; {interval}",
    }
    if branch.reason is Reason.DRIFT:
        moved = (
            f"level moved {percent(float(s.drift))}, ratio {percent(float(s.ratio_trend))}, "
            f"{float(s.unsettled_share):.0%} of runs unsettled"
        )
        told = moved if s.interleaved else "drift and arm cannot be told apart"
    else:
        told = numbers.get(branch.reason, f"{interval}; minimum {percent(float(s.minimum_effect))}; {floor}")
    return f"{branch.says} ({told})"
