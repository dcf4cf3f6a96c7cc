"""Two sets of runs, kernel by kernel: what changed, by how much, and whether that is more than noise.

A kernel's change is split exactly: new - base = (calls' - calls) * mean + calls' * (mean' - mean). Times
get a word of R5 from runs (a run is one process); calls are counts and get none of them. One run a side
can rank changes and say which exceed the noise seen inside the runs, and that is all it says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from hipbook.errors import BadArgument
from hipbook.measure.intervals import welch
from hipbook.measure.schedule import is_interleaved
from hipbook.measure.thresholds import CONFIDENCE, MIN_RUNS_A_SIDE, MINIMUM_EFFECT
from hipbook.traces import stats
from hipbook.traces.names import normalise
from hipbook.traces.trace import Trace

# Without an A/A control, kernel times of two processes are taken to differ by this much for no reason:
# clocks, memory placement and temperature move whole runs by a few per cent.
ASSUMED_FLOOR = 0.05
# Stretches of a run, in time order, whose means show how far the kernel wanders within it.
STRETCHES = 10


@dataclass(frozen=True)
class Comparison:
    """`kernels`, largest change of time first: Name, Matched, Calls_Base, Calls_New (per run), Mean_Base_Ns,
    Mean_New_Ns, Change_Ns (per run), From_Calls_Ns, From_Mean_Ns, Ratio (mean base / mean new), Low, High,
    Beyond_Noise, Word, Reason, Change.

    Low and High bound Ratio at CONFIDENCE over the whole family of `compared` kernels (Bonferroni).
    `Change` is a word for the reader: slower, faster, more calls, fewer calls, gone, new, or "".
    """

    kernels: pl.DataFrame
    runs_base: int
    runs_new: int
    compared: int
    floor: float
    floor_source: str
    total_base_ns: float
    total_new_ns: float
    notes: tuple[str, ...]

    def named(self, *changes: str) -> pl.DataFrame:
        """Kernels with one of these words of `Change` (any word when none is given)."""
        wanted = list(changes) or [word for word in self.kernels["Change"].unique() if word]
        return self.kernels.filter(pl.col("Change").is_in(wanted))


def compare(
    base: Sequence[Trace] | Trace, new: Sequence[Trace] | Trace, *,
    control: Sequence[Trace] = (), minimum_effect: float = MINIMUM_EFFECT, templates: bool = False,
) -> Comparison:  # fmt: skip
    """Compare runs of the base with runs of the new side, matched by normalised kernel name.

    `control`: further runs of the base side; base against control is the A/A whose largest change of mean
    is the noise floor (otherwise ASSUMED_FLOOR stands in, and the result says so). `minimum_effect` is a log
    ratio. `templates` strips template arguments before matching.
    """
    base, new, control = _many(base), _many(new), _many(control)
    if not base or not new:
        raise BadArgument("runs", (len(base), len(new)), "at least one run a side")
    sides = [_side(runs, templates) for runs in (base, new)]
    names = sorted(set(sides[0]) | set(sides[1]))
    common = [name for name in names if name in sides[0] and name in sides[1]]
    floor, floor_source = _floor(base, control, templates)
    setting = _Setting(
        len(base), len(new), 1 - (1 - CONFIDENCE) / max(1, len(common)), floor, bool(control),
        _is_interleaved(base, new), minimum_effect,
    )  # fmt: skip
    rows = [_row(name, sides[0].get(name), sides[1].get(name), setting) for name in names]
    table = pl.DataFrame(rows, schema=_COLUMNS, orient="row")
    table = table.sort(pl.col("Change_Ns").abs(), pl.col("Name"), descending=[True, False])
    return Comparison(
        table, len(base), len(new), len(common), floor, floor_source,
        _total(base), _total(new), tuple(_notes(base, new, sides, floor_source, setting)),
    )  # fmt: skip


_COLUMNS = {
    "Name": pl.String,
    "Matched": pl.String,
    **dict.fromkeys(("Calls_Base", "Calls_New", "Mean_Base_Ns", "Mean_New_Ns"), pl.Float64),
    **dict.fromkeys(("Change_Ns", "From_Calls_Ns", "From_Mean_Ns", "Ratio", "Low", "High"), pl.Float64),
    "Beyond_Noise": pl.Boolean,
    **dict.fromkeys(("Word", "Reason", "Change"), pl.String),
}


@dataclass
class _Kernel:
    """One kernel on one side: calls and total per run, and the log means of stretches of each run."""

    raw_names: set[str]
    calls: list[int]
    total_ns: list[int]
    stretches: list[np.ndarray]

    @property
    def mean_ns(self) -> float:
        return sum(self.total_ns) / max(1, sum(self.calls))

    @property
    def log_means(self) -> np.ndarray:
        """ln of the mean duration of each run in which the kernel ran for a measurable time."""
        pairs = [
            (total, count) for total, count in zip(self.total_ns, self.calls, strict=True) if count and total
        ]
        return np.log([total / count for total, count in pairs])


def _many(runs: Sequence[Trace] | Trace) -> list[Trace]:
    return [runs] if isinstance(runs, Trace) else list(runs)


def _side(runs: list[Trace], templates: bool) -> dict[str, _Kernel]:
    side: dict[str, _Kernel] = {}
    for number, run in enumerate(runs):
        rows = run.dispatches.filter(stats.usable()).select(
            pl.col("Kernel_Name").cast(pl.String), "Start_Timestamp", stats.DURATION.alias("d")
        )
        names = rows["Kernel_Name"].unique().to_list()
        keys = {name: normalise(name, templates) for name in names}
        if not keys:
            continue
        rows = rows.with_columns(
            pl.col("Kernel_Name").replace_strict(keys, return_dtype=pl.String).alias("key")
        )
        grouped = rows.sort("Start_Timestamp").group_by("key", maintain_order=True).agg("d", "Kernel_Name")
        for key, durations, raw in grouped.rows():
            kernel = side.setdefault(key, _Kernel(set(), [0] * len(runs), [0] * len(runs), []))
            values = np.asarray(durations, dtype=np.int64)
            kernel.raw_names.update(raw)
            kernel.calls[number] = len(values)
            kernel.total_ns[number] = int(values.sum())
            kernel.stretches.append(_stretches(values))
    return side


def _stretches(durations: np.ndarray) -> np.ndarray:
    """ln of the means of up to STRETCHES consecutive parts of a run; empty where there are too few calls."""
    if len(durations) < 4:
        return np.empty(0)
    means = np.array([part.mean() for part in np.array_split(durations, min(STRETCHES, len(durations) // 2))])
    return np.log(means[means > 0])


def _sample(kernel: _Kernel) -> np.ndarray:
    """What shows the scatter of a side's mean: its runs, or with one run the stretches of that run."""
    if len(kernel.log_means) >= 2:
        return kernel.log_means
    return next((part for part in kernel.stretches if len(part) >= 2), np.empty(0))


def _interval(base: _Kernel, new: _Kernel, confidence: float) -> tuple[float, float, float]:
    """(ln ratio base / new, low, high) by Welch; an infinite interval where one side shows no scatter."""
    if not len(base.log_means) or not len(new.log_means):
        return float("nan"), float("nan"), float("nan")
    effect = float(base.log_means.mean() - new.log_means.mean())
    samples = _sample(base), _sample(new)
    if not (len(samples[0]) and len(samples[1])):
        return effect, -float("inf"), float("inf")
    found = welch(*samples, confidence=confidence)
    half = float(found.high - found.low) / 2
    return effect, effect - half, effect + half


@dataclass(frozen=True)
class _Setting:
    """What every kernel's row is judged by."""

    runs_base: int
    runs_new: int
    confidence: float
    floor: float
    controlled: bool
    interleaved: bool
    minimum_effect: float

    @property
    def several(self) -> bool:
        return min(self.runs_base, self.runs_new) >= 2


def _row(name: str, base: _Kernel | None, new: _Kernel | None, setting: _Setting) -> tuple:
    if base is None or new is None:
        return _one_sided(name, base, new, setting)
    calls_base = sum(base.calls) / setting.runs_base
    calls_new = sum(new.calls) / setting.runs_new
    mean_base, mean_new = base.mean_ns, new.mean_ns
    from_calls = (calls_new - calls_base) * mean_base
    from_mean = calls_new * (mean_new - mean_base)
    effect, low, high = _interval(base, new, setting.confidence)
    excludes = low > 0 or high < 0
    # runs show their own noise; one run a side shows only what is inside it, so the floor stands for the rest
    # and the interval's near edge has to exceed it
    shown = abs(effect) if setting.several else min(abs(low), abs(high))
    beyond = bool(excludes and shown > max(setting.floor, setting.minimum_effect))
    word, reason = _word(setting, effect, low, high, beyond)
    change = ("faster" if effect > 0 else "slower") if beyond else ""
    if not change and calls_base != calls_new:
        change = "more calls" if calls_new > calls_base else "fewer calls"
    matched = "name" if base.raw_names & new.raw_names else "normalised name"
    ratio, low, high = (float(np.exp(one)) for one in (effect, low, high))
    return (
        name, matched, calls_base, calls_new, mean_base, mean_new, from_calls + from_mean, from_calls,
        from_mean, ratio, low, high, beyond, word, reason, change,
    )  # fmt: skip


def _one_sided(name: str, base: _Kernel | None, new: _Kernel | None, setting: _Setting) -> tuple:
    none = float("nan")
    if new is None:
        assert base is not None
        calls, total = sum(base.calls) / setting.runs_base, -sum(base.total_ns) / setting.runs_base
        figures = (calls, 0.0, base.mean_ns, none)
    else:
        calls, total = sum(new.calls) / setting.runs_new, sum(new.total_ns) / setting.runs_new
        figures = (0.0, calls, none, new.mean_ns)
    change = "gone" if new is None else "new"
    return (
        name,
        "",
        *figures,
        total,
        total,
        0.0,
        none,
        none,
        none,
        True,
        "",
        "runs on one side only",
        change,
    )


def _word(setting: _Setting, effect: float, low: float, high: float, beyond: bool) -> tuple[str, str]:
    """The word of R5 for the mean duration, and the reason where it is INCONCLUSIVE.

    Branches in the order of hipbook.measure.verdict, as far as a trace can tell.
    """
    minimum = setting.minimum_effect
    if min(setting.runs_base, setting.runs_new) < MIN_RUNS_A_SIDE:
        return "INCONCLUSIVE", "few_runs"
    if not setting.interleaved:
        return "INCONCLUSIVE", "drift"
    if -minimum < low and high < minimum:
        return "EQUIVALENT", ""
    if low <= 0 <= high:
        return "INCONCLUSIVE", "wide_interval"
    if not (beyond and setting.controlled):
        return "INCONCLUSIVE", "below_noise_floor"
    return ("FASTER" if effect > 0 else "SLOWER"), ""


def _is_interleaved(base: list[Trace], new: list[Trace]) -> bool:
    """By the runs' own clocks: were they made in blocks of one run a side? Runs that overlap were not."""
    spans = sorted(
        (totals.first_ns, totals.last_ns, label)
        for label, runs in (("base", base), ("new", new))
        for totals in (stats.totals(run.dispatches) for run in runs)
        if totals.first_ns is not None
    )
    overlap = any(one[1] > other[0] for one, other in pairwise(spans))
    return not overlap and is_interleaved([label for _, _, label in spans])


def _floor(base: list[Trace], control: list[Trace], templates: bool) -> tuple[float, str]:
    if not control:
        return ASSUMED_FLOOR, f"assumed {ASSUMED_FLOOR:.0%}: no A/A control was given"
    sides = [_side(runs, templates) for runs in (base, control)]
    gaps = [
        abs(float(sides[0][name].log_means.mean() - sides[1][name].log_means.mean()))
        for name in set(sides[0]) & set(sides[1])
        if len(sides[0][name].log_means) and len(sides[1][name].log_means)
    ]
    if not gaps:
        raise BadArgument("control", len(control), "runs that share kernels with the base")
    return max(gaps), f"A/A control of {len(control)} runs over {len(gaps)} kernels"


def _total(runs: list[Trace]) -> float:
    return sum(stats.totals(run.dispatches).sum_ns for run in runs) / len(runs)


def _notes(
    base: list[Trace], new: list[Trace], sides: list, floor_source: str, setting: _Setting
) -> list[str]:
    notes = [f"noise floor: {floor_source}"]
    if min(len(base), len(new)) < MIN_RUNS_A_SIDE:
        notes.append(
            f"{len(base)} against {len(new)} runs: changes are candidates; a verdict on a time needs "
            f"{MIN_RUNS_A_SIDE} runs a side"
        )
    elif not setting.interleaved:
        notes.append("the runs were not made in turn (by their own clocks): a drift and a change look alike")
    merged = sum(len(one.raw_names) > 1 for side in sides for one in side.values())
    if merged:
        notes.append(
            f"{merged} normalised names stand for several signatures on one side (overloads are one kernel)"
        )
    for label, runs in (("base", base), ("new", new)):
        rejected = sum(len(run.rejected) for run in runs)
        if rejected:
            notes.append(f"{rejected} rows of the {label} side were rejected by the reader")
    return notes
