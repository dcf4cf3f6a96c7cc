"""Running cases over processes: a crash of native code costs one case, not the run.

Each worker is a fresh interpreter with one board of its own. It says which case it starts, so that
when it dies that case is a FAULT with the signal's name, and a new worker takes up the rest.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from hipbook.boards.base import Board
from hipbook.checks.built_once import BuiltOnce
from hipbook.checks.case import Case, CheckResult, Status

Evaluate = Callable[..., CheckResult]  # (case, board, **options)
OpenBoard = Callable[[], Board]


def run_group(
    evaluate: Evaluate, group: Iterable[Case], board: Board, options: dict[str, object]
) -> Iterator[CheckResult]:
    for case in group:
        yield evaluate(case, board, **options)


def run_processes(
    evaluate: Evaluate,
    groups: list[list[Case]],
    open_board: OpenBoard,
    workers: int,
    options: dict[str, object],
) -> Iterator[CheckResult]:
    """Results as they come, from `workers` processes. `evaluate` and `open_board` must be picklable.

    Groups are cases that share their inputs: a worker takes one whole group at a time.
    """
    context = multiprocessing.get_context("spawn")  # torch has threads, which fork does not carry over
    waiting = groups[::-1]
    crew = [_Worker(context, evaluate, open_board, options) for _ in range(min(workers, len(groups)))]
    try:
        for worker in crew:
            worker.give(waiting.pop() if waiting else [])
        while any(worker.group for worker in crew):
            for connection in wait([worker.connection for worker in crew if worker.group]):
                worker = next(one for one in crew if one.connection is connection)
                yield from worker.take()
                if not worker.group and waiting:
                    worker.give(waiting.pop())
    finally:
        for worker in crew:
            worker.stop()


class _Worker:
    """One process and the cases it still owes."""

    def __init__(
        self,
        context: multiprocessing.context.SpawnContext,
        evaluate: Evaluate,
        open_board: OpenBoard,
        options: dict[str, object],
    ) -> None:
        self._start = lambda: self._process(context, evaluate, open_board, options)
        self.group: list[Case] = []
        self.process, self.connection = self._start()

    @staticmethod
    def _process(context, evaluate, open_board, options) -> tuple[BaseProcess, Connection]:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, evaluate, open_board, options), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def give(self, group: list[Case]) -> None:
        self.group = list(group)
        if group:
            self.connection.send(group)

    def take(self) -> list[CheckResult]:
        """The next result, or the FAULT of a case that took its process with it."""
        try:
            result = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            lost, rest = self.group[0], self.group[1:]
            reason = f"the worker process died: {_how(self.process.exitcode)}"
            self.process, self.connection = self._start()
            self.give(rest)
            return [CheckResult(lost.id, lost.operation, lost.arm, Status.FAULT, False, reason)]
        self.group = self.group[1:]
        return [result]

    def stop(self) -> None:
        self.connection.close()  # the worker's recv ends
        self.process.join(timeout=2)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"signal {signal.Signals(-exitcode).name}"
    return f"exit code {exitcode}"


def _serve(
    connection: Connection, evaluate: Evaluate, open_board: OpenBoard, options: dict[str, object]
) -> None:
    import torch

    torch.set_num_threads(1)  # a worker is the unit of parallelism
    where = BuiltOnce(open_board())
    while True:
        try:
            group = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        for result in run_group(evaluate, group, where, options):
            connection.send(result)
