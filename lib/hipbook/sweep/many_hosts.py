"""The engine for many hosts: one dask worker a board, of a running scheduler or started by us over SSH.

The conductor hands over one job a board at a time, so dask is not asked to queue: it finds the worker with
the board, carries the job there and its files back, and says at once when a worker dies.
"""

import queue
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hipbook.errors import HipbookError
from hipbook.records import Status
from hipbook.records.store import write_atomically
from hipbook.sweep import worker
from hipbook.sweep.engine import Ended, Task, unavailable
from hipbook.sweep.offers import Offer
from hipbook.sweep.runner import Outcome
from hipbook.sweep.spec import ManyHosts, Sweep

CONNECT_TIMEOUT_S = 20.0
_POLL_S = 0.2


def engine_of_hosts(sweep: Sweep, scheduler: str | None) -> "DaskEngine":
    """The engine of a sweep file that names one, or of a scheduler's address."""
    try:
        import asyncssh  # noqa: F401
        import distributed  # noqa: F401
    except ImportError as error:
        raise HipbookError(
            f"sweeps over many hosts need {error.name}", fix="pip install -e '.[many-hosts]'"
        ) from None
    told = ManyHosts(scheduler=scheduler) if scheduler else sweep.engine
    if told.scheduler:
        return joined(told.scheduler, told.workers_wait_s)
    from hipbook.sweep import ssh

    return ssh.started(told)


def joined(address: str, wait_s: float) -> "DaskEngine":
    """The engine of a running scheduler. Raises HipbookError for none, or one with other settings."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise HipbookError(
            f"scheduler {address}: {error}", fix="start one: `hipbook sweep scheduler`"
        ) from None
    try:
        _require_settings(client, address)
    except BaseException:
        client.close()
        raise
    return DaskEngine(client, wait_s)


def _require_settings(client: Any, address: str) -> None:
    failures, timeout = client.run_on_scheduler(_settings)
    if failures != 0 or timeout is None:
        raise HipbookError(
            f"scheduler {address}: allowed-failures {failures}, no-workers-timeout {timeout}; a sweep needs "
            "0 and a time: otherwise the death of a worker runs its job again, and a lost board is waited "
            "for without end",
            fix="start it with `hipbook sweep scheduler`, which sets both",
        )


def _settings(dask_scheduler: Any) -> tuple[int, float | None]:
    return dask_scheduler.allowed_failures, dask_scheduler.no_workers_timeout


class DaskEngine:
    """Jobs on the workers of a scheduler. `workers` are waited for; `close_others` ends what was started."""

    def __init__(
        self, client: Any, wait_s: float, workers: int = 1, close_others: Callable[[], None] = lambda: None
    ) -> None:
        self._client, self._wait_s, self._close_others = client, wait_s, close_others
        self._workers = workers
        self._id = uuid.uuid4().hex
        self._running: dict[Any, Task] = {}
        self._done: queue.SimpleQueue = queue.SimpleQueue()
        self._cancelling = False
        self._resources: dict[str, str] = {}
        self.at_once = 1

    def offers(self, wanted: Sequence[str]) -> list[Offer]:
        """What the workers offer, once all workers and every board wanted are there or the wait is over.

        Raises HipbookError for a worker of another package, and for two that offer one GPU.
        """
        deadline = time.monotonic() + self._wait_s
        while True:
            told = self._described()
            offered = _labelled(told)
            names = {name for one in offered for name in (one.board, one.called, one.arch)}
            there = set(wanted) <= names and len(told) >= self._workers
            if there or time.monotonic() > deadline or self._hopeless():
                break
            time.sleep(_POLL_S)
        self._resources = {one.board: worker.resource_of(replace(one, board=one.called)) for one in offered}
        self.at_once = max(1, len(told))
        return offered

    def _hopeless(self) -> bool:
        """Whether a worker that is waited for is known not to come."""
        return False

    def _described(self) -> dict[str, dict[str, Any]]:
        """By worker's address. Workers that come or go while they are asked are asked the next time."""
        told = self._client.run(worker.described, on_error="ignore")
        ours = worker.versions()
        for address, said in told.items():
            for what, version in ours.items():
                if said and said[what] != version:
                    board = said["offer"]["board"]
                    raise HipbookError(
                        f"worker {address} ({board}): its {what} is {said[what]}, here it is {version}",
                        fix="bring every host to one checkout and environment, else a job's key is no key",
                    )
        return {address: said for address, said in told.items() if said}

    def begin(self, task: Task) -> None:
        future = self._client.submit(
            worker.run_remote, task, task.notebook.read_bytes(), self._id,
            key=f"{task.job.key}-{task.attempt}-{uuid.uuid4().hex[:8]}", pure=False, retries=0,
            resources={"slot": 1, self._resources.get(task.job.board, task.job.board): 1},
        )  # fmt: skip
        self._running[future] = task
        future.add_done_callback(self._done.put)

    def ended(self, wait_s: float) -> list[Ended]:
        futures = []
        try:
            futures.append(self._done.get(timeout=wait_s))
            while True:
                futures.append(self._done.get_nowait())
        except queue.Empty:
            pass
        if self._client.status != "running":
            raise self._lost()
        return [self._end(future, self._running.pop(future)) for future in futures]

    def _lost(self) -> HipbookError:
        return HipbookError(
            f"the connection to the scheduler is lost, with {len(self._running)} jobs under way",
            fix="start it and the workers again, then `hipbook sweep resume FILE`",
        )

    def _end(self, future: Any, task: Task) -> Ended:
        from distributed import KilledWorker
        from distributed.scheduler import NoValidWorkerError, NoWorkerError

        try:
            told = future.result()
        except KilledWorker as error:
            where = getattr(error.last_worker, "address", "")
            return Ended(task, unavailable(task, f"its worker {where} died while it ran"), where)
        except (NoValidWorkerError, NoWorkerError):
            return Ended(task, unavailable(task, f"no worker offers {task.job.board} any more"))
        except Exception as error:  # what a worker raised: a full disk there, a broken environment
            if self._cancelling:
                return Ended(task, replace(unavailable(task, "cancelled"), status=Status.CANCELLED))
            if future.cancelled():
                raise self._lost() from None
            return Ended(task, unavailable(task, f"its worker could not run it: {error!r}"))
        return Ended(task, _unpacked(task, told), told["worker"])

    def cancel(self) -> None:
        self._cancelling = True
        if self._client.status != "running":
            return
        self._client.run(worker.end_runs, self._id, on_error="ignore")
        # a task that no worker has taken up stays in the scheduler: its future is dropped
        taken = {key for keys in self._client.processing().values() for key in keys}
        for future in list(self._running):
            if future.status == "pending" and future.key not in taken:
                future.cancel()

    def close(self) -> None:
        try:
            if self._running and self._client.status == "running":
                self.cancel()
            self._client.close(timeout=10)
        finally:
            self._close_others()


def _labelled(told: Mapping[str, Mapping[str, Any]]) -> list[Offer]:
    """One offer a board: emulated boards of one name are one board, GPUs of one name are told apart."""
    boards: dict[str, list[Offer]] = {}
    for said in told.values():
        offer = Offer(**said["offer"])
        boards.setdefault(offer.board, []).append(offer)
    offered = []
    for here in boards.values():
        alike = {worker.resource_of(one): one for one in here}
        if len(alike) < len(here) and here[0].identity.get("kind") != "emulated":
            raise HipbookError(f"{here[0].board}: two workers offer one GPU", fix="end one of them")
        if len(alike) == 1:
            offered.append(here[0])
        else:
            offered += [replace(one, board=name, local=one.board) for name, one in alike.items()]
    return offered


def _unpacked(task: Task, told: Mapping[str, Any]) -> Outcome:
    """The outcome of a job with its files in the sweep's folder, the record last."""
    task.folder.mkdir(parents=True, exist_ok=True)
    for stale in task.folder.iterdir():
        if stale.is_file():
            stale.unlink()
    for name, data in sorted(told["files"].items(), key=lambda item: item[0] == told.get("record")):
        if Path(name).name != name:
            raise HipbookError(f"{name!r}: a worker sent a file name with a folder in it")
        write_atomically(task.folder / name, data)
    record, executed = (told.get(which) and task.folder / told[which] for which in ("record", "executed"))
    return Outcome(
        task.notebook.stem, dict(task.job.parameters), Status(told["status"]), told["why"], task.folder,
        record, executed, told["wall_s"], task.attempt,
    )  # fmt: skip
