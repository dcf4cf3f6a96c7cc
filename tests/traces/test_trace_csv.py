"""The CSV reader on files made here: dialects, damage, exactness, blocks."""

import gzip

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_makers import HEADER_62, HEADER_70, HEADER_CALLS, comparable, line_70, write_70

from hipbook.traces import csv_blocks, csv_reader, stats
from hipbook.traces.health import health
from hipbook.traces.read import read_trace
from hipbook.traces.trace import TraceError


def read(tmp_path, text, name="1_kernel_trace.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_trace(path)


def test_one_row_of_the_62_and_of_the_70_dialect(tmp_path):
    old = read(tmp_path, f'{HEADER_62}\n"KERNEL_DISPATCH",1,1,7,"kernel",1,100,150,16,512,64,1,1,640,1,1\n')
    new = read(tmp_path, f"{HEADER_70}\n{line_70(1)}\n")
    assert old.sources[0].dialect == "rocprofv3 6.2"
    row = old.dispatches.to_dicts()[0]
    assert (row["Agent_Id"], row["Scratch_Size"], row["LDS_Block_Size"]) == (1, 16, 512)
    assert row["Dispatch_Id"] is None
    assert new.dispatches.to_dicts()[0]["Agent_Id"] == 1
    assert new.dispatches.to_dicts()[0]["Row"] == 2


# column -> value of dispatch n; the five dialects are choices of these columns, in this order each
VALUES = {
    "Guid": '"0000-11"', "Kind": '"KERNEL_DISPATCH"', "Agent_Id": None, "Queue_Id": 16, "Stream_Id": 0,
    "Graph_Exec_Id": 0, "Graph_Node_Id": 0, "Thread_Id": 908, "Dispatch_Id": "n", "Kernel_Id": 8,
    "Kernel_Name": '"void k<int, 2>(float*, int)"', "Correlation_Id": "n", "Start_Timestamp": 63857982592000,
    "End_Timestamp": 63857982594840, "Duration": 2840, "Private_Segment_Size": 16, "Group_Segment_Size": 512,
    "LDS_Block_Size": 512, "Scratch_Size": 16, "VGPR_Count": 8, "Accum_VGPR_Count": 0, "SGPR_Count": 32,
    "Workgroup_Size_X": 512, "Workgroup_Size_Y": 1, "Workgroup_Size_Z": 1, "Grid_Size_X": 1024,
    "Grid_Size_Y": 1, "Grid_Size_Z": 1,
}  # fmt: skip
SIZES = ["LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count"]
OLD = {"Private_Segment_Size", "Group_Segment_Size"}
GRAPH = {"Graph_Exec_Id", "Graph_Node_Id", "Duration"}
DIALECTS = {
    "rocprofv3 6.2": set(VALUES) - {"Guid", "Stream_Id", "Thread_Id", "Dispatch_Id", *GRAPH, *SIZES},
    "rocprofv3 6.3-6.4": set(VALUES) - {"Guid", "Stream_Id", *GRAPH, *SIZES},
    "rocprofv3 7.0": set(VALUES) - {"Guid", *GRAPH, *OLD},
    "rocpd convert, 7.x": set(VALUES) - {*GRAPH, *OLD},
    "rocpd convert, 2026": set(VALUES) - OLD,
}


def in_dialect(dialect, rows):
    old, new_case = dialect.startswith("rocprofv3 6"), dialect.startswith("rocpd")
    columns = [name for name in VALUES if name in DIALECTS[dialect]]
    shown = [name.title() if new_case and name in SIZES else name for name in columns]
    lines = [",".join(f'"{name}"' for name in shown)]
    for number in range(1, rows + 1):
        agent = "2" if old else '"Agent 2"'
        values = [agent if name == "Agent_Id" else VALUES[name] for name in columns]
        lines.append(",".join(str(number if value == "n" else value) for value in values))
    return "\n".join(lines) + "\n"


def test_five_dialects_made_here_give_equal_tables(tmp_path):
    assert [len(columns) for columns in DIALECTS.values()] == [16, 18, 22, 23, 26]
    tables = {}
    for dialect in DIALECTS:
        trace = read(tmp_path, in_dialect(dialect, 3))
        assert trace.sources[0].dialect == dialect
        assert not trace.rejected
        tables[dialect] = comparable(trace.dispatches)
    newest = tables["rocprofv3 7.0"]
    for dialect, table in tables.items():
        own = [name for name in table.columns if not table[name].null_count()]
        shared = [name for name in own if not newest[name].null_count()]
        assert len(shared) >= 15, dialect
        assert table.select(shared).equals(newest.select(shared)), dialect


def test_addresses_in_either_base(tmp_path):
    names = "Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,Start_Timestamp,End_Timestamp"
    rows = ['"M","ALLOCATE","Agent 0",1024,"0xff00",1,10,20', '"M","FREE","",0,65280,2,30,40']
    table = read(tmp_path, "\n".join([names, *rows]) + "\n", "1_memory_allocation_trace.csv").allocations
    assert table["Address"].to_list() == [0xFF00, 0xFF00]
    assert table["Agent_Id"].to_list() == [0, None]


def test_agents_as_number_word_and_gpu(tmp_path):
    lines = [line_70(1), line_70(2).replace('"Agent 1"', "1"), line_70(3).replace("Agent 1", "GPU 1")]
    assert read(tmp_path, "\n".join([HEADER_70, *lines]) + "\n").dispatches["Agent_Id"].to_list() == [1, 1, 1]


def test_integers_beyond_2_to_53_are_exact(tmp_path):
    start = (1 << 53) + 1
    trace = read(tmp_path, f"{HEADER_70}\n{line_70(1, start=start, end=start + 3)}\n")
    assert trace.dispatches["Start_Timestamp"].to_list() == [9007199254740993]
    assert stats.totals(trace.dispatches).sum_ns == 3


def test_2_to_64_minus_1_is_kept_flagged_and_left_out(tmp_path):
    top = (1 << 64) - 1
    trace = read(tmp_path, "\n".join([HEADER_70, line_70(1, start=top, end=top), line_70(2)]) + "\n")
    report = health(trace)
    assert trace.dispatches.height == 2
    assert trace.dispatches["Start_Timestamp"].to_list() == [-1, 200]
    assert (report.count("uint64_max_timestamps"), report.totals.usable_rows) == (1, 1)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (line_70(2)[:60], "cut line"),
        (line_70(2) + ",9", "23 fields where the header has 22"),
        (line_70(2).replace('"', "") + ",9", "23 fields where the header has 22"),
        (line_70(2, start="soon"), "Start_Timestamp is not an integer"),
        (line_70(2, start=1 << 70), "Start_Timestamp is more than 64 bits"),
        (line_70(2, name=""), "no value in Kernel_Name"),
        (line_70(2).replace("Agent 1", "nobody"), "Agent_Id is not an agent"),
        ("\x00\x00\x00", "cut line"),
    ],
)
def test_one_bad_row_costs_one_row_with_line_and_reason(tmp_path, bad, reason):
    trace = read(tmp_path, "\n".join([HEADER_70, line_70(1), bad, line_70(3)]) + "\n")
    assert trace.dispatches["Dispatch_Id"].to_list() == [1, 3]
    assert trace.dispatches["Row"].to_list() == [2, 4]
    assert [one.line for one in trace.rejected] == [3]
    assert reason in trace.rejected[0].reason
    assert health(trace).count("rejected_rows") == 1


def test_cut_last_line_is_named_so(tmp_path):
    trace = read(tmp_path, f"{HEADER_70}\n{line_70(1)}\n{line_70(2)[:70]}")
    assert [(one.line, one.reason) for one in trace.rejected] == [
        (3, "cut last line (fewer fields than the header)")
    ]


def test_missing_final_newline_is_a_caution_because_the_last_field_may_be_cut(tmp_path):
    trace = read(tmp_path, f"{HEADER_70}\n{line_70(1)}\n{line_70(2)}")
    assert trace.dispatches.height == 2
    note = next(one for one in trace.notes if one.kind == "no_final_newline")
    assert note.lines == (3,)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('f<"a">(int)', 'f<"a">(int)'),
        ('f ""quoted"" by the book', 'f "quoted" by the book'),
        ("a, b, c", "a, b, c"),
        ('comma", and quote', 'comma", and quote'),
        ("two\nlines", "two\nlines"),
        ("ünï", "ünï"),
    ],
)
def test_names_that_the_writer_never_escaped(tmp_path, written, meant):
    text = "\n".join([HEADER_70, line_70(1), line_70(2, name=written), line_70(3)]) + "\n"
    trace = read(tmp_path, text)
    assert trace.dispatches["Kernel_Name"].cast(pl.String).to_list() == ["kernel", meant, "kernel"]
    assert not trace.rejected
    assert trace.dispatches["Row"].to_list() == [2, 3, 4 + written.count("\n")]


def test_every_line_with_the_same_inner_quotes_keeps_them(tmp_path):
    text = "\n".join([HEADER_70, *(line_70(n, name='k "x" y') for n in range(1, 9))]) + "\n"
    assert set(read(tmp_path, text).dispatches["Kernel_Name"].cast(pl.String)) == {'k "x" y'}


def test_bom_crlf_blank_lines_and_quoted_numbers_are_no_damage(tmp_path):
    quoted = line_70(2).replace(",200,250,", ',"200","250",')
    text = "\ufeff" + "\r\n".join([HEADER_70, line_70(1), "", quoted, ""])
    trace = read(tmp_path, text)
    assert trace.dispatches["Start_Timestamp"].to_list() == [100, 200]
    assert not trace.rejected
    assert {note.kind for note in trace.notes} == {"bom", "crlf", "blank_lines"}


def test_a_second_header_starts_another_process_and_duplicates_are_counted(tmp_path):
    once = [HEADER_70, line_70(1), line_70(2)]
    trace = read(tmp_path, "\n".join(once + once) + "\n")
    report = health(trace)
    assert trace.dispatches["Process"].cast(pl.String).to_list() == ["1", "1", "1#2", "1#2"]
    assert report.count("repeated_header") == 1
    assert report.count("duplicate_dispatches") == 2
    assert report.has("several_processes")


def test_header_only_is_an_empty_trace_not_an_error(tmp_path):
    trace = read(tmp_path, HEADER_70 + "\n")
    assert trace.dispatches.height == 0
    assert stats.totals(trace.dispatches).span_ns == 0
    assert stats.per_kernel(trace.dispatches).height == 0
    assert "no rows" in str(health(trace)) or health(trace).has("no_rows")


def test_missing_required_column_names_file_column_and_what_was_found(tmp_path):
    header = HEADER_70.replace('"End_Timestamp",', "")
    with pytest.raises(TraceError) as error:
        read(tmp_path, f"{header}\n")
    for word in ("1_kernel_trace.csv", "End_Timestamp", "Start_Timestamp", "Kernel_Name"):
        assert word in str(error.value)


def test_unknown_columns_are_ignored_by_name(tmp_path):
    trace = read(tmp_path, f'{HEADER_70},"Novelty"\n{line_70(1)},"x"\n')
    assert trace.dispatches.height == 1
    assert any("Novelty" in note.text for note in trace.notes)


def test_columns_in_other_case_and_order(tmp_path):
    header = '"End_timestamp","START_TIMESTAMP","kernel_name","Vgpr_Count"'
    trace = read(tmp_path, f'{header}\n150,100,"k",24\n')
    assert trace.dispatches.select("Start_Timestamp", "End_Timestamp", "VGPR_Count").row(0) == (100, 150, 24)


def test_invalid_utf8_is_replaced_and_said(tmp_path):
    text = f"{HEADER_70}\n".encode() + line_70(1, name="k@").encode().replace(b"@", b"\xff") + b"\n"
    trace = read(tmp_path, text)
    assert trace.dispatches["Kernel_Name"].cast(pl.String).to_list() == ["k\ufffd"]
    assert any(note.kind == "bad_utf8" for note in trace.notes)


def test_gzip_and_a_gzip_that_ends_early(tmp_path):
    text = ("\n".join([HEADER_70, *(line_70(n) for n in range(1, 2000))]) + "\n").encode()
    packed = gzip.compress(text)
    (tmp_path / "1_kernel_trace.csv.gz").write_bytes(packed)
    whole = read_trace(tmp_path / "1_kernel_trace.csv.gz")
    assert whole.dispatches.height == 1999
    assert whole.dispatches["Process"][0] == "1"
    (tmp_path / "1_kernel_trace.csv.gz").write_bytes(packed[: len(packed) // 2])
    half = read_trace(tmp_path / "1_kernel_trace.csv.gz")
    assert 500 < half.dispatches.height < 1999
    assert health(half).has("truncated")


def test_rocprof_v1_with_counters_in_columns(tmp_path):
    text = (
        '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr",'
        '"arch_vgpr","accum_vgpr","sgpr","wave_size","sig","obj","DispatchNs","BeginNs","EndNs",'
        '"CompleteNs","DurationNs","SQ_WAVES"\n'
        '0,"vector_add(float*, int) [clone .kd]",1,0,0,77,78,1024,256,0,0,8,0,16,32,0x0,0x7f,'
        "90,100,160,170,60,16\n"
    )
    trace = read(tmp_path, text, "results.csv")
    assert trace.sources[0].dialect == "rocprof v1"
    row = trace.dispatches.to_dicts()[0]
    assert (row["Start_Timestamp"], row["End_Timestamp"], row["Grid_Size_X"], row["Agent_Id"]) == (
        100,
        160,
        1024,
        1,
    )
    assert trace.counters.select("Counter_Name", "Counter_Value").cast(
        {"Counter_Name": pl.String}
    ).rows() == [("SQ_WAVES", 16.0)]


def test_agent_info_keeps_big_integers(tmp_path):
    big = (1 << 63) + 12345
    names = (
        '"Node_Id","Logical_Node_Id","Agent_Type","Name","Product_Name","Cu_Count","Wave_Front_Size","Uuid"'
    )
    text = f'{names}\n1,1,"GPU","gfx1200","Radeon",32,32,{big}\n'
    agents = read(tmp_path, text, "1_agent_info.csv").agents.to_dicts()
    assert (agents[0]["Agent_Id"], agents[0]["Name"], agents[0]["Cu_Count"]) == (1, "gfx1200", 32)
    assert str(big) in agents[0]["Facts"]


def test_markers_are_told_from_calls_by_their_domain(tmp_path):
    text = f'{HEADER_CALLS}\n"HIP_RUNTIME_API","hipFree",1,1,1,10,20\n"MARKER_CORE_API","step",1,1,2,10,20\n'
    trace = read(tmp_path, text, "all.csv")
    assert trace.api_calls["Function"].cast(pl.String).to_list() == ["hipFree"]
    assert trace.markers["Function"].cast(pl.String).to_list() == ["step"]


@pytest.mark.parametrize("block_bytes", [64, 1 << 20, *range(150, 900, 53)])
def test_block_size_changes_nothing(tmp_path, monkeypatch, block_bytes):
    lines = [line_70(n, name=f"k{n % 3}") for n in range(1, 60)]
    lines[20] = line_70(21, name='a "quoted", name\nof two lines')
    lines[30] = lines[30][:50]
    lines[40] = HEADER_70
    path = write_70(tmp_path / "1_kernel_trace.csv", lines)
    plain = read_trace(path)
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", block_bytes)
    again = read_trace(path)
    assert again.dispatches.equals(plain.dispatches)
    assert again.dispatches.height == 57
    assert again.rejected == plain.rejected
    assert [(n.kind, n.lines) for n in again.notes] == [(n.kind, n.lines) for n in plain.notes]


def test_quick_and_careful_halves_agree(tmp_path, monkeypatch):
    lines = [line_70(n, name=f"void k{n % 5}<{n % 3}>(int, float)") for n in range(1, 400)]
    path = write_70(tmp_path / "1_kernel_trace.csv", lines)
    quick = read_trace(path)
    monkeypatch.setattr(csv_reader, "parse_block", lambda *arguments: None)
    careful = read_trace(path)
    assert comparable(quick.dispatches).equals(comparable(careful.dispatches))
    assert quick.dispatches["Row"].equals(careful.dispatches["Row"])


def test_plain_blocks_take_the_quick_half(tmp_path):
    """The speed rests on it: were it refused, every file would go line by line and still read right."""
    from hipbook.traces import schema
    from hipbook.traces.csv_layout import layout_of

    layout, _ = layout_of(HEADER_70, schema.DISPATCHES, "x")
    block = csv_blocks.sentinel(layout) + ("\n".join(line_70(n) for n in range(1, 50)) + "\n").encode()
    wanted = ["Kernel_Name", "Start_Timestamp", "End_Timestamp", "Agent_Id"]
    frame = csv_blocks.parse_block(block, layout, wanted, {})
    assert frame is not None
    assert frame.height == 49


def test_times_only_agrees_with_everything(tmp_path):
    path = write_70(tmp_path / "1_kernel_trace.csv", [line_70(n, name=f"k{n % 3}") for n in range(1, 60)])
    assert stats.per_kernel(read_trace(path, times_only=True).dispatches).equals(
        stats.per_kernel(read_trace(path).dispatches)
    )


names = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters='"'), min_size=1, max_size=30
)
times = st.integers(1, (1 << 63) - 1 - 3_600_000_000_000)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, times, st.integers(0, 3_600_000_000_000)), min_size=1, max_size=8))
def test_any_name_and_any_time_reads_back_exactly(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("csv")
    lines = [line_70(n, name, start, start + length) for n, (name, start, length) in enumerate(rows, 1)]
    trace = read_trace(write_70(folder / "1_kernel_trace.csv", lines))
    assert not trace.rejected
    assert trace.dispatches["Kernel_Name"].cast(pl.String).to_list() == [name for name, *_ in rows]
    assert trace.dispatches["Start_Timestamp"].to_list() == [start for _, start, _ in rows]
    assert stats.totals(trace.dispatches).sum_ns == sum(length for *_, length in rows)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_rubbish_behind_a_header_never_raises_and_is_accounted_for(tmp_path_factory, rubbish):
    path = tmp_path_factory.mktemp("csv") / "1_kernel_trace.csv"
    path.write_bytes(f"{HEADER_70}\n{line_70(1)}\n".encode() + rubbish + b"\n" + line_70(2).encode() + b"\n")
    trace = read_trace(path)
    assert {1, 2} <= set(trace.dispatches["Dispatch_Id"].to_list()) or trace.rejected
    health(trace)
