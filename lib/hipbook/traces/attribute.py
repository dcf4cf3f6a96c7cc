"""Where the wall went: every nanosecond of it, once.

An instant belongs to the first of these that holds: a kernel runs (by class, in the rule file's order), a
copy runs, the CPU is inside a launch call, the CPU waits in another call, the gap to the next dispatch
is shorter than a launch takes, nothing of the kind. The parts are integers and add up to the wall exactly.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from hipbook.traces import stats
from hipbook.traces.checks import idle_explanation
from hipbook.traces.classes import Rules, classed, load_rules
from hipbook.traces.launches import BLOCKING, calls_matching, launch_calls
from hipbook.traces.trace import Trace, TraceError

# A gap up to this length between two dispatches is the hardware's and the queue's own business.
LAUNCH_GAP_NS = 20_000

COPIES, LAUNCHING, WAITING = "copies", "launch calls", "API waits"
GAPS, UNEXPLAINED = "launch gaps", "unexplained"

Intervals = tuple[np.ndarray, np.ndarray]  # starts and ends, sorted and disjoint


@dataclass(frozen=True)
class Attribution:
    """`parts`: Part, Calls, Gpu_Ns (sum of durations), Share_Of_Gpu, Wall_Ns, Share_Of_Wall.

    `Gpu_Ns` may exceed `Wall_Ns`: work hidden under other work. The Wall_Ns add up to `wall_ns` exactly.
    `calls`: API functions, CPU time; shown beside the parts, never added to them. `notes` say what the
    trace could not tell.
    """

    wall_ns: int
    parts: pl.DataFrame
    kernels: pl.DataFrame
    calls: pl.DataFrame
    notes: tuple[str, ...]
    rules: str


def attribute(
    trace: Trace, rules: Rules | None = None, *, wall: tuple[int, int] | None = None
) -> Attribution:
    """Account for the wall from the first to the last recorded event, or for `wall` (ns, profiler clock)."""
    rules = rules or load_rules()
    start, end = wall or _wall(trace)
    rows = classed(trace.dispatches.filter(stats.usable()), rules)
    taken: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    parts = []
    gpu_ns = stats.totals(rows).sum_ns
    for label in rules.labels:
        of_class = rows.filter(pl.col("Class") == label)
        taken, exclusive = _claim(taken, of_class, start, end)
        if of_class.height:
            parts.append((label, of_class.height, stats.totals(of_class).sum_ns, exclusive))
    copies = trace.copies.filter(stats.usable())
    taken, exclusive = _claim(taken, copies, start, end)
    copy_ns = stats.totals(copies).sum_ns
    parts.append((COPIES, copies.height, copy_ns, exclusive))
    launching = launch_calls(trace).filter(stats.usable())
    taken, exclusive = _claim(taken, launching, start, end)
    parts.append((LAUNCHING, launching.height, 0, exclusive))
    waiting = calls_matching(trace.api_calls, BLOCKING).filter(stats.usable())
    taken, exclusive = _claim(taken, waiting, start, end)
    parts.append((WAITING, waiting.height, 0, exclusive))
    gaps = _short_gaps(rows, copies)
    taken, exclusive = _claim(taken, gaps, start, end)
    parts.append((GAPS, gaps.height, 0, exclusive))
    claimed = sum(part[3] for part in parts)
    parts.append((UNEXPLAINED, 0, 0, end - start - claimed))
    device = gpu_ns + copy_ns
    table = pl.DataFrame(
        parts,
        schema={"Part": pl.String, "Calls": pl.Int64, "Gpu_Ns": pl.Int64, "Wall_Ns": pl.Int64},
        orient="row",
    ).with_columns(
        (pl.col("Gpu_Ns") / device if device else pl.lit(0.0)).alias("Share_Of_Gpu"),
        (pl.col("Wall_Ns") / (end - start)).alias("Share_Of_Wall"),
    )
    kernels = stats.per_kernel(rows)
    kernels = kernels.with_columns(rules.column(kernels["Kernel_Name"]))
    return Attribution(
        end - start,
        table.select("Part", "Calls", "Gpu_Ns", "Share_Of_Gpu", "Wall_Ns", "Share_Of_Wall"),
        kernels,
        stats.per_function(trace.api_calls),
        tuple(_notes(trace, table, end - start)),
        rules.source,
    )


def _wall(trace: Trace) -> tuple[int, int]:
    spans = [stats.totals(table) for table in (trace.dispatches, trace.copies, trace.api_calls)]
    first = [one.first_ns for one in spans if one.first_ns is not None]
    last = [one.last_ns for one in spans if one.last_ns is not None]
    if not first or max(last) == min(first):
        raise TraceError("nothing with usable times in this trace: no wall to account for")
    return min(first), max(last)


def union(start: np.ndarray, end: np.ndarray) -> Intervals:
    """Sorted disjoint intervals that cover the same instants; empty intervals vanish."""
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return start.astype(np.int64), end.astype(np.int64)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > end[:-1]))
    last = np.concatenate((first[1:], [True]))
    return start[first], end[last]


def length(intervals: Intervals) -> int:
    return int((intervals[1] - intervals[0]).sum())


def _claim(taken: Intervals, rows: pl.DataFrame, start: int, end: int) -> tuple[Intervals, int]:
    """(taken with these rows added, the ns that were not taken before)."""
    began = np.clip(rows["Start_Timestamp"].to_numpy(), start, end)
    ended = np.clip(rows["End_Timestamp"].to_numpy(), start, end)
    both = union(np.concatenate((taken[0], began)), np.concatenate((taken[1], ended)))
    return both, length(both) - length(taken)


def _short_gaps(rows: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """Stretches of at most LAUNCH_GAP_NS between device work and the next dispatch."""
    work = pl.concat(
        [rows.select("Start_Timestamp", "End_Timestamp"), copies.select("Start_Timestamp", "End_Timestamp")]
    )
    began, ended = union(work["Start_Timestamp"].to_numpy(), work["End_Timestamp"].to_numpy())
    gap = began[1:] - ended[:-1]
    short = gap <= LAUNCH_GAP_NS
    return pl.DataFrame({"Start_Timestamp": ended[:-1][short], "End_Timestamp": began[1:][short]})


def _notes(trace: Trace, parts: pl.DataFrame, wall: int) -> list[str]:
    notes = []
    if not trace.api_calls.height:
        notes.append("no API calls in this trace: a gap may be a launch, a wait or the program's own work")
    explained = idle_explanation(trace)
    if explained:
        notes.append(f"unexplained time is not idle time here: {explained}")
    processes = trace.dispatches["Process"].n_unique()
    if processes > 1:
        notes.append(f"{processes} processes share this wall; their clocks are one only on one machine")
    unusable = trace.dispatches.height - stats.totals(trace.dispatches).usable_rows
    if unusable:
        notes.append(f"{unusable} dispatches without usable times are in no part")
    unknown = parts.filter(pl.col("Part") == UNEXPLAINED)["Wall_Ns"].item()
    if unknown * 2 > wall and not explained:
        notes.append(
            "more than half of the wall is unexplained: CPU work of the program, or work not recorded"
        )
    return notes


def amdahl(
    wall_ns: float, part_ns: float, factors: tuple[float, ...] = (2.0, 4.0, 10.0, float("inf"))
) -> pl.DataFrame:
    """What making a part k times faster buys: Factor, Saved_Ns, Wall_Ns, Speedup (of the wall).

    Only the part's exclusive time counts: what runs under other work saves nothing.
    """
    if not 0 <= part_ns <= wall_ns or wall_ns <= 0:
        raise TraceError(f"a part of {part_ns} ns does not fit a wall of {wall_ns} ns")
    saved = [part_ns * (1 - 1 / factor) for factor in factors]
    return pl.DataFrame(
        {
            "Factor": list(factors),
            "Saved_Ns": saved,
            "Wall_Ns": [wall_ns - one for one in saved],
            "Speedup": [wall_ns / (wall_ns - one) if wall_ns > one else float("inf") for one in saved],
        }
    )
