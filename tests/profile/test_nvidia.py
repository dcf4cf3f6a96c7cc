"""torch.profiler in the child, run with a CPU-only torch as far as that goes, and ncu as a stand-in."""

import json
from pathlib import Path

import pytest
import torch

from hipbook.profile import nvidia
from hipbook.profile.child import TORCH_TRACE
from hipbook.profile.job import MARKER, ProfileError
from hipbook.profile.process import Ran, run_child
from hipbook.profile.window import read_output, traced
from hipbook.traces.read import read_trace

SUBJECTS = ["decode, 5 keys", "decode_gqa, 5 keys"]
SHORT = "smsp__inst_executed.sum"


# --- torch.profiler ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def watched(job, tmp_path_factory) -> Ran:
    """The child under the real torch.profiler; on the emulated board nothing runs that it could time."""
    folder = tmp_path_factory.mktemp("torch") / "run"
    return run_child(job.model_copy(update={"torch_trace": True}), folder)


def test_torchs_own_trace_has_our_markers(watched):
    trace = read_trace(watched.folder / TORCH_TRACE)
    assert trace.markers["Function"].to_list() == [MARKER + name for name in SUBJECTS]
    assert trace.dispatches.height == 0
    assert not watched.done.marked or torch.version.cuda  # NVTX is in a torch for CUDA alone


def test_without_a_gpu_there_is_no_kernel_and_that_is_said(watched):
    trace = read_output(watched.folder / TORCH_TRACE, "torch.profiler")
    with pytest.raises(
        ProfileError, match=r"recorded no launch of paged_attention_decode, .*it recorded nothing"
    ):
        traced(trace, watched, "torch.profiler")


def kineto(watched: Ran, change=lambda events: None) -> Path:
    """The child's own trace, and in it the calls and kernels that a GPU would have added.

    torch fills something before each launch of ours; a call of a profiled launch is inside its marker, and
    kernels run ten seconds behind their calls.
    """
    document = json.loads((watched.folder / TORCH_TRACE).read_text())
    markers = {one["name"]: one for one in document["traceEvents"] if one.get("cat") == "user_annotation"}
    added, first = [], min(one["ts"] for one in markers.values())
    for number, step in enumerate(watched.done.launches()):
        marker = markers[MARKER + step.subject]
        begun = bool(added) and added[-1]["subject"] == step.subject and added[-1]["role"] != "check"
        offsets = {"check": marker["dur"] + 100 if begun else -300, "warm-up": -200, "profiled": 1}
        for ours in (False, True):
            link = 2 * number + ours + 1
            event = {"ph": "X", "subject": step.subject, "role": step.role}
            called = {"ts": marker["ts"] + offsets[step.role] + 0.1 * link, "dur": 0.01}
            thread = {"pid": marker["pid"], "tid": marker["tid"]}
            args = {"cbid": 307, "correlation": link}
            call = {**event, "cat": "cuda_driver", "name": "cuLaunchKernel", **called, **thread, "args": args}
            facts = {"device": 0, "context": 1, "stream": 7, "correlation": link}
            facts |= (
                {"grid": step.grid, "block": step.block} if ours else {"grid": [4, 1, 1], "block": [8, 1, 1]}
            )
            name = step.kernel if ours else "void at::native::fill(int)"
            ran = {"ts": first + 1e7 + 100 * link, "dur": 2.5 + number}
            added += [
                call,
                {**event, "cat": "kernel", "name": name, **ran, "pid": 0, "tid": 7, "args": facts},
            ]
    change(added)
    document["traceEvents"] += added
    made = watched.folder.parent / "made.json"
    made.write_text(json.dumps(document))
    return made


def test_kernels_of_a_gpu_are_windowed_to_our_launches(watched):
    found = traced(read_trace(kineto(watched)), watched, "torch.profiler 2.11.0")
    assert found.how == "launch order and markers, which agree"
    assert found.rows["Subject"].to_list() == [name for name in SUBJECTS for _ in range(2)]
    assert found.median_us(SUBJECTS[0]) == pytest.approx((4.5 + 5.5) / 2)
    assert found.others == 10


def test_a_marker_that_holds_other_launches_is_a_contradiction(watched):
    """The warm-up's call moved into the marker: launch order and marker no longer agree."""

    def move(events: list[dict]) -> None:
        calls = [one for one in events if one["cat"] == "cuda_driver"]
        warm, inside = (next(c for c in calls[1::2] if c["role"] == role) for role in ("warm-up", "profiled"))
        warm["ts"] = inside["ts"]

    with pytest.raises(ProfileError, match="marker of decode, 5 keys holds 3 launches of ours, launch order"):
        traced(read_trace(kineto(watched, move)), watched, "torch.profiler")


def test_without_linked_calls_launch_order_alone_decides(watched):
    def unlink(events: list[dict]) -> None:
        events[:] = [one for one in events if one["cat"] == "kernel"]

    assert traced(read_trace(kineto(watched, unlink)), watched, "torch.profiler").how == "launch order"


def test_a_geometry_that_was_not_launched_is_found(watched):
    def widen(events: list[dict]) -> None:
        kernel = [one for one in events if one["cat"] == "kernel"][5]
        kernel["args"]["grid"] = [77, 1, 1]

    with pytest.raises(ProfileError, match=r"launch 3 of ours has Grid_Size_X .* the child launched"):
        traced(read_trace(kineto(watched, widen)), watched, "torch.profiler")


# --- ncu ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nsight(executable) -> str:
    return executable("ncu", "stand_in_ncu.py")


def test_counters_of_ncu_are_those_of_the_profiled_launches(replayed, first_run, nsight, job, tmp_path):
    replayed()
    found = nvidia.ncu(job, tmp_path / "run", path=nsight)
    seen = [json.loads(line) for line in (first_run.folder / "launches.jsonl").read_text().splitlines()]
    counts = [event["totals"]["SQ_INSTS"] for event in seen if event["event"] == "launch"]
    assert found.tool == "ncu 2025.3.1.0"
    rows = {(row["Counter"], row["Subject"]): row for row in found.values.iter_rows(named=True)}
    assert {counter for counter, _ in rows} == {SHORT, "gpu__time_duration.sum"}
    for subject, at in zip(SUBJECTS, (2, 7), strict=True):
        assert rows[SHORT, subject]["Median"] == counts[at]
        assert rows[SHORT, subject]["Launches"] == 2
        assert rows[SHORT, subject]["Unit"] == "inst"
        assert rows["gpu__time_duration.sum", subject]["Max"] == counts[at] * 1.5
    assert set(found.absent) == set(nvidia.METRICS) - {SHORT, "gpu__time_duration.sum"}
    assert "zero in all 10" in found.absent["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"]
    assert "no value in any of 10" in found.absent["launch__registers_per_thread"]
    assert "left it out" in found.absent["dram__bytes_read.sum"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("refused", "refused: ERR_NVGPUCTRPERM - The user does not have permission"),
        ("nothing", "ncu 2025.3.1.0 counted nothing"),
        ("no account", "the child left no account"),
    ],
)
def test_what_ncu_cannot_do_is_said_and_fails_nothing(replayed, nsight, job, tmp_path, fault, said):
    replayed(fault)
    found = nvidia.ncu(job, tmp_path / "run", path=nsight, metrics=[SHORT])
    assert found.values.height == 0
    assert said in found.absent[SHORT]


def test_a_metric_this_board_does_not_have_costs_itself_alone(replayed, nsight, job, tmp_path):
    replayed("unknown metric")
    found = nvidia.ncu(job, tmp_path / "run", path=nsight, metrics=["dram__bytes_read.sum", SHORT])
    assert found.values["Counter"].unique().to_list() == [SHORT]
    assert found.absent == {
        "dram__bytes_read.sum": "refused: Failed to find metric regex:^dram__bytes_read.sum$"
    }
    assert found.passes == 2


def test_an_absent_ncu_and_another_program_are_said(job, tmp_path, monkeypatch, executable):
    found = nvidia.ncu(job, tmp_path / "run", path=str(tmp_path / "ncu"), metrics=[SHORT])
    assert "is not an executable file" in found.absent[SHORT]
    other = nvidia.ncu(
        job, tmp_path / "run", path=executable("other", "stand_in_rocprofv3.py"), metrics=[SHORT]
    )
    assert "is not Nsight Compute" in other.absent[SHORT]
    assert not (tmp_path / "run").exists()


def test_an_unreadable_csv_of_ncu_is_an_error(replayed, nsight, job, tmp_path):
    replayed("raw page")
    with pytest.raises(ProfileError, match="ncu's CSV without Metric Unit"):
        nvidia.ncu(job, tmp_path / "run", path=nsight, metrics=[SHORT])
