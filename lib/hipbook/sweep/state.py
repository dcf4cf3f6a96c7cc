"""What a sweep keeps in its folder, so that it can be ended at any moment and go on where it was.

    sweep.json      which file this folder belongs to, and the plan: every job with its key, in order
    journal.jsonl   a line when a job begins and when it ends, with attempt, worker and outcome
    jobs/KEY/       a run's folder: record, executed notebook, logs, outcome.json
    cancel          there while `hipbook sweep cancel` wants the runner to end
    .lock           held by the runner

A job is finished when its folder holds a valid record of its parameters, or an outcome that another run
would not change. Nothing else is believed: the journal tells the story and decides nothing.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hipbook import paths, records
from hipbook.errors import HipbookError
from hipbook.records import Record, Status
from hipbook.records.store import canonical, write_atomically
from hipbook.sweep.jobs import Job
from hipbook.sweep.runner import BadOutcome, Outcome, read_outcome, write_outcome

# Outcomes of the infrastructure: the job itself was never judged, so it is run again (docs/notebooks.md).
INFRASTRUCTURE = frozenset({Status.BOARD_UNAVAILABLE})
UNFINISHED = INFRASTRUCTURE | {Status.CANCELLED}
_VERSION = 1


class BadState(HipbookError):
    """A sweep's folder that cannot be used as one."""


def default_folder(name: str) -> Path:
    return paths.root() / "runs" / "sweeps" / name


class State:
    """A sweep's folder: `open_for_writing` for the one runner, `State(folder)` to look at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def plan_file(self) -> Path:
        return self.folder / "sweep.json"

    @property
    def cancel_file(self) -> Path:
        return self.folder / "cancel"

    def job_folder(self, job: Job) -> Path:
        return self.folder / "jobs" / job.key

    def plan(self) -> dict[str, Any]:
        """The plan as it was written. Raises BadState when there is none or it cannot be read."""
        try:
            told = json.loads(self.plan_file.read_text(encoding="utf-8"))
            told["jobs"] = [Job(**fields) for fields in told["jobs"]]
            if told["version"] != _VERSION:
                raise ValueError(f"version {told['version']!r}")
        except FileNotFoundError:
            raise BadState(
                f"{self.folder}: no sweep was begun here", fix="`hipbook sweep run FILE`"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadState(
                f"{self.plan_file}: not a sweep's plan ({error})", fix="run the sweep again"
            ) from None
        return told

    def write_plan(self, name: str, file: Path, notebook: Path, jobs: Sequence[Job]) -> None:
        told = {
            "version": _VERSION,
            "name": name,
            "file": str(file.resolve()),
            "notebook": notebook.stem,
            "jobs": [asdict(job) for job in jobs],
        }
        write_atomically(self.plan_file, (json.dumps(told, indent=1) + "\n").encode())

    def note(self, event: str, job: Job | None = None, **what: Any) -> None:
        """Append a line to the journal and flush it to the disk."""
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        line |= ({"key": job.key, "board": job.board} if job else {}) | what
        with open(self.folder / "journal.jsonl", "ab") as file:
            file.write((json.dumps(line) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def journal(self) -> list[dict[str, Any]]:
        """The journal's lines; a last line cut off by a crash is left out."""
        lines = []
        try:
            raw = (self.folder / "journal.jsonl").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        for line in raw.splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines

    def ending(self, job: Job) -> tuple[Outcome | None, Record | None]:
        """How a job ended, as far as its folder can be believed, and its record; None when it has not.

        A record without an outcome is a run whose runner was killed before it could say so: the run ended as
        the record says. PASSED without a valid record is no end. An outcome other than its record's (a run
        that the watchdog ended while it closed) stands without the record.
        """
        folder = self.job_folder(job)
        path, record = _valid_record(folder, job)
        try:
            told = read_outcome(folder)
        except BadOutcome:
            return (None, None) if record is None else (_of_record(path, record), record)
        if record is not None and record.status is told.status:
            return replace(told, record=path), record
        return (None, None) if told.status is Status.PASSED else (replace(told, record=None), None)

    def outcome(self, job: Job) -> Outcome | None:
        """How a job ended; None when it has not."""
        return self.ending(job)[0]

    def finished(self, job: Job) -> Outcome | None:
        """The outcome of a job that need not be run to go on; None for one that has to be."""
        outcome = self.outcome(job)
        return None if outcome is None or outcome.status in UNFINISHED else outcome

    def adopt(self, job: Job, outcome: Outcome) -> None:
        """Write the outcome that a killed runner could not."""
        if not (outcome.folder / "outcome.json").is_file():
            write_outcome(outcome)


def _valid_record(folder: Path, job: Job) -> tuple[Path | None, Record | None]:
    """The record of this job's parameters in its folder; (None, None) without one that can be believed."""
    for path in sorted(folder.glob(f"*{records.store.SUFFIX}")) if folder.is_dir() else ():
        try:
            record = records.read(path)
        except records.BadRecord:
            continue
        if canonical(record.parameters) == canonical(dict(job.parameters)):
            return path, record
    return None, None


def _of_record(path: Path, record: Record) -> Outcome:
    """The outcome that a record alone stands for."""
    why = "" if record.status is Status.PASSED else "the record says so"
    executed = path.parent / f"{record.made_by}.ipynb"
    return Outcome(
        record.made_by, record.parameters, record.status, why, path.parent, path,
        executed if executed.is_file() else None, record.times.wall_s,
    )  # fmt: skip


@contextmanager
def open_for_writing(folder: Path, name: str, file: Path) -> Iterator[State]:
    """The state of the sweep of `file` in `folder`, which no other runner may hold meanwhile.

    Raises BadState for a folder in use, of another sweep file, of something else, or that cannot be written.
    """
    state = State(folder)
    _refuse_foreign(state, name, file)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadState(
                f"{folder}: another runner is at work on it",
                fix="wait for it, or `hipbook sweep cancel FILE`",
            ) from None
        _refuse_foreign(state, name, file)
        state.cancel_file.unlink(missing_ok=True)
        yield state
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        os.close(lock)


def is_running(folder: Path) -> bool:
    """Whether a runner holds the folder's lock."""
    try:
        lock = os.open(folder / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _refuse_foreign(state: State, name: str, file: Path) -> None:
    if not state.folder.exists():
        return
    if not state.folder.is_dir():
        raise BadState(f"{state.folder}: not a folder", fix="give another --out")
    if not state.plan_file.exists():
        if any(path.name not in (".lock", "cancel") for path in state.folder.iterdir()):
            raise BadState(
                f"{state.folder}: holds other things than a sweep", fix="name an empty or new folder"
            )
        return
    told = state.plan()
    if told["file"] != str(file.resolve()):
        raise BadState(
            f"{state.folder}: belongs to the sweep file {told['file']}",
            fix=f"give this sweep another name than {name}, or --out another folder",
        )


def _unwritable(folder: Path, error: OSError) -> BadState:
    return BadState(f"{folder}: {error.strerror}", fix="make room there, or --out a folder you can write to")
