"""Writing a rocpd database of schema 3: base tables with their real columns, for fixtures and benches.

Views, indexes and the tables we never fill are left out, so this is no replacement for the profiler's own
file: it is what our reader, and any other that reads base tables, needs.
"""

import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from hipbook.errors import BadArgument
from hipbook.traces.trace import Trace

_COLUMNS = {
    "metadata": "id tag value",
    "string": "id guid string",
    "info_node": "id guid hash machine_id system_name hostname release version hardware_name domain_name",
    "info_process": "id guid nid ppid pid init fini start end command environment extdata",
    "info_thread": "id guid nid ppid pid tid name start end extdata",
    "info_agent": """id guid nid pid type absolute_index logical_index type_index uuid name model_name
        vendor_name product_name user_name extdata""",
    "info_kernel_symbol": """id guid nid pid code_object_id kernel_name display_name kernel_object
        kernarg_segment_size kernarg_segment_alignment group_segment_size private_segment_size sgpr_count
        arch_vgpr_count accum_vgpr_count extdata""",
    "info_pmc": """id guid nid pid agent_id target_arch event_code instance_id name symbol description
        long_description component units value_type block expression is_constant is_derived extdata""",
    "event": "id guid category_id stack_id parent_stack_id correlation_id call_stack line_info extdata",
    "kernel_dispatch": """id guid nid pid tid agent_id kernel_id dispatch_id queue_id stream_id start end
        private_segment_size group_segment_size workgroup_size_x workgroup_size_y workgroup_size_z
        grid_size_x grid_size_y grid_size_z region_name_id event_id extdata""",
    "region": "id guid nid pid tid start end name_id event_id extdata",
    "memory_copy": """id guid nid pid tid start end name_id dst_agent_id dst_address src_agent_id
        src_address size queue_id stream_id region_name_id event_id extdata""",
    "pmc_event": "id guid event_id pmc_id value extdata",
}
_DISPATCH = {
    "id": "Row",
    "tid": "Thread_Id",
    "agent_id": "Agent_Id",
    "dispatch_id": "Dispatch_Id",
    "queue_id": "Queue_Id",
    "stream_id": "Stream_Id",
    "start": "Start_Timestamp",
    "end": "End_Timestamp",
    "private_segment_size": "Scratch_Size",
    "group_segment_size": "LDS_Block_Size",
    **{f"workgroup_size_{axis.lower()}": f"Workgroup_Size_{axis}" for axis in "XYZ"},
    **{f"grid_size_{axis.lower()}": f"Grid_Size_{axis}" for axis in "XYZ"},
}
_COPY = {
    "id": "Row",
    "start": "Start_Timestamp",
    "end": "End_Timestamp",
    "size": "Size_Bytes",
    "src_agent_id": "Source_Agent_Id",
    "dst_agent_id": "Destination_Agent_Id",
    "stream_id": "Stream_Id",
}
_TEXT = {
    "guid",
    "tag",
    "value",
    "string",
    "type",
    "name",
    "extdata",
    "kernel_name",
    "display_name",
    "command",
}


def write_rocpd(trace: Trace, path: Path, *, guid: str | None = None, schema_version: str = "3.0.0") -> Path:
    """Write dispatches, copies, API calls, markers and counters of one process; returns the path.

    BadArgument when the file exists: a database is made, never changed.
    """
    if path.exists():
        raise BadArgument("path", path, "a file that does not exist yet")
    guid = guid or str(uuid.uuid5(uuid.NAMESPACE_URL, str(trace.path)))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        _Writer(connection, guid).write(trace, schema_version)
    connection.close()
    return path


class _Writer:
    """One process's tables; strings and kernels get their ids as they come."""

    def __init__(self, connection: sqlite3.Connection, guid: str) -> None:
        self.connection, self.guid = connection, guid
        self.suffix = "_" + guid.replace("-", "_")
        self.strings: dict[str, int] = {}
        self.events = 0
        for table, columns in _COLUMNS.items():
            typed = ", ".join(
                f'"{name}" '
                + ("TEXT" if name in _TEXT else "INTEGER")
                + (" PRIMARY KEY" if name == "id" else "")
                for name in columns.split()
            )
            connection.execute(f'CREATE TABLE "rocpd_{table}{self.suffix}" ({typed})')

    def insert(self, table: str, rows: Iterable[dict[str, object]]) -> None:
        """Rows as mappings of column to value; a column left out is NULL, guid and extdata are filled in."""
        columns = _COLUMNS[table].split()
        marks = ", ".join("?" * len(columns))
        filled = ({"guid": self.guid, "extdata": "{}", "nid": 1, "pid": 1, **row} for row in rows)
        self.connection.executemany(
            f'INSERT INTO "rocpd_{table}{self.suffix}" VALUES ({marks})',
            ([row.get(name) for name in columns] for row in filled),
        )

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def event(self, category: str, stack: object) -> int:
        self.events += 1
        row = {
            "id": self.events,
            "category_id": self.string(category),
            "stack_id": stack,
            "parent_stack_id": stack,
        }
        self._pending.append({**row, "correlation_id": 0})  # as in real files
        return self.events

    def write(self, trace: Trace, schema_version: str) -> None:
        self._pending: list[dict[str, object]] = []
        self.insert(
            "metadata",
            [
                {"id": 1, "tag": "schema_version", "value": schema_version},
                {"id": 2, "tag": "uuid", "value": self.suffix},
                {"id": 3, "tag": "guid", "value": self.guid},
            ],
        )
        self.insert("info_node", [{"id": 1, "hash": 1, "machine_id": "0", "hostname": "node"}])
        self.insert("info_process", [{"id": 1, "ppid": 0, "pid": 1, "command": "app", "environment": "{}"}])
        threads = pl.concat(
            [trace.dispatches["Thread_Id"], trace.api_calls["Thread_Id"], trace.markers["Thread_Id"]]
        )
        self.insert("info_thread", [{"id": one, "tid": one} for one in threads.drop_nulls().unique().sort()])
        agents = trace.dispatches["Agent_Id"].drop_nulls().unique().sort().to_list()
        self.insert("info_agent", [{"id": one, "type": "GPU", "absolute_index": one} for one in agents])
        events = self._dispatches(trace)
        self._calls(trace)
        self._copies(trace)
        self._counters(trace, events)
        self.insert("event", self._pending)
        self.insert("string", [{"id": number, "string": text} for text, number in self.strings.items()])

    def _dispatches(self, trace: Trace) -> dict[int | None, int]:
        """Returns the event of each dispatch id."""
        columns = ("VGPR_Count", "Accum_VGPR_Count", "SGPR_Count")
        symbols: dict[tuple, int] = {}
        events: dict[int | None, int] = {}

        def rows() -> Iterator[dict[str, object]]:
            for row in trace.dispatches.iter_rows(named=True):
                key = (row["Kernel_Name"], *(row[name] for name in columns))
                event = self.event("KERNEL_DISPATCH", row["Correlation_Id"])
                events[row["Dispatch_Id"]] = event
                yield {
                    **{theirs: row[ours] for theirs, ours in _DISPATCH.items()},
                    "kernel_id": symbols.setdefault(key, len(symbols) + 1),
                    "event_id": event,
                }

        self.insert("kernel_dispatch", rows())
        registers = ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count")
        self.insert(
            "info_kernel_symbol",
            (
                {"id": number, "kernel_name": f"{key[0]}.kd", "display_name": key[0]}
                | dict(zip(registers, key[1:], strict=True))
                for key, number in symbols.items()
            ),
        )
        return events

    def _calls(self, trace: Trace) -> None:
        calls = [*trace.api_calls.iter_rows(named=True), *trace.markers.iter_rows(named=True)]
        self.insert(
            "region",
            (
                {
                    "id": number,
                    "tid": row["Thread_Id"],
                    "start": row["Start_Timestamp"],
                    "end": row["End_Timestamp"],
                    "name_id": self.string(row["Function"]),
                    "event_id": self.event(row["Domain"], row["Correlation_Id"]),
                }
                for number, row in enumerate(calls, 1)
            ),
        )

    def _copies(self, trace: Trace) -> None:
        self.insert(
            "memory_copy",
            (
                {
                    **{theirs: row[ours] for theirs, ours in _COPY.items()},
                    "name_id": self.string(f"MEMORY_COPY_{row['Direction']}"),
                    "event_id": self.event("MEMORY_COPY", row["Correlation_Id"]),
                }
                for row in trace.copies.iter_rows(named=True)
            ),
        )

    def _counters(self, trace: Trace, events: dict[int | None, int]) -> None:
        names = trace.counters["Counter_Name"].cast(pl.String).unique().sort().to_list()
        numbers = {name: number for number, name in enumerate(names, 1)}
        self.insert("info_pmc", [{"id": at, "name": name, "symbol": name} for name, at in numbers.items()])
        self.insert(
            "pmc_event",
            (
                {
                    "id": number,
                    "event_id": events.get(row["Dispatch_Id"]),
                    "pmc_id": numbers[row["Counter_Name"]],
                    "value": row["Counter_Value"],
                }
                for number, row in enumerate(trace.counters.iter_rows(named=True), 1)
            ),
        )
