"""What a check is and what comes of it: the words every operation's checks share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hipbook.boards.base import Board


class Status(StrEnum):
    CORRECT = "CORRECT"  # every launch compared, at least one value, all within their bounds
    INCORRECT = "INCORRECT"  # a value is wrong, or nothing was compared
    REFUSED = "REFUSED"  # every launch refused by name; allowed or not is in `CheckResult.ok`
    FAULT = "FAULT"  # the launch misbehaved: a fault, a wrong witness, a row not written, a dead worker


@dataclass(frozen=True)
class CheckResult:
    """One case's outcome, with what stands behind it. `ok` is False for everything that fails a run."""

    case_id: str
    operation: str
    arm: str
    status: Status
    ok: bool
    reason: str = ""  # of everything but CORRECT
    launches: int = 0
    values_compared: int = 0
    exact_compared: int = 0  # of them, held to equality
    nmse: float = 0.0  # worst tensor
    worst_row_nmse: float = 0.0
    max_error_over_bound: float = 0.0
    refused: dict[str, int] = field(default_factory=dict)  # launches refused, by kind
    arms_run: tuple[str, ...] = ()  # by witness
    code_objects: tuple[str, ...] = ()  # sha256 of each file that ran
    source_sha256: str = ""
    seconds: float = 0.0


class Case(Protocol):
    """One reproducible check; frozen and picklable. `id` names it fully: `hipbook check --case ID`."""

    operation: str
    arm: str
    family: str  # of inputs

    @property
    def id(self) -> str: ...

    @property
    def inputs_key(self) -> tuple:
        """Cases with equal keys have the same inputs and are run one after another."""
        ...

    def with_seed(self, seed: int) -> "Case": ...


class Operation(Protocol):
    """What an operation gives the check engine. Each lives in a module of its own."""

    name: str
    arms: Sequence[str]

    def test_cases(self) -> list[Case]:
        """The covering design and every family for every arm: minutes on two cores."""
        ...

    def full_cases(self) -> list[Case]:
        """The whole product."""
        ...

    def parse(self, case_id: str) -> Case:
        """The case an id names; `BadArgument` for one that names none."""
        ...

    def coverage(self, cases: Sequence[Case]) -> dict[str, list[object]]:
        """What the inputs of these cases hold, for printing: lengths, sizes, strides, kinds of rows."""
        ...

    def build_jobs(self, case: Case) -> list[tuple[str, tuple[str, ...]]]:
        """(source, flags) of every code object the case runs."""
        ...

    def evaluate(self, case: Case, board: Board, **options: object) -> CheckResult:
        """Run the case. Raises nothing: whatever happens is a status."""
        ...
