"""The ledger of claims: sentences with a status, what supports them, and what they do not claim.

data/claims/*.toml holds the claims, one report or question a file, one `[[claim]]` table each. The
ledger is history: a claim that turned out wrong stays, with the status `refuted` or `retracted`, and
another claim names it (T11). claims_check.py reads every record and reported row a claim cites.

    status        what it takes
    open          nobody has shown it, or what was shown cannot decide it
    directional   somebody else's figures, or a record of ours that cannot carry a verdict
    measured      records of ours, PASSED, whose verdict is the cited word on the cited binary
    refuted       another claim shows it false and says so
    retracted     its author withdrew it; the claim that replaces it says so
"""

import json
import tomllib
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from hipbook import paths
from hipbook.errors import HipbookError
from hipbook.measure.scaling import Growth
from hipbook.records.schema import Record, Word

Text = Annotated[str, StringConstraints(min_length=1)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


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


def corrected_by(claims: list[Claim], claim_id: str) -> list[tuple[Claim, Relation]]:
    """The claims that correct one, oldest first."""
    found = [(one, link.how) for one in claims for link in one.corrects if link.claim == claim_id]
    return sorted(found, key=lambda pair: pair[0].date)


def describe(claim: Claim, ledger: list[Claim]) -> str:
    """One claim as text."""
    lines = [
        claim.sentence,
        "",
        f"status  {claim.status} ({claim.date}, {claim.source}; about {claim.about})",
    ]
    lines += [
        f"record  {one.path}: {one.word} ({one.subject}), binary {one.binary[:12]}" for one in claim.records
    ]
    for cited in claim.reported:
        figures = ", ".join(f"{value:g}" for value in cited.values)
        lines.append(f"reported  {', '.join(cited.where.values())}: {figures}")
    lines += [f"series  {', '.join(one.where.values())}: {one.growth}" for one in claim.scaling]
    if claim.prediction:
        made, outcome = claim.prediction.made, claim.prediction.outcome
        lines.append(f"predicted  {made}: {claim.prediction.text} Outcome: {outcome}.")
    lines += [f"{link.how}  {link.claim}" for link in claim.corrects]
    lines += [f"{_PASSIVE[how]} by  {one.id}: {one.sentence}" for one, how in corrected_by(ledger, claim.id)]
    lines += ["", "Not claimed:", *(f"- {entry}" for entry in claim.not_claimed)]
    return "\n".join(lines)


def citations(record: Record, path: str) -> str:
    """`[[claim.records]]` tables for every verdict of a record, ready to paste under a claim.

    `path` is relative to the checkout. Where several binaries ran, the reader says which: "?" until then.
    """
    binaries = {one.sha256 for one in record.code_objects}
    binary = binaries.pop() if len(binaries) == 1 else "?"
    return "\n".join(
        f"[[claim.records]]\npath = {json.dumps(path)}\nbinary = {json.dumps(binary)}\n"
        f"subject = {json.dumps(one.subject, ensure_ascii=False)}\nword = {json.dumps(one.word)}\n"
        for one in record.verdicts
    )


_PASSIVE = {
    Relation.RETRACTS: "retracted",
    Relation.REFUTES: "refuted",
    Relation.SUPERSEDES: "superseded",
    Relation.QUESTIONS: "questioned",
}
