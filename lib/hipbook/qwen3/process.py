"""One process of the decode step's session: every arm of every case, checked, timed, checked again.

The process is the unit of replication (R2): a fresh interpreter with a context, weights and graphs of its
own. Within a case the arms take turns sample by sample, in the session's order and back.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hipbook.boards.base import Board
from hipbook.boards.gpu import GpuBoard
from hipbook.errors import HipbookError
from hipbook.measure.bound import Bandwidth
from hipbook.measure.schedule import interleave
from hipbook.measure.warmup import steady_from
from hipbook.ops.attention_call import DTYPES
from hipbook.qwen3 import config as configs
from hipbook.qwen3 import weights as weights_of
from hipbook.qwen3.case import Candidate, Clock, OpenCase
from hipbook.qwen3.config import Config
from hipbook.qwen3.weights import Weights

MIN_SAMPLES = 16  # two windows of the warm-up's test
SLOW_US = 60_000.0  # a sample this long is taken MIN_SAMPLES times only, unless a trend lasts


@dataclass(frozen=True)
class Job:
    """What every process of a session does; `labels` in the order of `schedule.with_control`."""

    config: dict[str, Any]  # Config's fields
    folder: str  # of real weights; "" for random ones
    dtype: str
    labels: list[str]
    concurrencies: list[int]
    contexts: list[int]
    processes: int
    samples: int
    seed: int
    board: str
    number: int = 0  # this process's

    @property
    def model(self) -> Config:
        return Config(**self.config)

    def cases(self) -> list[tuple[int, int]]:
        """(concurrency, context) in the order they are measured."""
        return [(each, context) for context in self.contexts for each in self.concurrencies]

    def order(self) -> list[str]:
        """The labels' order in this process: its block of the session's schedule (R3)."""
        slots = interleave(self.labels, self.processes, self.seed)
        return [slot.arm for slot in slots if slot.block == self.number]


@dataclass
class Result:
    board: dict[str, Any]
    process: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    code_objects: list[dict[str, Any]] = field(default_factory=list)
    read_gb_s: float = 0.0  # measured reads of the board's memory, the best kernel's
    read_kernel: str = ""
    setup_s: float = 0.0
    seconds: float = 0.0
    power_w: float | None = None


def case_name(model: str, concurrency: int, context: int) -> str:
    return f"{model}, {concurrency} {'sequence' if concurrency == 1 else 'sequences'}, context {context}"


def prepare_weights(job: Job, board: Board) -> Weights:
    dtype, device = DTYPES[job.dtype], board.torch_device
    if job.folder:
        found = configs.of_folder(Path(job.folder))
        if found != job.model:
            raise HipbookError(f"{job.folder}: not the model this session was planned for: {found}")
        return weights_of.load(Path(job.folder), found, dtype=dtype, device=device)
    return weights_of.random(job.model, seed=job.seed, dtype=dtype, device=device)


def replicate(job: Job, board: Board, clock: Clock, read_rate: Bandwidth) -> Result:
    """All cases of the session, once. `read_rate` of the board's memory was measured in this process."""
    began = time.perf_counter()
    result = Result(board.identity(), f"process {job.number}")
    result.read_gb_s, result.read_kernel = read_rate.gb_s, read_rate.kernel
    weights = prepare_weights(job, board)
    exact = weights.to(torch.float64)
    result.setup_s = round(time.perf_counter() - began, 2)
    for place, (concurrency, context) in enumerate(job.cases()):
        case = OpenCase(
            weights, exact, concurrency=concurrency, context=context, labels=job.order(), board=board,
            clock=clock, seed=job.seed,
        )  # fmt: skip
        first = (job.number * len(job.cases()) + place) * len(job.labels)
        name = case_name(job.model.name, concurrency, context)
        result.runs += _runs(job, case, name, first, result)
        for one in case.candidates:
            if one.code_object not in result.code_objects:
                result.code_objects.append(one.code_object)
        del case
        if board.kind == "gpu":
            torch.cuda.empty_cache()
    result.seconds = round(time.perf_counter() - began, 2)
    return result


def _runs(job: Job, case: OpenCase, name: str, first: int, result: Result) -> list[dict[str, Any]]:
    """Times of the case's candidates, as the fields of `measure.session.Run`."""
    case.estimate()
    taken: dict[str, list[tuple[float, float]]] = {one.label: [] for one in case.candidates}
    clocks: dict[str, list[float]] = {one.label: [] for one in case.candidates}
    turns = [one for one in case.candidates if _wants_more(one, taken[one.label], job)]
    while turns:
        for one in turns:
            taken[one.label].append(case.sample_us(one))
            if len(taken[one.label]) in (1, MIN_SAMPLES // 2, MIN_SAMPLES):
                _note_state(case.board, clocks[one.label], result)
        turns = [one for one in reversed(turns) if _wants_more(one, taken[one.label], job)]
    case.check_after()
    return [
        _run(case, one, name, first + place, taken[one.label], clocks[one.label], job)
        for place, one in enumerate(case.candidates)
    ]


def _wants_more(one: Candidate, taken: list[tuple[float, float]], job: Job) -> bool:
    """Until there are enough samples and no trend is left in them, at most twice as many as planned."""
    if len(taken) < MIN_SAMPLES:
        return len(taken) < job.samples
    slow = taken[0][0] * one.tokens > SLOW_US
    wanted = MIN_SAMPLES if slow else job.samples
    if len(taken) < wanted:
        return True
    return len(taken) < 2 * wanted and not steady_from(np.array([us for us, _ in taken])).settled


def _run(
    case: OpenCase, one: Candidate, name: str, order: int, taken: list[tuple[float, float]],
    clocks: list[float], job: Job,
) -> dict[str, Any]:  # fmt: skip
    device, wall = (np.array(side) for side in zip(*taken, strict=True))
    steady = steady_from(device)
    return {
        "order": order,
        "process": f"process {job.number}",
        "arm": one.label,
        "case": name,
        "kernel": one.kernel,
        "witness": one.witness,
        "samples": [round(float(us), 3) for us in device[steady.dropped :]],
        "second_clock": "host_wall",
        "second_samples": [round(float(us), 3) for us in wall[steady.dropped :]],
        "warmup_dropped": steady.dropped,
        "settled": steady.settled,
        "launches_per_sample": one.tokens,
        "clock_mhz": min(clocks, default=None),
        "correct_before": case.right(one.nmse_before) and one.attention_nmse == one.attention_nmse,
        "correct_after": case.right(one.nmse_after),
        "checks": {
            "attention_nmse": one.attention_nmse,
            "logits_nmse_before": one.nmse_before,
            "logits_nmse_after": one.nmse_after,
            "logits_nmse_exact_attention": case.yardstick,
        },
    }


def _note_state(board: Board, clocks: list[float], result: Result) -> None:
    """The board's clock right after a sample, before it slows down; the highest power."""
    if not isinstance(board, GpuBoard):
        return
    state = board.state()
    if state["clock_mhz"]:
        clocks.append(float(state["clock_mhz"]))
    if state["power_w"]:
        result.power_w = max(result.power_w or 0.0, state["power_w"])
