"""One tidy table of all records of a sweep: a row a figure and a row a verdict, each with where it is from.

Beside it the coverage, a row a job: what is missing or failed is part of the result.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from hipbook import records
from hipbook.errors import HipbookError
from hipbook.measure.judge import Judgement
from hipbook.records import Record, Status
from hipbook.records.recheck import recheck, subject_of
from hipbook.records.store import write_atomically
from hipbook.sweep import coverage
from hipbook.sweep.jobs import Job
from hipbook.sweep.state import State

PARAMETER = "parameter."  # what a parameter's column begins with

# The columns every table has, in this order; the parameters' columns follow `control`.
_BEFORE = {
    "job": pl.String, "board": pl.String, "board_id": pl.String, "arch": pl.String, "board_kind": pl.String,
    "made_by": pl.String, "status": pl.String, "point": pl.String, "repeat": pl.Int64, "control": pl.String,
}  # fmt: skip
_AFTER = {
    "kind": pl.String,  # exact, measured, reported, or verdict
    "subject": pl.String, "quantity": pl.String, "value": pl.Float64, "unit": pl.String,
    "bound": pl.Float64, "word": pl.String, "reason": pl.String, "expected": pl.String,
    # of a verdict about time: base / new over runs, its interval, and the p value of no difference
    "ratio": pl.Float64, "low": pl.Float64, "high": pl.Float64, "p": pl.Float64,
    "started": pl.String, "finished": pl.String, "wall_s": pl.Float64,
    "toolchain": pl.String, "content_sha256": pl.String, "record": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class Collected:
    """What `collect` made: coverage by board for people, what to know about it, and the files."""

    coverage_rows: list[dict[str, Any]]
    notes: list[str]
    files: list[Path]


def rows_of(record: Record, job: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    """The rows of one record. `job` has key, point, repeat and control; `path` is where the record is."""
    shared = {
        "job": job["key"],
        "board": record.board.get("name"),
        "board_id": record.board.get("uuid") or record.board.get("name"),
        "arch": record.board.get("arch"),
        "board_kind": record.board.get("kind"),
        "made_by": record.made_by,
        "status": str(record.status),
        "point": job["point"],
        "repeat": job["repeat"],
        "control": job["control"],
        "started": record.times.started,
        "finished": record.times.finished,
        "wall_s": record.times.wall_s,
        "toolchain": record.toolchain,
        "content_sha256": record.content_sha256,
        "record": path,
    }
    shared |= {
        PARAMETER + name: _plain(value) for name, value in record.parameters.items() if name != "board"
    }
    for fact in record.facts:
        yield shared | {
            "kind": fact.kind,
            "subject": fact.subject,
            "quantity": fact.quantity,
            "value": float(fact.value),
            "unit": fact.unit,
            "bound": float(fact.bound.value) if fact.bound else None,
        }
    judged = _judgements(record, path)
    for verdict in record.verdicts:
        yield shared | {
            "kind": "verdict",
            "subject": verdict.subject,
            "word": str(verdict.word),
            "reason": verdict.reason,
            "expected": str(verdict.expected) if verdict.expected else None,
            **judged.get(verdict.subject, {}),
        }


def _judgements(record: Record, path: str) -> dict[str, dict[str, float]]:
    """The figures behind the verdicts about time, by subject, computed again from the runs."""
    made: list[Judgement] = recheck(record, path)
    return {
        subject_of(session): {"ratio": one.ratio, "low": one.interval[0], "high": one.interval[1], "p": one.p}
        for session, one in zip(record.sessions, made, strict=True)
    }


def _plain(value: Any) -> Any:
    """A parameter as a column holds it: lists as JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def table(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows as a frame with all columns. Parameters that have several types become text."""
    rows = [dict(row) for row in rows]
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(PARAMETER))
    schema = dict(_BEFORE) | {name: _type([row.get(name) for row in rows]) for name in names} | dict(_AFTER)
    for name in names:
        if schema[name] is pl.String:
            for row in rows:
                row[name] = None if row.get(name) is None else str(row[name])
    return pl.DataFrame(rows, schema=schema, orient="row")


def _type(values: Sequence[Any]) -> type[pl.DataType]:
    kinds = {type(value) for value in values if value is not None}
    for kind, chosen in ((bool, pl.Boolean), (int, pl.Int64), (float, pl.Float64)):
        if kinds == {kind}:
            return chosen
    return pl.Float64 if kinds == {int, float} else pl.String


def collect(folder: Path) -> Collected:
    """Write coverage and records of the sweep in a folder as parquet and CSV under FOLDER/collected.

    Raises BadState for a folder without a sweep, HipbookError for one that cannot be written.
    """
    here = State(folder)
    standing, notes, rows, covered = [], [], [], []
    for job in here.plan()["jobs"]:
        outcome, record = here.ending(job)
        standing.append((job, outcome))
        covered.append(_covered(job, outcome, folder))
        if outcome is None:
            notes += _refused(here.job_folder(job))
        elif record is not None:
            where = outcome.record.relative_to(folder).as_posix()
            named = {"key": job.key, "point": job.point, "repeat": job.repeat, "control": job.control}
            rows += rows_of(record, named, where)
    out = folder / "collected"
    made = [("coverage", pl.DataFrame(covered, infer_schema_length=None)), ("records", table(rows))]
    files = []
    try:
        for name, frame in made:
            parquet, text = io.BytesIO(), io.BytesIO()
            frame.write_parquet(parquet)
            frame.write_csv(text)
            for suffix, data in (("parquet", parquet), ("csv", text)):
                write_atomically(out / f"{name}.{suffix}", data.getvalue())
                files.append(out / f"{name}.{suffix}")
    except OSError as error:
        raise HipbookError(f"{out}: {error.strerror}", fix="make room there") from None
    return Collected(coverage.by_board(standing), notes, files)


def _covered(job: Job, outcome: Any, folder: Path) -> dict[str, Any]:
    return {
        "job": job.key,
        "board": job.board,
        "point": job.point,
        "repeat": job.repeat,
        "control": job.control,
        "state": coverage.state_of(outcome),
        "status": str(outcome.status) if outcome else "",
        "why": outcome.why if outcome else "",
        "attempt": outcome.attempt if outcome else 0,
        "wall_s": outcome.wall_s if outcome else 0.0,
        "parameters": json.dumps(dict(job.parameters)),
        "record": outcome.record.relative_to(folder).as_posix() if outcome and outcome.record else "",
    }


def _refused(folder: Path) -> list[str]:
    """Why the records in a job's folder are not counted."""
    said = []
    for path in records.find(folder) if folder.is_dir() else ():
        try:
            record = records.read(path)
            said.append(f"not counted: {path}: {record.status}, and its outcome says otherwise")
        except records.BadRecord as error:
            said.append(f"not counted: {error.what}")
    return said


def read(path: Path) -> pl.DataFrame:
    """A collected table (records.parquet or records.csv). Raises HipbookError for what is none."""
    path = Path(path)
    try:
        frame = (
            pl.read_csv(path, infer_schema_length=None) if path.suffix == ".csv" else pl.read_parquet(path)
        )
    except FileNotFoundError:
        raise HipbookError(f"{path}: no such table", fix="`hipbook sweep collect FILE` makes one") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise HipbookError(f"{path}: not a table ({error})", fix="`hipbook sweep collect FILE`") from None
    missing = [name for name in (*_BEFORE, *_AFTER) if name not in frame.columns]
    if missing:
        raise HipbookError(
            f"{path}: not a table of a sweep's records: no column {missing[0]}",
            fix="name the file records.parquet that `hipbook sweep collect` wrote",
        )
    if path.suffix == ".csv":  # an empty cell of text is empty text there
        frame = frame.cast({**_BEFORE, **_AFTER}).with_columns(pl.col("control").fill_null(""))
    return frame


def passed(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of records that PASSED: only they support a comparison (R1)."""
    return frame.filter(pl.col("status") == str(Status.PASSED))
