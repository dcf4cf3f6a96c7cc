"""The ledger of claims: sentences with a status, what supports them, and what they do not claim.

data/claims/*.toml holds the claims, one report or question a file, one `[[claim]]` table each. The
ledger is history: a claim that turned out wrong stays, with the status `refuted` or `retracted`, and
another claim names it (T11). `check` reads every record and reported row a claim cites.

    status        what it takes
    open          nobody has shown it, or what was shown cannot decide it
    directional   somebody else's figures, or a record of ours that cannot carry a verdict
    measured      records of ours, PASSED, whose verdict is the cited word on the cited binary
    refuted       another claim shows it false and says so
    retracted     its author withdrew it; the claim that replaces it says so
"""

import tomllib
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from hipbook import paths
from hipbook.errors import HipbookError
from hipbook.measure.scaling import Growth, scaling
from hipbook.measure.thresholds import BOARDS_FOR_ARCHITECTURE
from hipbook.records import reported, store
from hipbook.records.recheck import recheck
from hipbook.records.schema import Record, Status, Word

Text = Annotated[str, StringConstraints(min_length=1)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

# Words that leave a question open: a measured claim needs another.
_UNDECIDED = frozenset({Word.INCONCLUSIVE, Word.INCORRECT})


class ClaimStatus(StrEnum):
    OPEN = "open"
    DIRECTIONAL = "directional"
    MEASURED = "measured"
    REFUTED = "refuted"
    RETRACTED = "retracted"


class Relation(StrEnum):
    """What a later claim does to an earlier one."""

    RETRACTS = "retracts"  # its author was wrong and says so
    REFUTES = "refutes"  # evidence against it
    SUPERSEDES = "supersedes"  # was true, the world changed
    QUESTIONS = "questions"  # cannot be decided from what is cited


# The status an earlier claim must have for a later one to stand in this relation to it.
_STATUS_OF = {
    Relation.RETRACTS: {ClaimStatus.RETRACTED},
    Relation.REFUTES: {ClaimStatus.REFUTED},
    Relation.SUPERSEDES: {ClaimStatus.DIRECTIONAL, ClaimStatus.MEASURED},
    Relation.QUESTIONS: {ClaimStatus.OPEN, ClaimStatus.DIRECTIONAL},
}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RecordCited(_Model):
    """A record of ours: a file in the tree, the binary it must be of, and the verdict it must hold."""

    path: Text  # relative to the checkout
    binary: Sha256  # of the code object that ran
    subject: Text
    word: Word


class ReportedCited(_Model):
    """Rows of data/reported/reported.csv, and the figures the claim reads there."""

    where: dict[str, str]
    values: Annotated[list[float], Field(min_length=1)]


class ScalingCited(_Model):
    """An unlabelled series of reported.csv: only how it scales can be said of it (T10)."""

    where: dict[str, str]
    growth: Growth


class Prediction(_Model):
    """What was expected, written before the outcome (T14), and what became of it."""

    made: date
    text: Text
    outcome: Literal["held", "refuted", "open"]


class Correction(_Model):
    how: Relation
    claim: Identifier


class Claim(_Model):
    id: Identifier
    sentence: Text
    status: ClaimStatus
    date: date
    source: Text  # who says so: repository#number, or a notebook of ours
    about: Literal["board", "architecture", "software"] = "board"
    not_claimed: Annotated[list[Text], Field(min_length=1)]
    prediction: Prediction | None = None
    records: list[RecordCited] = []
    reported: list[ReportedCited] = []
    scaling: list[ScalingCited] = []
    corrects: list[Correction] = []

    @model_validator(mode="after")
    def _status_has_support(self) -> "Claim":
        if self.status is ClaimStatus.MEASURED and not self.records:
            raise ValueError(
                f"{self.id}: measured without a record of ours; reported figures are directional"
            )
        if self.status is ClaimStatus.DIRECTIONAL and not (self.records or self.reported or self.scaling):
            raise ValueError(f"{self.id}: directional without a record, a reported row or a series")
        if self.prediction and self.prediction.made > self.date:
            raise ValueError(f"{self.id}: a prediction of {self.prediction.made} for a claim of {self.date}")
        return self


class BadLedger(HipbookError):
    """A ledger file that cannot be read as claims."""


@dataclass(frozen=True)
class Fault:
    """One reason why a claim does not stand."""

    claim: str
    what: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.what}"


@dataclass(frozen=True)
class Checked:
    """What `check` looked at, and what it found."""

    claims: int
    citations: int  # records, reported rows and series read
    faults: tuple[Fault, ...]

    @property
    def passed(self) -> bool:
        return self.claims > 0 and not self.faults


def folder() -> Path:
    return paths.data() / "claims"


def read(where: Path | None = None) -> list[Claim]:
    """Every claim of a ledger folder (default data/claims), in the order of files and tables."""
    where = where or folder()
    claims: list[Claim] = []
    for path in sorted(where.glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadLedger(
                f"{path.name}: {error}", fix="a ledger file is TOML with [[claim]] tables"
            ) from None
        if set(tables) != {"claim"}:
            raise BadLedger(f"{path.name}: tables {sorted(tables)}", fix="a ledger file has [[claim]] alone")
        for number, table in enumerate(tables["claim"], start=1):
            try:
                claims.append(Claim.model_validate(table))
            except ValidationError as error:
                fault = error.errors()[0]
                place = ".".join(map(str, fault["loc"])) or table.get("id", f"claim {number}")
                said = fault["msg"].removeprefix("Value error, ")
                raise BadLedger(f"{path.name}, claim {number}: {place}: {said}") from None
    return claims


def check(claims: list[Claim], root: Path | None = None) -> Checked:
    """Read everything the claims cite, relative to the checkout, and list what does not hold."""
    root = root or paths.root()
    faults = [Fault("ledger", "no claim: a ledger of none proves nothing")] if not claims else []
    faults += _relations(claims)
    citations = 0
    for claim in claims:
        citations += len(claim.records) + len(claim.reported) + len(claim.scaling)
        for what in _citations(claim, root):
            faults.append(Fault(claim.id, what))
    return Checked(len(claims), citations, tuple(faults))


def corrected_by(claims: list[Claim], claim_id: str) -> list[tuple[Claim, Relation]]:
    """The claims that correct one, oldest first."""
    found = [(one, link.how) for one in claims for link in one.corrects if link.claim == claim_id]
    return sorted(found, key=lambda pair: pair[0].date)


def _relations(claims: list[Claim]) -> list[Fault]:
    """Identifiers are unique; corrections name claims that exist, are older and have the status for it."""
    faults, by_id = [], {}
    for claim in claims:
        if claim.id in by_id:
            faults.append(Fault(claim.id, "two claims have this id"))
        by_id[claim.id] = claim
    named: dict[str, set[Relation]] = {}
    for claim in claims:
        for link in claim.corrects:
            target = by_id.get(link.claim)
            if target is None:
                faults.append(Fault(claim.id, f"{link.how} {link.claim}, which is not in the ledger"))
                continue
            named.setdefault(target.id, set()).add(link.how)
            if target.status not in _STATUS_OF[link.how]:
                faults.append(Fault(claim.id, f"{link.how} {target.id}, whose status is {target.status}"))
            if target.date > claim.date:
                faults.append(Fault(claim.id, f"{link.how} {target.id}, which is younger"))
    for claim in claims:
        for status, how in (
            (ClaimStatus.RETRACTED, Relation.RETRACTS),
            (ClaimStatus.REFUTED, Relation.REFUTES),
        ):
            if claim.status is status and how not in named.get(claim.id, set()):
                faults.append(Fault(claim.id, f"{status}, but no claim {how} it by name"))
    return faults


def _citations(claim: Claim, root: Path) -> list[str]:
    faults, boards = [], set()
    for cited in claim.records:
        try:
            record = _record(cited, root)
            boards.add(str(record.board.get("uuid") or record.board.get("name")))
        except HipbookError as error:
            faults.append(error.what)
    if claim.status is ClaimStatus.MEASURED:
        undecided = [cited.word for cited in claim.records if cited.word in _UNDECIDED]
        if undecided:
            faults.append(f"measured by a record that says {undecided[0]}")
        if claim.about == "architecture" and len(boards) < BOARDS_FOR_ARCHITECTURE:
            faults.append(
                f"about an architecture on {len(boards)} boards; it takes {BOARDS_FOR_ARCHITECTURE} (R14)"
            )
    for row in claim.reported:
        try:
            found = reported.values(**row.where)
            if found != row.values:
                faults.append(f"cites {row.values}, reported.csv has {found}")
        except HipbookError as error:
            faults.append(error.what)
    for series in claim.scaling:
        try:
            rows = reported.find(**series.where)
            seen = scaling([float(one.concurrency) for one in rows], [one.value for one in rows])
            if seen.growth is not series.growth:
                faults.append(f"cites a series that {series.growth}; it {seen.growth}")
        except HipbookError as error:
            faults.append(error.what)
    return faults


def _record(cited: RecordCited, root: Path) -> Record:
    """The record cited, once everything about it holds; BadRecord naming what does not."""
    path = root / cited.path
    if not path.resolve().is_relative_to(root.resolve()):
        raise store.BadRecord(
            f"{cited.path}: outside the tree; a record a claim stands on is a file in it (T16)"
        )
    if not path.is_file():
        raise store.BadRecord(f"{cited.path}: no such record in the tree")
    record = store.read(path)
    if record.status is not Status.PASSED:
        raise store.BadRecord(f"{cited.path}: status {record.status}; only PASSED supports a claim")
    binaries = {one.sha256 for one in record.code_objects}
    if cited.binary not in binaries:
        told = ", ".join(sorted(one[:12] for one in binaries)) or "none"
        raise store.BadRecord(f"{cited.path}: of another binary: cites {cited.binary[:12]}, it ran {told}")
    words = [verdict.word for verdict in record.verdicts if verdict.subject == cited.subject]
    if words != [cited.word]:
        said = ", ".join(words) or "nothing"
        raise store.BadRecord(
            f"{cited.path}: does not support {cited.word} ({cited.subject}); it says {said}"
        )
    recheck(record, cited.path)
    return record
