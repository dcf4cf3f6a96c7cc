"""Agents (CPUs and GPUs of the machine) as one table, from CSV, JSON and databases alike."""

import json
import re
from collections.abc import Iterable, Mapping

import polars as pl

from hipbook.traces import schema

_OURS = {  # our column -> the names formats give it, lower case
    "Agent_Id": ("node_id", "absolute_index", "agent_id"),
    "Agent_Type": ("agent_type", "type"),
    "Name": ("name",),
    "Product_Name": ("product_name",),
    "Wave_Front_Size": ("wave_front_size",),
    "Cu_Count": ("cu_count",),
}
_TYPE = {"1": "CPU", "2": "GPU"}  # rocprofiler-sdk's enumeration, as its JSON writes it


def agent_table(records: Iterable[Mapping[str, object]], source: str, process: str) -> pl.DataFrame:
    """Rows of schema.AGENTS; columns that are not ours are kept in `Facts`, integers exactly."""
    rows = []
    for number, record in enumerate(records, 1):
        lower = {key.lower(): _plain(value) for key, value in record.items()}
        row: dict[str, object] = {"Source": source, "Process": process, "Row": number}
        for column, names in _OURS.items():
            value = next((lower.pop(name) for name in names if lower.get(name) not in (None, "")), None)
            if schema.AGENTS.types[column] == schema.INT:
                row[column] = value if isinstance(value, int) else _number(str(value))
            else:
                row[column] = None if value is None else str(value)
        row["Agent_Type"] = _TYPE.get(str(row["Agent_Type"]), row["Agent_Type"])
        row["Facts"] = json.dumps(lower, sort_keys=True)
        rows.append(row)
    return pl.DataFrame(rows, schema=schema.AGENTS.types, strict=False) if rows else schema.AGENTS.empty()


def _plain(value: object) -> object:
    """A CSV's text as the integer it is; everything else unchanged."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else value


def _number(text: str) -> int | None:
    match = re.search(r"\d+", text)
    return int(match[0]) if match else None
