"""Writing Chrome JSON that Perfetto and chrome://tracing open.

One track per queue and per CPU thread, launches joined to their kernels by arrows. Categories and argument
names are Kineto's, so that torch's tools and our own reader understand them.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from hipbook.errors import BadArgument
from hipbook.traces.trace import Trace
from hipbook.traces.write import write_atomically

_DIRECTIONS = {
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "HOST_TO_HOST": "HtoH",
}


def write_chrome(trace: Trace, path: Path) -> Path:
    """Write the dispatches, copies, API calls and markers; returns the path.

    Rows without usable times cannot be drawn: BadArgument says how many there are.
    """
    for name in ("dispatches", "copies", "api_calls", "markers"):
        table = trace.tables()[name]
        lost = table.filter(
            (pl.col("Start_Timestamp") <= 0) | (pl.col("End_Timestamp") < pl.col("Start_Timestamp"))
        )
        if lost.height:
            raise BadArgument(
                "trace", f"{lost.height} {name} without usable times", "every row has times",
                fix="take a window of time first: it leaves them out",
            )  # fmt: skip
    lines = ",\n".join(_events(trace))
    write_atomically(path, f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n')
    return path


def microseconds(nanoseconds: int) -> str:
    """Decimal microseconds of integer ns: written as text, because a double loses the last digits."""
    sign = "-" if nanoseconds < 0 else ""
    whole, part = divmod(abs(nanoseconds), 1000)
    return f"{sign}{whole}.{part:03d}"


def _events(trace: Trace) -> Iterator[str]:
    for row in trace.dispatches.to_dicts():
        track = (f"GPU {_or(row['Agent_Id'], '?')}", f"queue {_or(row['Queue_Id'], '?')}")
        yield _event("kernel", row["Kernel_Name"], track, row, _kernel_args(row))
        yield from _arrow("f", row, track)
    for row in trace.copies.to_dicts():
        filled = row["Direction"] == "FILL"
        track = (f"GPU {_or(row['Destination_Agent_Id'], '?')}", f"copies {_or(row['Stream_Id'], '?')}")
        args = {
            "device": row["Destination_Agent_Id"],
            "stream": row["Stream_Id"],
            "correlation": row["Correlation_Id"],
            "bytes": row["Size_Bytes"],
            "kind": _DIRECTIONS.get(row["Direction"], row["Direction"]),
        }
        yield _event("gpu_memset" if filled else "gpu_memcpy", row["Direction"], track, row, args)
        yield from _arrow("f", row, track)
    for category, table in (("hip_runtime", trace.api_calls), ("user_annotation", trace.markers)):
        for row in table.to_dicts():
            track = (_or(row["Process_Id"], 0), _or(row["Thread_Id"], 0))
            yield _event(category, row["Function"], track, row, {"correlation": row["Correlation_Id"]})
            if category == "hip_runtime":
                yield from _arrow("s", row, track)


def _or(value: object, other: object) -> object:
    return other if value is None else value


def _kernel_args(row: dict) -> dict[str, object]:
    args = {
        "device": row["Agent_Id"],
        "stream": _or(row["Stream_Id"], row["Queue_Id"]),
        "correlation": row["Correlation_Id"],
        "registers per thread": row["VGPR_Count"],
        "shared memory": row["LDS_Block_Size"],
    }
    group = [row[f"Workgroup_Size_{axis}"] for axis in "XYZ"]
    grid = [row[f"Grid_Size_{axis}"] for axis in "XYZ"]
    if all(group) and None not in grid:  # Kineto's grid counts workgroups
        args |= {"block": group, "grid": [items // size for items, size in zip(grid, group, strict=True)]}
    return args


def _event(category: str, name: object, track: tuple, row: dict, args: dict[str, object]) -> str:
    start, end = row["Start_Timestamp"], row["End_Timestamp"]
    rest = {
        "ph": "X",
        "cat": category,
        "name": str(name),
        "pid": track[0],
        "tid": track[1],
        "args": {key: value for key, value in args.items() if value is not None},
    }
    return f'{{"ts": {microseconds(start)}, "dur": {microseconds(end - start)}, {json.dumps(rest)[1:]}'


def _arrow(phase: str, row: dict, track: tuple) -> Iterator[str]:
    """One end of the arrow from a launch ("s") to its device work ("f")."""
    if row["Correlation_Id"] is None:
        return
    rest = {
        "ph": phase,
        "cat": "ac2g",
        "name": "ac2g",
        "id": row["Correlation_Id"],
        "pid": track[0],
        "tid": track[1],
    }
    if phase == "f":
        rest["bp"] = "e"
    yield f'{{"ts": {microseconds(row["Start_Timestamp"])}, {json.dumps(rest)[1:]}'
