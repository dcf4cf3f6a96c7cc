"""Whether the claims of the ledger stand: relations between them, and everything they cite."""

from dataclasses import dataclass
from pathlib import Path

from hipbook import paths
from hipbook.errors import HipbookError
from hipbook.measure.scaling import scaling
from hipbook.measure.thresholds import BOARDS_FOR_ARCHITECTURE
from hipbook.records import reported, store
from hipbook.records.claims import Claim, ClaimStatus, RecordCited, Relation
from hipbook.records.recheck import recheck
from hipbook.records.schema import Record, Status, Word

# Words that leave a question open: a measured claim needs another.
_UNDECIDED = frozenset({Word.INCONCLUSIVE, Word.INCORRECT})

# The status an earlier claim must have for a later one to stand in this relation to it.
_STATUS_OF = {
    Relation.RETRACTS: {ClaimStatus.RETRACTED},
    Relation.REFUTES: {ClaimStatus.REFUTED},
    Relation.SUPERSEDES: {ClaimStatus.DIRECTIONAL, ClaimStatus.MEASURED},
    Relation.QUESTIONS: {ClaimStatus.OPEN, ClaimStatus.DIRECTIONAL},
}


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
        return not self.faults  # an empty ledger is a fault itself


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
    if not path.resolve().is_relative_to(root.resolve() / "data"):
        raise store.BadRecord(
            f"{cited.path}: not under data/; a record that a claim stands on is a file in the tree, "
            "not of one run's folder (T16)"
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
