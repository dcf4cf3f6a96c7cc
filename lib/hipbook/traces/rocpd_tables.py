"""The rocpd tables besides dispatches and calls: copies, allocations, counters, agents."""

import json
from typing import TYPE_CHECKING

import polars as pl

from hipbook.traces import schema
from hipbook.traces.agents import agent_table

if TYPE_CHECKING:
    from hipbook.traces.rocpd import Process


def copies(process: "Process") -> pl.DataFrame:
    columns = ("name_id", "start", "end", "src_agent_id", "dst_agent_id", "size", "stream_id", "event_id")
    frame = process.integers("memory_copy", columns, ("start", "end"))
    if frame is None or not frame.height:
        return schema.COPIES.empty()
    frame = process.correlated(process.origin(frame)).with_columns(
        process.words("name_id").str.strip_prefix("MEMORY_COPY_").fill_null("UNKNOWN").alias("Direction"),
        process.number("src_agent_id", process.agent).alias("Source_Agent_Id"),
        process.number("dst_agent_id", process.agent).alias("Destination_Agent_Id"),
        pl.col("start").alias("Start_Timestamp"),
        pl.col("end").alias("End_Timestamp"),
        pl.col("size").alias("Size_Bytes"),
        pl.col("stream_id").alias("Stream_Id"),
    )
    return schema.COPIES.conform(frame)


def allocations(process: "Process") -> pl.DataFrame:
    columns = ("start", "end", "agent_id", "queue_id", "tid", "address", "size", "event_id")
    frame = process.integers("memory_allocate", columns, ("start", "end"))
    if frame is None or not frame.height:
        return schema.ALLOCATIONS.empty()
    words = pl.DataFrame(
        process.read("memory_allocate", "id", "type", "level"),
        schema={"rowid": pl.Int64, "Operation": pl.String, "level": pl.String},
        orient="row",
    )
    frame = process.correlated(process.origin(frame)).join(
        words, on="rowid", how="left", maintain_order="left"
    )
    frame = frame.with_columns(
        pl.when(pl.col("level") == "SCRATCH")
        .then(pl.lit("SCRATCH_MEMORY"))
        .otherwise(pl.lit("MEMORY_ALLOCATION"))
        .alias("Kind"),
        process.number("agent_id", process.agent).alias("Agent_Id"),
        process.number("tid", process.thread).alias("Thread_Id"),
        pl.col("queue_id").alias("Queue_Id"),
        pl.col("size").alias("Allocation_Size"),
        pl.col("address").alias("Address"),
        pl.col("start").alias("Start_Timestamp"),
        pl.col("end").alias("End_Timestamp"),
    )
    return schema.ALLOCATIONS.conform(frame)


def counters(process: "Process", dispatches: pl.DataFrame) -> pl.DataFrame:
    """One row per (dispatch, counter, pass). Instances of one event are added up, as the profiler's
    own CSV does; a dispatch replayed for another pass is another event, and is kept apart."""
    names = dict(process.read("info_pmc", "id", "name"))
    rows = process.read("pmc_event", "id", "event_id", "pmc_id", "value")
    if not rows or not names:
        return schema.COUNTERS.empty()
    values = pl.DataFrame(
        [(row, event, names.get(pmc), float(value or 0)) for row, event, pmc, value in rows],
        schema={
            "Row": pl.Int64,
            "event_id": pl.Int64,
            "Counter_Name": pl.String,
            "Counter_Value": pl.Float64,
        },
        orient="row",
    )
    summed = values.group_by("event_id", "Counter_Name", maintain_order=True).agg(
        pl.col("Row").min(), pl.col("Counter_Value").sum()
    )
    numbered = dispatches.with_columns(
        pl.int_range(pl.len()).over("Dispatch_Id", order_by="Row").alias("replay")
    ).drop("Row")
    frame = summed.join(numbered, on="event_id", how="inner", maintain_order="left").with_columns(
        pl.format("pass_{}", pl.col("replay") + 1).alias("Pass"),
        (pl.col("Grid_Size_X") * pl.col("Grid_Size_Y") * pl.col("Grid_Size_Z")).alias("Grid_Size"),
        (pl.col("Workgroup_Size_X") * pl.col("Workgroup_Size_Y") * pl.col("Workgroup_Size_Z")).alias(
            "Workgroup_Size"
        ),
    )
    return schema.COUNTERS.conform(frame)


def facts(process: "Process") -> None:
    """Agents, host and command of the process, into its trace."""
    records = [
        dict(zip(("absolute_index", "type", "name", "product_name", "extdata"), row, strict=True))
        for row in process.read("info_agent", "absolute_index", "type", "name", "product_name", "extdata")
    ]
    for record in records:
        try:
            record.update(
                {k: v for k, v in json.loads(record.pop("extdata") or "{}").items() if k not in record}
            )
        except (ValueError, AttributeError):
            continue
    process.out.agents = agent_table(records, process.source, process.process)
    process.out.facts["processes"] = [
        {"pid": pid, "command": command} for pid, command in process.read("info_process", "pid", "command")
    ]
    hosts = [host for (host,) in process.read("info_node", "hostname") if host]
    if hosts:
        process.out.facts["host"] = hosts[0]
