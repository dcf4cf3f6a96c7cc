"""One process of a measuring session: every arm of every case, checked, timed, checked again.

    python -m hipbook.studies.timing.process JOB.json RESULT.json

The process is the unit of replication (R2), so it is a fresh interpreter that builds nothing on what
another one left but the code cache. The job says in which order the arms come (R3).
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict

from hipbook import boards
from hipbook.boards.gpu import GpuBoard
from hipbook.errors import BadArgument
from hipbook.measure import bandwidth
from hipbook.measure.clocks import Cache, cold_input_sets
from hipbook.measure.device_times import SAMPLES, Batch, push_out, sample
from hipbook.measure.schedule import implementation
from hipbook.measure.session import Run
from hipbook.studies.timing.suite import Case, Suite, find_suite


class Turn(BaseModel):
    """One arm of one case, at its place in the session's order. `arm` may be the A/A control."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    order: int
    case: str
    arm: str


class Job(BaseModel):
    """What a process does. Without `turns` it only opens the cases: what can run, and what is wrong."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    suite: str
    parameters: dict[str, Any]
    board: str
    arms: list[str]
    process: str
    turns: list[Turn] = []
    cache: Cache = Cache.WARM
    samples: int = SAMPLES


class Result(BaseModel):
    """What a process found: runs by turn, rates by name (GB/s, `empty_launch` in us), what was absent."""

    model_config = ConfigDict(extra="forbid")
    board: dict[str, Any]
    runs: list[Run] = []
    step_us: float = 0.0
    gb_s: dict[str, float] = {}
    best: dict[str, str] = {}
    empty_launch_us: float | None = None
    moved_bytes: dict[str, int] = {}
    bounds: dict[str, str | None] = {}
    absent: dict[str, dict[str, str]] = {}
    wrong: dict[str, dict[str, str]] = {}
    power_w: float | None = None
    seconds: float = 0.0


def probe(job: Job, suite: Suite, board: GpuBoard) -> Result:
    """Open every case, check every arm once: which can be timed, and why the others cannot."""
    result = Result(board=board.identity())
    for name in suite.names(job.parameters):
        case = suite.open(name, job.parameters, job.arms, board)
        result.moved_bytes[name], result.bounds[name] = case.moved_bytes, case.bound
        result.absent[name] = dict(case.absent)
        result.wrong[name] = {arm: why for arm, one in case.candidates.items() if (why := one.check())}
        print(f"opened {name}: {len(case.candidates)} arms", flush=True)
        del case
        torch.cuda.empty_cache()
    return result


def replicate(job: Job, suite: Suite, board: GpuBoard) -> Result:
    """Make the job's turns, case by case, in their order."""
    result = Result(board=board.identity())
    rates = [bandwidth.read_memory(board), bandwidth.read_cache(board), bandwidth.copy_memory(board)]
    result.gb_s = {rate.level: round(rate.gb_s, 2) for rate in rates}
    result.best = {rate.level: rate.kernel for rate in rates}
    result.empty_launch_us = bandwidth.empty_launch_us(board)
    torch.cuda.empty_cache()
    for name in dict.fromkeys(turn.case for turn in job.turns):
        turns = [turn for turn in job.turns if turn.case == name]
        sets = _open_sets(job, suite, name, board)
        result.moved_bytes[name], result.bounds[name] = sets[0].moved_bytes, sets[0].bound
        result.runs += _case_runs(job, turns, sets, board, result)
        del sets
        torch.cuda.empty_cache()
    result.runs.sort(key=lambda run: run.order)
    return result


def _open_sets(job: Job, suite: Suite, name: str, board: GpuBoard) -> list[Case]:
    """The case once, or, for cold caches, as many times with other values as outgrow the cache twice."""
    first = suite.open(name, job.parameters, job.arms, board)
    if job.cache is Cache.WARM:
        return [first]
    count = cold_input_sets(first.moved_bytes, board.identity()["last_level_cache_bytes"])
    more = ({**job.parameters, "seed": job.parameters["seed"] + i} for i in range(1, count))
    return [first, *(suite.open(name, parameters, job.arms, board) for parameters in more)]


def _case_runs(
    job: Job, turns: Sequence[Turn], sets: Sequence[Case], board: GpuBoard, result: Result
) -> list[Run]:
    name, runs = turns[0].case, []
    before = {
        arm: [case.candidates[arm].check() for case in sets] for arm in {implementation(t.arm) for t in turns}
    }
    batches = {
        arm: Batch(*(case.candidates[arm].run for case in sets))
        for arm, whys in before.items()
        if not any(whys)
    }
    push_out(board)
    for turn in turns:
        arm = implementation(turn.arm)
        if arm not in batches:
            result.wrong.setdefault(name, {})[arm] = next(filter(None, before[arm]))
            continue
        taken = sample(board, batches[arm], job.samples)
        result.step_us = max(result.step_us, taken.step_us)
        result.power_w = max(filter(None, (result.power_w, taken.power_w)), default=None)
        candidate = sets[0].candidates[arm]
        runs.append(
            Run(
                order=turn.order, process=job.process, arm=turn.arm, case=name, kernel=candidate.kernel,
                witness=candidate.witness, samples=taken.samples_us, warmup_dropped=taken.warmup_dropped,
                settled=taken.settled, launches_per_sample=taken.launches_per_sample,
                clock_mhz=taken.clock_mhz, correct_before=True, correct_after=True,
            )
        )  # fmt: skip
    after = {arm: next(filter(None, (case.candidates[arm].check() for case in sets)), "") for arm in batches}
    for arm, why in after.items():
        if why:
            result.wrong.setdefault(name, {})[arm] = f"after timing: {why}"
    return [run.model_copy(update={"correct_after": not after[implementation(run.arm)]}) for run in runs]


def main(arguments: Sequence[str]) -> int:
    job_path, result_path = map(Path, arguments)
    job = Job.model_validate_json(job_path.read_text(encoding="utf-8"))
    began = time.monotonic()
    suite, board = find_suite(job.suite), boards.get(job.board)
    if not isinstance(board, GpuBoard):
        raise BadArgument("board", job.board, "has no clock: times need a GPU board")
    result = replicate(job, suite, board) if job.turns else probe(job, suite, board)
    result.seconds = round(time.monotonic() - began, 2)
    temporary = result_path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(result.model_dump(mode="json")), encoding="utf-8")
    temporary.replace(result_path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
