"""Sweeps without processes: an engine that makes records itself, and a notebook that takes a board."""

import time
from collections.abc import Sequence
from pathlib import Path

from hipbook.notebooks.investigation import Investigation
from hipbook.records import Status, file_name
from hipbook.sweep.engine import Ended, Task
from hipbook.sweep.offers import Offer
from hipbook.sweep.runner import Outcome

PARAMETERS = """\
board: str = "gfx1200-emu"  # any text: a name from `hipbook boards`
size: int = 8  # keys, 1..100
arm: str = "online"  # one of online | decode
fault: str = "none"  # one of none | hang | planted
seed: int = 0  # 0..2147483647"""
BEGIN = """\
from hipbook.notebooks import begin

run = begin(globals(), "tiny", "Does a tiny notebook run on a board?")"""
FACTS = """\
run.fact(arm, "double", 2 * size, "keys", bound=(size, "once"))
run.verdict(arm, "CORRECT", "1 value")
run.not_claimed("anything about a GPU")"""
BOARDS = ("gfx1200-emu", "gfx1201-emu", "gfx1100-emu", "gfx1151-emu")


def offer(board: str, **identity: object) -> Offer:
    arch = board.removesuffix("-emu")
    return Offer(board, arch, {"name": board, "arch": arch, "kind": "emulated", **identity}, "clang 22")


class FakeBoard:
    """What `Investigation` asks of a board."""

    def __init__(self, identity: dict[str, object]) -> None:
        self.name, self.arch, self._identity = identity["name"], identity["arch"], identity

    def identity(self) -> dict[str, object]:
        return self._identity


def write_record(task: Task, *, value: float | None = None) -> Path:
    """The record a run of the tiny notebook on this job leaves in its folder."""
    parameters = dict(task.job.parameters)
    run = Investigation("tiny", "Does it run?", parameters, FakeBoard(dict(task.job.identity or {})))
    size = parameters["size"] if value is None else value
    for arm in ("online", "decode"):
        run.fact(arm, "double", 2 * size, "keys", bound=(size, "once"))
        run.verdict(arm, "CORRECT", "1 value")
    run.write(task.folder)
    return task.folder / file_name("tiny", parameters)


class FakeEngine:
    """Ends a task `takes` polls after it began. `ends` maps (board, size) to statuses, one an attempt."""

    def __init__(self, at_once: int = 2, takes: int = 1, ends: dict | None = None, records: bool = True):
        self.at_once, self.takes, self.ends, self.records = at_once, takes, ends or {}, records
        self.begun: list[Task] = []
        self.together: list[set[str]] = []  # boards that ran at the same time, at each beginning
        self.cancelled = False
        self._running: list[list] = []

    def offers(self, wanted: Sequence[str]) -> list[Offer]:
        return [offer(board) for board in BOARDS]

    def begin(self, task: Task) -> None:
        boards = [one[0].job.board for one in self._running]
        assert task.job.board not in boards, "two jobs on one board"
        assert len(boards) < self.at_once
        self.together.append({task.job.board, *boards})
        self.begun.append(task)
        self._running.append([task, self.takes])

    def ended(self, wait_s: float) -> list[Ended]:
        done = []
        for one in self._running:
            one[1] -= 1
            if one[1] <= 0 or self.cancelled:
                done.append(one)
        self._running = [one for one in self._running if one not in done]
        return [Ended(task, self._outcome(task), "w") for task, _ in done]

    def _outcome(self, task: Task) -> Outcome:
        statuses = self.ends.get((task.job.board, task.job.parameters["size"]), [Status.PASSED])
        status = Status.CANCELLED if self.cancelled else statuses[min(task.attempt, len(statuses)) - 1]
        record = write_record(task) if status is Status.PASSED and self.records else None
        why = "" if status is Status.PASSED else f"it was made to end as {status}"
        task.folder.mkdir(parents=True, exist_ok=True)
        return Outcome(
            "tiny", dict(task.job.parameters), status, why, task.folder, record, None, 0.1, task.attempt
        )

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        pass


def wait_for(condition, seconds: float = 60.0) -> None:
    """Wait until `condition()` holds; fails when it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.05)
