"""Counters: from one row per (dispatch, counter) to one row per dispatch, passes kept apart.

A counter that is zero in every dispatch was not counted: the board does not have it, or the power state
switched it off. It is never a value.
"""

import tomllib
from functools import cache

import polars as pl

from hipbook import paths
from hipbook.traces.trace import TraceError

_INDEX = [
    "Source", "Process", "Pass", "Dispatch_Id", "Agent_Id", "Queue_Id", "Kernel_Name",
    "Grid_Size", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count",
    "SGPR_Count", "Start_Timestamp", "End_Timestamp",
]  # fmt: skip


def wide(counters: pl.DataFrame) -> pl.DataFrame:
    """One row per dispatch and pass, one column per counter (null: not collected in that pass).

    Dispatch ids restart in every pass, so rows of two passes are never joined by them; instances of one
    counter in one dispatch (two rows of the same name) are added up, as the profiler's derived counters do.
    """
    if not counters.height:
        raise TraceError(
            "no counters in this trace", fix="profile with --pmc, or name the counter_collection file"
        )
    frame = counters.with_columns(
        pl.col("Counter_Name").cast(pl.String), pl.int_range(pl.len()).alias("_order")
    )
    first = frame.group_by(_INDEX, maintain_order=True).agg(pl.col("_order").min())
    # added up before the pivot: its own sum of nothing would be 0, which is a value
    valued = frame.filter(pl.col("Counter_Value").is_not_null())
    summed = valued.group_by([*_INDEX, "Counter_Name"], maintain_order=True).agg(
        pl.col("Counter_Value").sum()
    )
    pivoted = summed.pivot("Counter_Name", index=_INDEX, values="Counter_Value", maintain_order=True)
    return pivoted.join(first, on=_INDEX, how="left", nulls_equal=True).sort("_order").drop("_order")


def names(counters: pl.DataFrame) -> list[str]:
    return sorted(counters["Counter_Name"].cast(pl.String).unique().drop_nulls().to_list())


def unsupported(counters: pl.DataFrame) -> list[str]:
    """Counters that are zero (or null) in every row of the trace."""
    if not counters.height:
        return []
    highest = counters.group_by(pl.col("Counter_Name").cast(pl.String)).agg(
        (pl.col("Counter_Value").fill_null(0) != 0).any().alias("Counted")
    )
    return sorted(highest.filter(~pl.col("Counted"))["Counter_Name"].to_list())


def missing(counters: pl.DataFrame) -> list[tuple[str, str, int]]:
    """(pass, counter, dispatches) where some dispatches of a pass lack a counter the others have."""
    if not counters.height:
        return []
    where = [pl.col("Source").cast(pl.String), pl.col("Pass").cast(pl.String)]
    dispatch = pl.struct("Process", "Dispatch_Id")
    every = counters.group_by(where).agg(dispatch.n_unique().alias("All"))
    each = counters.group_by(*where, pl.col("Counter_Name").cast(pl.String)).agg(
        dispatch.filter(pl.col("Counter_Value").is_not_null()).n_unique().alias("With")
    )
    short = each.join(every, on=["Source", "Pass"]).filter(pl.col("With") < pl.col("All"))
    return [
        (name_of_pass, name, whole - have)
        for _, name_of_pass, name, have, whole in short.sort("Source", "Pass", "Counter_Name").rows()
    ]


def per_kernel(counters: pl.DataFrame) -> pl.DataFrame:
    """Mean and range of every supported counter per kernel and pass: Kernel_Name, Pass, Counter_Name,
    Dispatches, Mean, Min, Max. Unsupported counters are absent: they have no value to average."""
    zero = unsupported(counters)
    rows = counters.filter(~pl.col("Counter_Name").cast(pl.String).is_in(zero))
    return (
        rows.group_by(
            pl.col("Kernel_Name").cast(pl.String),
            pl.col("Pass").cast(pl.String),
            pl.col("Counter_Name").cast(pl.String),
        )
        .agg(
            pl.len().cast(pl.Int64).alias("Dispatches"),
            pl.col("Counter_Value").mean().alias("Mean"),
            pl.col("Counter_Value").min().alias("Min"),
            pl.col("Counter_Value").max().alias("Max"),
        )
        .with_columns(pl.col("Mean").clip("Min", "Max"))
        .sort("Kernel_Name", "Pass", "Counter_Name")
    )


@cache
def catalogue() -> dict[str, dict[str, object]]:
    """What is known of counter names on gfx11 and gfx12: data/counters.toml, by name."""
    with (paths.data() / "counters.toml").open("rb") as handle:
        return tomllib.load(handle)["counter"]


def describe(name: str) -> str:
    """One line on a counter: meaning, unit and architectures; says so when it is not known."""
    entry = catalogue().get(name)
    if not entry:
        return f"{name}: not in data/counters.toml"
    return f"{name}: {entry['meaning']} ({entry['unit']}; {', '.join(entry['archs'])})"
