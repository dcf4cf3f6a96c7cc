"""Our own boards' dispatches as a trace: what `write` and `chrome` export for other people's tools.

A GPU board knows how long a dispatch took; the emulated board does not, and counts instead. Its
dispatches get no times (0, which every reader here calls "not recorded"), unless the caller asks for a
picture in which a nanosecond stands for a wave instruction; then the trace says so in its name.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from hipbook.errors import BadArgument
from hipbook.traces import schema
from hipbook.traces.trace import SourceFile, Trace

if TYPE_CHECKING:  # torch takes two seconds to import, and traces do not need it
    from hipbook.boards.base import Dispatch

CLOCK_START_NS = 1_000_000
_GROUP = [f"Workgroup_Size_{axis}" for axis in "XYZ"]
_GRID = [f"Grid_Size_{axis}" for axis in "XYZ"]
INSTRUCTIONS = "emulated: 1 ns stands for 1 wave instruction, not time"


def trace_of(dispatches: Sequence["Dispatch"], *, clock: Literal["time", "instructions"] = "time") -> Trace:
    """Dispatches in the order given, one agent and queue for each board, back to back (gaps are not known).

    clock="time": `time_us` of each dispatch, rounded to the ns; one without gets timestamps 0.
    clock="instructions": as long as its wave instructions (SQ_INSTS) in ns, for looking at, labelled so.
    """
    if not dispatches:
        raise BadArgument("dispatches", "[]", "at least one")
    boards = list(dict.fromkeys(one.board for one in dispatches))
    now = dict.fromkeys(boards, CLOCK_START_NS)
    source = INSTRUCTIONS if clock == "instructions" else "hipbook run"
    rows, counters = [], []
    for number, one in enumerate(dispatches, 1):
        length = _length(one, clock)
        start = 0 if length is None else now[one.board]
        end = 0 if length is None else start + length
        now[one.board] += length or 0
        facts = one.code_object.kernels.get(one.kernel)
        agent = boards.index(one.board) + 1
        row = {
            "Source": source,
            "Process": one.board,
            "Row": number,
            "Agent_Id": agent,
            **dict.fromkeys(("Queue_Id", "Stream_Id", "Thread_Id"), 1),
            **dict.fromkeys(("Dispatch_Id", "Correlation_Id"), number),
            "Kernel_Name": one.kernel,
            "Start_Timestamp": start,
            "End_Timestamp": end,
            "LDS_Block_Size": one.lds_bytes + (facts.lds_bytes if facts else 0),
            "Scratch_Size": facts.scratch_bytes if facts else None,
            "VGPR_Count": facts.vgprs if facts else None,
            "SGPR_Count": facts.sgprs if facts else None,
            **dict(zip(_GROUP, one.block, strict=True)),
            **dict(zip(_GRID, (n * size for n, size in zip(one.grid, one.block, strict=True)), strict=True)),
        }
        rows.append(row)
        times = {} if length is not None else {"Start_Timestamp": None, "End_Timestamp": None}
        counters += [{**row, "Pass": "pass_1", **times, **counter} for counter in _counters(one)]
    trace = Trace(path=Path(source))
    trace.dispatches = _table(schema.DISPATCHES, rows)
    trace.counters = _table(schema.COUNTERS, counters)
    trace.facts = {"label": source, "boards": boards}
    untimed = sum(row["End_Timestamp"] == 0 for row in rows)
    if untimed:
        trace.note(source, "no_times", "dispatches of an emulated board: counted, not timed", untimed)
    trace.sources.append(SourceFile(source, "hipbook", "", "dispatches", len(rows)))
    return trace


def _length(dispatch: "Dispatch", clock: str) -> int | None:
    if clock == "time":
        return None if dispatch.time_us is None else round(dispatch.time_us * 1000)
    if dispatch.counters is None:
        raise BadArgument("clock", clock, f"{dispatch.kernel} on {dispatch.board} has no counters")
    return int(dispatch.counters.totals["SQ_INSTS"])


def _counters(dispatch: "Dispatch") -> list[dict[str, object]]:
    if dispatch.counters is None:
        return []
    size = dispatch.block[0] * dispatch.block[1] * dispatch.block[2]
    grid = dispatch.grid[0] * dispatch.grid[1] * dispatch.grid[2] * size
    return [
        {"Counter_Name": name, "Counter_Value": float(value), "Grid_Size": grid, "Workgroup_Size": size}
        for name, value in sorted(dispatch.counters.totals.items())
    ]


def _table(table: schema.Table, rows: list[dict[str, object]]) -> pl.DataFrame:
    if not rows:
        return table.empty()
    kept = [{name: row[name] for name in table.columns if name in row} for row in rows]
    return table.conform(pl.DataFrame(kept, infer_schema_length=None))
