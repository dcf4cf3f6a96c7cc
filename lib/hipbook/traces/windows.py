"""Windows: the part of a trace a question is about.

A window is a trace with fewer rows: every function here returns one, so that statistics, attribution and
comparison work on it as on the whole. Each says how it chose (`facts["window"]`), because the ways
differ: the time range of a CPU marker is not the time of the kernels launched in it.
"""

from itertools import pairwise
from typing import Literal

import polars as pl

from hipbook.errors import BadArgument
from hipbook.traces import stats
from hipbook.traces.launches import GRAPH_LAUNCH, LINK, calls_matching, with_launch
from hipbook.traces.trace import Trace, TraceError

Edge = Literal["contained", "overlapping", "clipped"]
_began, _ended = pl.col("Start_Timestamp"), pl.col("End_Timestamp")


def by_time(trace: Trace, start_ns: int, end_ns: int, *, edge: Edge = "contained") -> Trace:
    """Rows within [start_ns, end_ns) on the profiler's clock.

    `edge` decides about rows that reach over it: "contained" leaves them out, "overlapping" keeps them
    whole, "clipped" keeps the part inside. Rows without usable times belong to no window of time.
    """
    if end_ns <= start_ns:
        raise BadArgument("end_ns", end_ns, f"after start_ns = {start_ns}")
    if edge not in ("contained", "overlapping", "clipped"):
        raise BadArgument("edge", edge, "contained, overlapping or clipped")
    if edge == "contained":
        inside = (_began >= start_ns) & (_ended <= end_ns)
    else:
        inside = (_began < end_ns) & (_ended > start_ns)
    tables = {}
    for name, table in trace.tables().items():
        if "Start_Timestamp" not in table.columns:
            continue
        rows = table.filter(stats.usable() & inside)
        if edge == "clipped":
            rows = rows.with_columns(_began.clip(lower_bound=start_ns), _ended.clip(upper_bound=end_ns))
        tables[name] = rows
    return _window(trace, tables, how="time", edge=edge, start_ns=start_ns, end_ns=end_ns)


def by_launch(trace: Trace, calls: pl.DataFrame, *, how: str = "launch") -> Trace:
    """Device work launched by these API calls (rows of the API table), whenever it ran."""
    chosen = calls.select(LINK).filter(pl.col("Correlation_Id").is_not_null()).unique()
    tables = {
        name: trace.tables()[name].join(chosen, on=LINK, how="semi", maintain_order="left")
        for name in ("dispatches", "copies")
    }
    tables["api_calls"] = calls
    return _window(trace, tables, how=how, calls=calls.height)


def by_graph(trace: Trace, occurrence: int = 0) -> Trace:
    """Device work of the n-th graph launch (0 is the first; -1 the last), in order of the launch calls."""
    graphs = calls_matching(trace.api_calls, GRAPH_LAUNCH).sort("Start_Timestamp")
    if not graphs.height:
        raise TraceError("no graph launch in the API table", fix="record the HIP API too (--hip-trace)")
    if not -graphs.height <= occurrence < graphs.height:
        raise BadArgument("occurrence", occurrence, f"there are {graphs.height} graph launches")
    return by_launch(trace, graphs.slice(occurrence % graphs.height, 1), how="graph")


def marker(trace: Trace, pattern: str, occurrence: int = 0) -> dict[str, object]:
    """The n-th marker (by start) whose message matches the regular expression, as a row of the table.

    The copy of a marker that torch places on the GPU's timeline (gpu_user_annotation) is not chosen.
    """
    rows = calls_matching(trace.markers, pattern)
    rows = rows.filter(pl.col("Domain").cast(pl.String).fill_null("") != "gpu_user_annotation")
    rows = rows.sort("Start_Timestamp")
    if not rows.height:
        known = trace.markers["Function"].cast(pl.String).unique().sort().head(5).to_list()
        raise TraceError(f"no marker matches {pattern!r}", fix=f"there are: {', '.join(known) or 'none'}")
    if not -rows.height <= occurrence < rows.height:
        raise BadArgument("occurrence", occurrence, f"{rows.height} markers match {pattern!r}")
    return rows.slice(occurrence % rows.height, 1).to_dicts()[0]


def by_marker(
    trace: Trace, pattern: str, occurrence: int = 0, *, follow: Literal["launches", "time"] = "launches",
    edge: Edge = "contained",
) -> Trace:  # fmt: skip
    """Work of the n-th marker that matches.

    With follow="launches" (what is nearly always meant): the device work launched by API calls that the
    marker's thread began inside it. With follow="time": whatever ran during the marker's own time
    range, by the edge rule; on a CPU that runs ahead of the GPU this is other work, or none.
    """
    chosen = marker(trace, pattern, occurrence)
    start, end = int(chosen["Start_Timestamp"]), int(chosen["End_Timestamp"])  # type: ignore[call-overload]
    if follow == "time":
        if end <= start:
            raise TraceError(f"marker {chosen['Function']!r} is a point in time, not a range")
        window = by_time(trace, start, end, edge=edge)
        return _window(window, {}, how="marker by time", marker=chosen["Function"], edge=edge)
    if not trace.api_calls.height:
        raise TraceError(
            "no API calls in this trace, so a marker's launches are unknown",
            fix="record them (--hip-trace), or use follow='time' and mean it",
        )
    inside = (_began >= start) & (_began <= end) & (pl.col("Process") == chosen["Process"])
    if chosen["Thread_Id"]:  # 0 or null: a range that any thread may end
        inside &= pl.col("Thread_Id") == chosen["Thread_Id"]
    window = by_launch(trace, trace.api_calls.filter(inside), how="marker by launches")
    return _window(
        window, {}, how="marker by launches", marker=chosen["Function"], start_ns=start, end_ns=end
    )


def periods(trace: Trace, pattern: str) -> list[tuple[int, int]]:
    """[start, next start) between occurrences of a kernel that runs once a step, in ns.

    The stretch after the last occurrence has no known end and is no period.
    """
    rows = calls_matching(trace.dispatches.rename({"Kernel_Name": "Function"}), pattern).filter(
        stats.usable()
    )
    starts = rows["Start_Timestamp"].sort().to_list()
    if len(starts) < 2:
        raise TraceError(f"{len(starts)} dispatches match {pattern!r}; a period needs at least 2")
    return list(pairwise(starts))


def by_period(trace: Trace, pattern: str, occurrence: int = 0, *, edge: Edge = "contained") -> Trace:
    """The n-th period of a kernel: from one of its dispatches to the next."""
    found = periods(trace, pattern)
    if not -len(found) <= occurrence < len(found):
        raise BadArgument("occurrence", occurrence, f"there are {len(found)} periods of {pattern!r}")
    window = by_time(trace, *found[occurrence], edge=edge)
    return _window(window, {}, how="period", kernel=pattern, edge=edge)


def why_by_time_differs(trace: Trace, pattern: str, occurrence: int = 0) -> str:
    """One sentence on a marker's time range against its launches, for a reader who used the former."""
    by_launches = by_marker(trace, pattern, occurrence)
    chosen = marker(trace, pattern, occurrence)
    start, end = int(chosen["Start_Timestamp"]), int(chosen["End_Timestamp"])  # type: ignore[call-overload]
    inside = (
        by_time(trace, start, end)
        if end > start
        else by_launches.replace_tables(dispatches=trace.dispatches.clear())
    )
    launched = stats.totals(by_launches.dispatches)
    text = (
        f"by time the marker {chosen['Function']!r} ({(end - start) / 1e6:.3f} ms) "
        f"holds {inside.dispatches.height} kernels, by launch {launched.usable_rows} "
        f"({launched.busy_union_ns / 1e6:.4f} ms busy)"
    )
    late = with_launch(by_launches, by_launches.dispatches)["Start_Timestamp"].min()
    if late is not None and late > end:
        text += (
            f": the first of them starts {(late - end) / 1e6:.3f} ms after the marker has ended on the CPU"
        )
    return text


def _window(trace: Trace, tables: dict[str, pl.DataFrame], **how: object) -> Trace:
    cut = trace.replace_tables(**tables)
    cut.facts = {**trace.facts, "window": {**dict(trace.facts.get("window") or {}), **how}}  # type: ignore[call-overload]
    return cut
