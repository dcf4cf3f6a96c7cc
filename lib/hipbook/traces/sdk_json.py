"""rocprofv3 JSON (`*_results.json`): a list of processes, each with its own names and numbers.

Agents are named by handle, kernels by id, calls by (kind, operation) through the process's own string
table. Counter names and marker messages hang on ids as well.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from hipbook.traces import schema
from hipbook.traces.agents import agent_table
from hipbook.traces.csv_layout import prefix_of
from hipbook.traces.json_text import frame_of, json_kind, load, read_all, whole
from hipbook.traces.trace import Rejected, SourceFile, Trace, TraceError, merge

__all__ = ["json_kind", "read_sdk_json"]

_API_DOMAINS = ("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "ompt")


def read_sdk_json(path: Path, source: str) -> Trace:
    """Every process of the file in one trace. A record without its required values is rejected by
    its position; a list that is absent (JSON of an older release) is an empty table."""
    data, cut = read_all(path)
    if cut:
        raise TraceError(f"{source}: the compressed file ends early", fix="copy it again")
    document = load(data, source)
    del data
    processes = document.get("rocprofiler-sdk-tool") if isinstance(document, dict) else None
    if not isinstance(processes, list):
        raise TraceError(f"{source}: `rocprofiler-sdk-tool` is not a list of processes")
    several = len(processes) > 1
    parts = [
        _Process(one, source, f"{_prefix(source)}/{number}" if several else _prefix(source)).trace()
        for number, one in enumerate(processes)
        if isinstance(one, dict)
    ]
    if several:
        parts[0].note(source, "several_processes", "processes in one file", len(parts))
    return merge(path, parts)


def _prefix(source: str) -> str:
    return prefix_of(source.removesuffix(".gz").removesuffix(".json").removesuffix("_results"))


class _Process:
    """One process of the file and its lookup tables."""

    def __init__(self, data: dict[str, Any], source: str, process: str) -> None:
        self.source, self.process = source, process
        self.buffers: dict[str, list] = data.get("buffer_records") or {}
        self.callbacks: dict[str, list] = data.get("callback_records") or {}
        self.metadata = data.get("metadata") or {}
        self.agents = [one for one in data.get("agents") or [] if isinstance(one, dict)]
        self.agent_number = {
            one["id"]["handle"]: one.get("node_id", one.get("logical_node_id"))
            for one in self.agents
            if isinstance(one.get("id"), dict)
        }
        self.symbols = {one.get("kernel_id"): one for one in data.get("kernel_symbols") or []}
        strings = data.get("strings") or {}
        self.kinds = strings.get("buffer_records") or []
        self.markers = _pairs(strings.get("marker_api"))
        self.renamed = _pairs((strings.get("correlation_id") or {}).get("external"))
        self.counter_names = {
            one["id"]["handle"]: one.get("name")
            for one in data.get("counters") or []
            if isinstance(one.get("id"), dict)
        }
        self.no_symbol = 0
        self.out = Trace(path=Path(source))

    def trace(self) -> Trace:
        out = self.out
        out.dispatches = self._table(schema.DISPATCHES, "kernel_dispatch", self._dispatch)
        calls = [self._table(schema.API_CALLS, name, self._call) for name in _API_DOMAINS]
        out.api_calls = _stack(schema.API_CALLS, calls)
        out.markers = self._table(schema.MARKERS, "marker_api", self._marker)
        out.copies = self._table(schema.COPIES, "memory_copy", self._copy)
        allocations = [
            self._table(schema.ALLOCATIONS, name, self._allocation)
            for name in ("memory_allocation", "scratch_memory")
        ]
        out.allocations = _stack(schema.ALLOCATIONS, allocations)
        out.counters = self._counters()
        out.agents = agent_table(
            [
                {key: value for key, value in one.items() if not isinstance(value, dict | list)}
                for one in self.agents
            ],
            self.source,
            self.process,
        )
        node = self.metadata.get("node") or {}
        out.facts = {"host": node.get("hostname"), "pid": self.metadata.get("pid")}
        if self.no_symbol:
            out.note(self.source, "no_symbol", "rows whose kernel has no symbol: kept", self.no_symbol)
        streamless = out.dispatches.height and out.dispatches["Stream_Id"].null_count()
        if streamless:
            out.note(self.source, "no_stream", "dispatches without a stream id (older release)", streamless)
        renamed = sum(
            (_correlation(one, "external") or 0) in self.renamed for one in self._list("kernel_dispatch")
        )
        if renamed:
            out.note(self.source, "renamed_kernels", "kernels renamed by a marker range", renamed)
        out.sources.append(
            SourceFile(self.source, "rocprofv3 json", "rocprofv3", "dispatches", out.dispatches.height)
        )
        return out

    def _list(self, name: str) -> list:
        found = self.buffers.get(name)
        return found if isinstance(found, list) else []

    def _table(self, table: schema.Table, name: str, row: Callable[[dict], dict[str, object]]):
        records = self._list(name)
        if not records:
            return table.empty()
        return self._frame(table, name, records, row)

    def _frame(self, table: schema.Table, name: str, records: list, row: Callable[[dict], dict]):
        columns: dict[str, list] = {}
        numbers: list[int] = []
        for number, record in enumerate(records, 1):
            try:
                values = row(record)
            except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
                self._reject(name, number, f"{type(error).__name__}: {error}", record)
                continue
            missing = [one for one in table.required if values[one] is None]
            if missing:
                self._reject(name, number, f"no value in {', '.join(missing)}", record)
                continue
            numbers.append(number)
            if not columns:
                columns = {key: [] for key in values}
            for key, value in values.items():
                columns[key].append(value)
        columns["Row"] = numbers
        return frame_of(table, {**columns, "Source": self.source, "Process": self.process}, len(numbers))

    def _reject(self, name: str, number: int, reason: str, record: object) -> None:
        self.out.rejected.append(Rejected(self.source, number, f"{name}: {reason}", str(record)[:80]))

    # --- rows -----------------------------------------------------------------------------------

    def _agent(self, value: object) -> int | None:
        handle = value.get("handle") if isinstance(value, dict) else value
        return self.agent_number.get(handle)

    def _info(self, info: dict) -> dict[str, object]:
        symbol = self.symbols.get(info["kernel_id"]) or {}
        return {
            "Agent_Id": self._agent(info.get("agent_id")),
            "Queue_Id": _handle(info.get("queue_id")),
            "Dispatch_Id": whole(info.get("dispatch_id")),
            "Kernel_Id": whole(info["kernel_id"]),
            "LDS_Block_Size": whole(info.get("group_segment_size")),
            "Scratch_Size": whole(info.get("private_segment_size")),
            "VGPR_Count": whole(symbol.get("arch_vgpr_count")),
            "Accum_VGPR_Count": whole(symbol.get("accum_vgpr_count")),
            "SGPR_Count": whole(symbol.get("sgpr_count")),
        }

    def _kernel_name(self, kernel_id: object, record: dict) -> str | None:
        renamed = self.renamed.get(_correlation(record, "external"))
        if renamed:
            return renamed
        symbol = self.symbols.get(kernel_id) or {}
        for key in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name", "truncated_kernel_name"):
            if symbol.get(key):
                return symbol[key]
        self.no_symbol += 1
        return f"<kernel {kernel_id}, no symbol>"

    def _dispatch(self, record: dict) -> dict[str, object]:
        info = record["dispatch_info"]
        group, grid = info["workgroup_size"], info["grid_size"]
        return {
            **self._info(info),
            "Stream_Id": _handle(record.get("stream_id")),
            "Thread_Id": whole(record.get("thread_id")),
            "Kernel_Name": self._kernel_name(info["kernel_id"], record),
            "Correlation_Id": _correlation(record, "internal"),
            **_times(record),
            **{f"Workgroup_Size_{axis.upper()}": whole(group[axis]) for axis in "xyz"},
            **{f"Grid_Size_{axis.upper()}": whole(grid[axis]) for axis in "xyz"},
        }

    def _words(self, record: dict) -> tuple[str | None, str | None]:
        """(kind, operation) of a record as words, through the process's string table."""
        kind = self.kinds[record["kind"]]
        operations = kind.get("operations") or []
        number = record.get("operation")
        known = isinstance(number, int) and 0 <= number < len(operations)
        return kind.get("kind"), operations[number] if known else None

    def _call(self, record: dict) -> dict[str, object]:
        kind, operation = self._words(record)
        return {
            "Domain": kind,
            "Function": operation,
            "Process_Id": whole(self.metadata.get("pid")),
            "Thread_Id": whole(record.get("thread_id")),
            "Correlation_Id": _correlation(record, "internal"),
            **_times(record),
        }

    def _marker(self, record: dict) -> dict[str, object]:
        row = self._call(record)
        message = self.markers.get(_correlation(record, "internal"))
        return {**row, "Function": message or row["Function"]}

    def _copy(self, record: dict) -> dict[str, object]:
        _, operation = self._words(record)
        return {
            "Direction": operation.removeprefix("MEMORY_COPY_") if operation else None,
            "Stream_Id": _handle(record.get("stream_id")),
            "Source_Agent_Id": self._agent(record.get("src_agent_id")),
            "Destination_Agent_Id": self._agent(record.get("dst_agent_id")),
            "Correlation_Id": _correlation(record, "internal"),
            **_times(record),
            "Size_Bytes": whole(record.get("bytes")),
        }

    def _allocation(self, record: dict) -> dict[str, object]:
        kind, operation = self._words(record)
        address = record.get("address")
        return {
            "Kind": kind,
            "Operation": operation,
            "Agent_Id": self._agent(record.get("agent_id")),
            "Queue_Id": _handle(record.get("queue_id")),
            "Thread_Id": whole(record.get("thread_id")),
            "Allocation_Size": whole(record.get("allocation_size")),
            "Address": int(address, 16) if isinstance(address, str) else whole(address),
            "Correlation_Id": _correlation(record, "internal"),
            **_times(record),
        }

    def _counters(self):
        flat = []
        for one in self.callbacks.get("counter_collection") or []:
            try:
                flat += [(one["dispatch_data"], one, value) for value in one["records"]]
            except (KeyError, TypeError) as error:
                self._reject("counter_collection", len(flat) + 1, f"{type(error).__name__}: {error}", one)
        return (
            self._frame(schema.COUNTERS, "counter_collection", flat, self._counter)
            if flat
            else schema.COUNTERS.empty()
        )

    def _counter(self, item: tuple[dict, dict, dict]) -> dict[str, object]:
        data, record, value = item
        info = data["dispatch_info"]
        group, grid = info["workgroup_size"], info["grid_size"]
        return {
            "Pass": self.process.rsplit("/", 1)[-1],
            **self._info(info),
            "Correlation_Id": _correlation(data, "internal"),
            "Process_Id": whole(self.metadata.get("pid")),
            "Thread_Id": whole(record.get("thread_id")),
            "Grid_Size": grid["x"] * grid["y"] * grid["z"],
            "Kernel_Name": self._kernel_name(info["kernel_id"], data),
            "Workgroup_Size": group["x"] * group["y"] * group["z"],
            "Counter_Name": self.counter_names.get(value["counter_id"]["handle"]),
            "Counter_Value": float(value["value"]),
            **_times(data),
        }


def _pairs(entries: object) -> dict[int, str]:
    if not isinstance(entries, list):
        return {}
    return {
        one["key"]: one["value"]
        for one in entries
        if isinstance(one, dict) and "key" in one and "value" in one
    }


def _handle(value: object) -> int | None:
    return whole(value.get("handle")) if isinstance(value, dict) else whole(value)


def _correlation(record: dict, which: str) -> int | None:
    value = record.get("correlation_id")
    return whole(value.get(which)) if isinstance(value, dict) else whole(value)


def _times(record: dict) -> dict[str, int | None]:
    return {
        "Start_Timestamp": whole(record.get("start_timestamp")),
        "End_Timestamp": whole(record.get("end_timestamp")),
    }


def _stack(table: schema.Table, frames: list[pl.DataFrame]) -> pl.DataFrame:
    filled = [frame for frame in frames if frame.height]
    return pl.concat(filled, how="vertical") if filled else table.empty()
