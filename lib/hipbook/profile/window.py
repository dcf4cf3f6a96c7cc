"""From a profiler's rows to our launches: held, one by one and in order, to what the child says it launched.

A trace holds more than was asked about: fills and copies of torch, warm-up, checks. Which rows are the
profiled launches of which subject is told by launch order (kernel names and geometry must agree all along),
and by marker where the trace has markers and the calls made inside them; two ways that disagree are an error.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from hipbook.profile.job import MARKER, Done, ProfileError, Step
from hipbook.profile.process import Ran, last_words
from hipbook.traces import stats, windows
from hipbook.traces.health import health
from hipbook.traces.names import normalise
from hipbook.traces.read import read_trace
from hipbook.traces.trace import Trace, TraceError

_AXES = "XYZ"
_NAMED = 4  # kernels an error names


@dataclass(frozen=True, eq=False)
class Traced:
    """What one profiled child gave: the dispatches of its profiled launches, with a column Subject."""

    tool: str  # name and version
    how: str  # by what the rows were chosen
    rows: pl.DataFrame
    ran: Ran
    others: int  # dispatches in the trace that are not ours
    unusable: int  # profiled launches whose times mean nothing: left out of every figure
    problems: tuple[str, ...]  # what the health report says not to believe of the whole trace

    def median_us(self, subject: str) -> float:
        """The median duration of a subject's launches in this process. ProfileError when none is usable."""
        rows = self.rows.filter((pl.col("Subject") == subject) & stats.usable())
        if not rows.height:
            raise ProfileError(f"{self.tool}: no launch of {subject} has times that mean something")
        return float(np.median(rows.select(stats.DURATION).to_series().to_numpy())) / 1e3


def read_output(folder: Path, tool: str, words: str = "") -> Trace:
    """The trace that `tool` left in `folder`. ProfileError when it left none, with its last words."""
    try:
        return read_trace(folder)
    except TraceError as error:
        said = f"; it said:\n{last_words(words)}" if words.strip() else ""
        fix = error.fix or "run its command line by hand: does it trace any program here?"
        raise ProfileError(f"{tool} left no trace: {error.what}{said}", fix=fix) from None


def traced(trace: Trace, ran: Ran, tool: str) -> Traced:
    """The profiled launches of `ran` in a trace of it. ProfileError when the two do not agree."""
    ours = labelled(trace.dispatches, ran.done, tool)
    rows = ours.filter(pl.col("Role") == "profiled")
    how = "launch order"
    if _marker_agrees(trace, rows, ran.done, tool):
        how += " and markers, which agree"
    unusable = rows.height - rows.filter(stats.usable()).height
    problems = tuple(f"{one.kind} ({one.count}): {one.text}" for one in health(trace).problems)
    return Traced(tool, how, rows, ran, trace.dispatches.height - ours.height, unusable, problems)


def labelled(rows: pl.DataFrame, done: Done, tool: str) -> pl.DataFrame:
    """The rows (dispatches, or a row for each dispatch of a counter table) that are ours, in launch order,
    with columns Subject and Role. ProfileError unless they are exactly the child's launches."""
    named = rows.with_columns(pl.Series("_name", _normalised(rows), dtype=pl.String))
    ours = _in_order(named.filter(pl.col("_name").is_in(done.kernels)))
    if not ours.height:
        seen = Counter(named["_name"].to_list())
        raise ProfileError(
            f"{tool} recorded no launch of {', '.join(done.kernels)}; it recorded {_few(seen)}",
            fix="was the right process profiled, and on the right device?",
        )
    processes = ours["Process"].cast(pl.String).unique().to_list()
    if len(processes) > 1:
        raise ProfileError(
            f"{tool}: our kernels in {len(processes)} processes ({', '.join(sorted(processes)[:_NAMED])})",
            fix="profile into an empty folder",
        )
    expected = list(done.launches())
    if ours.height != len(expected):
        seen, made = Counter(ours["_name"].to_list()), Counter(one.kernel for one in expected)
        raise ProfileError(
            f"{tool} recorded {ours.height} launches of our kernels, the child made {len(expected)}: "
            f"recorded {_few(seen)}; made {_few(made)}",
            fix="a profiler that drops launches gives no figure: profile fewer at once",
        )
    for place, (row, step) in enumerate(zip(ours.iter_rows(named=True), expected, strict=True), 1):
        _held_to(row, step, place, tool)
    return ours.drop("_name").with_columns(
        pl.Series("Subject", [one.subject for one in expected]),
        pl.Series("Role", [one.role for one in expected]),
    )


def of_subjects(rows: pl.DataFrame, done: Done, tool: str) -> pl.DataFrame:
    """Counter rows (one per dispatch and counter) of the profiled launches, with a column Subject."""
    key = ["Process", "Pass", "Dispatch_Id"]
    dispatches = labelled(rows.unique(key, keep="first", maintain_order=True), done, tool)
    profiled = dispatches.filter(pl.col("Role") == "profiled").select(*key, "Subject")
    return rows.join(profiled, on=key, how="inner", maintain_order="left")


def _normalised(rows: pl.DataFrame) -> list[str]:
    return [normalise(name or "") for name in rows["Kernel_Name"].cast(pl.String).to_list()]


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """By the number each launch got; by start where the format has none (one stream runs in order)."""
    numbered = rows.height and rows["Dispatch_Id"].null_count() == 0
    return rows.sort("Dispatch_Id" if numbered else "Start_Timestamp", maintain_order=True)


def _held_to(row: dict[str, object], step: Step, place: int, tool: str) -> None:
    """One row against one launch: its kernel, and its geometry as far as the format has it."""
    threads = [n * size for n, size in zip(step.grid, step.block, strict=True)]
    wanted: dict[str, object] = {"_name": step.kernel}
    wanted |= {f"Workgroup_Size_{axis}": size for axis, size in zip(_AXES, step.block, strict=True)}
    wanted |= {f"Grid_Size_{axis}": size for axis, size in zip(_AXES, threads, strict=True)}
    wanted |= {"Workgroup_Size": int(np.prod(step.block)), "Grid_Size": int(np.prod(threads))}
    for column, value in wanted.items():
        seen = row.get(column)
        if seen is not None and seen != value:
            what = "kernel" if column == "_name" else column
            raise ProfileError(
                f"{tool}: launch {place} of ours has {what} {seen} in the trace; the child launched "
                f"{step.kernel} there for {step.subject} ({step.role}), with {value}",
                fix="the trace is of another run: profile into an empty folder",
            )


def _marker_agrees(trace: Trace, rows: pl.DataFrame, done: Done, tool: str) -> bool:
    """Whether every subject's marker holds exactly its launches; False where the trace cannot tell.

    The calls made inside a marker are followed, not its time range. A trace without markers or API calls,
    or whose calls are not linked to kernels, cannot tell.
    """
    if not (trace.markers.height and trace.api_calls.height):
        return False
    for subject in done.subjects:
        try:
            inside = windows.by_marker(trace, f"^{re.escape(MARKER + subject.name)}$").dispatches
        except TraceError:
            return False
        seen = set(inside.filter(pl.Series(_normalised(inside)).is_in(done.kernels))["Row"])
        wanted = set(rows.filter(pl.col("Subject") == subject.name)["Row"])
        if not seen:
            return False
        if seen != wanted:
            raise ProfileError(
                f"{tool}: the marker of {subject.name} holds {len(seen)} launches of ours, launch order "
                f"gives it {len(wanted)}, of which {len(seen & wanted)} are in both",
                fix="the trace contradicts itself: profile again",
            )
    return True


def _few(counted: Counter[str]) -> str:
    told = [f"{count} of {name or 'a kernel without a name'}" for name, count in counted.most_common(_NAMED)]
    return ", ".join(told) + (", ..." if len(counted) > _NAMED else "") or "nothing"
