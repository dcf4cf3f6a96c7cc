"""What a record holds: the result of one run, complete enough to be believed without its author.

Everything in a record is either *content* (what was asked, on which board and binary, what came out)
or says where and when the run happened (`environment`, `times`). Two runs with the same parameters on
an emulated board have the same content, byte for byte. Later versions add fields under a new
`schema_version`; a reader never guesses at one it does not know.
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_serializer,
    model_validator,
)

from hipbook.measure.session import Session

SCHEMA_VERSION = 1

Text = Annotated[str, StringConstraints(min_length=1)]
Number = Annotated[int | float, Field(allow_inf_nan=False)]

# A unit of time or of something per time: a figure in it is a performance number. "s" alone, SI
# prefixes of it, and anything over them ("GB/s", "tokens/s", "instructions per us").
_TIME_UNIT = re.compile(r"(^|/\s*|\bper\s+)(s|ms|us|ns|min|h|seconds?)\b")


class Status(StrEnum):
    """How a run ended. Notebooks write PASSED or INCORRECT, the runner the others (docs/notebooks.md)."""

    PASSED = "PASSED"
    INCORRECT = "INCORRECT"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    DEAD_KERNEL = "DEAD_KERNEL"
    CELL_TIMEOUT = "CELL_TIMEOUT"
    WATCHDOG_KILLED = "WATCHDOG_KILLED"
    BAD_PARAMETERS = "BAD_PARAMETERS"
    BOARD_MISMATCH = "BOARD_MISMATCH"
    BOARD_UNAVAILABLE = "BOARD_UNAVAILABLE"
    CANCELLED = "CANCELLED"


class Word(StrEnum):
    """Everything a verdict can say (docs/measuring.md, R5 and R10)."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    REACHED = "REACHED"
    NOT_REACHED = "NOT_REACHED"
    COUNTS_EQUAL = "COUNTS_EQUAL"
    COUNTS_DIFFER = "COUNTS_DIFFER"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"


NOT_CONTENT = frozenset({"environment", "times", "content_sha256"})  # may differ between two runs

TIME_WORDS = frozenset({Word.FASTER, Word.SLOWER, Word.EQUIVALENT, Word.INCONCLUSIVE})


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class CodeObjectIdentity(_Model):
    """Which binary ran: the hashes of the file and of everything it was made from (T12)."""

    arch: Text
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    source: str | None = None  # path under kernels/; None: handed as a binary, or from elsewhere
    source_sha256: str | None
    flags: list[str]
    compiler: Text

    @model_serializer(mode="wrap")
    def _without_unknown_source(self, handler) -> dict[str, Any]:
        whole = handler(self)
        if self.source is None:
            whole.pop("source", None)
        return whole


class Witness(_Model):
    """What the kernels wrote about themselves in one launch: workgroups by witness code (T2)."""

    subject: Text
    arm: Text
    expected: int
    seen: dict[str, int]  # "0x20" -> workgroups; "-0x1" is the wrapper's poison: never written

    @property
    def reached(self) -> bool:
        return bool(self.seen) and set(self.seen) == {hex(self.expected)}


class Bound(_Model):
    """What a figure cannot beat, and why (R11)."""

    value: Number
    what: Text


class Fact(_Model):
    """One figure. `exact` is counted, `measured` is timed here, `reported` is somebody else's."""

    subject: Text
    quantity: Text
    value: Number
    unit: Text  # "1" for a bare ratio: a figure without a unit is refused (T10)
    kind: Literal["exact", "measured", "reported"]
    bound: Bound | None = None
    source: str | None = None  # where a reported figure stands

    @model_validator(mode="after")
    def _kind_fits(self) -> "Fact":
        if self.kind == "reported" and not self.source:
            raise ValueError(f"{self.quantity}: a reported figure names its source")
        if self.kind == "exact" and _TIME_UNIT.search(self.unit):
            raise ValueError(f"{self.quantity} in {self.unit}: a time is measured or reported, never exact")
        return self


class Verdict(_Model):
    """One word about one subject, the reason, and the word predicted beforehand where there was one (T14)."""

    word: Word
    subject: Text
    reason: Text
    expected: Word | None = None

    @property
    def fails(self) -> bool:
        """Whether this verdict alone makes a record INCORRECT: a wrong result, or an arm that was not
        reached where nobody had predicted so (a negative control predicts it)."""
        if self.word is Word.INCORRECT:
            return True
        return self.word is Word.NOT_REACHED and self.expected is not Word.NOT_REACHED


class Environment(_Model):
    """Where the run happened (R9), without host names or absolute paths."""

    hipbook: Text
    commit: str | None  # None: not a git checkout
    dirty: bool | None
    python: Text
    platform: Text
    processor: str
    cores: int
    packages: dict[str, str]
    variables: dict[str, str]  # environment variables that can change a result


class Times(_Model):
    """When the run happened, and the seal over the whole file."""

    started: Text  # UTC, ISO 8601
    finished: Text
    wall_s: float
    seal_sha256: str = ""


class Record(_Model):
    """One run's result. Made by `hipbook.notebooks.begin` or `hipbook check`, read by `records.read`."""

    schema_version: Literal[1] = SCHEMA_VERSION
    made_by: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
    question: Text
    status: Status
    parameters: dict[str, JsonValue]
    board: dict[str, JsonValue]
    toolchain: str | None  # `build.toolchain_identity` of the board; None where nothing was built
    code_objects: list[CodeObjectIdentity]
    witnesses: list[Witness]
    facts: list[Fact]
    verdicts: list[Verdict]
    not_claimed: list[Text]
    sessions: list[
        Session
    ] = []  # measuring sessions on a real board, whole: a verdict is computed again from it
    content_sha256: str = ""
    environment: Environment
    times: Times

    @model_validator(mode="after")
    def _status_fits(self) -> "Record":
        failing = [v for v in self.verdicts if v.fails]
        if self.status is Status.PASSED:
            if failing:
                raise ValueError(f"status PASSED beside {failing[0].word} ({failing[0].subject})")
            if not (self.facts or self.verdicts):
                raise ValueError("status PASSED with no fact and no verdict: a run that shows nothing")
        else:
            measured = [f for f in self.facts if f.kind == "measured"]
            if measured:
                raise ValueError(
                    f"status {self.status} with a performance number ({measured[0].subject}: "
                    f"{measured[0].quantity}); only PASSED may carry one"
                )
        if self.board.get("kind") == "emulated":
            timed = [v for v in self.verdicts if v.word in TIME_WORDS]
            if timed:
                raise ValueError(f"{timed[0].word} ({timed[0].subject}): an emulated board has no times")
            if self.sessions:
                raise ValueError("a measuring session on an emulated board: it has no times")
        if self.sessions and self.status is not Status.PASSED:
            raise ValueError(f"status {self.status} with a measuring session; only PASSED may carry one")
        for session in self.sessions:
            if session.board_start != self.board:
                raise ValueError(
                    f"a session of board {session.board_start.get('name')} in a record of "
                    f"{self.board.get('name')}: the identities differ"
                )
        return self

    @model_serializer(mode="wrap")
    def _without_empty_sessions(self, handler) -> dict[str, Any]:
        """A record without a session is written, and hashed, as before there were sessions."""
        whole = handler(self)
        if not self.sessions:
            whole.pop("sessions", None)
        return whole

    def content(self) -> dict[str, Any]:
        """What must be the same in two runs: all but the environment, the times and the hash itself."""
        return self.model_dump(mode="json", exclude=set(NOT_CONTENT))
