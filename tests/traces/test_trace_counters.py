"""Counters: wide, passes apart, zero everywhere is no value."""

import polars as pl
import pytest

from hipbook.traces import counters, schema
from hipbook.traces.trace import TraceError


def table(*rows):
    """(pass, dispatch, counter, value)"""
    return schema.COUNTERS.conform(
        pl.DataFrame(
            [
                {
                    "Source": f"{where}.csv",
                    "Process": where,
                    "Row": n,
                    "Pass": where,
                    "Dispatch_Id": dispatch,
                    "Kernel_Name": "k",
                    "Counter_Name": name,
                    "Counter_Value": value,
                    "Start_Timestamp": dispatch,
                    "End_Timestamp": dispatch + 1,
                }
                for n, (where, dispatch, name, value) in enumerate(rows)
            ]
        )
    )


ROWS = [
    ("pass_1", 1, "SQ_WAVES", 512.0),
    ("pass_1", 1, "LDSBankConflict", 0.0),
    ("pass_1", 2, "SQ_WAVES", 0.0),
    ("pass_1", 2, "LDSBankConflict", 0.0),
    ("pass_2", 1, "FETCH_SIZE", 2.5),
    ("pass_2", 2, "FETCH_SIZE", 3.5),
]


def test_wide_has_a_row_a_dispatch_and_pass():
    wide = counters.wide(table(*ROWS))
    assert wide.select(pl.col("Pass").cast(pl.String), "Dispatch_Id", "SQ_WAVES", "FETCH_SIZE").rows() == [
        ("pass_1", 1, 512.0, None),
        ("pass_1", 2, 0.0, None),
        ("pass_2", 1, None, 2.5),
        ("pass_2", 2, None, 3.5),
    ]


def test_passes_with_the_same_counter_are_not_added():
    wide = counters.wide(table(("pass_1", 1, "SQ_WAVES", 512.0), ("pass_2", 1, "SQ_WAVES", 512.0)))
    assert wide["SQ_WAVES"].to_list() == [512.0, 512.0]


def test_zero_everywhere_is_unsupported_and_a_single_zero_is_a_value():
    assert counters.unsupported(table(*ROWS)) == ["LDSBankConflict"]
    means = counters.per_kernel(table(*ROWS))
    assert set(means["Counter_Name"]) == {"SQ_WAVES", "FETCH_SIZE"}
    assert means.filter(pl.col("Counter_Name") == "SQ_WAVES").select("Mean", "Min", "Max").row(0) == (
        256.0,
        0.0,
        512.0,
    )


def test_missing_values_are_named():
    assert counters.missing(table(*ROWS)) == []
    assert counters.missing(table(*ROWS, ("pass_2", 3, "WRITE_SIZE", 1.0))) == [
        ("pass_2", "FETCH_SIZE", 1),
        ("pass_2", "WRITE_SIZE", 2),
    ]


def test_no_counters_is_a_clear_error():
    with pytest.raises(TraceError, match="no counters"):
        counters.wide(schema.COUNTERS.empty())
    assert counters.unsupported(schema.COUNTERS.empty()) == []


def test_names_are_documented():
    known = counters.catalogue()
    assert len(known) >= 35
    for name, entry in known.items():
        assert entry["meaning"], name
        assert entry["unit"], name
        assert set(entry["archs"]) <= {"gfx11", "gfx11-dgpu", "gfx12", "gfx1151"}, name
    assert "KiB" in counters.describe("FETCH_SIZE")
    assert "not in" in counters.describe("NOVEL_COUNTER")
