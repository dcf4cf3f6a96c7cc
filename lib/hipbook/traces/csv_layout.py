"""Which table a CSV header belongs to, and which release wrote it.

Drift is permanent: columns are matched without regard to case, known renamings are followed, a column
nobody knows is ignored and named in the log.
"""

import re

from hipbook.traces import schema
from hipbook.traces.csv_rows import Field, Layout, fields_of
from hipbook.traces.trace import TraceError

# Files the profiler writes that hold no table of ours: recognised, so that a folder that holds
# them reads without complaint, and named in the log.
NOT_READ = {
    "sample_timestamp": "PC sampling",
    "shader_engine": "thread trace",
}
_DOMAIN = re.compile(
    r"(?:^|[_/])((?:kernel|hip(?:_api|_runtime(?:_api)?|_compiler?(?:_api)?)?|hsa(?:_[a-z]+)*?(?:_api)?|"
    r"memory_copy|memory_allocation|scratch_memory|marker(?:_api)?|rccl(?:_api)?|rocdecode(?:_api)?|"
    r"rocjpeg(?:_api)?|ompt|domain)_(?:trace|stats)|counter_collection|agent_info)\.csv(?:\.gz)?$",
    re.IGNORECASE,
)
OWN_DOMAINS = {  # file-name ending -> table, where the name is the profiler's own
    "kernel_trace": "dispatches",
    "memory_copy_trace": "copies",
    "memory_allocation_trace": "allocations",
    "scratch_memory_trace": "allocations",
    "marker_api_trace": "markers",
    "counter_collection": "counters",
    "agent_info": "agents",
}
_V1_KNOWN = {
    "queue-index", "pid", "fbar", "sig", "obj", "wave_size", "dispatchns", "completens", "durationns",
}  # fmt: skip


def header_fields(line: str) -> list[str]:
    return [name.strip() for name in fields_of(line)]


def domain_of(file_name: str) -> str:
    """`host/12_hip_api_trace.csv` -> `hip_api_trace`; "" where the name says nothing."""
    match = _DOMAIN.search(file_name)
    return match[1].lower() if match else ""


def prefix_of(file_name: str) -> str:
    """What the files of one process share: `host/12_hip_api_trace.csv` -> `host/12`."""
    match = _DOMAIN.search(file_name)
    stem = file_name[: match.start()] if match else re.sub(r"\.csv(\.gz)?$", "", file_name)
    return stem.rstrip("_/") or stem or file_name


def table_of(file_name: str, names: list[str]) -> str | None:
    """The table a header belongs to, "" for a known file without one, None for somebody else's."""
    have = {name.lower() for name in names}
    for column in NOT_READ:
        if column in have:
            return ""
    by_name = OWN_DOMAINS.get(domain_of(file_name))
    if by_name and have & {name.lower() for name in schema.TABLES[by_name].columns}:
        return by_name
    if "counter_name" in have:
        return "counters"
    if have & {"kernel_name", "kernelname"} and have & {
        "start_timestamp", "end_timestamp", "beginns", "endns", "workgroup_size_x",
    }:  # fmt: skip
        return "dispatches"
    if "direction" in have and "start_timestamp" in have:
        return "copies"
    if {"kind", "operation", "start_timestamp"} <= have:
        return "allocations"
    if {"domain", "function"} <= have:
        return "api_calls"
    if {"name", "calls", "totaldurationns"} <= have:
        return "reported_stats"
    if {"node_id", "agent_type"} <= have:
        return "agents"
    return None


def layout_of(header_line: str, table: schema.Table, source: str) -> tuple[Layout, list[str]]:
    """The header as a layout, and the columns it has that are ignored.

    A required column that is missing is a `TraceError` naming file, column and what was found.
    """
    names = header_fields(header_line)
    ours = {name.lower(): name for name in table.columns if name not in ("Source", "Process", "Row", "Pass")}
    fields, ignored, taken = [], [], set()
    for name in names:
        column = ours.get(name.lower()) or table.aliases.get(name.lower())
        if column in taken:
            column = None
        if name.lower() == "guid":
            column, kind = "Guid", schema.TEXT
        elif column:
            kind = table.types[column]
        else:
            kind = schema.FLOAT if _v1_counter(name, names) else schema.TEXT
            column = f"counter:{name}" if kind is schema.FLOAT else None
            # Kind is the same word in every row; Duration is the difference of two columns kept
            if column is None and name.lower() not in ("kind", "duration"):
                ignored.append(name)
        if column:
            taken.add(column)
        fields.append(Field(name, column, kind))
    missing = [name for name in table.required if name not in taken]
    if missing:
        raise TraceError(
            f"{source}: a {table.name} file without the column {', '.join(missing)}; "
            f"its header has {', '.join(names)}",
            fix="name the file that rocprofv3 wrote, or give it its header back",
        )
    text_at = next((i for i, one in enumerate(fields) if one.column == table.text), None)
    if text_at is not None and table.text is None:
        text_at = None
    return Layout(header_line.strip(), tuple(fields), text_at, table.required), ignored


def _v1_counter(name: str, names: list[str]) -> bool:
    """rocprof v1 puts counters in columns of the dispatch table; every other column of it is known."""
    lower = {one.lower() for one in names}
    if not {"kernelname", "beginns"} <= lower:
        return False
    return name.lower() not in _V1_KNOWN and name.lower() not in schema.DISPATCHES.aliases


def dialect_of(table: str, names: list[str]) -> str:
    """The release whose columns these are, as far as a header tells."""
    have = {name.lower() for name in names}
    exact = set(names)
    if "beginns" in have:
        return "rocprof v1"
    if table == "dispatches":
        if "graph_exec_id" in have or ("guid" in have and "duration" in have):
            return "rocpd convert, 2026"
        if "guid" in have:
            return "rocpd convert, 7.x"
        if "stream_id" in have:
            return "rocprofv3 7.0"
        return "rocprofv3 6.3-6.4" if "dispatch_id" in have else "rocprofv3 6.2"
    return "rocpd convert" if "Guid" in exact else "rocprofv3"
