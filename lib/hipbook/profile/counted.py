"""Counters of a profiler by subject, whatever the tool: values, and why there is none."""

from dataclasses import dataclass, field

import polars as pl

from hipbook.traces import counters

_COLUMNS = {
    "Counter": pl.String, "Subject": pl.String, "Launches": pl.Int64, "Median": pl.Float64, "Min": pl.Float64,
    "Max": pl.Float64, "Unit": pl.String,
}  # fmt: skip
NO_VALUES = pl.DataFrame(schema=_COLUMNS)


@dataclass(frozen=True, eq=False)
class Counted:
    """`values`: one row per counter and subject: Counter, Subject, Launches, Median, Min, Max, Unit.

    `absent` says of every counter that was asked for and has no value why it has none. A counter that is
    zero in every dispatch of the trace is there, never in `values`: it was not counted.
    """

    tool: str
    values: pl.DataFrame = field(default_factory=NO_VALUES.clone)
    absent: dict[str, str] = field(default_factory=dict)
    passes: int = 0  # runs of the child it took


def believed(
    tool: str,
    whole: pl.DataFrame,
    ours: pl.DataFrame,
    absent: dict[str, str],
    units: dict[str, str],
    passes: int,
) -> Counted:
    """Values of `ours` (rows with Subject, Counter_Name and Counter_Value, one a launch and counter).

    `whole` is all that the tool wrote: what is zero there all over is absent, not 0 (T18).
    """
    zero = counters.unsupported(whole)
    for name in zero:
        rows = whole.filter(pl.col("Counter_Name").cast(pl.String) == name)
        if rows["Counter_Value"].null_count() == rows.height:
            absent[name] = f"unsupported: no value in any of {rows.height} dispatches"
        else:
            absent[name] = f"unsupported, or a power state: zero in all {rows.height} dispatches"
    values = (
        ours.with_columns(pl.col("Counter_Name").cast(pl.String).alias("Counter"))
        .filter(~pl.col("Counter").is_in(zero) & pl.col("Counter_Value").is_not_null())
        .group_by("Counter", "Subject", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("Launches"),
            pl.col("Counter_Value").median().alias("Median"),
            pl.col("Counter_Value").min().alias("Min"),
            pl.col("Counter_Value").max().alias("Max"),
        )
        .with_columns(pl.col("Counter").replace_strict(units, default="counts").alias("Unit"))
        .select(*_COLUMNS)
    )
    return Counted(tool, values, absent, passes)
