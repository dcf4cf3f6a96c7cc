"""Small traces made in a line or two, for the tests of hipbook.traces."""

from pathlib import Path

import polars as pl
import pytest

from hipbook.traces import schema
from hipbook.traces.trace import Trace

SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/traces is not here")

HEADER_62 = (
    '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y",'
    '"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"'
)
HEADER_70 = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count",'
    '"Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",'
    '"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"'
)
HEADER_CALLS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"'
)


def line_70(number: int, name: str = "kernel", start: object = None, end: object = None) -> str:
    """One row of the 7.0 dialect; by default dispatch `number` runs from number * 100 for 50 ns."""
    start = number * 100 if start is None else start
    end = number * 100 + 50 if end is None else end
    ids = f'"KERNEL_DISPATCH","Agent 1",1,2,3,{number},7,"{name}",{number}'
    return f"{ids},{start},{end},0,0,8,0,32,64,1,1,640,1,1"


def write_70(path: Path, lines: list[str], *, end: str = "\n") -> Path:
    path.write_bytes(("\n".join([HEADER_70, *lines]) + end).encode())
    return path


def dispatches(*rows: tuple, process: str = "p", source: str = "made") -> pl.DataFrame:
    """(name, start, end[, correlation[, queue]]) as a dispatch table of one process."""
    full = [(*row, *((None, 1)[len(row) - 3 :])) for row in rows]
    return schema.DISPATCHES.conform(
        pl.DataFrame(
            [
                {
                    "Source": source,
                    "Process": process,
                    "Row": number,
                    "Kernel_Name": name,
                    "Start_Timestamp": start,
                    "End_Timestamp": end,
                    "Correlation_Id": correlation,
                    "Queue_Id": queue,
                    "Stream_Id": queue,
                    "Agent_Id": 1,
                    "Dispatch_Id": number,
                }
                for number, (name, start, end, correlation, queue) in enumerate(full, 1)
            ],
            infer_schema_length=None,
        )
        if full
        else schema.DISPATCHES.empty()
    )


def calls(*rows: tuple, process: str = "p", table: schema.Table = schema.API_CALLS) -> pl.DataFrame:
    """(function, start, end[, correlation[, thread]]) as a table of API calls or markers."""
    full = [(*row, *((None, 1)[len(row) - 3 :])) for row in rows]
    domain = "MARKER_CORE_RANGE_API" if table is schema.MARKERS else "HIP_RUNTIME_API_EXT"
    return table.conform(
        pl.DataFrame(
            [
                {
                    "Source": "made",
                    "Process": process,
                    "Row": number,
                    "Domain": domain,
                    "Function": name,
                    "Start_Timestamp": start,
                    "End_Timestamp": end,
                    "Correlation_Id": correlation,
                    "Thread_Id": thread,
                    "Process_Id": 1,
                }
                for number, (name, start, end, correlation, thread) in enumerate(full, 1)
            ],
            infer_schema_length=None,
        )
    )


def schema_markers(*rows: tuple) -> pl.DataFrame:
    """(message, start, end[, correlation[, thread]]) as a table of markers."""
    return calls(*rows, table=schema.MARKERS)


def copies(*rows: tuple, process: str = "p") -> pl.DataFrame:
    """(direction, start, end, correlation, stream) as a table of copies."""
    return schema.COPIES.conform(
        pl.DataFrame(
            [
                {
                    "Source": "made",
                    "Process": process,
                    "Row": number,
                    "Direction": direction,
                    "Start_Timestamp": start,
                    "End_Timestamp": end,
                    "Correlation_Id": correlation,
                    "Stream_Id": stream,
                }
                for number, (direction, start, end, correlation, stream) in enumerate(rows, 1)
            ],
            infer_schema_length=None,
        )
    )


def trace(*rows: tuple, **tables: pl.DataFrame) -> Trace:
    made = Trace(path=Path("made"), dispatches=dispatches(*rows))
    return made.replace_tables(**tables)


def comparable(frame: pl.DataFrame, *without: str) -> pl.DataFrame:
    """A table without its origin (and other columns), text as plain strings, for equality."""
    kept = [name for name in frame.columns if name not in ("Source", "Process", "Row", *without)]
    return frame.select(
        pl.col(name).cast(pl.String) if frame.schema[name] == pl.Categorical else pl.col(name)
        for name in kept
    )
