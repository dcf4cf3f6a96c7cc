"""What we write, others and we read: CSV of the 7.0 dialect, rocpd, Chrome JSON; our own boards' runs."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_makers import HEADER_70, SHARED, calls, comparable, copies, needs_shared, trace

from hipbook.errors import BadArgument
from hipbook.traces import schema
from hipbook.traces.chrome import microseconds, write_chrome
from hipbook.traces.counters import wide
from hipbook.traces.health import health
from hipbook.traces.own_runs import INSTRUCTIONS, trace_of
from hipbook.traces.read import read_trace
from hipbook.traces.reconstruction import reconstruct
from hipbook.traces.write import write_csv
from hipbook.traces.write_rocpd import write_rocpd

BIG = (1 << 53) + 1


def full():
    made = trace(
        ('void k<"x", 2>(int)', 100, 150, 1),
        ("b, c", BIG, BIG + 3, 2),
        ("lost", -1, -1, 3),
        api_calls=calls(("hipLaunchKernel", 10, 20, 1)),
        markers=calls(('step "7"\nsecond line', 5, 300, 9), table=schema.MARKERS),
        copies=copies(("DEVICE_TO_HOST", 160, 170, 4, 1)),
    )
    sizes = {f"Workgroup_Size_{axis}": n for axis, n in zip("XYZ", (64, 1, 1), strict=True)}
    sizes |= {f"Grid_Size_{axis}": n for axis, n in zip("XYZ", (640, 2, 1), strict=True)}
    sizes |= {"Thread_Id": 3, "Kernel_Id": 7, "LDS_Block_Size": 512, "Scratch_Size": 0, "VGPR_Count": 24}
    return made.replace_tables(
        dispatches=made.dispatches.with_columns(
            [pl.lit(value, dtype=pl.Int64).alias(name) for name, value in sizes.items()]
        )
    )


def test_csv_has_the_70_header_and_is_csv_by_the_book(tmp_path):
    paths = write_csv(full(), tmp_path, "1")
    assert [path.name for path in paths] == [
        "1_kernel_trace.csv",
        "1_hip_api_trace.csv",
        "1_marker_api_trace.csv",
        "1_memory_copy_trace.csv",
    ]
    assert paths[0].read_text().splitlines()[0] == HEADER_70
    with paths[0].open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert rows[0]["Kernel_Name"] == 'void k<"x", 2>(int)'
    assert rows[0]["Agent_Id"] == "Agent 1"
    assert rows[2]["Start_Timestamp"] == "18446744073709551615"
    assert rows[0]["SGPR_Count"] == ""  # not known is not zero


def test_csv_round_trip_is_exact(tmp_path):
    made = full()
    write_csv(made, tmp_path, "1")
    again = read_trace(tmp_path)
    for name in ("dispatches", "api_calls", "markers", "copies"):
        assert comparable(again.tables()[name]).equals(comparable(made.tables()[name])), name
    assert not again.rejected


def test_rocpd_round_trip_is_exact(tmp_path):
    made = full()
    again = read_trace(write_rocpd(made, tmp_path / "1_results.db"))
    for name in ("dispatches", "api_calls", "markers", "copies"):
        written, read = comparable(made.tables()[name]), comparable(again.tables()[name])
        differing = [column for column in written.columns if not written[column].equals(read[column])]
        assert differing == (["Kernel_Id"] if name == "dispatches" else []), name


@needs_shared
def test_handed_csv_and_rocpd_written_and_read_are_equal(tmp_path):
    for number, name in enumerate(["dialects/rocm7.0_kernel_trace.csv", "rocpd/derived_results.db"]):
        handed = read_trace(SHARED / name)
        write_csv(handed, tmp_path / str(number), "1")
        again = read_trace(tmp_path / str(number))
        assert comparable(again.dispatches).equals(comparable(handed.dispatches))
        assert comparable(again.api_calls).equals(comparable(handed.api_calls))
        database = read_trace(write_rocpd(handed, tmp_path / f"{number}.db"))
        assert comparable(database.dispatches, "Kernel_Id").equals(comparable(handed.dispatches, "Kernel_Id"))


def test_counters_round_trip(tmp_path):
    made = trace_of([dispatch("k", waves=8)])
    write_csv(made, tmp_path, "1")
    again = read_trace(tmp_path)
    assert wide(again.counters)["SQ_WAVES"].to_list() == [8.0]


def test_a_trace_of_two_processes_is_refused(tmp_path):
    made = full()
    other = made.dispatches.with_columns(pl.lit("q").cast(schema.TEXT).alias("Process"))
    with pytest.raises(BadArgument, match="2 processes"):
        write_csv(made.replace_tables(dispatches=pl.concat([made.dispatches, other])), tmp_path, "1")


def test_an_existing_database_is_not_touched(tmp_path):
    path = tmp_path / "x.db"
    path.write_bytes(b"mine")
    with pytest.raises(BadArgument, match="does not exist yet"):
        write_rocpd(full(), path)
    assert path.read_bytes() == b"mine"


# --- Chrome JSON ----------------------------------------------------------------------------------


def timed():
    made = full()
    return made.replace_tables(dispatches=made.dispatches.filter(pl.col("Start_Timestamp") > 0))


def test_chrome_json_is_json_that_perfetto_and_kineto_know(tmp_path):
    document = json.loads(write_chrome(timed(), tmp_path / "t.json").read_text())
    events = document["traceEvents"]
    kernel = next(event for event in events if event["cat"] == "kernel")
    assert (kernel["ph"], kernel["name"], kernel["ts"], kernel["dur"]) == (
        "X",
        'void k<"x", 2>(int)',
        0.1,
        0.05,
    )
    assert kernel["args"]["grid"] == [10, 2, 1]  # workgroups, as Kineto counts
    assert all({"ph", "cat", "name", "pid", "tid", "ts"} <= set(event) for event in events)
    arrows = [(event["ph"], event["id"]) for event in events if event["cat"] == "ac2g"]
    assert {("s", 1), ("f", 1)} <= set(arrows)


def test_chrome_round_trip_is_exact_beyond_doubles(tmp_path):
    made = timed()
    again = read_trace(write_chrome(made, tmp_path / "t.json"))
    lost = {"Thread_Id", "Dispatch_Id", "Kernel_Id", "Scratch_Size"}  # the format has no place for them
    assert comparable(again.dispatches, *lost).equals(comparable(made.dispatches, *lost))
    assert again.dispatches["Start_Timestamp"].to_list() == [100, BIG]
    assert comparable(again.api_calls, "Domain").equals(comparable(made.api_calls, "Domain"))
    assert comparable(again.markers, "Domain").equals(comparable(made.markers, "Domain"))
    assert comparable(again.copies).equals(comparable(made.copies))


def test_rows_without_times_cannot_be_drawn(tmp_path):
    with pytest.raises(BadArgument, match="1 dispatches without usable times"):
        write_chrome(full(), tmp_path / "t.json")


@given(st.integers(-(1 << 62), 1 << 62))
def test_microseconds_are_exact_text(nanoseconds):
    text = microseconds(nanoseconds)
    whole, part = text.lstrip("-").split(".")
    assert len(part) == 3
    assert int(whole + part) == abs(nanoseconds)
    assert text.startswith("-") is (nanoseconds < 0)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=20)
            .map(str.strip)
            .filter(bool),
            st.integers(1, 1 << 62),
            st.integers(0, 1 << 40),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_dispatches_survive_every_format(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("all")
    made = trace(*((name, start, start + length) for name, start, length in rows))
    columns = ["Kernel_Name", "Start_Timestamp", "End_Timestamp"]
    wanted = comparable(made.dispatches).select(columns)
    write_csv(made, folder / "csv", "1")
    for path in (
        folder / "csv",
        write_rocpd(made, folder / "1_results.db"),
        write_chrome(made, folder / "t.json"),
    ):
        assert comparable(read_trace(path).dispatches).select(columns).equals(wanted), path.name


def test_the_reconstruction_survives_every_format(tmp_path):
    made = reconstruct(1)
    write_csv(made, tmp_path / "csv", "1")
    assert comparable(read_trace(tmp_path / "csv").dispatches).equals(comparable(made.dispatches))


# --- our own boards' runs -------------------------------------------------------------------------


def dispatch(kernel, *, board="gfx1200-emu", time_us=None, waves=None):
    """What a board hands back, as far as the exporter looks at it."""
    facts = SimpleNamespace(vgprs=24, sgprs=32, scratch_bytes=0, lds_bytes=512)
    counters = None
    if waves is not None:
        counters = SimpleNamespace(totals={"SQ_WAVES": waves, "SQ_INSTS": 100 * waves, "BARRIERS": 0})
    return SimpleNamespace(
        board=board,
        kernel=kernel,
        grid=(2, 3, 1),
        block=(64, 1, 1),
        lds_bytes=1024,
        code_object=SimpleNamespace(kernels={kernel: facts}),
        counters=counters,
        time_us=time_us,
    )


def test_timed_dispatches_become_a_trace():
    made = trace_of([dispatch("a", time_us=1.5), dispatch("b", time_us=2.0)])
    rows = made.dispatches.to_dicts()
    assert [row["End_Timestamp"] - row["Start_Timestamp"] for row in rows] == [1500, 2000]
    assert rows[1]["Start_Timestamp"] == rows[0]["End_Timestamp"]
    assert (rows[0]["Grid_Size_X"], rows[0]["Grid_Size_Y"], rows[0]["LDS_Block_Size"]) == (128, 3, 1536)
    assert not health(made).problems


def test_emulated_dispatches_have_counts_and_no_times():
    made = trace_of([dispatch("a", waves=6)])
    assert made.dispatches.select("Start_Timestamp", "End_Timestamp").row(0) == (0, 0)
    report = health(made)
    assert report.count("zero_timestamps") == 1
    assert report.count("no_times") == 1
    assert wide(made.counters).select("SQ_WAVES", "SQ_INSTS").row(0) == (6.0, 600.0)


def test_a_zero_that_an_emulated_board_counted_is_a_value():
    made = trace_of([dispatch("a", waves=6)])
    assert not health(made).has("all_zero_counters")


def test_did_the_new_arm_run_end_to_end_on_the_emulated_board(tmp_path):
    """A real dispatch, exported as rocprofv3 writes it, read back, and asked what every CI wants to know."""
    from hipbook.ops.attention_call import DTYPES
    from hipbook.ops.paged_attention import paged_attention
    from hipbook.oracle.decode_step import decode_call
    from hipbook.traces.expect import expect

    call = decode_call([20], num_q_heads=4, num_kv_heads=2, head_dim=128, dtype=DTYPES["bf16"], seed=0)
    tensors = [call.q, call.k_cache, call.v_cache, call.block_table, call.seq_lens, call.query_start_loc]
    result = paged_attention(*tensors, scale=call.scale, arm="decode_gqa", board="gfx1200-emu")
    write_csv(trace_of([result.dispatch]), tmp_path, "run")
    again = read_trace(tmp_path)
    assert [one.passed for one in expect(again, "decode_gqa$", absent="online")] == [True, True]
    assert not expect(again, "online")[0].passed
    waves = again.counters.filter(pl.col("Counter_Name").cast(pl.String) == "SQ_WAVES")[
        "Counter_Value"
    ].item()
    row = again.dispatches.to_dicts()[0]
    lanes = row["Grid_Size_X"] * row["Grid_Size_Y"] * row["Grid_Size_Z"]
    assert waves * 32 == lanes
    assert row["VGPR_Count"] > 0


def test_a_picture_in_instructions_says_so(tmp_path):
    made = trace_of([dispatch("a", waves=6), dispatch("b", waves=2)], clock="instructions")
    lengths = made.dispatches["End_Timestamp"] - made.dispatches["Start_Timestamp"]
    assert lengths.to_list() == [600, 200]
    assert made.facts["label"] == INSTRUCTIONS
    assert "not time" in INSTRUCTIONS
    assert read_trace(write_chrome(made, tmp_path / "t.json")).dispatches.height == 2
    with pytest.raises(BadArgument, match="no counters"):
        trace_of([dispatch("a", time_us=1.0)], clock="instructions")
    with pytest.raises(BadArgument, match="at least one"):
        trace_of([])


def test_nothing_is_left_behind_by_a_failed_write(tmp_path, monkeypatch):
    import os

    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_chrome(timed(), tmp_path / "t.json")
    assert list(Path(tmp_path).iterdir()) == []
