"""What a report is made of: runs with their records, and jobs of sweeps that have not ended.

Nothing is left out: a run whose outcome or record cannot be believed is in the report, with the reason.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipbook import records
from hipbook.errors import HipbookError
from hipbook.records import Record
from hipbook.records.store import canonical
from hipbook.sweep.runner import BadOutcome, read_outcome
from hipbook.sweep.state import BadState, State

REFUSED = "REFUSED"  # the word for what cannot be believed
MISSING = "MISSING"  # the word for a job that has not ended


@dataclass(frozen=True)
class Run:
    """One run, or one job of a sweep that has not been run. `slug` names its pages."""

    name: str  # of the notebook or command
    slug: str
    status: str
    why: str
    parameters: Mapping[str, Any]
    board: str  # as the record names it; empty without a board
    folder: Path
    record: Record | None = None
    record_file: Path | None = None
    executed: Path | None = None
    control: str = ""
    repeat: int = 0

    @property
    def point(self) -> Mapping[str, Any]:
        """The parameters without the board, and what tells repeats and controls apart."""
        kept = {name: value for name, value in self.parameters.items() if name != "board"}
        kept |= {"repeat": self.repeat} if self.repeat else {}
        return kept | ({"A/A": self.control} if self.control else {})


def runs_under(root: Path) -> list[Run]:
    """All runs under a folder, and the jobs that sweeps there still miss. HipbookError for none."""
    if not root.exists():
        raise HipbookError(f"{root}: no such folder", fix="`hipbook run NOTEBOOK --out DIR` makes one")
    planned: dict[Path, Mapping[str, Any]] = {}
    missing: list[Run] = []
    for plan in sorted(root.rglob("sweep.json")):
        state = State(plan.parent)
        try:
            told = state.plan()
        except BadState:
            continue  # another program's sweep.json; a sweep's own runs are found by their outcomes
        for job in told["jobs"]:
            planned[state.job_folder(job)] = {"control": job.control, "repeat": job.repeat}
            if not (state.job_folder(job) / "outcome.json").is_file():
                missing.append(
                    Run(told["notebook"], "", MISSING, "it has not ended", job.parameters, job.board,
                        state.job_folder(job), control=job.control, repeat=job.repeat)
                )  # fmt: skip
    folders = sorted(path.parent for path in root.rglob("outcome.json"))
    found = [replace(run_in(folder), **planned.get(folder, {})) for folder in folders] + missing
    if not found:
        raise HipbookError(f"{root}: no run in it", fix="`hipbook run NOTEBOOK --out DIR` makes one")
    order = {folder: place for place, folder in enumerate(planned)}  # a sweep's jobs as they were to run
    return sorted(found, key=lambda run: order.get(run.folder, -1))


def run_in(folder: Path) -> Run:
    """The run of one folder; REFUSED with the reason where it cannot be read."""
    try:
        outcome = read_outcome(folder)
    except BadOutcome as error:
        return Run(folder.name, "", REFUSED, error.what, {}, "", folder)
    run = Run(
        outcome.notebook, "", str(outcome.status), outcome.why, outcome.parameters,
        str(outcome.parameters.get("board", "")), folder,
        executed=outcome.executed if outcome.executed and outcome.executed.is_file() else None,
    )  # fmt: skip
    if outcome.record is None:
        return run
    try:
        record = records.read(outcome.record)
    except records.BadRecord as error:
        return replace(run, status=REFUSED, why=error.what)
    if canonical(record.parameters) != canonical(dict(outcome.parameters)):
        return replace(run, status=REFUSED, why=f"{outcome.record.name}: a record of other parameters")
    if str(record.status) != run.status:
        return run  # ended otherwise after it was written: it is no result
    board = str(record.board.get("name", ""))
    return replace(run, record=record, record_file=outcome.record, board=board)


def named(runs: Iterable[Run]) -> list[Run]:
    """The runs with slugs of their own, and boards told apart where two of one name are two boards."""
    runs = list(runs)
    often = Counter(slug_of(run.name) for run in runs)
    taken: Counter[str] = Counter()
    identities: dict[str, set[str]] = {}
    for run in runs:
        if run.record:
            identities.setdefault(run.board, set()).add(str(run.record.board.get("uuid", "")))
    done = []
    for run in runs:
        slug = slug_of(run.name)
        if often[slug] > 1:
            slug = f"{slug}-{slug_of(run.folder.name)}"
        taken[slug] += 1
        slug += f"-{taken[slug]}" if taken[slug] > 1 else ""
        board = run.board
        if run.record and len(identities[board]) > 1:
            board = f"{board} {str(run.record.board.get('uuid', ''))[:12]}"
        done.append(replace(run, slug=slug, board=board))
    return done


def slug_of(name: str) -> str:
    """A file name of a name from anywhere."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:80].lstrip(".") or "_"


def groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs by what made them, in order."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.name, []).append(run)
    return found


def varied(runs: Sequence[Run]) -> list[str]:
    """The names in which the points of these runs differ."""
    names = dict.fromkeys(name for run in runs for name in run.point)
    return [n for n in names if len({canonical(run.point.get(n)) for run in runs}) > 1]


def label(run: Run, names: Sequence[str]) -> str:
    """A run's point in the names that vary."""
    return ", ".join(f"{n}={run.point[n]}" for n in names if n in run.point) or "one"
