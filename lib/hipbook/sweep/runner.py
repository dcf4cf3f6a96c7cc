"""One notebook, one subprocess, one outcome.

A run has a folder of its own: the executed notebook, the record, the parameters as papermill would read
them, the logs, and outcome.json. It succeeded if its process ended with 0 *and* left a valid record with
the right parameters: papermill's output notebook says `completed` after a dead kernel, a timeout or an
early `sys.exit(0)` as well.
"""

import fcntl
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from hipbook import paths, records
from hipbook.errors import BadArgument, BoardUnavailable, HipbookError
from hipbook.notebooks.known import check_names
from hipbook.notebooks.parameters import BadParameters, Parameter, check, declared
from hipbook.records import Status
from hipbook.records.store import write_atomically
from hipbook.sweep import strict_yaml

CELL_TIMEOUT_S = 300.0  # one cell
RUN_TIMEOUT_S = 1800.0  # the whole run, kernel start included
LOCK_WAIT_S = 900.0  # for the board
EMULATED = "-emu"  # boards with this ending are programs: as many runs at once as there are cores
MARK = "HIPBOOK_RUN"  # in the environment of every process of a run; kernels leave the process group
# What keeps the libraries of a run to so many threads.
THREAD_VARIABLES = (
    "HIPBOOK_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_END_WAIT_S = 5.0
_cancelled = threading.Event()  # set inside `cancelled`
_marks: set[str] = set()


class BadOutcome(HipbookError):
    """An outcome.json that cannot be read as one."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `why` is one line, empty when it PASSED; paths are None where there is no file."""

    notebook: str
    parameters: dict[str, Any]
    status: Status
    why: str
    folder: Path
    record: Path | None
    executed: Path | None
    wall_s: float
    attempt: int = 1

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED


def read_parameters(file: Path) -> dict[str, Any]:
    """A parameter file (YAML or JSON) as papermill's `-f` reads it. Raises BadParameters."""
    return strict_yaml.read(file, BadParameters, "parameter names")


def declared_in(notebook: Path) -> list[Parameter]:
    """The parameters a notebook declares. Raises BadParameters, HipbookError for what is no notebook."""
    if not notebook.is_file():
        raise HipbookError(
            f"{notebook}: no such notebook", fix="`hipbook run` takes a path to an .ipynb file"
        )
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        tagged = [c for c in cells if "parameters" in c.get("metadata", {}).get("tags", ())]
        sources = ["".join(c["source"]) for c in tagged]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HipbookError(f"{notebook}: not a notebook") from None
    if len(sources) != 1:
        raise BadParameters(f"{notebook}: {len(sources)} cells tagged `parameters`; exactly one is needed")
    return declared(sources[0])


def parameters_of(notebook: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a run of `notebook` with `values` over its defaults.

    Raises BadParameters, and BoardUnavailable for a board that only other machines have.
    """
    parameters = declared_in(notebook)
    checked = check(parameters, values)
    check_names(parameters, checked)
    return checked


def run_notebook(
    notebook: Path,
    values: Mapping[str, Any] | None = None,
    *,
    out: Path | None = None,
    cell_timeout_s: float = CELL_TIMEOUT_S,
    timeout_s: float = RUN_TIMEOUT_S,
    wait_s: float = LOCK_WAIT_S,
    slots: int | None = None,
    threads: int | None = None,
    identity: Mapping[str, Any] | None = None,
    attempt: int = 1,
) -> Outcome:
    """Run a notebook to its end, whatever that is; only a folder that cannot be used is raised.

    `values` go over the notebook's defaults, `out` is the run's folder (default: runs/NAME/KEY under the
    checkout), `slots` the number of runs that may share the board (default: one, or as many as there are
    cores on an emulated board, which has no time to disturb). `threads` is what the run may use (default:
    all), `identity` what its board must say of itself, `attempt` is kept in the outcome.
    """
    for limit, seconds in (("cell_timeout_s", cell_timeout_s), ("timeout_s", timeout_s)):
        if not 0 < seconds < math.inf:
            raise BadArgument(limit, seconds, "a finite number of seconds above 0")
    if not 0 <= wait_s < math.inf:
        raise BadArgument("wait_s", wait_s, "a finite number of seconds, at least 0")
    notebook = Path(notebook).resolve()
    values = dict(values or {})
    began = time.monotonic()
    try:
        parameters = parameters_of(notebook, values)
    except BadParameters as error:
        folder = out or paths.root() / "runs" / notebook.stem
        return Outcome(notebook.stem, values, Status.BAD_PARAMETERS, str(error), folder, None, None, 0.0)
    except BoardUnavailable as error:
        folder = out or paths.root() / "runs" / notebook.stem
        return Outcome(notebook.stem, values, Status.BOARD_UNAVAILABLE, str(error), folder, None, None, 0.0)
    name = records.file_name(notebook.stem, parameters)
    folder = (out or paths.root() / "runs" / notebook.stem / records.key(notebook.stem, parameters)).resolve()
    with _only_writer(folder):
        executed, record = folder / notebook.name, folder / name
        for stale in (executed, record, folder / "outcome.json", folder / "child.json"):
            stale.unlink(missing_ok=True)
        write_atomically(folder / "parameters.yaml", yaml.safe_dump(values, sort_keys=False).encode())
        board = parameters.get("board")
        if slots is None:
            slots = os.cpu_count() or 1 if str(board).endswith(EMULATED) else 1
        job = {
            "notebook": str(notebook),
            "executed": str(executed),
            "result": str(folder / "child.json"),
            "parameters": values,
            "board": board,
            "slots": slots,
            "wait_s": wait_s,
            "cell_timeout_s": cell_timeout_s,
        }
        status, why = _supervise(job, folder, timeout_s, _environment(folder, board, threads, identity))
        if status is Status.PASSED:
            status, why = _believe(record, parameters)
        (folder / "child.json").unlink(missing_ok=True)
        _whole_or_gone(executed)
        outcome = Outcome(
            notebook.stem,
            parameters,
            status,
            why,
            folder,
            record if record.is_file() else None,
            executed if executed.is_file() else None,
            round(time.monotonic() - began, 3),
            attempt,
        )
        write_outcome(outcome)
    return outcome


def write_outcome(outcome: Outcome) -> None:
    """Leave outcome.json in the run's folder, whole or not at all."""
    write_atomically(outcome.folder / "outcome.json", _outcome_json(outcome))


def read_outcome(folder: Path) -> Outcome:
    """The outcome a run left in its folder. Raises BadOutcome, naming the file, when it cannot be read."""
    file = folder / "outcome.json"
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        paths_ = {which: folder / told[which] if told[which] else None for which in ("record", "executed")}
        if any(path and path.parent != folder for path in paths_.values()):
            raise ValueError("a file outside of its folder")
        known = {name: told[name] for name in ("notebook", "parameters", "why", "wall_s")}
        if not (isinstance(known["notebook"], str) and isinstance(known["parameters"], dict)):
            raise ValueError("no notebook or no parameters")
        return Outcome(
            status=Status(told["status"]), folder=folder, attempt=told.get("attempt", 1), **known, **paths_
        )
    except OSError as error:
        raise BadOutcome(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadOutcome(
            f"{file}: not the outcome of a run ({type(error).__name__}: {error})",
            fix="run it again, or remove its folder",
        ) from None


def _whole_or_gone(executed: Path) -> None:
    """Remove an executed notebook that was cut off while it was written."""
    try:
        json.loads(executed.read_text(encoding="utf-8"))
    except OSError:
        return
    except ValueError:
        executed.unlink()


def _outcome_json(outcome: Outcome) -> bytes:
    """The outcome with paths relative to its folder, so that the folder can be moved."""
    fields = asdict(outcome) | {"folder": "."}
    for which in ("record", "executed"):
        fields[which] = fields[which].name if fields[which] else None
    return (json.dumps(fields, indent=2) + "\n").encode()


def _believe(record: Path, parameters: Mapping[str, Any]) -> tuple[Status, str]:
    """PASSED only for a valid record that says PASSED about the parameters asked for."""
    if not record.is_file():
        return Status.RUNTIME_ERROR, f"ended with code 0 and no record {record.name}: it stopped early"
    try:
        found = records.read(record)
    except records.BadRecord as error:
        return Status.RUNTIME_ERROR, str(error)
    if records.store.canonical(found.parameters) != records.store.canonical(dict(parameters)):
        return Status.RUNTIME_ERROR, f"{record.name}: holds other parameters than the run was given"
    return found.status, "" if found.status is Status.PASSED else "the record says so"


def _environment(
    folder: Path, board: str | None, threads: int | None, identity: Mapping[str, Any] | None
) -> dict[str, str]:
    """The environment of the child: this process's, with what this run is told."""
    env = {**os.environ, "HIPBOOK_RECORDS": str(folder)}
    if board:
        env["HIPBOOK_EXPECT_BOARD"] = board
    if identity:
        env["HIPBOOK_EXPECT_IDENTITY"] = json.dumps(dict(identity))
    if threads:
        env |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    return env


def _supervise(
    job: dict[str, Any], folder: Path, timeout_s: float, env: dict[str, str]
) -> tuple[Status, str]:
    """Start the child, watch it, and leave no process of it behind.

    The child holds one end of a pipe whose other end only this process has: when this process dies, however
    it dies, the child sees the end of the pipe and ends its run.
    """
    mark = uuid.uuid4().hex
    env = {**env, MARK: mark}
    sockets = tempfile.mkdtemp(prefix="hipbook-")  # short: the path of a socket has 107 bytes at most
    watched, held = os.pipe()
    job = {**job, "connection": f"{sockets}/kernel.json", "mark": mark, "parent": watched}
    write_atomically(folder / "job.json", json.dumps(job, indent=2).encode())
    _marks.add(mark)
    try:
        if _cancelled.is_set():
            return Status.CANCELLED, "cancelled before it began"
        with open(folder / "stdout.log", "wb") as stdout, open(folder / "stderr.log", "wb") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-m", "hipbook.sweep.child", folder / "job.json"],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=paths.root(),
                env=env,
                start_new_session=True,
                pass_fds=(watched,),
            )
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return Status.WATCHDOG_KILLED, f"still running after {timeout_s:g} s; it was ended"
        except KeyboardInterrupt:
            return Status.CANCELLED, "interrupted"
        finally:
            end_processes(mark)
            child.wait()
    finally:
        _marks.discard(mark)
        os.close(watched)
        os.close(held)
        shutil.rmtree(sockets, ignore_errors=True)
        (folder / "job.json").unlink(missing_ok=True)
    if _cancelled.is_set():
        return Status.CANCELLED, "cancelled"
    return _told(Path(job["result"]), code)


@contextmanager
def cancelled() -> Iterator[None]:
    """End every run this process has begun, and begin none inside the block; they come out CANCELLED."""
    _cancelled.set()
    try:
        for mark in list(_marks):
            end_processes(mark)
        yield
    finally:
        _cancelled.clear()


def _told(result: Path, code: int) -> tuple[Status, str]:
    """What the child said; where it could not, what its exit code says."""
    if code in (-signal.SIGTERM, -signal.SIGINT):
        return Status.CANCELLED, f"ended from outside by {signal.Signals(-code).name}"
    try:
        told = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return Status.RUNTIME_ERROR, f"the run's process {how} without a word; see stderr.log"
    return Status(told["status"]), told["why"]


def end_processes(mark: str, *, spare: int | None = None) -> int:
    """End every process of the run with this mark but the one with the id `spare`; how many there were.

    The mark is inherited through the environment: a kernel starts a session of its own, so ending the
    child's process group would leave it behind.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != spare and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    for process in found:
        try:
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(found, timeout=_END_WAIT_S)
    return len(found)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Make the folder and keep every other run out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HipbookError(
            f"{folder}: {error.strerror}", fix="choose a folder you can write to: --out"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = "wait for it, or take --out"
            raise HipbookError(f"{folder}: another run is writing there", fix=fix) from None
        try:
            yield
        except OSError as error:  # a full disk, a folder that became read-only
            raise HipbookError(
                f"{folder}: {error.strerror}", fix="make room there, or choose another folder: --out"
            ) from None
    finally:
        os.close(lock)
