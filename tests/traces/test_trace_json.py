"""rocprofv3 JSON and torch JSON made here."""

import gzip
import json
from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipbook.traces import stats
from hipbook.traces.health import health
from hipbook.traces.json_text import nanoseconds
from hipbook.traces.read import read_trace
from hipbook.traces.trace import TraceError


def sdk(**changes):
    process = {
        "metadata": {"pid": 7, "node": {"hostname": "h"}},
        "agents": [
            {
                "id": {"handle": 900},
                "node_id": 2,
                "type": 2,
                "name": "gfx1200",
                "cu_count": 32,
                "uuid": 1 << 63,
            }
        ],
        "kernel_symbols": [
            {
                "kernel_id": 5,
                "formatted_kernel_name": "void k<int>(int)",
                "kernel_name": "_Z1kIiEvT_.kd",
                "arch_vgpr_count": 24,
                "accum_vgpr_count": 0,
                "sgpr_count": 32,
            }
        ],
        "strings": {
            "buffer_records": [
                {"kind": "NONE", "operations": []},
                {"kind": "HIP_RUNTIME_API", "operations": ["hipFree", "hipLaunchKernel"]},
                {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA"]},
                {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
                {"kind": "KERNEL_DISPATCH", "operations": ["A", "B", "COMPLETE"]},
            ],
            "marker_api": [{"key": 3, "value": "decode step"}],
            "correlation_id": {"external": []},
        },
        "counters": [{"id": {"handle": 77}, "name": "SQ_WAVES"}],
        "buffer_records": {
            "kernel_dispatch": [record()],
            "hip_api": [
                {
                    "kind": 1,
                    "operation": 1,
                    "thread_id": 4,
                    "correlation_id": {"internal": 1},
                    "start_timestamp": 50,
                    "end_timestamp": 60,
                }
            ],
            "marker_api": [
                {
                    "kind": 2,
                    "operation": 0,
                    "thread_id": 4,
                    "correlation_id": {"internal": 3},
                    "start_timestamp": 40,
                    "end_timestamp": 40,
                }
            ],
            "memory_copy": [
                {
                    "kind": 3,
                    "operation": 1,
                    "correlation_id": {"internal": 2},
                    "start_timestamp": 10,
                    "end_timestamp": 20,
                    "src_agent_id": {"handle": 1},
                    "dst_agent_id": {"handle": 900},
                    "bytes": 64,
                }
            ],
        },
        "callback_records": {
            "counter_collection": [
                {
                    "thread_id": 4,
                    "dispatch_data": {**record(), "correlation_id": {"internal": 1}},
                    "records": [{"counter_id": {"handle": 77}, "value": 16.0}],
                }
            ]
        },
    }
    return {"rocprofiler-sdk-tool": [{**process, **changes}]}


def record(**changes):
    return {
        "kind": 4,
        "operation": 2,
        "thread_id": 4,
        "correlation_id": {"internal": 1, "external": 0},
        "start_timestamp": 100,
        "end_timestamp": 150,
        "stream_id": {"handle": 3},
        "dispatch_info": {
            "agent_id": {"handle": 900},
            "queue_id": {"handle": 16},
            "kernel_id": 5,
            "dispatch_id": 1,
            "private_segment_size": 0,
            "group_segment_size": 512,
            "workgroup_size": {"x": 64, "y": 1, "z": 1},
            "grid_size": {"x": 640, "y": 1, "z": 1},
        },
        **changes,
    }


def read(tmp_path, document, name="7_results.json"):
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_trace(path)


def only(table, *columns):
    return [tuple(str(v) if isinstance(v, str) else v for v in row) for row in table.select(columns).rows()]


def test_every_table_of_the_sdk_json(tmp_path):
    trace = read(tmp_path, sdk())
    assert only(
        trace.dispatches, "Kernel_Name", "Agent_Id", "Queue_Id", "Stream_Id", "VGPR_Count", "LDS_Block_Size"
    ) == [("void k<int>(int)", 2, 16, 3, 24, 512)]
    assert only(trace.api_calls, "Domain", "Function", "Process_Id") == [
        ("HIP_RUNTIME_API", "hipLaunchKernel", 7)
    ]
    assert only(trace.markers, "Function") == [("decode step",)]
    assert only(trace.copies, "Direction", "Destination_Agent_Id", "Size_Bytes") == [
        ("HOST_TO_DEVICE", 2, 64)
    ]
    assert only(trace.counters, "Counter_Name", "Counter_Value", "Grid_Size") == [("SQ_WAVES", 16.0, 640)]
    assert only(trace.agents, "Agent_Id", "Agent_Type", "Name", "Cu_Count") == [(2, "GPU", "gfx1200", 32)]
    assert str(1 << 63) in trace.agents["Facts"][0]
    assert not trace.rejected


def test_renamed_kernel_and_absent_stream(tmp_path):
    renamed = record(correlation_id={"internal": 1, "external": 9})
    renamed.pop("stream_id")
    document = sdk(buffer_records={"kernel_dispatch": [renamed]})
    document["rocprofiler-sdk-tool"][0]["strings"]["correlation_id"]["external"] = [
        {"key": 9, "value": "my range"}
    ]
    trace = read(tmp_path, document)
    assert only(trace.dispatches, "Kernel_Name", "Stream_Id") == [("my range", None)]
    assert {note.kind for note in trace.notes} >= {"no_stream", "renamed_kernels"}


def test_a_dispatch_without_symbol_keeps_its_row_and_a_broken_one_costs_one(tmp_path):
    lost, broken = record(), record()
    lost["dispatch_info"] = {**lost["dispatch_info"], "kernel_id": 6}
    broken.pop("dispatch_info")
    trace = read(
        tmp_path,
        sdk(buffer_records={"kernel_dispatch": [lost, broken, record(start_timestamp=None), record()]}),
    )
    assert only(trace.dispatches, "Row", "Kernel_Name") == [
        (1, "<kernel 6, no symbol>"),
        (4, "void k<int>(int)"),
    ]
    assert [one.line for one in trace.rejected] == [2, 3]
    assert "dispatch_info" in trace.rejected[0].reason
    assert "Start_Timestamp" in trace.rejected[1].reason


def test_several_processes_in_one_json(tmp_path):
    document = sdk()
    document["rocprofiler-sdk-tool"] *= 2
    trace = read(tmp_path, document)
    assert trace.dispatches["Process"].n_unique() == 2
    assert health(trace).has("several_processes")


def test_numbers_beyond_2_to_53_and_2_to_64_minus_1(tmp_path):
    big = (1 << 53) + 1
    rows = [
        record(start_timestamp=big, end_timestamp=big + 1),
        record(start_timestamp=(1 << 64) - 1, end_timestamp=(1 << 64) - 1),
    ]
    trace = read(tmp_path, sdk(buffer_records={"kernel_dispatch": rows}))
    assert trace.dispatches["Start_Timestamp"].to_list() == [big, -1]
    assert stats.totals(trace.dispatches).sum_ns == 1


@pytest.mark.parametrize("text", ['{"rocprofiler-sdk-tool": [', '{"rocprofiler-sdk-tool": 5}'])
def test_a_broken_sdk_json_is_a_clear_error(tmp_path, text):
    with pytest.raises(TraceError, match=r"7_results.json"):
        read(tmp_path, text)


def event(category, name, ts, dur, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 2, "ts": ts, "dur": dur, "args": args}


def torch_text(*events, **head):
    return json.dumps({"schemaVersion": 1, **head, "traceEvents": list(events)})


def test_torch_events_become_tables(tmp_path):
    trace = read(
        tmp_path,
        torch_text(
            event(
                "kernel", "k", 10.5, 2.25, device=2, stream=7, correlation=1, grid=[4, 2, 1], block=[64, 1, 1]
            ),
            event(
                "gpu_memcpy",
                "Memcpy HtoD (Host -> Device)",
                20,
                1,
                device=2,
                stream=7,
                correlation=2,
                bytes=64,
            ),
            event("gpu_memset", "Memset (Device)", 22, 1, device=2, stream=7, correlation=3, bytes=4),
            event("cuda_runtime", "hipLaunchKernel", 5, 1, correlation=1),
            event("user_annotation", "step", 4, 9),
            event("cpu_op", "aten::mm", 4, 3),
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
            distributedInfo={"rank": 3, "world_size": 8},
        ),
        "t.json",
    )
    assert only(
        trace.dispatches,
        "Kernel_Name",
        "Start_Timestamp",
        "End_Timestamp",
        "Queue_Id",
        "Agent_Id",
        "Grid_Size_X",
    ) == [("k", 10500, 12750, 7, 2, 256)]
    assert only(trace.copies, "Direction", "Size_Bytes") == [("HOST_TO_DEVICE", 64), ("FILL", 4)]
    assert only(trace.api_calls, "Domain", "Function", "Correlation_Id") == [
        ("cuda_runtime", "hipLaunchKernel", 1)
    ]
    assert only(trace.markers, "Function") == [("step",)]
    assert trace.facts["rank"] == 3
    assert "rank 3" in str(trace.dispatches["Process"][0])
    assert any("1 cpu_op" in note.text for note in trace.notes)


def test_microseconds_become_exact_nanoseconds():
    given = ["6520618853487.683", "9007199254740993.001", 12, "1.2346", "0.0006", "1e3", None, "soon", True]
    assert nanoseconds(given[:6]).to_list() == [
        6520618853487683,
        9007199254740993001,
        12000,
        1235,
        1,
        1_000_000,
    ]
    assert nanoseconds([None, "soon", {}]).to_list() == [None, None, None]


def test_a_bad_event_costs_one_event(tmp_path):
    trace = read(
        tmp_path,
        torch_text(event("kernel", "k", "x", 1), event("kernel", "", 1, 1), event("kernel", "k", 1, 1), 5),
        "t.json",
    )
    assert trace.dispatches["Row"].to_list() == [3]
    assert sorted(one.line for one in trace.rejected) == [1, 2, 4]


@pytest.mark.parametrize("zipped", [False, True])
def test_a_cut_torch_trace_is_read_up_to_its_last_whole_event(tmp_path, zipped):
    text = torch_text(*(event("kernel", "k", n, 0.5, device=0, stream=0) for n in range(1, 300)))
    path = tmp_path / "t.json"
    data = gzip.compress(text.encode()) if zipped else text.encode()
    path.write_bytes(data[: int(len(data) * 0.7)])
    trace = read_trace(path)
    assert 100 < trace.dispatches.height < 299
    assert health(trace).has("truncated")


def test_metadata_of_megabytes_before_the_events(tmp_path):
    head = {"metadata": {"pip_packages": ["x" * 100] * 2000}}
    trace = read(tmp_path, torch_text(event("kernel", "k", 1, 1), **head), "t.json")
    assert trace.dispatches.height == 1


def test_a_list_of_events_is_chrome_json_too(tmp_path):
    assert read(tmp_path, json.dumps([event("kernel", "k", 1, 1)]), "t.json").dispatches.height == 1


def test_two_events_of_one_kernel_are_grouped(tmp_path):
    trace = read(tmp_path, torch_text(*(event("kernel", "k", n, 1.5) for n in (1, 5))), "t.json")
    assert stats.per_kernel(trace.dispatches).select("Calls", "Total_Ns").row(0) == (2, 3000)
    assert trace.dispatches["Kernel_Name"].dtype == pl.Categorical


# --- documents that are nearly right --------------------------------------------------------------

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from([[], {}, [1], {"handle": "x"}]),
)


def places(node, path=()):
    """Every place in a JSON document, as the keys that lead there."""
    yield path
    for key, below in (
        node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    ):
        yield from places(below, (*path, key))


def replaced(node, path, value):
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = replaced(node[path[0]], path[1:], value)
    return copy


def kineto():
    return {
        "deviceProperties": [{"id": 0, "name": "AMD"}],
        "distributedInfo": {"rank": 0},
        "traceEvents": [
            event("kernel", "k", 1.5, 2, device=0, stream=0, correlation=1, grid=[1, 1, 1], block=[64, 1, 1]),
            event("gpu_memcpy", "Memcpy HtoD", 5, 1, bytes=4),
            event("cuda_runtime", "hipLaunchKernel", 1, 1, correlation=1),
        ],
    }


@pytest.mark.parametrize("document", [sdk(), kineto()], ids=["sdk", "kineto"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_wrong_value_anywhere_is_read_around_or_a_clear_error(tmp_path_factory, document, data):
    where = data.draw(st.sampled_from(list(places(document))[1:]))
    path = tmp_path_factory.mktemp("json") / "7_results.json"
    path.write_text(json.dumps(replaced(document, where, data.draw(JUNK))))
    with suppress(TraceError):
        trace = read_trace(path)
        health(trace)
        stats.per_kernel(trace.dispatches)
