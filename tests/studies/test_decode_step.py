"""The decode step's session: plans, record, and the concurrency question, on processes made up here."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from hipbook import boards, cli, records
from hipbook.errors import BadArgument, BoardUnavailable, Refused
from hipbook.measure.verdict import Word
from hipbook.notebooks.investigation import Incorrect, Investigation
from hipbook.ops import models
from hipbook.ops.attention_arms import ARMS
from hipbook.qwen3.process import case_name
from hipbook.records.recheck import recheck
from hipbook.studies import decode_step, decode_step_figures, decode_step_run, gpu_figures
from hipbook.studies.decode_step import Trend

GPU = {"name": "nvidia-0", "kind": "gpu", "arch": "gfx1200", "product": "Made Up"}
CONFIG = decode_step.config_of(models.get("Qwen3-0.6B"))
JOB = decode_step.job_of(CONFIG, "nvidia-0", concurrencies=[1, 16], contexts=[512])


class Board:
    name, kind, arch = "nvidia-0", "gpu", "gfx1200"

    def identity(self):
        return GPU


def processes(job, times, *, wrong=()):
    """What each process of `job` would leave: `times` {(label's arm, concurrency): us}, 0.2 % apart."""
    rng, results = np.random.default_rng(0), []
    for number in range(job.processes):
        runs, mine = [], replace(job, number=number)
        for place, (concurrency, context) in enumerate(job.cases()):
            for turn, label in enumerate(mine.order()):
                arm = label.removesuffix(" (A/A)")
                us = times[arm, concurrency] * np.exp(0.002 * rng.standard_normal())
                samples = list(us * np.exp(0.001 * rng.standard_normal(16)))
                order = (number * len(job.cases()) + place) * len(job.labels) + turn
                runs.append(
                    {
                        "order": order, "process": f"process {number}", "arm": label,
                        "case": case_name(job.model.name, concurrency, context),
                        "kernel": f"paged_attention_{arm}", "witness": ARMS[arm].witness, "samples": samples,
                        "second_clock": "host_wall", "second_samples": [1.002 * us for us in samples],
                        "warmup_dropped": 0, "settled": True, "launches_per_sample": 4, "clock_mhz": 1980.0,
                        "correct_before": True, "correct_after": (label, number) not in wrong,
                        "checks": {"attention_nmse": 1e-6},
                    }
                )  # fmt: skip
        binary = {"arch": "gfx1200", "sha256": "ab" * 32, "source": None, "source_sha256": None, "flags": [],
                  "compiler": "nvcc"}  # fmt: skip
        results.append(
            {"board": GPU, "runs": runs, "code_objects": [binary], "process": f"process {number}",
             "read_gb_s": 4000.0 + number, "read_kernel": "read", "setup_s": 1.0, "seconds": 9.0}
        )  # fmt: skip
    return results


TIMES = {
    ("online", 1): 15_000, ("decode_gqa", 1): 2_000, ("split_kv", 1): 1_200,
    ("online", 16): 16_000, ("decode_gqa", 16): 2_150, ("split_kv", 16): 1_800,
}  # fmt: skip


def investigation():
    return Investigation("decode-step", decode_step.QUESTION, decode_step_run._parameters(JOB), Board())


def test_the_record_holds_sessions_figures_and_the_answer(tmp_path):
    run = investigation()
    decode_step_run.keep(run, JOB, decode_step.plans_of(JOB), processes(JOB, TIMES))
    run.write(tmp_path / "nvidia-0")
    (path,) = records.find(tmp_path)
    record = records.read(path)
    assert len(recheck(record, path)) == 4
    assert [verdict.word for verdict in record.verdicts if verdict.expected] == ["FASTER"] * 4
    told, rows = gpu_figures.told("decode_step", tmp_path)
    assert "nvidia-0 (Made Up)" in told
    times = {row["subject"]: row for row in rows if row["quantity"] == "time per output token"}
    assert len(times) == 6
    one = times["decode_step split_kv, Qwen3-0.6B, 16 sequences, context 512"]
    assert one["value"] == pytest.approx(1800, rel=0.01)
    moved = 2 * (596_049_920 + 16 * 512 * 28 * 2048)
    assert one["bound"] == pytest.approx(moved / 4005e3)
    grown = decode_step.growths(record.sessions, CONFIG.name, [1, 16], [512])
    assert [(one.arm, one.trend, one.foretold) for one in grown] == [
        ("decode_gqa", Trend.FLAT, "as predicted"),
        ("split_kv", Trend.SHRINKS, "as predicted"),
    ]
    assert grown[1].ratio == pytest.approx(16_000 / 1_800 / (15_000 / 1_200), rel=0.01)
    table = decode_step.time_rows(record.sessions)
    assert [row["verdict"] for row in table] == ["FASTER"] * 4
    assert table[1]["advantage"] == pytest.approx(12.5, rel=0.01)
    assert decode_step.growth_rows(grown)[1]["outcome"] == "shrinks"


def kineto(path, tokens, attention_us):
    """A run of `tokens`: a start that both runs share, then two kernels, a call and a copy for each token."""
    events, now = [], 0.0

    def event(kind, name, us, **args):
        nonlocal now
        events.append({"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": 7, "ts": now, "dur": us,
                       "args": {"device": 0, "stream": 7, **args}})  # fmt: skip
        now += us + 1

    event("kernel", "fill_kernel", 50.0)
    for number in range(tokens):
        event("cuda_runtime", "cudaGraphLaunch", 5.0, correlation=number)
        event("kernel", "paged_attention_online", attention_us, correlation=number)
        event("kernel", "nvjet_tst_64x8_64x16_2x1_v_bz_TNT", 10.0, correlation=number)
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 2.0, correlation=number)
    with gzip.open(path, "wt") as file:
        json.dump({"traceEvents": events, "deviceProperties": []}, file)


def test_the_newest_record_is_shown_with_the_traces_beside_it(tmp_path):
    assert decode_step_figures.newest(tmp_path) is None
    run = investigation()
    decode_step_run.keep(run, JOB, decode_step.plans_of(JOB), processes(JOB, TIMES))
    run.write(tmp_path / "nvidia-0")
    found = decode_step_figures.newest(tmp_path)
    assert (found.model, found.contexts, found.arms) == (
        "Qwen3-0.6B",
        [512],
        ["online", "decode_gqa", "split_kv"],
    )
    assert "Made Up" in found.told
    assert found.family() == "4 comparisons, 4 name a difference after Holm's correction"
    lines = found.lines(512)
    assert [(row["arm"], row["sequences"]) for row in lines[:4]] == [
        ("online", 1), ("decode_gqa", 1), ("split_kv", 1), ("online", 16),
    ]  # fmt: skip
    assert [row["TPOT ms"] for row in lines] == pytest.approx([15, 2, 1.2, 16, 2.15, 1.8], rel=0.01)
    assert all(0 < row["floor ms"] < row["TPOT ms"] for row in lines)
    assert found.traced() == {}
    for tokens in (4, 36):
        kineto(found.folder / f"decode_online_{tokens}_tokens.json.gz", tokens, attention_us=400.0)
    traced = found.traced()
    assert list(traced) == ["online"]
    (whole,) = decode_step_figures.wall_rows(traced)
    assert (whole["dispatches"], whole["device ms"], whole["copies"]) == (2, 0.41, 1)
    assert whole["kernels of uneven calls"] == 0
    classes = {row["class"]: row["ms"] for row in decode_step_figures.token_rows(traced)}
    assert classes["attention"] == 0.4
    assert classes["total"] == 0.41


def test_a_prediction_that_did_not_hold_is_said_so():
    slower = TIMES | {("split_kv", 16): 900.0, ("decode_gqa", 16): 20_000.0}
    run = investigation()
    decode_step_run.keep(run, JOB, decode_step.plans_of(JOB), processes(JOB, slower))
    record = run.record()
    words = {verdict.subject: verdict.word for verdict in record.verdicts if verdict.expected}
    assert words["decode_gqa against online, Qwen3-0.6B, 16 sequences, context 512, warm"] == "SLOWER"
    grown = decode_step.growths(record.sessions, CONFIG.name, [1, 16], [512])
    assert [(one.trend, one.foretold) for one in grown] == [
        (Trend.SHRINKS, "not as predicted"),
        (Trend.GROWS, "not as predicted"),
    ]


@pytest.mark.parametrize(
    ("most", "noise", "trend"),
    [(1.0, 0.001, "flat"), (1.3, 0.01, "grows"), (0.7, 0.01, "shrinks"), (1.3, 1, "unclear")],
)
def test_a_trend_needs_its_whole_interval(most, noise, trend):
    low, high = most / (1 + noise), most * (1 + noise)
    one = decode_step.Growth("split_kv", 512, 10.0, 10 * most, most, (low, high), Trend.SHRINKS)
    assert one.trend == trend


def test_an_arm_that_was_wrong_once_takes_every_time_away(tmp_path):
    run = investigation()
    decode_step_run.keep(run, JOB, decode_step.plans_of(JOB), processes(JOB, TIMES, wrong={("split_kv", 3)}))
    with pytest.raises(Incorrect, match=r"split_kv, every case: 2 of 12 replayed steps failed"):
        run.write(tmp_path)
    record = records.read(next(records.find(tmp_path)))
    assert record.sessions == []
    assert [fact for fact in record.facts if fact.kind == "measured"] == []


def test_a_board_that_changed_or_an_arm_against_itself_is_refused():
    results = processes(JOB, TIMES)
    for result in results:
        for one in result["runs"]:
            one["kernel"], one["witness"] = "paged_attention_online", 0x10
    run = investigation()
    with pytest.raises(Exception, match="an arm against itself"):
        decode_step_run.keep(run, JOB, decode_step.plans_of(JOB), results)
    results = processes(JOB, TIMES)
    results[-1]["board"] = GPU | {"product": "Another"}
    with pytest.raises(Exception, match="changed during the run"):
        decode_step_run.keep(investigation(), JOB, decode_step.plans_of(JOB), results)


def test_plans_are_fixed_by_what_was_asked():
    plans = decode_step.plans_of(JOB)
    assert len({plan.plan_id for plan in plans}) == 4
    assert {plan.prediction for plan in plans} == {Word.FASTER}
    assert [plan.plan_id for plan in plans] == [plan.plan_id for plan in decode_step.plans_of(JOB)]
    for change in (
        {"arms": ["online"]}, {"arms": []}, {"arms": ["no such arm"]}, {"concurrencies": [1, 1]},
        {"contexts": [0]}, {"processes": 5}, {"samples": 8},
    ):  # fmt: skip
        with pytest.raises(BadArgument):
            decode_step.job_of(CONFIG, "nvidia-0", **change)
    with pytest.raises(BadArgument, match="are not known"):
        decode_step.model_named("Qwen3.6-A3B")
    with pytest.raises(BadArgument, match="must be one of"):
        decode_step.model_named("no such model")


def test_an_arm_that_does_not_serve_the_model_is_refused_before_anything_runs(monkeypatch):
    board = boards.get(boards.DEFAULT)
    monkeypatch.setattr(type(board), "build", lambda *_: pytest.fail("built"))
    odd = decode_step.job_of(replace(CONFIG, head_dim=96), board.name)
    with pytest.raises(Refused, match="decode_gqa serves head_dim"):
        decode_step_run.build_all(odd, board)


def test_a_run_goes_process_by_process_and_keeps_what_each_found(tmp_path, monkeypatch):
    made = processes(JOB, TIMES)
    monkeypatch.setattr(decode_step_run, "_process", lambda job: made[job.number])
    monkeypatch.setattr(decode_step_run, "build_all", lambda job, board: [])
    said = []
    decode_step_run.run_session(JOB, Board(), tmp_path, traces=False, say=said.append)
    kept = json.loads((tmp_path / "processes.json").read_text())
    assert len(kept["processes"]) == 6
    assert kept["environment"]["python"]
    assert [line for line in said if "all correct" in line] == said[1:]
    assert len(list(records.find(tmp_path))) == 1


def test_without_a_gpu_the_verb_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("HIPBOOK_NO_GPU", "1")
    done = CliRunner().invoke(cli.app, ["decode-step", "run", "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, BoardUnavailable)
    assert "this machine has none" in str(done.exception)
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(
        cli.app, ["decode-step", "run", "--out", str(tmp_path), "--board", "gfx1200-emu"]
    )
    assert "gfx1200-emu has no clock" in str(done.exception)


def test_the_loop_is_checked_from_the_command_line():
    done = CliRunner().invoke(cli.app, ["decode-step", "check", "--arms", "decode_gqa"])
    assert done.exit_code == 0, done.output
    assert "CORRECT" in done.output
    done = CliRunner().invoke(cli.app, ["decode-step", "check", "--dtype", "f8"])
    assert isinstance(done.exception, BadArgument)
