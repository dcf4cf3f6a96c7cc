"""Where jobs run: the interface the conductor talks to, and the engine for this machine.

An engine is given one job a board at a time, so it need not queue; it says what ended, and how.
"""

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hipbook.records import Status
from hipbook.sweep import offers, runner
from hipbook.sweep.jobs import Job
from hipbook.sweep.offers import Offer
from hipbook.sweep.runner import Outcome, run_notebook
from hipbook.sweep.spec import Limits


@dataclass(frozen=True)
class Task:
    """One attempt at one job."""

    job: Job
    attempt: int
    folder: Path  # where its files go
    notebook: Path
    limits: Limits


@dataclass(frozen=True)
class Ended:
    task: Task
    outcome: Outcome
    worker: str = ""  # which of several; empty on this machine


class Engine(Protocol):
    """`begin` is not called for a board that is busy, nor beyond `at_once`."""

    at_once: int

    def offers(self, wanted: Sequence[str]) -> list[Offer]:
        """The boards there are; those wanted, by name or architecture, with their identity."""
        ...

    def begin(self, task: Task) -> None: ...

    def ended(self, wait_s: float) -> list[Ended]:
        """What has ended since the last call, or does within `wait_s`. Raises what stops a sweep."""
        ...

    def cancel(self) -> None:
        """End everything that runs, as CANCELLED, and leave no process of it behind."""
        ...

    def close(self) -> None: ...


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_task(task: Task) -> Outcome:
    """Run a job in this process's machine, as every engine does in the end."""
    limits, job = task.limits, task.job
    return run_notebook(
        task.notebook,
        job.given,
        out=task.folder,
        cell_timeout_s=limits.cell_timeout_s,
        timeout_s=limits.timeout_s,
        wait_s=limits.wait_s,
        slots=1,  # one job a board, emulated boards too: a board is a board
        threads=limits.threads,
        identity=job.identity,
        attempt=task.attempt,
    )


class LocalEngine:
    """Jobs on this machine, each in a process of its own."""

    def __init__(self, limits: Limits) -> None:
        self.at_once = limits.at_once or max(1, cores() // limits.threads)
        self._pool = ThreadPoolExecutor(max_workers=self.at_once)
        self._running: dict[Future, Task] = {}
        self._cancelling = ExitStack()

    def offers(self, wanted: Sequence[str]) -> list[Offer]:
        return offers.of_this_machine(wanted)

    def begin(self, task: Task) -> None:
        self._running[self._pool.submit(run_task, task)] = task

    def ended(self, wait_s: float) -> list[Ended]:
        done, _ = wait(self._running, timeout=wait_s, return_when=FIRST_COMPLETED)
        return [Ended(self._running.pop(future), future.result()) for future in done]

    def cancel(self) -> None:
        self._cancelling.enter_context(runner.cancelled())  # until close: nothing begins any more

    def close(self) -> None:
        if self._running:
            self.cancel()
        self._pool.shutdown(cancel_futures=True)
        self._cancelling.close()


def unavailable(task: Task, why: str) -> Outcome:
    """The outcome of a job that no board could be had for."""
    parameters = dict(task.job.parameters)
    status = Status.BOARD_UNAVAILABLE
    return Outcome(task.notebook.stem, parameters, status, why, task.folder, None, None, 0.0, task.attempt)
