"""Writing rocprofv3 CSV (7.0 columns), so that other people's tools read our runs.

Written as rocprofv3 writes it, with one difference: a quote inside a string is doubled, which every CSV
reader understands and ours undoes. A value the trace does not have is an empty field, not a zero.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from hipbook.errors import BadArgument
from hipbook.traces.trace import Trace

_KERNELS_70 = (
    "Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name",
    "Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size", "Scratch_Size", "VGPR_Count",
    "Accum_VGPR_Count", "SGPR_Count", "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z",
    "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z",
)  # fmt: skip
_CALLS = (
    "Domain",
    "Function",
    "Process_Id",
    "Thread_Id",
    "Correlation_Id",
    "Start_Timestamp",
    "End_Timestamp",
)
_COPIES = (
    "Kind", "Direction", "Stream_Id", "Source_Agent_Id", "Destination_Agent_Id", "Correlation_Id",
    "Start_Timestamp", "End_Timestamp",
)  # fmt: skip
_COUNTERS = (
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size",
    "Kernel_Id", "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count",
    "Accum_VGPR_Count", "SGPR_Count", "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp",
)  # fmt: skip


def write_csv(trace: Trace, folder: Path, prefix: str) -> list[Path]:
    """`folder/prefix_kernel_trace.csv` and one file for every other table that has rows; their paths.

    The trace must be of one process, as rocprofv3's files are.
    """
    processes = trace.dispatches["Process"].n_unique()
    if processes > 1:
        raise BadArgument("trace", f"{processes} processes", "one process: rocprofv3 writes a file for each")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, rows, columns, fixed in (
        ("kernel_trace", trace.dispatches, _KERNELS_70, {"Kind": "KERNEL_DISPATCH"}),
        ("hip_api_trace", trace.api_calls, _CALLS, {}),
        ("marker_api_trace", trace.markers, _CALLS, {}),
        ("memory_copy_trace", trace.copies, _COPIES, {"Kind": "MEMORY_COPY"}),
        ("counter_collection", trace.counters, _COUNTERS, {}),
    ):
        if rows.height:  # a domain without data writes no file
            path = folder / f"{prefix}_{name}.csv"
            write_atomically(path, _csv_text(rows, columns, fixed))
            written.append(path)
    return written


def _csv_text(rows: pl.DataFrame, columns: Iterable[str], fixed: dict[str, str]) -> str:
    """The rows with rocprofv3's quoting: text in quotes, numbers bare, the header in quotes."""
    parts = []
    for name in columns:
        if name in fixed:
            parts.append(pl.lit(fixed[name]).alias(name))
            continue
        column = pl.col(name)
        kind = rows.schema[name]
        if name.endswith("Agent_Id"):
            parts.append(
                pl.when(column.is_null())
                .then(pl.lit(""))
                .otherwise(pl.format("Agent {}", column))
                .alias(name)
            )
        elif name == "Direction":
            parts.append(pl.format("MEMORY_COPY_{}", column.cast(pl.String)).alias(name))
        elif kind == pl.Int64 and name.endswith("_Timestamp"):
            parts.append(_unsigned(column).alias(name))
        else:
            parts.append(column.cast(pl.String) if kind == pl.Categorical else column)
    table = rows.select(parts)
    text = table.write_csv(quote_style="non_numeric", include_header=False)
    return ",".join(f'"{name}"' for name in columns) + "\n" + text


def _unsigned(column: pl.Expr) -> pl.Expr:
    """A timestamp as the profiler prints it: -1 is its 2^64-1."""
    return pl.when(column < 0).then(column.cast(pl.Int128) + (1 << 64)).otherwise(column.cast(pl.Int128))


def write_atomically(path: Path, text: str) -> None:
    """Write under a temporary name, then rename: nobody reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
