"""Work done twice: the same kernel, grid and inputs back to back.

A trace does not show a kernel's inputs. What it shows: two consecutive dispatches of one queue with the
same kernel, grid, workgroup and LDS, of nearly the same length. Where the run of repeats is the same in
every step (two quantizations for one pair of projections), that is a candidate; whether the inputs are
the same is for the source code to say, or for the emulated board, which knows the buffers.
"""

import polars as pl

from hipbook.traces import stats
from hipbook.traces.trace import Trace

# Two dispatches of the same work differ by no more than this, relative to the longer.
SAME_LENGTH = 0.10
_SHAPE = [
    "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z", "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z",
    "LDS_Block_Size",
]  # fmt: skip


def runs_of_repeats(
    trace: Trace, *, same_length: float = SAME_LENGTH, inputs: pl.Series | None = None
) -> pl.DataFrame:
    """Runs of consecutive dispatches of one queue that do the same work, as far as a trace tells.

    Columns: Kernel_Name, Process, Queue_Id, First_Row, Start_Timestamp, Length (dispatches), Repeated_Ns (all
    but the first). `inputs`, one hash per dispatch row, makes "same inputs" exact where it is known; then
    lengths are not compared.
    """
    rows = trace.dispatches
    if inputs is not None:
        rows = rows.with_columns(inputs.alias("Inputs"))
    queue = ["Process", "Agent_Id", "Queue_Id"]
    rows = rows.filter(stats.usable()).sort(*queue, "Start_Timestamp").with_columns(stats.DURATION.alias("d"))
    same = pl.lit(True)
    for column in [*queue, "Kernel_Name", *_SHAPE, *(["Inputs"] if inputs is not None else [])]:
        same &= pl.col(column).eq_missing(pl.col(column).shift(1))
    if inputs is None:
        longer = pl.max_horizontal("d", pl.col("d").shift(1))
        same &= (pl.col("d") - pl.col("d").shift(1)).abs() <= longer * same_length
    rows = rows.with_columns(same.fill_null(False).alias("again"))
    rows = rows.with_columns((~pl.col("again")).cum_sum().alias("run"))
    found = rows.group_by("run", maintain_order=True).agg(
        pl.col("Kernel_Name").first().cast(pl.String),
        pl.col("Process").first().cast(pl.String),
        pl.col("Queue_Id").first(),
        pl.col("Row").first().alias("First_Row"),
        pl.col("Start_Timestamp").first(),
        pl.len().cast(pl.Int64).alias("Length"),
        (pl.col("d").sum() - pl.col("d").first()).alias("Repeated_Ns"),
    )
    return found.filter(pl.col("Length") > 1).drop("run")


def repeated_work(trace: Trace, **options) -> pl.DataFrame:
    """Per kernel: how often it repeats itself back to back and what that costs, most expensive first.

    Columns: Kernel_Name, Calls, Runs (of repeats), Usual_Length (of a run), Repeated_Calls, Repeated_Ns,
    Share (of all device time). Where a trace has no grids, shapes cannot be told apart: null equals null.
    """
    runs = runs_of_repeats(trace, **options)
    calls = stats.per_kernel(trace.dispatches).select("Kernel_Name", "Calls", pl.col("Total_Ns"))
    whole = calls["Total_Ns"].sum()
    per = runs.group_by("Kernel_Name").agg(
        pl.len().cast(pl.Int64).alias("Runs"),
        pl.col("Length").mode().min().alias("Usual_Length"),
        (pl.col("Length") - 1).sum().alias("Repeated_Calls"),
        pl.col("Repeated_Ns").sum(),
    )
    return (
        per.join(calls, on="Kernel_Name")
        .with_columns((pl.col("Repeated_Ns") / whole if whole else pl.lit(0.0)).alias("Share"))
        .select("Kernel_Name", "Calls", "Runs", "Usual_Length", "Repeated_Calls", "Repeated_Ns", "Share")
        .sort("Repeated_Ns", "Kernel_Name", descending=[True, False])
    )
