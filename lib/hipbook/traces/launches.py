"""Who launched what: the join of device work to the API calls behind it.

A call and its device work share a correlation id within one process. One graph launch owns hundreds of
dispatches. Ids repeat between processes, so the join is on both.
"""

import polars as pl

from hipbook.traces import stats
from hipbook.traces.trace import Trace

LINK = ("Process", "Correlation_Id")

# A call that starts a kernel. hipLaunchKernel during stream capture records none.
LAUNCH = (
    r"(?i)^(hip|cuda|cu)(Ext|Module|ExtModule)?Launch(Cooperative)?(Multi)?(Kernel|HostFunc)?.*|GraphLaunch"
)
GRAPH_LAUNCH = r"(?i)GraphLaunch"
# A call in which the CPU may wait for the device.
BLOCKING = (
    r"(?i)(Synchronize|StreamWait|EventQuery|Memcpy|Memset|Malloc|Free|signal_wait|ModuleLoad|HostRegister)"
)


def calls_matching(calls: pl.DataFrame, pattern: str) -> pl.DataFrame:
    """Rows whose function matches, tested once per distinct name."""
    names = calls["Function"].unique().cast(pl.String)
    hit = names.filter(names.str.contains(pattern)).to_list()
    return calls.filter(pl.col("Function").cast(pl.String).is_in(hit))


def launch_calls(trace: Trace) -> pl.DataFrame:
    return calls_matching(trace.api_calls, LAUNCH)


def with_launch(trace: Trace, work: pl.DataFrame | None = None) -> pl.DataFrame:
    """`work` (default: the dispatches) with Launch_Function, Launch_Start, Launch_End, Launch_Thread.

    Null where no call in the trace has its correlation id: the call was not recorded, or came before
    the profiler started.
    """
    work = trace.dispatches if work is None else work
    calls = trace.api_calls.filter(pl.col("Correlation_Id").is_not_null())
    # several calls may share an id (a wrapper and what it calls): the last to start is the innermost
    calls = (
        calls.sort("Start_Timestamp")
        .unique(LINK, keep="last", maintain_order=True)
        .select(
            *LINK,
            pl.col("Function").cast(pl.String).alias("Launch_Function"),
            pl.col("Start_Timestamp").alias("Launch_Start"),
            pl.col("End_Timestamp").alias("Launch_End"),
            pl.col("Thread_Id").alias("Launch_Thread"),
        )
    )
    return work.join(calls, on=LINK, how="left", maintain_order="left")


def graph_launches(trace: Trace) -> pl.DataFrame:
    """Graph launches with what they own: Process, Correlation_Id, Start_Timestamp, Kernels, Busy_Ns.

    A correlation id shared by many dispatches without any call beside it is a graph, too, launched
    outside what the profiler recorded of the API; its Start_Timestamp is null.
    """
    owned = trace.dispatches.group_by(LINK).agg(
        pl.len().cast(pl.Int64).alias("Kernels"),
        stats.DURATION.filter(stats.usable()).sum().alias("Busy_Ns"),
    )
    graphs = calls_matching(trace.api_calls, GRAPH_LAUNCH).select(*LINK, "Start_Timestamp")
    known = graphs.join(owned, on=LINK, how="left").with_columns(pl.col("Kernels").fill_null(0))
    called = trace.api_calls.select(LINK).unique()
    unknown = (
        owned.filter((pl.col("Kernels") > 1) & (pl.col("Correlation_Id").fill_null(0) > 0))
        .join(called, on=LINK, how="anti")
        .with_columns(pl.lit(None, dtype=pl.Int64).alias("Start_Timestamp"))
    )
    columns = [*LINK, "Start_Timestamp", "Kernels", "Busy_Ns"]
    return pl.concat([known.select(columns), unknown.select(columns)]).sort("Process", "Correlation_Id")
