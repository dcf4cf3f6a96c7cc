"""rocprofv3 as a stand-in that runs the child on the emulated board: its formats read, its failures told."""

import csv
import json
import runpy
from pathlib import Path

import polars as pl
import pytest
from trace_makers import SHARED, needs_shared

from hipbook.errors import BadArgument
from hipbook.profile import rocprofv3
from hipbook.profile.job import ChildFailed, ProfileError, ToolFailed
from hipbook.profile.window import labelled
from hipbook.traces import stats
from hipbook.traces.read import read_trace

STAND_IN = runpy.run_path(str(Path(__file__).parent / "stand_in_rocprofv3.py"))
SUBJECTS = ["decode, 5 keys", "decode_gqa, 5 keys"]


def of_file(folder: Path) -> list[dict]:
    """What the stand-in saw inside the child."""
    lines = (folder / "launches.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "launch"]


# --- the real run ------------------------------------------------------------------------------------


def test_the_profiled_launches_and_only_they_are_picked(first_run, job):
    found = first_run.traced
    assert found.tool == "rocprofv3 1.0.0 (ROCm 7.1.0)"
    assert found.how == "launch order and markers, which agree"
    assert found.rows["Subject"].to_list() == [name for name in SUBJECTS for _ in range(2)]
    assert found.others == 10  # the copies before each launch
    assert found.unusable == 0
    assert found.problems == ()
    # of each subject's five launches (check, warm-up, two, check) the third and fourth, as long as they ran
    seen = of_file(first_run.folder)
    assert len(seen) == 10
    wanted = [seen[at]["totals"]["SQ_INSTS"] for at in (2, 3, 7, 8)]
    assert found.rows.select(stats.DURATION).to_series().to_list() == wanted
    assert found.median_us(SUBJECTS[0]) == wanted[0] / 1e3


def test_the_child_did_what_the_job_says(first_run, job):
    done = first_run.traced.ran.done
    assert done.board["name"] == job.board
    assert done.marked
    assert [(step.role, step.count) for step in done.steps] == 2 * [
        ("check", 1), ("warm-up", 1), ("profiled", 2), ("check", 1),
    ]  # fmt: skip
    assert [one.name for one in done.subjects] == SUBJECTS == job.subjects
    assert all(one.values_compared == 2 * 4 * 128 and len(one.host_us) == 1 for one in done.subjects)
    seen = of_file(first_run.folder)
    assert [(one["kernel"], tuple(one["grid"])) for one in seen] == [
        (step.kernel, step.grid) for step in done.launches()
    ]


@needs_shared
def test_the_stand_in_writes_the_columns_of_amds_samples():
    for name, columns in (
        ("kernel_trace", "KERNELS"),
        ("counter_collection", "COUNTERS"),
        ("marker_api_trace", "CALLS"),
    ):
        with (SHARED / "amd-samples" / f"{name}.csv").open() as sample:
            assert next(csv.reader(sample)) == list(STAND_IN[columns])


# --- formats -----------------------------------------------------------------------------------------


def test_csv_and_rocpd_give_the_same_launches(replayed, job, tool, tmp_path, first_run):
    replayed()
    columns = ["Kernel_Name", "Start_Timestamp", "End_Timestamp", "Grid_Size_X", "VGPR_Count", "Subject"]
    wanted = first_run.traced.rows.select(columns)
    for kind in ("csv", "rocpd"):
        found = rocprofv3.kernel_trace(job, tmp_path / kind, tool, output_format=kind)
        assert found.rows.select(columns).rows() == wanted.rows()
        assert found.how == "launch order"  # no markers were asked for
        assert {source.format for source in read_trace(tmp_path / kind / "rocprofv3").sources} == {
            {"csv": "rocprofv3 csv", "rocpd": "rocpd"}[kind]
        }


# --- counters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "rocpd"])
def test_counters_in_passes_equal_what_the_board_counted(replayed, job, tool, tmp_path, first_run, kind):
    replayed(limit=2)
    groups = [("SQ_WAVES_sum", "SQ_INSTS_VALU", "LDSBankConflict"), ("GL2C_HIT_sum",), ("FETCH_SIZE",)]
    found = rocprofv3.count(job, tmp_path / "count", tool, groups=groups, output_format=kind)
    assert found.passes == 5  # the first group does not fit and is halved
    seen = of_file(first_run.folder)
    for subject, at in zip(SUBJECTS, (2, 7), strict=True):
        values = {row["Counter"]: row for row in found.values.filter(Subject=subject).iter_rows(named=True)}
        totals = seen[at]["totals"]
        assert set(values) == {"SQ_WAVES_sum", "SQ_INSTS_VALU", "FETCH_SIZE"}
        assert values["SQ_WAVES_sum"]["Median"] == totals["SQ_WAVES"]
        assert values["SQ_INSTS_VALU"]["Median"] == totals["SQ_INSTS_VALU"]
        assert values["SQ_WAVES_sum"]["Launches"] == 2
        assert values["SQ_WAVES_sum"]["Unit"] == "waves"
        assert values["FETCH_SIZE"]["Min"] == pytest.approx(totals["BYTES_READ"] / 1024, abs=1e-6)
    assert set(found.absent) == {"LDSBankConflict", "GL2C_HIT_sum"}
    assert found.absent["LDSBankConflict"].startswith("unsupported, or a power state: zero in all 20")
    assert "not collected" in found.absent["GL2C_HIT_sum"]
    assert "Unable to find counters: [GL2C_HIT_sum]" in found.absent["GL2C_HIT_sum"]
    assert str(tmp_path) not in found.absent["GL2C_HIT_sum"]  # it goes into records


def test_a_counter_missing_from_a_pass_that_has_others_is_absent(replayed, job, tool, tmp_path):
    replayed()
    found = rocprofv3.count(job, tmp_path / "count", tool, groups=[("SQ_WAVES_sum", "GL2C_HIT_sum")])
    assert found.values["Counter"].unique().to_list() == ["SQ_WAVES_sum"]
    assert "without a word" in found.absent["GL2C_HIT_sum"]


def test_the_child_runs_again_for_counters(job, tool, tmp_path):
    """Not replayed: a real pass into a database."""
    small = job.model_copy(update={"arms": ["decode"], "warmup": 0, "launches": 1})
    found = rocprofv3.count(
        small, tmp_path / "count", tool, groups=[("SQ_WAVES_sum",)], output_format="rocpd"
    )
    (seen, *_) = of_file(tmp_path / "count" / "pass_1")
    assert found.values.select("Subject", "Launches", "Median").rows() == [
        ("decode, 5 keys", 1, seen["totals"]["SQ_WAVES"])
    ]


def test_no_counter_at_all_is_an_error(replayed, job, tool, tmp_path):
    replayed(limit=0)
    with pytest.raises(ProfileError) as raised:
        rocprofv3.count(job, tmp_path / "count", tool, groups=[("SQ_WAVES_sum",)])
    assert "collected no counter" in str(raised.value)
    assert "Request exceeds the capabilities of the hardware" in str(raised.value)
    assert "SIGABRT" in str(raised.value)
    with pytest.raises(BadArgument, match="groups"):
        rocprofv3.count(job, tmp_path / "none", tool, groups=[()])


# --- one clear error each ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "rocpd"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("nothing written", "left no trace"),
        ("another kernel", "recorded no launch of paged_attention_decode, paged_attention_decode_gqa; it "
         "recorded 20 of __amd_rocclr_copyBuffer"),
        ("wrong kernel", "recorded 9 launches of our kernels, the child made 10"),
        ("a launch lost", "recorded 9 launches of our kernels, the child made 10"),
    ],
)  # fmt: skip
def test_an_output_that_is_not_about_our_launches(replayed, job, tool, tmp_path, kind, fault, said):
    replayed(fault)
    with pytest.raises(ProfileError) as raised:
        rocprofv3.kernel_trace(job, tmp_path / "run", tool, output_format=kind)
    assert said in str(raised.value)
    assert raised.value.fix


def test_launches_in_another_order_are_found(replayed, job, tool, tmp_path):
    """The same kernels as often, but the child launched them otherwise."""
    replayed()
    made = rocprofv3.kernel_trace(job, tmp_path / "good", tool)
    steps = list(made.ran.done.steps)
    swapped = made.ran.done.model_copy(update={"steps": steps[4:] + steps[:4]})
    with pytest.raises(ProfileError, match="launch 1 of ours has kernel paged_attention_decode in the trace"):
        labelled(read_trace(tmp_path / "good" / "rocprofv3").dispatches, swapped, "tool")


def test_times_that_mean_nothing_give_no_figure(replayed, job, tool, tmp_path):
    replayed("no times")
    found = rocprofv3.kernel_trace(job, tmp_path / "run", tool)
    assert found.unusable == 4
    assert [one.partition(" ")[0] for one in found.problems] == ["zero_timestamps"]
    with pytest.raises(ProfileError, match="no launch of decode, 5 keys has times"):
        found.median_us(SUBJECTS[0])


def test_a_tool_that_is_absent_or_another(executable, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(rocprofv3.VARIABLE, raising=False)
    monkeypatch.setattr(rocprofv3, "PLACES", ("rocprofv3",))
    with pytest.raises(ProfileError, match="no rocprofv3: rocprofv3 is not an executable file") as raised:
        rocprofv3.find()
    assert rocprofv3.VARIABLE in raised.value.fix
    monkeypatch.setenv("STAND_IN", "other tool")
    with pytest.raises(
        ProfileError, match=r"is no rocprofv3: --version .* said ROCm version: 6.1.2, rocprof"
    ):
        rocprofv3.find(executable("rocprof", "stand_in_rocprofv3.py"))
    broken = tmp_path / "broken"
    broken.write_text("no shebang, no program")
    broken.chmod(0o755)
    with pytest.raises(ProfileError, match="--version: "):
        rocprofv3.find(str(broken))


def test_an_option_the_tool_does_not_know(job, tool, tmp_path):
    with pytest.raises(ToolFailed, match=r"unrecognized arguments: --kernel-tracing") as raised:
        rocprofv3._run(job, tmp_path / "run", tool, ["--kernel-tracing"], "csv", 60)
    assert "the child left no account" in str(raised.value)


def test_a_child_that_fails_is_the_childs_fault(job, tool, tmp_path):
    lost = job.model_copy(update={"board": "gfx9999-emu"})
    with pytest.raises(ChildFailed, match="no board is called 'gfx9999-emu'"):
        rocprofv3.count(lost, tmp_path / "count", tool, groups=[("SQ_WAVES_sum",)])


def test_windows_hold_our_rows_of_the_real_trace(first_run):
    """The rows come out of the trace untouched: same numbers, same places in the file."""
    whole = read_trace(first_run.folder / "rocprofv3").dispatches
    rows = first_run.traced.rows
    kept = whole.filter(pl.col("Row").is_in(rows["Row"].to_list()))
    assert kept.sort("Dispatch_Id").rows() == rows.select(whole.columns).sort("Dispatch_Id").rows()
