"""Runs the decode step's session on a GPU board, process by process, and writes its record and traces.

What a folder holds afterwards:

    decode-step-<key>.record.json             sessions, figures with their bounds, verdicts, environment
    decode_<arm>_<n>_tokens.json.gz           torch.profiler's JSON of a run of 4 and of 36 tokens
    processes.json                            what each process found, written after each of them
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hipbook import boards
from hipbook.boards.base import Board
from hipbook.boards.gpu import GpuBoard
from hipbook.build.code_object import CodeObject
from hipbook.errors import BoardUnavailable, HipbookError, Refused
from hipbook.measure.counts import correctness, reached
from hipbook.measure.device_times import EVENT_STEP_US
from hipbook.measure.schedule import implementation
from hipbook.measure.session import Plan, Run, Session, sessions_of
from hipbook.notebooks.investigation import Investigation
from hipbook.ops.attention_call import DTYPES
from hipbook.ops.attention_dispatch import choose_arm
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.qwen3.case import MOST_TOKENS
from hipbook.qwen3.process import Job, case_name
from hipbook.qwen3.state import shapes_only
from hipbook.records import environment
from hipbook.records.store import write_atomically
from hipbook.studies import decode_step

NAME = "decode-step"
OPERATION = "decode_step"  # how its figures begin in a record (studies.gpu_figures)
PROCESSES_FILE = "processes.json"
PROCESS_LIMIT_S = 300
Say = Callable[[str], None]


@dataclass(frozen=True)
class _Binary:
    """A code object that another process ran: what a record keeps of it."""

    identity: Mapping[str, Any]


def gpu_board(name: str) -> GpuBoard:
    """The GPU board called `name`, or the first there is; BoardUnavailable says why there is none."""
    if not name:
        gpus = [entry for entry in boards.inventory() if entry.kind == "gpu"]
        there = [entry for entry in gpus if entry.available]
        if not there:
            why = "; ".join(f"{entry.name}: {entry.why_not}" for entry in gpus)
            raise BoardUnavailable(
                f"a decode step is timed on a GPU board, and this machine has none ({why})",
                fix="run it on a machine with a GPU; `hipbook decode-step check` runs the loop on any board",
            )
        name = there[0].name
    board = boards.get(name)
    if not isinstance(board, GpuBoard):
        raise BoardUnavailable(
            f"{name} has no clock: a decode step is timed on a GPU board",
            fix="`hipbook decode-step check --board NAME` runs the loop on it, without times",
        )
    return board


def run_session(job: Job, board: GpuBoard, out: Path, *, traces: bool = True, say: Say = print) -> None:
    """All processes, the record, the traces. HipbookError when a process fails, Incorrect when an arm is."""
    out.mkdir(parents=True, exist_ok=True)
    run = Investigation(NAME, decode_step.QUESTION, _parameters(job), board)
    plans, results = decode_step.plans_of(job), []
    began = time.monotonic()
    built = build_all(job, board)
    say(f"{len(built)} kernels built or found built in {time.monotonic() - began:.0f} s")
    kept = {"job": asdict(job), "environment": environment.capture().model_dump(mode="json")}
    for number in range(job.processes):
        results.append(_process(replace(job, number=number)))
        write_atomically(out / PROCESSES_FILE, json.dumps(kept | {"processes": results}).encode())
        say(_said(job, results[-1]))
    keep(run, job, plans, results)
    run.write(out)
    if traces:
        for path in _traces(job, out):
            say(f"trace {path.name}")


def build_all(job: Job, board: Board) -> list[CodeObject]:
    """Every binary the processes will launch, side by side: none of them then waits for a compiler.

    Refused when an arm does not serve a case: before anything runs, and not in the third process.
    """
    wanted = {("bandwidth/read.hip", ())}
    for concurrency, context in job.cases():
        call = shapes_only(
            job.model, batch=concurrency, capacity=context + MOST_TOKENS, dtype=DTYPES[job.dtype]
        )
        for arm in map(implementation, job.labels):
            if arm == "auto":
                arm, _ = choose_arm(call, wave_size=board.wave_size, gpu=board.kind == "gpu")
            refusal = ALL_ARMS[arm].supports(call, board.wave_size)
            if refusal is not None:
                raise Refused(
                    f"{arm} does not serve {job.model.name}: {refusal}", fix="leave it out of --arms"
                )
            wanted.add((ALL_ARMS[arm].source, ALL_ARMS[arm].flags(call)))
    with ThreadPoolExecutor(len(wanted)) as pool:
        return list(pool.map(lambda one: board.build(*one), sorted(wanted)))


def _parameters(job: Job) -> dict[str, Any]:
    base, *arms, _ = job.labels
    return {
        "model": job.model.name, "weights": "real" if job.folder else f"random, seed {job.seed}",
        "dtype": job.dtype, "base": base, "arms": arms, "concurrencies": job.concurrencies,
        "contexts": job.contexts, "processes": job.processes, "samples": job.samples, "seed": job.seed,
        "predicted": {arm: str(decode_step.PREDICTED.get(arm, "")) for arm in arms},
    }  # fmt: skip


def _process(job: Job) -> dict[str, Any]:
    """One process to its end; its Result as plain values."""
    with tempfile.TemporaryDirectory(prefix="hipbook-decode-step-") as folder:
        given, result = Path(folder, "job.json"), Path(folder, "result.json")
        given.write_text(json.dumps({"job": asdict(job)}), encoding="utf-8")
        _call("replicate", given, result, what=f"process {job.number}")
        return json.loads(result.read_text(encoding="utf-8"))


def _traces(job: Job, out: Path) -> list[Path]:
    """Traces of the base and of the last arm: the two ends of the comparison."""
    base, *arms, _ = job.labels
    before = set(out.iterdir())
    with tempfile.TemporaryDirectory(prefix="hipbook-decode-step-") as folder:
        given = Path(folder, "job.json")
        given.write_text(json.dumps({"job": asdict(job), "arms": [base, arms[-1]]}), encoding="utf-8")
        _call("trace", given, out, what="the traced runs")
    return sorted(set(out.iterdir()) - before)


def _call(verb: str, *arguments: Path, what: str) -> None:
    command = [sys.executable, "-m", "hipbook.qwen3.on_gpu", verb, *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise HipbookError(
            f"{what} ran past {PROCESS_LIMIT_S} s", fix="take fewer concurrencies, contexts or samples"
        ) from None
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise HipbookError(f"{what} ended with {done.returncode}:\n{last}")


def _said(job: Job, result: Mapping[str, Any]) -> str:
    wrong = sum(not (run["correct_before"] and run["correct_after"]) for run in result["runs"])
    state = "all correct" if not wrong else f"{wrong} INCORRECT"
    return (
        f"{result['process']} of {job.processes}: {len(result['runs'])} runs, {state}, "
        f"{result['setup_s']:.0f} s of setup, {result['seconds']:.0f} s in all"
    )


# --- the record ------------------------------------------------------------------------------------


def keep(run: Investigation, job: Job, plans: Sequence[Plan], results: Sequence[Mapping[str, Any]]) -> None:
    """Everything the processes found, into the record: correctness first, times only where it holds."""
    for result in results:
        for identity in result["code_objects"]:
            run.built(_Binary(identity))
    found = sorted((one for result in results for one in result["runs"]), key=lambda one: one["order"])
    all_right = True
    for label in job.labels:
        mine = [one for one in found if one["arm"] == label]
        wrong = sum(not (one["correct_before"] and one["correct_after"]) for one in mine)
        all_right = all_right and bool(mine) and not wrong
        arm = implementation(label)
        run.verdict(f"{label}, every case", correctness(len(mine), wrong, what="replayed steps"))
        witnesses = [one["witness"] for one in mine]
        run.verdict(f"{label}, every case", reached(witnesses, _witness_of(arm, mine)))
        worst = max(one["checks"]["attention_nmse"] for one in mine)
        run.fact(f"{OPERATION} {label}", "worst row NMSE of attention", worst, "1", kind="measured")
    run.not_claimed(
        "anything about another GPU, or about an engine's whole step: no sampler, no scheduler, no tokenizer",
        "that the loop around attention is fast: it is torch's own kernels, replayed as a graph",
    )
    if not all_right:
        return
    sessions = _sessions(job, plans, found, results)
    for session in sessions:
        run.session(session)
    _keep_figures(run, job, sessions)


def _witness_of(arm: str, mine: Sequence[Mapping[str, Any]]) -> set[int]:
    """Codes the arm may leave: its own; of `auto`, that of the kernel that ran."""
    names = {arm} if arm in ALL_ARMS else {one["kernel"].removeprefix("paged_attention_") for one in mine}
    return {ALL_ARMS[name].witness for name in names}


def _sessions(
    job: Job, plans: Sequence[Plan], found: Sequence[dict[str, Any]], results: Sequence[Mapping[str, Any]]
) -> list[Session]:
    runs = [Run(**{key: value for key, value in one.items() if key != "checks"}) for one in found]
    best = max((result for result in results), key=lambda result: result["read_gb_s"])
    bounds = {
        case_name(job.model.name, *case): decode_step.bound_of(
            job.model, *case, best["read_gb_s"], best["read_kernel"]
        )
        for case in job.cases()
    }
    return sessions_of(
        plans, runs, bounds, resolution=EVENT_STEP_US,
        board_start=results[0]["board"], board_end=results[-1]["board"],
    )  # fmt: skip


def _keep_figures(run: Investigation, job: Job, sessions: Sequence[Session]) -> None:
    for session in sessions:
        plan, bound = session.plan, session.bound
        arms = (plan.base, plan.new) if plan.new == job.labels[1] else (plan.new,)
        for arm in arms:
            run.fact(
                f"{OPERATION} {arm}, {plan.case}", decode_step.METRIC, round(session.level(arm), 3), "us",
                kind="measured", bound=(bound.value, bound.what) if bound else None,
            )  # fmt: skip
    if len(job.concurrencies) > 1:
        for one in decode_step.growths(sessions, job.model.name, job.concurrencies, job.contexts):
            run.fact(
                f"{OPERATION} {one.arm}, {job.model.name}, context {one.context}",
                f"advantage at {max(job.concurrencies)} sequences over that at {min(job.concurrencies)}",
                round(one.ratio, 4), "1", kind="measured",
            )  # fmt: skip
