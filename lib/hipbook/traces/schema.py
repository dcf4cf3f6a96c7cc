"""The columns of every trace table: one place, whatever the trace came from.

Names are rocprofv3's own (ROCm 7.0 spelling). Every time is an integer count of nanoseconds on the
profiler's clock; nothing passes through a float. A timestamp of 2^63 or more, such as the profiler's
2^64-1 for "not recorded", is stored as the same 64 bits with a sign (2^64-1 is -1), which is also how a
rocpd database stores it. A column that a source does not have is null, never zero.

This module imports nothing of ours.
"""

from dataclasses import dataclass, field

import polars as pl

INT = pl.Int64
TEXT = pl.Categorical  # few distinct values over many rows: four bytes a row
FLOAT = pl.Float64

# Where a row came from: the same three columns open every table.
ORIGIN = {
    "Source": (TEXT, "file the row was read from, relative to the path given"),
    "Process": (TEXT, "process identity: the GUID where the format has one, else the file's own prefix"),
    "Row": (INT, "line of a CSV (the header is 1), id of a database row, position in a JSON list"),
}
TIMES = {
    "Start_Timestamp": (INT, "ns, profiler clock"),
    "End_Timestamp": (INT, "ns, profiler clock"),
}


@dataclass(frozen=True)
class Table:
    """One kind of table: its columns in order, which must be there, and which holds free text.

    `columns` maps a name to (polars type, meaning). `required` columns missing from a file are an
    error; a row without a value in one is rejected. `text` is the one column whose content the CSV
    writer may have left unescaped (kernel names, marker messages).
    """

    name: str
    columns: dict[str, tuple[type[pl.DataType] | pl.DataType, str]]
    required: tuple[str, ...]
    text: str | None = None
    aliases: dict[str, str] = field(default_factory=dict)  # lower-case header -> our column

    @property
    def types(self) -> dict[str, type[pl.DataType] | pl.DataType]:
        return {name: kind for name, (kind, _) in self.columns.items()}

    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.types)

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`frame` with exactly this table's columns and types; what it lacks is null."""
        columns = [
            pl.col(name).cast(kind) if name in frame.columns else pl.lit(None, dtype=kind).alias(name)
            for name, kind in self.types.items()
        ]
        return frame.select(columns)


DISPATCHES = Table(
    "dispatches",
    {
        **ORIGIN,
        "Agent_Id": (INT, "agent number as in `Agent 1`; torch traces: the device number they print"),
        "Queue_Id": (INT, "hardware queue; torch traces: the stream, which is all they know"),
        "Stream_Id": (INT, "HIP stream"),
        "Thread_Id": (INT, "thread that launched it"),
        "Dispatch_Id": (INT, "number of the dispatch in its process; restarts in every counter pass"),
        "Kernel_Id": (INT, "kernel symbol in its process"),
        "Kernel_Name": (TEXT, "as the profiler wrote it"),
        "Correlation_Id": (INT, "the API call that launched it; many dispatches of one graph share it"),
        **TIMES,
        "LDS_Block_Size": (INT, "bytes; direct CSV rounds static LDS up to 512, rocpd has the real figure"),
        "Scratch_Size": (INT, "bytes a work-item; `Private_Segment_Size` up to 6.4"),
        "VGPR_Count": (INT, "vector registers"),
        "Accum_VGPR_Count": (INT, "accumulation registers (CDNA)"),
        "SGPR_Count": (INT, "scalar registers"),
        "Workgroup_Size_X": (INT, "work-items"),
        "Workgroup_Size_Y": (INT, "work-items"),
        "Workgroup_Size_Z": (INT, "work-items"),
        "Grid_Size_X": (INT, "work-items, not workgroups"),
        "Grid_Size_Y": (INT, "work-items"),
        "Grid_Size_Z": (INT, "work-items"),
        "Graph_Exec_Id": (INT, "graph instance, 2026 rocpd convert"),
        "Graph_Node_Id": (INT, "node in the graph, 2026 rocpd convert"),
    },
    required=("Kernel_Name", "Start_Timestamp", "End_Timestamp"),
    text="Kernel_Name",
    aliases={
        "private_segment_size": "Scratch_Size",
        "group_segment_size": "LDS_Block_Size",
        # rocprof v1, results.csv
        "index": "Dispatch_Id",
        "kernelname": "Kernel_Name",
        "gpu-id": "Agent_Id",
        "queue-id": "Queue_Id",
        "tid": "Thread_Id",
        "grd": "Grid_Size_X",
        "wgr": "Workgroup_Size_X",
        "lds": "LDS_Block_Size",
        "scr": "Scratch_Size",
        "vgpr": "VGPR_Count",
        "arch_vgpr": "VGPR_Count",
        "accum_vgpr": "Accum_VGPR_Count",
        "sgpr": "SGPR_Count",
        "beginns": "Start_Timestamp",
        "endns": "End_Timestamp",
    },
)

_CALLS = {
    **ORIGIN,
    "Domain": (TEXT, "HIP_RUNTIME_API_EXT, HSA_CORE_API, ... ; torch traces: cuda_runtime, cuda_driver"),
    "Function": (TEXT, "function or marker message"),
    "Process_Id": (INT, "pid; not an identity (pids repeat between runs of one container)"),
    "Thread_Id": (INT, "calling thread"),
    "Correlation_Id": (INT, "joins dispatches and copies to this call"),
    **TIMES,
}
API_CALLS = Table(
    "api_calls", _CALLS, ("Function", "Start_Timestamp", "End_Timestamp"), "Function",
    aliases={"name": "Function"},
)  # fmt: skip
MARKERS = Table(
    "markers", _CALLS, ("Function", "Start_Timestamp", "End_Timestamp"), "Function",
    aliases={"name": "Function"},
)  # fmt: skip
COPIES = Table(
    "copies",
    {
        **ORIGIN,
        "Direction": (TEXT, "HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST or FILL"),
        "Stream_Id": (INT, "HIP stream"),
        "Source_Agent_Id": (INT, "agent copied from"),
        "Destination_Agent_Id": (INT, "agent copied to"),
        "Correlation_Id": (INT, "the API call that asked for it"),
        **TIMES,
        "Size_Bytes": (INT, "bytes; the CSV has no byte count"),
    },
    required=("Direction", "Start_Timestamp", "End_Timestamp"),
)
ALLOCATIONS = Table(
    "allocations",
    {
        **ORIGIN,
        "Kind": (TEXT, "MEMORY_ALLOCATION or SCRATCH_MEMORY"),
        "Operation": (TEXT, "as the profiler wrote it"),
        "Agent_Id": (INT, "null for a FREE"),
        "Queue_Id": (INT, "scratch only"),
        "Thread_Id": (INT, "scratch only"),
        "Allocation_Size": (INT, "bytes"),
        "Address": (INT, "device address"),
        "Correlation_Id": (INT, "the API call"),
        **TIMES,
    },
    required=("Operation", "Start_Timestamp", "End_Timestamp"),
)
COUNTERS = Table(
    "counters",
    {
        **ORIGIN,
        "Pass": (TEXT, "counter pass: dispatch ids restart in each, so passes are never joined by them"),
        "Correlation_Id": (INT, "the API call that launched the dispatch"),
        "Dispatch_Id": (INT, "number of the dispatch within its pass"),
        "Agent_Id": (INT, "agent number"),
        "Queue_Id": (INT, "hardware queue"),
        "Process_Id": (INT, "pid"),
        "Thread_Id": (INT, "thread that launched it"),
        "Grid_Size": (INT, "work-items, x*y*z"),
        "Kernel_Id": (INT, "kernel symbol"),
        "Kernel_Name": (TEXT, "as the profiler wrote it"),
        "Workgroup_Size": (INT, "work-items, x*y*z"),
        "LDS_Block_Size": (INT, "bytes"),
        "Scratch_Size": (INT, "bytes a work-item"),
        "VGPR_Count": (INT, "vector registers"),
        "Accum_VGPR_Count": (INT, "accumulation registers"),
        "SGPR_Count": (INT, "scalar registers"),
        "Counter_Name": (TEXT, "see the counter names in docs/traces.md"),
        "Counter_Value": (FLOAT, "as the profiler wrote it; all-zero columns are marked unsupported"),
        **TIMES,
    },
    required=("Dispatch_Id", "Kernel_Name", "Counter_Name", "Counter_Value"),
    text="Kernel_Name",
)
AGENTS = Table(
    "agents",
    {
        **ORIGIN,
        "Agent_Id": (INT, "agent number, as in the other tables"),
        "Agent_Type": (TEXT, "CPU or GPU"),
        "Name": (TEXT, "gfx1200, ..."),
        "Product_Name": (TEXT, "AMD Radeon RX 9060 XT, ..."),
        "Wave_Front_Size": (INT, "lanes"),
        "Cu_Count": (INT, "compute units"),
        "Facts": (pl.String, "every other column of the source, JSON; integers kept exactly"),
    },
    required=("Agent_Id",),
)
REPORTED = Table(
    "reported_stats",
    {
        **ORIGIN,
        "Domain": (TEXT, "from the file's name: kernel, hip_api, domain, ..."),
        "Name": (TEXT, "function, kernel or domain"),
        "Calls": (INT, "calls"),
        "Total_Ns": (INT, "ns; the profiler's own sums, kept to be compared, never used"),
    },
    required=("Name", "Calls"),
    text="Name",
    aliases={"totaldurationns": "Total_Ns"},
)

TABLES = {
    table.name: table
    for table in (DISPATCHES, API_CALLS, MARKERS, COPIES, ALLOCATIONS, COUNTERS, AGENTS, REPORTED)
}
