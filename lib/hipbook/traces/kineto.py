"""torch.profiler (Kineto) Chrome JSON, and the Chrome JSON that we write ourselves.

Times are decimal microseconds; they become integer nanoseconds from their text. A graph launch owns
hundreds of kernels through one correlation id. What the format does not know stays null.
"""

from pathlib import Path
from typing import Any

import polars as pl

from hipbook.traces import schema
from hipbook.traces.json_text import frame_of, load_cut_events, nanoseconds, read_all, whole
from hipbook.traces.trace import Rejected, SourceFile, Trace, TraceError

_KERNEL = {"kernel"}
_COPY = {"gpu_memcpy", "gpu_memset"}
_CALL = {"cuda_runtime", "cuda_driver", "hip_runtime", "runtime", "driver"}
_MARKER = {"user_annotation", "gpu_user_annotation"}
_DIRECTIONS = {
    "HtoD": "HOST_TO_DEVICE",
    "DtoH": "DEVICE_TO_HOST",
    "DtoD": "DEVICE_TO_DEVICE",
    "HtoH": "HOST_TO_HOST",
    "PtoP": "DEVICE_TO_DEVICE",
}


def read_kineto(path: Path, source: str) -> Trace:
    """One file, usually one rank. CPU operators and Python frames are counted, not kept."""
    data, short = read_all(path)
    document, cut = load_cut_events(data, source)
    del data
    events = document if isinstance(document, list) else document.get("traceEvents")
    head = document if isinstance(document, dict) else {}
    if not isinstance(events, list):
        raise TraceError(f"{source}: `traceEvents` is not a list")
    trace = Trace(path=path)
    if cut or short:
        trace.note(source, "truncated", "the file ends in the middle: read up to its last whole event")
    rank = (head.get("distributedInfo") or {}).get("rank")
    process = source.removesuffix(".gz").removesuffix(".json")
    if rank is not None:
        process += f" rank {rank}"
    sorted_out: dict[str, list[tuple[int, dict]]] = {"kernel": [], "copy": [], "call": [], "marker": []}
    others: dict[str, int] = {}
    for number, event in enumerate(events, 1):
        if not isinstance(event, dict):
            trace.rejected.append(Rejected(source, number, "not an event", str(event)[:80]))
            continue
        category, phase = event.get("cat"), event.get("ph")
        group = _group(category)
        if group and phase == "X":
            sorted_out[group].append((number, event))
        elif phase == "X" or group:
            others[str(category)] = others.get(str(category), 0) + 1
    reader = _Events(trace, source, process)
    trace.dispatches = reader.table(schema.DISPATCHES, sorted_out["kernel"], _kernel)
    trace.copies = reader.table(schema.COPIES, sorted_out["copy"], _copy)
    trace.api_calls = reader.table(schema.API_CALLS, sorted_out["call"], _call)
    trace.markers = reader.table(schema.MARKERS, sorted_out["marker"], _call)
    if others:
        text = ", ".join(f"{count} {name}" for name, count in sorted(others.items()))
        trace.note(source, "events_not_kept", f"events of other kinds: {text}", sum(others.values()))
    _facts(trace, head, source, rank)
    trace.sources.append(SourceFile(source, "torch json", "kineto", "dispatches", trace.dispatches.height))
    return trace


def _group(category: object) -> str:
    for group, names in (("kernel", _KERNEL), ("copy", _COPY), ("call", _CALL), ("marker", _MARKER)):
        if category in names:
            return group
    return ""


def _facts(trace: Trace, head: dict[str, Any], source: str, rank: object) -> None:
    devices = [one for one in head.get("deviceProperties") or [] if isinstance(one, dict)]
    names = [str(one.get("name", "")) for one in devices]
    trace.facts["device_names"] = names
    if rank is not None:
        trace.facts["rank"] = rank
        trace.facts["world_size"] = (head.get("distributedInfo") or {}).get("world_size")
    if any("AMD" in name for name in names) or any("hip" in key or "roc" in key for key in head):
        trace.note(
            source,
            "device_numbers",
            "device numbers are ROCm agents, not HIP ordinals: no name is joined to them",
        )


class _Events:
    """Events of one kind to one table; an event without a name or times is rejected by its position."""

    def __init__(self, trace: Trace, source: str, process: str) -> None:
        self.trace, self.source, self.process = trace, source, process

    def table(self, table: schema.Table, events: list[tuple[int, dict]], row) -> pl.DataFrame:
        if not events:
            return table.empty()
        start = nanoseconds([event.get("ts") for _, event in events])
        length = nanoseconds([event.get("dur") for _, event in events])
        rows = [row(event, _args(event)) for _, event in events]
        columns: dict[str, object] = {key: [one[key] for one in rows] for key in rows[0]}
        columns |= {
            "Source": self.source,
            "Process": self.process,
            "Row": [number for number, _ in events],
            "Start_Timestamp": start,
            "End_Timestamp": start + length,
        }
        frame = frame_of(table, columns, len(events))
        whole_rows = pl.all_horizontal(pl.col(name).is_not_null() for name in table.required)
        for number, *values in frame.filter(~whole_rows).select("Row", *table.required).rows():
            missing = [name for name, value in zip(table.required, values, strict=True) if value is None]
            reason = f"{table.name}: no usable value in {', '.join(missing)}"
            self.trace.rejected.append(Rejected(self.source, number, reason))
        return frame.filter(whole_rows)


def _args(event: dict) -> dict:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _name(event: dict) -> str | None:
    name = event.get("name")
    return name if isinstance(name, str) and name else None


def _kernel(event: dict, args: dict) -> dict[str, object]:
    group, grid = _three(args.get("block")), _three(args.get("grid"))
    stream = whole(args.get("stream"))
    stream = whole(event.get("tid")) if stream is None else stream
    device = whole(args.get("device"))
    return {
        "Agent_Id": whole(event.get("pid")) if device is None else device,
        "Queue_Id": stream,
        "Stream_Id": stream,
        "Kernel_Name": _name(event),
        "Correlation_Id": whole(args.get("correlation")),
        "LDS_Block_Size": whole(args.get("shared memory")),
        "VGPR_Count": whole(args.get("registers per thread")),
        **{f"Workgroup_Size_{axis}": size for axis, size in zip("XYZ", group, strict=True)},
        # Kineto's grid counts workgroups
        **{
            f"Grid_Size_{axis}": None if blocks is None or size is None else blocks * size
            for axis, blocks, size in zip("XYZ", grid, group, strict=True)
        },
    }


def _three(value: object) -> list[int | None]:
    if isinstance(value, list) and len(value) == 3:
        return [whole(one) for one in value]
    return [None, None, None]


def _copy(event: dict, args: dict) -> dict[str, object]:
    filled = event.get("cat") == "gpu_memset"
    text = f"{event.get('name', '')} {args.get('kind', '')}"
    direction = next((ours for theirs, ours in _DIRECTIONS.items() if theirs in text), None)
    return {
        "Direction": "FILL" if filled else direction or _name(event),
        "Stream_Id": whole(args.get("stream")),
        "Destination_Agent_Id": whole(args.get("device")),
        "Correlation_Id": whole(args.get("correlation")),
        "Size_Bytes": whole(args.get("bytes")),
    }


def _call(event: dict, args: dict) -> dict[str, object]:
    return {
        "Domain": event.get("cat"),
        "Function": _name(event),
        "Process_Id": whole(event.get("pid")),
        "Thread_Id": whole(event.get("tid")),
        "Correlation_Id": whole(args.get("correlation")),
    }
