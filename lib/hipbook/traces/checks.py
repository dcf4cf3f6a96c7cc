"""What the health report looks for in the order and the links of device work, one function each."""

import polars as pl

from hipbook.traces import stats
from hipbook.traces.launches import LINK, graph_launches, launch_calls
from hipbook.traces.trace import Trace

# A gap this long between two dispatches wants an explanation before it is called idle time.
LONG_GAP_NS = 1_000_000
# Graphs of one process that own fewer dispatches than this, while other launches own none, were most
# likely recorded in part: a decode step of any model has more kernels.
SMALL_GRAPH = 64


def row_order_inversions(rows: pl.DataFrame) -> int:
    """Rows that start before the row above them in the file."""
    return int((rows["Start_Timestamp"].diff() < 0).sum())


def same_queue_overlaps(rows: pl.DataFrame) -> tuple[int, int]:
    """(rows that start before an earlier dispatch of their queue has ended, ns of overlap together)."""
    queue = ["Process", "Agent_Id", "Queue_Id"]
    ordered = rows.select(*queue, "Start_Timestamp", "End_Timestamp").sort(
        *queue, "Start_Timestamp", "End_Timestamp"
    )
    reach = pl.col("End_Timestamp").cum_max().shift(1).over(queue)  # null for the first of a queue
    shared = pl.when(reach < pl.col("End_Timestamp")).then(reach).otherwise(pl.col("End_Timestamp"))
    over = pl.when(reach.is_not_null()).then(shared - pl.col("Start_Timestamp")).otherwise(0).alias("o")
    overlap = ordered.select(over).filter(pl.col("o") > 0)["o"]
    return overlap.len(), int(overlap.sum())


def duplicate_dispatches(rows: pl.DataFrame) -> pl.DataFrame:
    """Second and later rows of one kernel, agent, queue, dispatch id and times, whatever the process."""
    key = ["Kernel_Name", "Agent_Id", "Queue_Id", "Dispatch_Id", "Start_Timestamp", "End_Timestamp"]
    return rows.filter(
        ~pl.struct(key).is_first_distinct() & (pl.col("End_Timestamp") > pl.col("Start_Timestamp"))
    )


def long_gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Stretches over LONG_GAP_NS in which no dispatch ran: Start_Timestamp, End_Timestamp, Gap_Ns."""
    ordered = rows.select("Start_Timestamp", "End_Timestamp").sort("Start_Timestamp")
    reach = pl.col("End_Timestamp").cum_max().shift(1)
    return (
        ordered.select(reach.alias("Start_Timestamp"), pl.col("Start_Timestamp").alias("End_Timestamp"))
        .with_columns((pl.col("End_Timestamp") - pl.col("Start_Timestamp")).alias("Gap_Ns"))
        .filter(pl.col("Gap_Ns") > LONG_GAP_NS)
    )


def under_recorded_graphs(trace: Trace) -> pl.DataFrame:
    """Graph launches that own no or suspiciously few dispatches while the process launches more."""
    graphs = graph_launches(trace)
    if not graphs.height or not trace.api_calls.height:
        return graphs.clear()
    most = graphs.group_by("Process").agg(pl.col("Kernels").max().alias("Most"))
    joined = graphs.join(most, on="Process")
    captured = launches_without_kernels(trace).height
    small = (pl.col("Kernels") < SMALL_GRAPH) & (pl.lit(captured) > pl.col("Kernels"))
    return joined.filter((pl.col("Kernels") == 0) | (pl.col("Kernels") * 2 < pl.col("Most")) | small).drop(
        "Most"
    )


def idle_explanation(trace: Trace) -> str:
    """Why a gap may be no idle time (rule 9); "" when nothing in the trace explains it."""
    graphs = under_recorded_graphs(trace)
    if graphs.height:
        return f"{graphs.height} graph launches whose kernels were recorded in part or not at all"
    rows = trace.dispatches.filter(stats.usable())
    if trace.api_calls.height and rows.height:
        first_call = trace.api_calls["Start_Timestamp"].min()
        first_kernel = rows["Start_Timestamp"].min()
        if first_call is not None and first_call - first_kernel > LONG_GAP_NS:
            return "the API trace starts after the first kernels: the profiler was still starting"
    return ""


def launches_without_kernels(trace: Trace) -> pl.DataFrame:
    work = pl.concat([trace.dispatches.select(LINK), trace.copies.select(LINK)]).unique()
    return launch_calls(trace).join(work, on=LINK, how="anti", maintain_order="left")


def kernels_before_copies(trace: Trace) -> pl.DataFrame:
    """Dispatches that start before the end of a copy to the device issued earlier on the same stream.

    A stream is in order, and correlation ids grow with the order of calls in a process.
    """
    copies = trace.copies.filter(
        stats.usable() & pl.col("Stream_Id").is_not_null() & pl.col("Correlation_Id").is_not_null()
        & (pl.col("Direction").cast(pl.String) == "HOST_TO_DEVICE")
    ).select("Process", "Stream_Id", "Correlation_Id", pl.col("End_Timestamp").alias("Copy_End"))  # fmt: skip
    rows = trace.dispatches.filter(stats.usable() & pl.col("Stream_Id").is_not_null())
    if not copies.height or not rows.height:
        return rows.clear()
    reach = copies.sort("Correlation_Id").with_columns(
        pl.col("Copy_End").cum_max().over("Process", "Stream_Id")
    )
    joined = rows.sort("Correlation_Id").join_asof(
        reach, on="Correlation_Id", by=["Process", "Stream_Id"], strategy="backward", check_sortedness=False
    )
    return joined.filter(pl.col("Start_Timestamp") < pl.col("Copy_End")).drop("Copy_End")
