"""`read_trace` on what people hand it: folders as the profiler leaves them, and things that are no trace."""

import json

import polars as pl
import pytest
from trace_makers import HEADER_70, HEADER_CALLS, dispatches, line_70, write_70

from hipbook.traces.health import health
from hipbook.traces.read import read_trace
from hipbook.traces.trace import Trace, TraceError
from hipbook.traces.write_rocpd import write_rocpd


def counters_csv(path, rows):
    names = ["Correlation_Id", "Dispatch_Id", "Agent_Id", "Process_Id", "Grid_Size", "Kernel_Name"]
    names += ["Workgroup_Size", "Counter_Name", "Counter_Value"]
    lines = [",".join(f'"{name}"' for name in names)]
    lines += [f'1,{dispatch},"Agent 1",9,640,"k",64,"{name}",{value}' for dispatch, name, value in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def test_several_processes_passes_and_domains(tmp_path):
    host = tmp_path / "a1b2c3d4e5f6"
    host.mkdir()
    write_70(host / "7_kernel_trace.csv", [line_70(1), line_70(2)])
    write_70(host / "8_kernel_trace.csv", [line_70(1)])
    (host / "7_hip_api_trace.csv").write_text(
        f'{HEADER_CALLS}\n"HIP_RUNTIME_API","hipLaunchKernel",7,7,1,90,95\n'
    )
    counters_csv(tmp_path / "pass_1" / "host" / "9_counter_collection.csv", [(1, "SQ_WAVES", 10)])
    counters_csv(tmp_path / "pass_2" / "host" / "9_counter_collection.csv", [(1, "FETCH_SIZE", 2.5)])
    trace = read_trace(tmp_path)
    assert trace.dispatches.height == 3
    processes = dict(trace.dispatches.group_by(pl.col("Process").cast(pl.String)).len().rows())
    assert processes == {"a1b2c3d4e5f6/7": 2, "a1b2c3d4e5f6/8": 1}
    assert trace.api_calls["Process"].cast(pl.String).to_list() == ["a1b2c3d4e5f6/7"]
    assert trace.counters["Pass"].cast(pl.String).to_list() == ["pass_1", "pass_2"]
    assert health(trace).has("several_processes")


def test_what_is_no_trace_is_left_alone_and_named(tmp_path):
    write_70(tmp_path / "1_kernel_trace.csv", [line_70(1)])
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "sales.csv").write_text("date,amount\n1,2\n")
    (tmp_path / "config.json").write_text("{}")
    trace = read_trace(tmp_path)
    assert trace.dispatches.height == 1
    note = next(one for one in trace.notes if one.kind == "skipped_files")
    assert note.count == 3
    assert "sales.csv" in note.text


def test_the_same_run_in_two_formats_is_said(tmp_path):
    write_70(tmp_path / "1_kernel_trace.csv", [line_70(1)])
    write_rocpd(
        Trace(path=tmp_path, dispatches=dispatches(("kernel", 100, 150, 1))), tmp_path / "1_results.db"
    )
    assert health(read_trace(tmp_path)).has("mixed_formats")


def test_an_empty_folder_and_somebody_elses_files(tmp_path):
    with pytest.raises(TraceError, match="it is empty"):
        read_trace(tmp_path)
    (tmp_path / "sales.csv").write_text("date,amount\n1,2\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 50)
    with pytest.raises(TraceError, match=r"it holds picture\.png, sales\.csv"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b"date,amount\n1,2\n"),
        ("a.json", b"{}"),
        ("a.json", b'{"a": 1}'),
        ("a.json", b"[1, 2]"),
        ("a.bin", bytes(range(256))),
        ("a.txt", b"hello"),
        ("a_kernel_trace.csv", b"date,amount\n1,2\n"),
        ("a_kernel_trace.csv", HEADER_70.encode("utf-16")),
        ("a.json.gz", b"\x1f\x8b\x08\x00broken"),
    ],
)
def test_not_a_trace_is_a_clear_error(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert name in str(error.value)


def test_no_such_file(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "absent")


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="neither a file nor a folder"):
        read_trace(tmp_path / "pipe")
    write_70(tmp_path / "1_kernel_trace.csv", [line_70(1)])
    assert read_trace(tmp_path).dispatches.height == 1


def test_an_error_of_the_system_is_a_clear_error(tmp_path, monkeypatch):
    from hipbook.traces import read

    path = write_70(tmp_path / "1_kernel_trace.csv", [line_70(1)])

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(read, "read_csv", refuse)
    with pytest.raises(TraceError, match="cannot be read: Permission denied"):
        read_trace(path)


def test_a_line_without_end_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    from hipbook.traces import csv_reader

    monkeypatch.setattr(csv_reader, "LONGEST_LINE_BYTES", 1 << 20)
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1 << 16)
    path = tmp_path / "1_kernel_trace.csv"
    path.write_bytes(HEADER_70.encode() + b"\n" + b"x" * (1 << 21))
    with pytest.raises(TraceError, match="a line of more than 1 MiB, from line 2 on"):
        read_trace(path)


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    write_70(outside / "1_kernel_trace.csv", [line_70(1)])
    inside = tmp_path / "inside"
    inside.mkdir()
    write_70(inside / "2_kernel_trace.csv", [line_70(1), line_70(2)])
    (inside / "link").symlink_to(outside, target_is_directory=True)
    assert read_trace(inside).dispatches.height == 2


def test_pc_sampling_is_recognised_and_not_read(tmp_path):
    (tmp_path / "1_pc_sampling.csv").write_text(
        '"Sample_Timestamp","Exec_Mask","Dispatch_Id","Instruction","Instruction_Comment","Correlation_Id"\n'
    )
    write_70(tmp_path / "1_kernel_trace.csv", [line_70(1)])
    trace = read_trace(tmp_path)
    assert any("PC sampling" in note.text for note in trace.notes)


def test_a_missing_column_in_a_folder_names_the_file(tmp_path):
    write_70(tmp_path / "1_kernel_trace.csv", [line_70(1)])
    (tmp_path / "2_kernel_trace.csv").write_text('"Kind","Kernel_Name","Start_Timestamp"\n')
    with pytest.raises(TraceError, match=r"2_kernel_trace.csv.*End_Timestamp"):
        read_trace(tmp_path)


def test_json_of_a_benchmark_is_not_taken_for_a_trace(tmp_path):
    (tmp_path / "result.json").write_text(json.dumps({"completed": 8, "mean_tpot_ms": 4.5}))
    with pytest.raises(TraceError, match="not a trace"):
        read_trace(tmp_path / "result.json")
