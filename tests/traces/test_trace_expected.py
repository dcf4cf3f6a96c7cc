"""Every handed file with an entry equals its entry; the formats agree with one another."""

import json
from functools import cache

import polars as pl
import pytest
from trace_makers import SHARED, comparable, needs_shared

from hipbook.traces import checks, stats, windows
from hipbook.traces.health import health
from hipbook.traces.launches import graph_launches, with_launch
from hipbook.traces.read import read_trace as read_uncached

EXPECTED = json.loads((SHARED / "EXPECTED.json").read_text()) if SHARED.is_dir() else {}
pytestmark = needs_shared
read_trace = cache(read_uncached)  # nothing here changes a trace


@pytest.mark.parametrize("name", EXPECTED or ["absent"])
def test_file_equals_its_entry(name):
    expected = dict(EXPECTED[name])
    trace = read_trace(SHARED / name)
    report = health(trace)
    totals = report.totals
    rows = trace.dispatches.filter(stats.usable())
    overlaps, overlap_ns = checks.same_queue_overlaps(rows)
    linked = with_launch(trace)
    devices = trace.facts.get("device_names") or [""]
    graphs = graph_launches(trace).filter(pl.col("Start_Timestamp").is_not_null())
    filled = trace.copies["Direction"].cast(pl.String) == "FILL"
    durations = trace.dispatches["End_Timestamp"] - trace.dispatches["Start_Timestamp"]
    found = {
        "rows": trace.dispatches.height,
        "usable_rows": totals.usable_rows,
        "sum_ns": totals.sum_ns,
        "sum_ns_of_usable": totals.sum_ns,
        "busy_union_ns": totals.busy_union_ns,
        "span_ns": totals.span_ns,
        "zero_dur": report.count("zero_durations"),
        "zero_duration": report.count("zero_durations"),
        "neg_dur": report.count("negative_durations"),
        "negative_duration": report.count("negative_durations"),
        "uint64_max_timestamps": report.count("uint64_max_timestamps"),
        "zero_timestamps": report.count("zero_timestamps"),
        "row_order_inversions": checks.row_order_inversions(rows),
        "names": trace.dispatches["Kernel_Name"].n_unique(),
        "max_name": trace.dispatches["Kernel_Name"].cast(pl.String).str.len_chars().max(),
        "agents": trace.dispatches["Agent_Id"].n_unique(),
        "queues": trace.dispatches["Queue_Id"].n_unique(),
        "streams": trace.dispatches["Stream_Id"].n_unique(),
        "same_queue_overlaps": overlaps,
        "same_queue_overlap_ns": overlap_ns,
        "top3": [
            {"name": row["Kernel_Name"][:80], "calls": row["Calls"], "total_ns": row["Total_Ns"]}
            for row in stats.per_kernel(trace.dispatches).head(3).to_dicts()
        ],
        "hipGraphLaunch": graphs.height,
        "kernels_from_graph": graphs["Kernels"].sum(),
        "kernels_without_runtime_event": linked["Launch_Function"].null_count(),
        "memcpy": int((~filled).sum()),
        "memset": int(filled.sum()),
        "device": devices[0],
        "rejected": len(trace.rejected),
        "rejected_lines": [one.line for one in trace.rejected],
        "reason": trace.rejected[0].reason if trace.rejected else "",
        "repeated_headers": report.count("repeated_header"),
        "repeated_header_lines": [
            line for note in trace.notes if note.kind == "repeated_header" for line in note.lines
        ],
        "duplicate_dispatches": checks.duplicate_dispatches(rows).height,
        "regions": trace.api_calls.height,
        "markers": trace.markers.height,
        "functions": trace.markers["Function"].cast(pl.String).to_list(),
    }
    expected.pop("note", None)
    expected.pop("events", None)  # of all kinds; ours is a table a kind
    assert len(durations) == found["rows"]
    assert {key: found[key] for key in expected} == expected
    assert len(expected) >= 2, "an entry that compares nothing is no check"


def _dialects():
    return {path.name: read_trace(path) for path in sorted((SHARED / "dialects").glob("*.csv"))}


def test_five_dialects_give_equal_tables():
    traces = _dialects()
    assert len(traces) == 5
    newest = comparable(traces["rocm7.0_kernel_trace.csv"].dispatches)
    assert newest.height == 500
    for name, trace in traces.items():
        table = comparable(trace.dispatches)
        own = [column for column in table.columns if table[column].null_count() < table.height]
        shared = [column for column in own if newest[column].null_count() < newest.height]
        assert len(shared) >= 14, name
        assert table.select(shared).equals(newest.select(shared)), name


def test_columns_that_a_dialect_lacks_are_null_not_zero():
    oldest = _dialects()["rocm6.2_kernel_trace.csv"].dispatches
    for column in ("Thread_Id", "Dispatch_Id", "Stream_Id", "VGPR_Count"):
        assert oldest[column].null_count() == 500
    assert oldest["LDS_Block_Size"].null_count() == 0


def test_each_dialect_is_recognised():
    assert {name: trace.sources[0].dialect for name, trace in _dialects().items()} == {
        "rocm6.2_kernel_trace.csv": "rocprofv3 6.2",
        "rocm6.3-6.4_kernel_trace.csv": "rocprofv3 6.3-6.4",
        "rocm7.0_kernel_trace.csv": "rocprofv3 7.0",
        "rocpd7.1_kernel_trace.csv": "rocpd convert, 7.x",
        "rocpd-2026-duration-graph_kernel_trace.csv": "rocpd convert, 2026",
    }


def test_rocpd_equals_the_dialects():
    table = comparable(read_trace(SHARED / "rocpd" / "derived_results.db").dispatches)
    newest = comparable(_dialects()["rocm7.0_kernel_trace.csv"].dispatches)
    columns = [name for name in newest.columns if newest[name].null_count() < newest.height]
    assert len(columns) == 21
    same = [name for name in columns if table[name].equals(newest[name])]
    # the database's one thread row stands for all dispatches; everything else is equal
    assert set(columns) - set(same) <= {"Thread_Id"}


def test_json_equals_the_dialects_cut_from_it():
    whole = comparable(read_trace(SHARED / "rocprofv3-json" / "mi350x_fsdp_results.json.gz").dispatches)
    newest = comparable(_dialects()["rocm7.0_kernel_trace.csv"].dispatches)
    columns = [
        "Kernel_Name",
        "Dispatch_Id",
        "Start_Timestamp",
        "End_Timestamp",
        "Queue_Id",
        "Grid_Size_X",
        "Workgroup_Size_X",
        "Agent_Id",
        "Correlation_Id",
        "Kernel_Id",
        "Stream_Id",
        "Thread_Id",
    ]
    both = newest.select(columns).join(whole.select(columns), on=columns, how="semi", nulls_equal=True)
    assert both.height == 500


def test_graph_case_finds_its_kernels_by_launch_and_says_why_time_finds_none():
    trace = read_trace(SHARED / "torch" / "mi300x_vllm_decode_graph.json.gz")
    by_time = windows.by_marker(trace, "execute_32", follow="time")
    by_launch = windows.by_marker(trace, "execute_32")
    assert by_time.dispatches.height == 0
    assert by_launch.dispatches.height == 425
    assert stats.totals(by_launch.dispatches).busy_union_ns == 10_674_517
    assert windows.by_graph(trace).dispatches.height == 421
    told = windows.why_by_time_differs(trace, "execute_32")
    assert "holds 0 kernels, by launch 425 (10.6745 ms busy)" in told
    assert "after the marker has ended on the CPU" in told


def test_two_streams_sum_to_more_than_their_span_and_the_report_says_so():
    report = health(read_trace(SHARED / "torch" / "mi300x_resnet_two_streams.json.gz"))
    assert report.totals.sum_ns > report.totals.span_ns > report.totals.busy_union_ns
    assert report.has("sum_exceeds_span")
    assert report.count("kernels_without_launch") == 757


def test_gfx1151_folder_tells_graphs_apart_from_idle_time():
    trace = read_trace(SHARED / "gfx1151-csv")
    report = health(trace)
    assert report.rows["counters"] == 34 + 340 + 54
    assert report.count("all_zero_counters") == 1
    assert report.count("under_recorded_graphs") == 4
    assert any("not idle time" in one.text for one in report.findings if one.kind == "long_gaps")
    graphs = graph_launches(trace)["Kernels"].to_list()
    assert sorted(graphs) == [24, 24, 24, 24, 1123]


def test_amd_samples_read_with_the_rows_they_have():
    trace = read_trace(SHARED / "amd-samples")
    assert {name: table.height for name, table in trace.tables().items()} == {
        "dispatches": 13,
        "api_calls": 116,
        "markers": 11,
        "copies": 4,
        "allocations": 6,
        "counters": 8,
        "agents": 0,
        "reported_stats": 18,
    }
    assert not trace.rejected
    assert trace.copies["Direction"].cast(pl.String).unique().sort().to_list() == [
        "DEVICE_TO_HOST",
        "HOST_TO_DEVICE",
    ]
    assert trace.allocations.filter(pl.col("Agent_Id").is_null()).height == 2  # a FREE has no agent
    assert trace.allocations["Address"].max() == 0x00007FFB26354000


def test_no_environment_is_kept_from_a_torch_trace():
    trace = read_trace(SHARED / "torch" / "h100_qwen1.5-0.5b.json.gz")
    assert "TOKEN" not in str(trace.facts) + str(trace.notes)
