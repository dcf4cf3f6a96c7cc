"""One process of the session, a stand-in for its clock, on the emulated board: checks and what is kept."""

import gc
import json
import weakref
from contextlib import nullcontext
from dataclasses import asdict
from math import isnan
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hipbook import boards
from hipbook.errors import BadArgument, HipbookError
from hipbook.measure.bound import Bandwidth
from hipbook.measure.schedule import with_control
from hipbook.measure.session import Run
from hipbook.oracle.attention_reference import NMSE_GATE
from hipbook.qwen3 import case as cases
from hipbook.qwen3 import on_gpu, process, tracing, weights
from hipbook.qwen3.case import OpenCase
from hipbook.qwen3.config import Config
from hipbook.qwen3.loop import exact_attention
from hipbook.qwen3.process import Job, replicate
from hipbook.studies import decode_step_run

BOARD = boards.get(boards.DEFAULT)
SMALL = Config("small", 64, 32, 32, 1, 2, 1, 64, True)
LABELS = list(with_control("online", "split_kv"))
RATE = Bandwidth("memory", 4000.0, "read", 2)


class StandIn:
    """A clock that counts: a step costs 2 ms in its first call and 1 ms afterwards."""

    def __init__(self):
        self.replayed = []

    def capture(self, step):
        def replay():
            step()
            self.replayed.append(step)

        return replay

    def time_us(self, replay, count):
        first = not self.replayed
        for _ in range(count):
            replay()
        return (2000.0 if first else 1000.0), 1010.0

    def wait(self):
        pass


def job(**changes) -> Job:
    fields = {
        "config": SMALL.as_dict(), "folder": "", "dtype": "bf16", "labels": LABELS,
        "concurrencies": [1, 2], "contexts": [18], "processes": 2, "samples": 2, "seed": 0,
        "board": BOARD.name,
    }  # fmt: skip
    return Job(**fields | changes)


def test_a_process_checks_times_and_checks_again():
    clock = StandIn()
    given = job(number=1)
    result = replicate(given, BOARD, clock, RATE)
    runs = [Run(**{key: value for key, value in one.items() if key != "checks"}) for one in result.runs]
    assert [run.order for run in runs] == list(range(6, 12))
    assert [run.arm for run in runs] == given.order() * 2
    assert given.order() == job(number=0).order()[::-1]  # blocks come in mirrored pairs
    assert {run.case for run in runs} == {"small, 1 sequence, context 18", "small, 2 sequences, context 18"}
    assert all(run.correct_before and run.correct_after for run in runs)
    assert {run.launches_per_sample for run in runs} == {8}
    assert {run.witness for run in runs if run.arm.startswith("online")} == {0x10}
    assert all(run.samples == [1000.0] * 2 and run.second_samples == [1010.0] * 2 for run in runs)
    assert all(0 < one["checks"]["attention_nmse"] < 1e-4 for one in result.runs)
    assert (result.read_gb_s, result.process) == (4000.0, "process 1")
    # each binary once; those built ahead are those that ran
    built = {one.sha256 for one in decode_step_run.build_all(given, BOARD)}
    assert len(result.code_objects) == 2
    assert {one["sha256"] for one in result.code_objects} < built


def test_samples_generate_tokens_around_the_case_s_context():
    made = weights.random(SMALL)
    case = OpenCase(
        made, made.to(torch.float64), concurrency=2, context=18, labels=["online"], board=BOARD,
        clock=StandIn(), seed=0,
    )  # fmt: skip
    for tokens, first, last in ((1, 17, 17), (4, 16, 19), (7, 14, 20)):
        case.reset(tokens)
        assert case.state.positions.tolist() == [first] * 2
        case.candidates[0].tokens = tokens
        case.sample_us(case.candidates[0])
        assert case.state.positions.tolist() == [last + 1] * 2
        assert case.state.seq_lens.tolist() == [last + 1] * 2
    assert not torch.isnan(case.state.logits).any()


@pytest.mark.parametrize(
    ("us", "planned", "taken"),
    [
        (lambda n: 1000.0 + n % 2, 24, 24),
        (lambda n: 100_000.0 + n % 2, 24, 16),  # slow: fewer
        (lambda n: 1000.0 * 0.98**n, 24, 48),  # a trend that does not end
        (lambda n: 1000.0 * (1 + 0.3 * 0.7**n), 24, 30),  # one that is gone after 14
        (lambda n: 1000.0, 2, 2),
    ],
)
def test_samples_are_taken_until_no_trend_is_left(us, planned, taken):
    one, samples = cases.Candidate("online", None, None, "k", 1, {}, 0.0, 0.0), []
    while process._wants_more(one, samples, job(samples=planned)):
        samples.append((us(len(samples)), 1.0))
    assert len(samples) == taken


def test_a_graph_keeps_what_it_reads(monkeypatch):
    """Tables that only the step holds would be freed under a captured graph."""
    calls, times = [], iter([3.0])
    fakes = {
        "Stream": lambda device: SimpleNamespace(wait_stream=calls.append, synchronize=lambda: None),
        "Event": lambda enable_timing: SimpleNamespace(
            record=lambda: calls.append("event"), synchronize=lambda: None, elapsed_time=lambda _: next(times)
        ),
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: calls.append("replay")),
        "current_stream": lambda device: SimpleNamespace(wait_stream=calls.append),
        "stream": lambda stream: nullcontext(),
        "graph": lambda graph, stream: nullcontext(),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)

    class Step:
        made = 0

        def step(self):
            self.made += 1

    held = Step()
    clock = on_gpu.GpuClock(SimpleNamespace(torch_device=None))
    replay, kept = clock.capture(held.step), weakref.ref(held)
    assert held.made == 3  # twice to load and choose, once to record
    del held
    gc.collect()
    assert kept() is not None
    calls.clear()
    device_us, wall_us = clock.time_us(replay, 3)
    assert calls == ["event", "replay", "replay", "replay", "event"]
    assert device_us == 1000.0
    assert wall_us > 0


def broken(how):
    real = cases.attention_by_arm

    def attention_by_arm(state, arm, board, *, checked=True):
        right = real(state, arm, board, checked=checked)

        def attend(layer):
            right(layer)
            if how == "off":
                state.out.mul_(1.05)
            elif how == "unwritten" and layer == 0:
                state.out[-1, -1, -1] = float("nan")

        return attend if arm == "split_kv" else right

    return attention_by_arm


@pytest.mark.parametrize("how", ["off", "unwritten"])
def test_a_wrong_arm_is_incorrect_and_the_others_are_not(how, monkeypatch):
    monkeypatch.setattr(cases, "attention_by_arm", broken(how))
    result = replicate(job(concurrencies=[1]), BOARD, StandIn(), RATE)
    told = {one["arm"]: one["correct_before"] for one in result.runs}
    assert told == {"online": True, "split_kv": False, "online (A/A)": True}
    worst = {one["arm"]: one["checks"]["attention_nmse"] for one in result.runs}
    assert isnan(worst.pop("split_kv"))  # attention itself was found out, not only the logits after it
    assert all(0 < value < 1e-4 for value in worst.values())
    assert NMSE_GATE**0.5 < 1.05**2 - 1


def test_a_graph_that_goes_wrong_while_it_is_timed_is_incorrect(monkeypatch):
    class Decaying(StandIn):
        def capture(self, step):
            replay, calls = super().capture(step), []

            def decaying():
                calls.append(1)
                replay()
                if len(calls) > 8:  # checked and estimated by then
                    step.__self__.state.logits.mul_(1.1)

            return decaying

    result = replicate(job(concurrencies=[1]), BOARD, Decaying(), RATE)
    assert all(one["correct_before"] and not one["correct_after"] for one in result.runs)


def test_the_process_s_own_program_reads_a_job_and_leaves_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(on_gpu, "GpuBoard", type(BOARD))
    monkeypatch.setattr(on_gpu, "GpuClock", lambda board: StandIn())
    monkeypatch.setattr(on_gpu, "read_memory", lambda board: RATE)
    monkeypatch.setattr(on_gpu, "save_profiled", lambda run, path: path.write_text("{}"))
    monkeypatch.setattr(on_gpu, "write_traces", lambda *given: given[0])
    given, out = tmp_path / "job.json", tmp_path / "result.json"
    given.write_text(json.dumps({"job": asdict(job(concurrencies=[1])), "arms": ["online"]}))
    assert on_gpu.main(["replicate", str(given), str(out)]) == 0
    result = json.loads(out.read_text())
    assert [run["arm"] for run in result["runs"]] == job().order()
    assert {path.name for path in tmp_path.iterdir()} == {"job.json", "result.json"}
    assert on_gpu.main(["trace", str(given), str(tmp_path)]) == 0
    monkeypatch.undo()
    with pytest.raises(BadArgument, match="has no clock"):
        on_gpu.main(["replicate", str(given), str(out)])


def test_weights_of_another_model_than_planned_are_refused(tmp_path):
    from qwen3_checkpoints import CONFIG, tensors, write

    folder = write(tmp_path / "tiny", tensors())
    assert process.prepare_weights(job(config=CONFIG.as_dict(), folder=str(folder)), BOARD).config == CONFIG
    with pytest.raises(HipbookError, match="not the model this session was planned for"):
        process.prepare_weights(job(folder=str(folder)), BOARD)


def test_traced_runs_differ_in_tokens_alone(monkeypatch, tmp_path):
    """The prompt's steps are in both; every further token is one replay and one read of the tokens."""
    clock, counts = StandIn(), []

    def exact(state, arm, board, *, checked):
        return lambda layer: state.out.copy_(exact_attention(state.call(layer)))

    def save(run, path: Path):
        before = len(clock.replayed)
        run()
        counts.append((path.name, len(clock.replayed) - before))

    monkeypatch.setattr(tracing, "attention_by_arm", exact)
    written = tracing.write_traces(job(), ["online", "split_kv"], BOARD, clock, tmp_path, save, context=20)
    assert counts == [
        (f"decode_{arm}_{tokens}_tokens.json.gz", 8 + tokens - 1)
        for arm in ("online", "split_kv")
        for tokens in (4, 36)
    ]
    assert [path.name for path in written] == [name for name, _ in counts]
