"""The worker of one board on a host, and what the conductor's host calls on it (dask.distributed).

    hipbook sweep scheduler --port 8786                     # one, where every host reaches it
    hipbook sweep worker tcp://HOST:8786 --board amd-0      # one for each board

A worker has one thread, so it runs one job; its resources are a slot, its architecture, its board's name, and
the name with the end of the board's UUID, since every host may have an `amd-0`. Nothing is shared between
hosts but the network: notebooks come with the job, and files go back with its outcome.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hipbook.records import Status
from hipbook.sweep import digests, offers, runner
from hipbook.sweep.engine import Task, run_task
from hipbook.sweep.offers import Offer

OFFER = "HIPBOOK_WORKER_OFFER"  # in a worker's environment: what it offers, as JSON
MAX_LOG_BYTES = 1_000_000  # of a log that goes back: its end
TLS = tuple(f"tls_{role}_{part}" for role in ("client", "worker", "scheduler") for part in ("cert", "key"))

# What the scheduler must be set to, and why: without the first a worker's death runs its job again up to four
# times whatever `retries` says; without the second a board that nobody offers is waited for without end.
SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.no-workers-timeout": "60s",
    "distributed.scheduler.work-stealing": False,
    "logging": {"distributed": "warning"},
}
_ended: set[str] = set()  # conductors whose jobs are to end


def resource_of(offer: Offer) -> str:
    """The name that tells this board from those of other hosts."""
    uuid = str(offer.identity.get("uuid", ""))
    return f"{offer.board}@{uuid[-8:]}" if uuid else offer.board


def versions() -> dict[str, str]:
    """What must be the same on both ends for a job's key to say what ran."""
    import distributed

    return {
        "package": digests.package(),
        "kernels": digests.kernels(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "distributed": distributed.__version__,
    }


# --- called on a worker by the conductor's host ---------------------------------------------------


def described() -> dict[str, Any]:
    """What this worker offers, and its versions; empty for a worker that is none of ours."""
    return json.loads(os.environ.get(OFFER, "{}"))


def end_runs(conductor: str) -> None:
    """End the job of a conductor that runs here, and every one that it begins later."""
    _ended.add(conductor)
    with runner.cancelled():
        pass


def run_remote(task: Task, notebook: bytes, conductor: str) -> dict[str, Any]:
    """Run a job in a folder of this host: its outcome and its files by name."""
    from distributed import get_worker

    here = get_worker().address
    if conductor in _ended:
        return {
            "worker": here,
            "status": Status.CANCELLED,
            "why": "cancelled before it began",
            "wall_s": 0.0,
            "files": {},
        }
    folder = Path(tempfile.mkdtemp(prefix="hipbook-job-"))
    try:
        book = folder / task.notebook.name
        book.write_bytes(notebook)
        outcome = run_task(replace(task, notebook=book, folder=folder / "run"))
        status, why = outcome.status, outcome.why
        if conductor in _ended and status is not Status.PASSED:
            status, why = Status.CANCELLED, "cancelled"
        files = {p.name: _content(p) for p in (folder / "run").glob("[!.]*") if p.name != "outcome.json"}
        told = {"worker": here, "status": status, "why": why, "wall_s": outcome.wall_s, "files": files}
        told |= {
            which: getattr(outcome, which) and getattr(outcome, which).name
            for which in ("record", "executed")
        }
        return told
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return data[-MAX_LOG_BYTES:] if path.suffix == ".log" else data


# --- the processes --------------------------------------------------------------------------------


def serve_worker(scheduler: str, board: str, *, from_stdin: bool) -> None:
    """Offer a board of this machine until told to end. Raises BoardUnavailable.

    `from_stdin`: read certificates as one line of JSON from standard input, and end when it closes.
    """
    security = _security(json.loads(sys.stdin.readline())) if from_stdin else None
    offer = offers.of(board, in_process=board.endswith(runner.EMULATED))
    told = json.dumps({"offer": asdict(offer), **versions()})
    asyncio.run(_serve_worker(scheduler, offer, told, security, from_stdin))


async def _serve_worker(scheduler: str, offer: Offer, told: str, security: Any, from_stdin: bool) -> None:
    from distributed import Nanny

    ended = asyncio.Event()
    if from_stdin:
        _when_stdin_closes(asyncio.get_running_loop(), ended)
    resources = dict.fromkeys(("slot", offer.arch, offer.board, resource_of(offer)), 1)
    # the nanny starts the worker again when it dies; its memory is small, as jobs are processes of their own
    async with Nanny(
        scheduler, nthreads=1, resources=resources, memory_limit=0, security=security,
        env={OFFER: told}, silence_logs=40,
    ) as nanny:  # fmt: skip
        print(f"{offer.board} ({offer.arch}) offered to {scheduler}", flush=True)
        _, waiting = await asyncio.wait(
            [asyncio.ensure_future(nanny.finished()), asyncio.ensure_future(ended.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        for one in waiting:
            one.cancel()


def _when_stdin_closes(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    def wait() -> None:
        while sys.stdin.buffer.read1(4096):
            pass
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait, daemon=True).start()


def _security(certificates: Mapping[str, str]) -> Any:
    from distributed import Security

    return Security(require_encryption=True, **certificates)


def serve_scheduler(host: str, port: int) -> None:
    """Run a scheduler with the settings sweeps need until it is ended."""
    import dask

    dask.config.set(SETTINGS)
    asyncio.run(_serve_scheduler(host, port))


async def _serve_scheduler(host: str, port: int) -> None:
    from distributed import Scheduler

    async with Scheduler(host=host, port=port, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()
