"""The process that runs one notebook: holds the board, runs papermill, says how it ended.

Started by `runner` as `python -m hipbook.sweep.child JOB.json` in a session of its own. A native crash,
a hang or an endless loop in a notebook stays in here, and the board's lock goes when its last holder does:
this process or the kernel, which inherits the lock's descriptor, so an orphaned kernel cannot share a board.
"""

import fcntl
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

from hipbook import paths
from hipbook.errors import BoardUnavailable
from hipbook.records.schema import Status
from hipbook.records.store import write_atomically

LOCK_POLL_S = 0.1

# What a cell's error says about the run. The kernel reports the class by name only.
_BY_ERROR = {
    "BadParameters": Status.BAD_PARAMETERS,
    "BuildError": Status.COMPILE_ERROR,
    "BoardUnavailable": Status.BOARD_UNAVAILABLE,
    "BoardMismatch": Status.BOARD_MISMATCH,
    "Incorrect": Status.INCORRECT,
    "KeyboardInterrupt": Status.CANCELLED,
}


def hold_board(board: str, slots: int, wait_s: float) -> int:
    """The descriptor of a lock on one of the board's slots, held as long as a process has it open.

    Raises BoardUnavailable when no slot is free within `wait_s`.
    """
    folder = paths.cache() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in board)
    deadline = time.monotonic() + wait_s
    while True:
        for slot in range(slots):
            handle = os.open(folder / f"{safe}.{slot}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return handle
            except BlockingIOError:
                os.close(handle)
        if time.monotonic() > deadline:
            raise BoardUnavailable(
                f"{board}: in use by another run for {wait_s:.0f} s",
                fix="wait for it, or end it; `--wait` says how long to wait",
            )
        time.sleep(LOCK_POLL_S)


def execute(job: dict) -> None:
    """Run the notebook with papermill; everything that goes wrong is raised."""
    import papermill
    from jupyter_client.manager import AsyncKernelManager
    from traitlets.config import Config

    lock = hold_board(job["board"], job["slots"], job["wait_s"]) if job["board"] else None

    class Manager(AsyncKernelManager):
        async def start_kernel(self, **kw):
            kept = {"pass_fds": (lock,)} if lock is not None else {}
            return await super().start_kernel(**kw, **kept)

    # Sockets in a folder of this run, not TCP ports that another run or user could take.
    papermill.execute_notebook(
        job["notebook"],
        job["executed"],
        parameters=job["parameters"],
        progress_bar=False,
        log_output=True,
        coalesce_streams=True,
        record_timing=False,
        execution_timeout=job["cell_timeout_s"],
        kernel_manager_class=Manager,
        config=Config({"KernelManager": {"transport": "ipc", "connection_file": job["connection"]}}),
    )


def end_with_parent(pipe: int, mark: str) -> None:
    """Wait until the runner is gone, then end all processes of this run, this one last.

    A runner that ended by SIGKILL, or with its whole machine's memory, ends nothing itself.
    """
    from hipbook.sweep.runner import end_processes

    os.read(pipe, 1)  # nothing is ever written: it returns when the other end closes
    end_processes(mark, spare=os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


def outcome_of(error: BaseException | None) -> tuple[Status, str]:
    """(status, one line why) of what `execute` raised. PASSED for nothing; the runner asks for the record."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    match error:
        case None:
            return Status.PASSED, ""
        case DeadKernelError():
            return Status.DEAD_KERNEL, "the kernel died in a cell; its last words are in stderr.log"
        case CellTimeoutError():
            return Status.CELL_TIMEOUT, _first_line(error)
        case PapermillExecutionError():
            status = _BY_ERROR.get(error.ename, Status.RUNTIME_ERROR)
            return status, f"cell {error.exec_count}: {error.ename}: {error.evalue}"
        case BoardUnavailable():
            return Status.BOARD_UNAVAILABLE, str(error)
        case KeyboardInterrupt():
            return Status.CANCELLED, "interrupted"
        case _:
            return Status.RUNTIME_ERROR, f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def main(job_file: str) -> int:
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    threading.Thread(target=end_with_parent, args=(job["parent"], job["mark"]), daemon=True).start()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        execute(job)
        error = None
    except (Exception, KeyboardInterrupt) as raised:
        logging.exception("the run ended early")
        error = raised
    status, why = outcome_of(error)
    write_atomically(Path(job["result"]), json.dumps({"status": status, "why": why}).encode())
    return 0 if status is Status.PASSED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
