"""What a dispatch table adds up to: per kernel, and as a whole.

Sum, busy union and span are three different things and are always shown together: kernels of two
streams overlap (sum > union), and a GPU waits (span > union).
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

# A dispatch longer than this is a clock gone wrong, not a kernel: the driver's watchdog resets a queue
# long before an hour.
IMPOSSIBLE_NS = 3_600_000_000_000

START, END = pl.col("Start_Timestamp"), pl.col("End_Timestamp")
DURATION = END - START


def usable() -> pl.Expr:
    """True for a row whose times mean something: both recorded, not running backwards, not absurd.

    A zero duration is usable (and counted by the health report). Timestamps of 0 and of 2^63 or more
    (2^64-1 is "not recorded") are not; the subtraction is only looked at where both are positive.
    """
    return (START > 0) & (END > 0) & (END >= START) & (DURATION <= IMPOSSIBLE_NS)


@dataclass(frozen=True)
class Totals:
    """Of the usable rows. `busy_union_ns` counts an instant once however many kernels run in it."""

    rows: int
    usable_rows: int
    sum_ns: int
    busy_union_ns: int
    span_ns: int
    first_ns: int | None
    last_ns: int | None

    @property
    def idle_ns(self) -> int:
        return self.span_ns - self.busy_union_ns


def busy_union(start: np.ndarray, end: np.ndarray) -> int:
    """Length in ns of the union of [start, end) intervals, int64 arrays in any order."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    before = np.concatenate(([start[0]], reach[:-1]))
    return int(np.maximum(reach - np.maximum(start, before), 0).sum())


def totals(rows: pl.DataFrame) -> Totals:
    """Sum, busy union and span of a table with Start_Timestamp and End_Timestamp."""
    times = rows.select("Start_Timestamp", "End_Timestamp").filter(usable())
    start, end = times["Start_Timestamp"].to_numpy(), times["End_Timestamp"].to_numpy()
    if not len(start):
        return Totals(rows.height, 0, 0, 0, 0, None, None)
    first, last = int(start.min()), int(end.max())
    return Totals(
        rows.height, len(start), int((end - start).sum()), busy_union(start, end), last - first, first, last
    )


def per_group(rows: pl.DataFrame, by: str = "Kernel_Name") -> pl.DataFrame:
    """Calls and times of the usable rows per value of `by`, longest total first.

    Columns: `by`, Calls, Total_Ns, Mean_Ns, Min_Ns, P50_Ns, P95_Ns, Max_Ns, Share (of the sum).
    Minimum <= mean <= maximum holds exactly, also where the mean was rounded; quantiles are values
    that occurred (no interpolation).
    """
    times = rows.select(pl.col(by), START, END).filter(usable()).select(by, DURATION.alias("d"))
    table = times.group_by(by).agg(
        pl.len().cast(pl.Int64).alias("Calls"),
        pl.col("d").sum().alias("Total_Ns"),
        pl.col("d").mean().alias("Mean_Ns"),
        pl.col("d").min().alias("Min_Ns"),
        pl.col("d").quantile(0.5, "nearest").cast(pl.Int64).alias("P50_Ns"),
        pl.col("d").quantile(0.95, "nearest").cast(pl.Int64).alias("P95_Ns"),
        pl.col("d").max().alias("Max_Ns"),
    )
    whole = table["Total_Ns"].sum()
    return table.with_columns(
        (pl.col("Total_Ns") / pl.col("Calls")).clip("Min_Ns", "Max_Ns").alias("Mean_Ns"),
        (pl.col("Total_Ns") / whole if whole else pl.lit(0.0)).alias("Share"),
        pl.col(by).cast(pl.String),
    ).sort("Total_Ns", "Calls", by, descending=[True, True, False])


def per_kernel(rows: pl.DataFrame) -> pl.DataFrame:
    """`per_group` by Kernel_Name: the table everybody asks for first."""
    return per_group(rows, "Kernel_Name")


def per_function(calls: pl.DataFrame) -> pl.DataFrame:
    """API time per function. It is the CPU's time: a call that waits for the GPU is long whatever it
    moves, so it is never added to, or read as, device time."""
    return per_group(calls, "Function")
