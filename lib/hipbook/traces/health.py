"""The health report beside every table: what was read, what was not, and what not to believe.

Each finding is data first (a kind, a count, where) and text second. "problem" means figures built on
the rows concerned are wrong or incomplete; "caution" means they can be misread; "note" was harmless.
"""

from dataclasses import dataclass
from typing import Literal

import polars as pl

from hipbook.traces import checks, counters, stats
from hipbook.traces.launches import calls_matching, graph_launches, with_launch
from hipbook.traces.trace import Note, Trace

Level = Literal["problem", "caution", "note"]

_LEVEL_OF_NOTE: dict[str, Level] = {
    "truncated": "problem",
    "bad_utf8": "caution",
    "no_final_newline": "caution",
    "repeated_header": "caution",
    "mixed_formats": "problem",
    "several_processes": "caution",
    "no_symbol": "caution",
    "schema_version": "caution",
    "device_numbers": "caution",
    "unreadable": "problem",
}


@dataclass(frozen=True)
class Finding:
    """`kind` is a fixed word; `count` how often; `rows` the first few places (source, line or id)."""

    level: Level
    kind: str
    count: int
    text: str
    rows: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Health:
    """The report as data; `str()` is its text. `totals` are of the dispatches that can be used."""

    rows: dict[str, int]  # table -> rows read
    rejected: int
    totals: stats.Totals
    findings: tuple[Finding, ...]

    def count(self, kind: str) -> int:
        return sum(one.count for one in self.findings if one.kind == kind)

    def has(self, kind: str) -> bool:
        return any(one.kind == kind for one in self.findings)

    @property
    def problems(self) -> list[Finding]:
        return [one for one in self.findings if one.level == "problem"]

    def __str__(self) -> str:
        read = ", ".join(f"{count:,} {name}" for name, count in self.rows.items() if count) or "no rows"
        t = self.totals
        lines = [f"read: {read}; rejected: {self.rejected:,}"]
        if t.usable_rows:
            lines.append(
                f"dispatches: {t.usable_rows:,} usable of {t.rows:,}; "
                f"sum {t.sum_ns:,} ns, busy union {t.busy_union_ns:,} ns, span {t.span_ns:,} ns"
            )
        for one in self.findings:
            where = ", ".join(f"{source}:{row}" for source, row in one.rows)
            lines.append(
                f"{one.level:>7}  {one.kind} ({one.count:,}): {one.text}" + (f" [{where}]" if where else "")
            )
        if not self.findings:
            lines.append("nothing to report")
        return "\n".join(lines)


def health(trace: Trace) -> Health:
    """Look at everything rule 2 of the format notes lists. Cost: a few sorts of the dispatch table."""
    found: list[Finding] = []
    found += _reading(trace)
    found += _times(trace)
    found += _order(trace)
    found += _links(trace)
    found += _counters(trace)
    found += _processes(trace)
    rank = {"problem": 0, "caution": 1, "note": 2}
    found.sort(key=lambda one: (rank[one.level], one.kind))
    return Health(
        {name: table.height for name, table in trace.tables().items()},
        len(trace.rejected),
        stats.totals(trace.dispatches),
        tuple(found),
    )


def _reading(trace: Trace) -> list[Finding]:
    found = []
    reasons: dict[str, list[tuple[str, int]]] = {}
    for one in trace.rejected:
        reasons.setdefault(one.reason, []).append((one.source, one.line))
    for reason, rows in reasons.items():
        found.append(Finding("problem", "rejected_rows", len(rows), f"dropped: {reason}", tuple(rows[:5])))
    same: dict[tuple[str, str], list[Note]] = {}
    for note in trace.notes:
        same.setdefault((note.kind, note.text), []).append(note)
    for (kind, text), notes in same.items():
        rows = tuple((note.source, line) for note in notes for line in note.lines or (1,) if note.source)
        level = _LEVEL_OF_NOTE.get(kind, "note")
        found.append(Finding(level, kind, sum(note.count for note in notes), text, rows[:5]))
    return found


def _rows(frame: pl.DataFrame) -> tuple[tuple[str, int], ...]:
    return tuple((str(source), row) for source, row in frame.select("Source", "Row").head(5).rows())


def _finding(level: Level, kind: str, frame: pl.DataFrame, text: str) -> list[Finding]:
    return [Finding(level, kind, frame.height, text, _rows(frame))] if frame.height else []


def _times(trace: Trace) -> list[Finding]:
    start, end = pl.col("Start_Timestamp"), pl.col("End_Timestamp")
    found = []
    for name, table in trace.tables().items():
        if "Start_Timestamp" not in table.columns or not table.height:
            continue
        out = f"{name}: kept, left out of sums"
        beyond = table.filter((start < 0) | (end < 0))
        found += _finding(
            "problem", "uint64_max_timestamps", beyond, f"timestamp of 2^64-1 or near: not recorded; {out}"
        )
        zero = table.filter(((start == 0) | (end == 0)) & (start >= 0) & (end >= 0))
        found += _finding("problem", "zero_timestamps", zero, f"timestamp 0: not recorded; {out}")
        both = table.filter((start > 0) & (end > 0))
        found += _finding(
            "problem", "negative_durations", both.filter(end < start), f"ends before it starts; {out}"
        )
        long = both.filter((end >= start) & (end - start > stats.IMPOSSIBLE_NS))
        found += _finding("problem", "impossible_durations", long, f"longer than an hour; {out}")
        if name == "dispatches":
            none = both.filter(end == start)
            found += _finding(
                "caution", "zero_durations", none, "duration 0: used, below the clock's resolution"
            )
    return found


def _order(trace: Trace) -> list[Finding]:
    rows = trace.dispatches.filter(stats.usable())
    if rows.height < 2:
        return []
    found = []
    inversions = checks.row_order_inversions(rows)
    if inversions:
        found.append(
            Finding("note", "row_order", inversions, "rows before an earlier one: written in buffer order")
        )
    overlaps, overlap_ns = checks.same_queue_overlaps(rows)
    if overlaps:
        found.append(
            Finding("caution", "same_queue_overlaps", overlaps,
                    f"dispatches of one queue that overlap by {overlap_ns:,} ns together: sum > busy union")
        )  # fmt: skip
    duplicates = checks.duplicate_dispatches(rows)
    found += _finding(
        "problem", "duplicate_dispatches", duplicates,
        "the same kernel, queue, start and end again: counted more than once in every sum",
    )  # fmt: skip
    t = stats.totals(rows)
    if t.sum_ns > t.span_ns:
        found.append(
            Finding(
                "caution",
                "sum_exceeds_span",
                1,
                f"kernels overlap: sum {t.sum_ns:,} ns > span {t.span_ns:,} ns",
            )
        )
    gaps = checks.long_gaps(rows)
    if gaps.height:
        why = checks.idle_explanation(trace)
        text = f"gaps over 1 ms, {gaps['Gap_Ns'].sum():,} ns together"
        found.append(
            Finding("note", "long_gaps", gaps.height, text + (f"; not idle time: {why}" if why else ""))
        )
    return found


def _links(trace: Trace) -> list[Finding]:
    if not trace.api_calls.height:
        return _graphs(trace)
    found = []
    linked = with_launch(trace)
    orphan = linked.filter(pl.col("Launch_Function").is_null())
    found += _finding(
        "caution", "kernels_without_launch", orphan,
        "dispatches without the call that launched them: it was not recorded, or came before the profiler",
    )  # fmt: skip
    lone = checks.launches_without_kernels(trace)
    found += _finding(
        "caution", "launches_without_kernels", lone,
        "launch calls without a dispatch: captured into a graph, still in flight, or lost",
    )  # fmt: skip
    early = linked.filter(stats.usable() & (pl.col("Start_Timestamp") < pl.col("Launch_Start")))
    found += _finding(
        "problem", "kernel_before_launch", early, "starts before its launch call: the two clocks disagree"
    )
    found += _finding(
        "problem",
        "kernel_before_copy",
        checks.kernels_before_copies(trace),
        "starts before the copy issued ahead of it on its stream has ended",
    )
    return found + _graphs(trace)


def _graphs(trace: Trace) -> list[Finding]:
    graphs = graph_launches(trace)
    if not graphs.height:
        return []
    counts = graphs["Kernels"].to_list()
    shown = ", ".join(str(count) for count in counts[:8]) + (", ..." if len(counts) > 8 else "")
    found = [Finding("note", "graph_launches", len(counts), f"graph launches, owning {shown} kernels")]
    partial = checks.under_recorded_graphs(trace)
    if partial.height:
        found.append(
            Finding("problem", "under_recorded_graphs", partial.height,
                    "graph launches that own no or few kernels: time between them is not idle time")
        )  # fmt: skip
    return found


def _counters(trace: Trace) -> list[Finding]:
    found = []
    zero = counters.unsupported(trace.counters)
    if zero and trace.formats != ["hipbook"]:  # an emulated board counts: its zero is a value
        found.append(
            Finding("caution", "all_zero_counters", len(zero),
                    "zero in every row: unsupported or a power state, never a value: " + ", ".join(zero))
        )  # fmt: skip
    absent = counters.missing(trace.counters)
    if absent:
        text = "; ".join(f"{name} in {count} dispatches of {where}" for where, name, count in absent[:5])
        found.append(Finding("caution", "missing_counters", len(absent), f"no value: {text}"))
    return found


def _processes(trace: Trace) -> list[Finding]:
    found = []
    processes = {}
    for name, table in trace.tables().items():
        if name in ("agents", "reported_stats", "counters"):
            continue
        for (process,) in table.select("Process").unique().rows():
            processes.setdefault(str(process), []).append(name)
    if len(processes) > 1:
        text = f"processes or ranks in one trace, totals run over all: {', '.join(sorted(processes)[:6])}"
        found.append(Finding("caution", "several_processes", len(processes), text))
    pids = {int(pid) for pid in trace.api_calls["Process_Id"].drop_nulls().unique()}
    if len(pids) > len(processes):
        found.append(
            Finding(
                "caution", "several_pids", len(pids), "pids in the API table: more than one process in a file"
            )
        )
    blocking = calls_matching(trace.api_calls, r"(?i)Memcpy")
    copies = trace.copies.filter(stats.usable())
    if blocking.height and copies.height:
        api = stats.totals(blocking).sum_ns
        device = stats.totals(copies).sum_ns
        if api > 4 * device:
            found.append(
                Finding("caution", "api_time_is_not_copy_time", blocking.height,
                        f"memcpy calls: {api:,} ns of CPU time; copies: {device:,} ns; the CPU was waiting")
            )  # fmt: skip
    return found
