"""Runs a plan: a queue a board, one job a board at a time, every beginning and end in the journal."""

import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hipbook.errors import HipbookError
from hipbook.records import Status
from hipbook.sweep.engine import Ended, Engine, Task
from hipbook.sweep.jobs import Job
from hipbook.sweep.runner import Outcome, write_outcome
from hipbook.sweep.spec import Limits
from hipbook.sweep.state import INFRASTRUCTURE, State

POLL_S = 0.2
END_WAIT_S = 15.0  # for runs that were ended to say so
MIN_FREE_BYTES = 4_000_000  # of the sweep's disk, before another job begins; a run's folder takes about 1 MB


class DiskFull(HipbookError):
    """The sweep's disk has no room for another job."""


@dataclass(frozen=True)
class Watching:
    """What is told as the sweep goes; the defaults tell nobody."""

    begun: Callable[[Job, int], None] = lambda job, attempt: None
    ended: Callable[[Job, Outcome, bool], None] = lambda job, outcome, again: None


def due(state: State, jobs: Sequence[Job], *, failed_again: bool) -> tuple[list[Job], Mapping[str, Outcome]]:
    """(the jobs to run, the outcomes of those that need not be).

    `failed_again`: also those whose last run failed without leaving a valid record.
    """
    skipped = {}
    for job in jobs:
        outcome = state.finished(job)
        if outcome is not None and (outcome.record is not None or not failed_again):
            skipped[job.key] = outcome
    return [job for job in jobs if job.key not in skipped], skipped


def conduct(
    state: State,
    notebook: Path,
    jobs: Sequence[Job],
    engine: Engine,
    limits: Limits,
    watching: Watching = Watching(),
) -> Counter[Status]:
    """Run the jobs in their order on each board; how many ended how.

    Stops at a request to cancel, at Ctrl-C and at a full disk, and ends what runs. Raises HipbookError for
    what no other job would survive either.
    """
    queues: dict[str, deque[tuple[Job, int]]] = {}
    for job in jobs:
        queues.setdefault(job.board, deque()).append((job, 1))
    busy: set[str] = set()
    counted: Counter[Status] = Counter()
    cancelling = False
    try:
        while any(queues.values()) or busy:
            if not cancelling and state.cancel_file.exists():
                cancelling = True
                queues.clear()
                state.note("cancel")
                engine.cancel()
            # the longest queue first, so that no board is left alone at the end
            for board, queue in sorted(queues.items(), key=lambda one: -len(one[1])):
                if queue and board not in busy and len(busy) < engine.at_once:
                    _require_room(state.folder)
                    job, attempt = queue.popleft()
                    state.note("begin", job, attempt=attempt)
                    watching.begun(job, attempt)
                    engine.begin(Task(job, attempt, state.job_folder(job), notebook, limits))
                    busy.add(board)
            for end in engine.ended(POLL_S):
                job = end.task.job
                busy.discard(job.board)
                again = _again(end, limits) and not cancelling
                _note_end(state, end, again)
                watching.ended(job, end.outcome, again)
                if again:
                    queues[job.board].appendleft((job, end.task.attempt + 1))
                else:
                    counted[end.outcome.status] += 1
    except BaseException:
        engine.cancel()
        _drain(state, engine, busy)
        raise
    return counted


def _drain(state: State, engine: Engine, busy: set[str]) -> None:
    """Note how the runs that were just cancelled ended; a disk that is full cannot keep it."""
    deadline = time.monotonic() + END_WAIT_S
    with suppress(OSError, HipbookError):
        while busy and time.monotonic() < deadline:
            for end in engine.ended(POLL_S):
                busy.discard(end.task.job.board)
                _note_end(state, end, False)


def _again(end: Ended, limits: Limits) -> bool:
    return end.outcome.status in INFRASTRUCTURE and end.task.attempt <= limits.retries


def _note_end(state: State, end: Ended, again: bool) -> None:
    outcome = end.outcome
    write_outcome(outcome)  # also of a job that never began
    state.note(
        "end", end.task.job, attempt=end.task.attempt, status=outcome.status, why=outcome.why,
        wall_s=outcome.wall_s, worker=end.worker, again=again,
    )  # fmt: skip


def _require_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise DiskFull(
            f"{folder}: {free / 1e6:.1f} MB left on its disk; a job needs {MIN_FREE_BYTES / 1e6:.0f}",
            fix="make room, then `hipbook sweep resume FILE`",
        )
