"""Sessions on a GPU board: planned, gathered and read back. No GPU here: processes are stood in for."""

import json

import numpy as np
import pytest

from hipbook import paths, records
from hipbook.errors import BadArgument, HipbookError, Refused
from hipbook.measure.bound import FasterThanBound
from hipbook.measure.session import Run
from hipbook.measure.verdict import Word
from hipbook.studies import ladder, times
from hipbook.studies.timing import session as timing
from hipbook.studies.timing.process import Job, Result, main
from hipbook.studies.timing.suite import find_suite

H200 = paths.data() / "measured" / "nvidia-h200"
PARAMETERS = {"shapes": ["1x64", "8x64"], "seed": 0}
LEVELS_US = {"auto": 4.0, "decode_gqa": 5.0, "vllm_2d": 80.0}
BOARD = {"name": "nvidia-0", "kind": "gpu", "last_level_cache_bytes": 50 << 20}


def stand_in(change=lambda job, result: None):
    """A process that measures nothing: LEVELS_US with 0.1 % of noise, seeded by the process."""

    def process(job: Job, folder) -> Result:
        rng = np.random.default_rng(abs(hash(job.process)) % 2**32)
        result = Result(board=BOARD, step_us=0.001, empty_launch_us=0.7, seconds=1.0)
        result.moved_bytes = {"1x64": 1 << 20, "8x64": 8 << 20}
        result.bounds = {"1x64": "read", "8x64": "read"}
        result.absent = {"1x64": {"flashinfer": "not installed"}, "8x64": {"flashinfer": "not installed"}}
        result.wrong = {"1x64": {}, "8x64": {}}
        result.gb_s = {"memory": 4500.0, "last-level cache": 6400.0, "copy of memory": 4000.0}
        result.best = dict.fromkeys(result.gb_s, "read_8")
        for turn in job.turns:
            us = LEVELS_US[turn.arm.removesuffix(" (A/A)")] * (1 + 0.001 * rng.standard_normal(24))
            result.runs.append(
                Run(
                    order=turn.order, process=job.process, arm=turn.arm, case=turn.case, kernel=turn.arm[:4],
                    samples=list(us), warmup_dropped=0, settled=True, launches_per_sample=100,
                    clock_mhz=1980.0, correct_before=True, correct_after=True,
                )
            )  # fmt: skip
        change(job, result)
        return result

    return process


def measured(monkeypatch, change=lambda job, result: None, **also):
    monkeypatch.setattr(timing, "_process", stand_in(change))
    asked = {"base": "auto", "others": ["decode_gqa", "vllm_2d", "flashinfer"], "board": "nvidia-0"} | also
    return timing.measure("attention_decode", PARAMETERS, say=lambda line: None, **asked)


def test_every_process_holds_every_arm_of_every_case_once(monkeypatch):
    jobs = []
    measured(monkeypatch, lambda job, result: jobs.append(job))
    probe, *processes = jobs
    assert not probe.turns
    assert len(processes) == timing.PROCESSES
    for job in processes:
        for case in PARAMETERS["shapes"]:
            arms = [turn.arm for turn in job.turns if turn.case == case]
            assert sorted(arms) == ["auto", "auto (A/A)", "decode_gqa", "vllm_2d"]
    orders = [turn.order for job in processes for turn in job.turns]
    assert orders == sorted(set(orders))
    assert len({tuple(t.arm for t in job.turns if t.case == "1x64") for job in processes}) > 2


def test_a_session_gives_words_levels_and_shares_of_the_bound(monkeypatch):
    taken = measured(monkeypatch, predictions={"vllm_2d": Word.SLOWER})
    rows = {(row["case"], row["arm"]): row for row in times.comparisons(taken.sessions)}
    assert rows["8x64", "vllm_2d"]["arm is"] == rows["8x64", "vllm_2d"]["foretold"] == "SLOWER"
    assert rows["8x64", "vllm_2d"]["times"] == pytest.approx(20, rel=0.01)
    assert rows["1x64", "decode_gqa"]["times"] == pytest.approx(1.25, rel=0.01)
    base = next(level for level in taken.levels if (level.case, level.arm) == ("8x64", "auto"))
    assert base.of == "last-level cache"  # 8 MB stay there
    assert base.fraction == pytest.approx((8 << 20) / 6400e3 / 4.0, rel=0.01)
    assert taken.absent["1x64"] == {"flashinfer": "not installed"}
    assert times.aa_named(taken.sessions) == (2, 0)


def test_a_control_that_moved_is_counted(monkeypatch):
    def slower(job, result):
        for i, run in enumerate(result.runs):
            if run.arm == "auto (A/A)" and run.case == "1x64":
                result.runs[i] = run.model_copy(update={"samples": [1.1 * x for x in run.samples]})

    assert times.aa_named(measured(monkeypatch, slower).sessions) == (2, 1)


def test_an_arm_that_turned_wrong_has_no_time(monkeypatch):
    def wrong(job, result):
        if job.process == "process 3":
            result.wrong["1x64"]["decode_gqa"] = "after timing: row 0: NMSE 1.0"

    taken = measured(monkeypatch, wrong)
    told = {(session.plan.case, session.plan.new) for session in taken.sessions}
    assert ("1x64", "decode_gqa") not in told
    assert ("8x64", "decode_gqa") in told
    assert not [level for level in taken.levels if (level.case, level.arm) == ("1x64", "decode_gqa")]


def test_a_base_that_cannot_be_timed_ends_the_session_before_it_begins(monkeypatch):
    def absent(job, result):
        assert not job.turns, "a process was started"
        result.absent["8x64"]["auto"] = "no arm serves it"

    with pytest.raises(Refused, match="auto cannot be timed at 8x64: no arm serves it"):
        measured(monkeypatch, absent)


def test_a_time_below_its_bound_is_an_error(monkeypatch):
    def impossible(job, result):
        result.moved_bytes["8x64"] = 40 << 20  # 6.5 us at the cache's rate, 4 were measured

    with pytest.raises(FasterThanBound, match="times faster than its bound"):
        measured(monkeypatch, impossible)


def test_a_process_that_fails_is_told_in_its_own_words(tmp_path):
    job = Job(suite="attention_decode", parameters={}, board="gfx1200-emu", arms=[], process="probe")
    with pytest.raises(HipbookError, match=r"probe of attention_decode ended with 1:(.|\n)*has no clock"):
        timing._process(job, tmp_path)


def test_a_process_on_a_board_without_a_clock_writes_nothing(tmp_path):
    job = Job(suite="quantize_q8k", parameters={}, board="gfx1200-emu", arms=[], process="probe")
    (tmp_path / "job").write_text(job.model_dump_json())
    with pytest.raises(BadArgument, match="has no clock"):
        main([str(tmp_path / "job"), str(tmp_path / "result")])
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize("shape", ["8", "x8", "8x", "0x8", "8x0", "axb"])
def test_a_shape_that_is_none_is_refused(shape):
    from hipbook.studies.timing.attention import batch_and_keys

    with pytest.raises(BadArgument, match="requests x keys"):
        batch_and_keys(shape)


def test_a_suite_nobody_knows_is_refused():
    with pytest.raises(BadArgument, match="attention_decode, quantize_q8k, gdn_post_conv"):
        find_suite("attention")


# --- the records in the tree ------------------------------------------------------------------------


def test_the_record_of_a_question_is_found_by_its_parameters():
    asked = {"ratio": 4, "head_dim": 128, "dtype": "bf16", "cache": "warm"}
    record = times.newest("attention_decode", asked)
    assert record.parameters["ratio"] == 4
    assert times.newest("attention_decode", {**asked, "ratio": 16}) is None
    assert "NVIDIA H200" in times.told(record)
    assert "nothing here was timed" in times.told(None)


def test_the_ladders_shares_add_up():
    record = times.newest("attention_decode", {"base": times.LADDER_BASE, "ratio": 2})
    rows = times.ladder_rows(record)
    assert [row["arm"] for row in rows] == list(ladder.ARMS)
    for column in ("of the time, %", "of the instructions, %"):
        assert sum(row[column] for row in rows[1:]) == pytest.approx(100, abs=0.4)
    assert times.ladder_rows(None) == []


def test_on_the_measured_board_auto_leads_both_of_vllms_kernels_and_nears_the_bound():
    """What README and notebook 16 say of the eleven shapes, from the record."""
    [path] = H200.glob("*.attention_ratio2.record.json")
    record = records.read(path)
    rows = times.comparisons(record.sessions)
    assert len({row["case"] for row in rows}) == 11
    for row in rows:
        if row["arm"].startswith("vllm"):
            assert row["arm is"] == "SLOWER", row
    best = {}
    for row in rows:
        if row["arm"].startswith("flashinfer"):
            best[row["case"]] = min(best.get(row["case"], np.inf), row["times"])
    assert sum(ratio >= 1 for ratio in best.values()) == 10
    assert min(best.values()) > 0.9
    shares = {row["case"]: float(row["of the bound"].rstrip("%")) for row in times.by_case(record.sessions)}
    assert min(shares["64x4096"], shares["256x4096"]) >= 95


def test_a_record_without_its_session_is_refused(tmp_path):
    [path] = H200.glob("*.attention_ladder.record.json")
    data = json.loads(path.read_text())
    data["sessions"][0]["runs"][0]["samples"] = [1.0]
    (tmp_path / "edited.record.json").write_text(json.dumps(data))
    with pytest.raises(HipbookError):
        records.read(tmp_path / "edited.record.json")
