"""What a notebook does besides its question: check its parameters, gather evidence, write its record.

    run = begin(globals(), "11_decode_d128_arm", "Does the flag reach the new kernel?")
    ...
    run.ran(result.dispatch, witness=result.witness, expected=0x20, subject="on, D 128", arm="decode")
    run.fact("on, D 128", "barriers per key", 0, "barriers")
    run.verdict("on, D 128", verdict)                  # a word of hipbook.measure
    run.not_claimed("any time on a gfx1200 board")
    run.write()                                        # the last cell

`write` leaves the record in `$HIPBOOK_RECORDS` (default: runs/records, which git ignores) whatever ran
the notebook: JupyterLab, papermill, nbval or `hipbook run`. A run without a record did not succeed.
"""

import json
import operator
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hipbook import records
from hipbook.errors import BadArgument, BuildError, HipbookError
from hipbook.notebooks import parameters as cell
from hipbook.records import environment
from hipbook.records.schema import (
    TIME_WORDS,
    Bound,
    CodeObjectIdentity,
    Fact,
    Record,
    Status,
    Times,
    Verdict,
    Witness,
    Word,
)

if TYPE_CHECKING:  # torch takes two seconds to import, and not every notebook needs it
    from hipbook.boards.base import Board, Dispatch
    from hipbook.build.code_object import CodeObject
    from hipbook.measure.judge import Judgement
    from hipbook.measure.session import Session


class Incorrect(HipbookError):
    """The run's own checks failed; its record is written, without performance numbers."""


class BoardMismatch(HipbookError):
    """The board at hand is not the one this run was given, or not the one it began on (T13)."""


class Investigation:
    """Evidence of one run on its way to a record. Made by `begin`."""

    def __init__(
        self, name: str, question: str, parameters: Mapping[str, Any], board: "Board | None"
    ) -> None:
        self.name = name
        self.question = question
        self.parameters = dict(parameters)
        self.board = board
        self.identity = dict(board.identity()) if board else {}
        self._started, self._clock = datetime.now(UTC), time.perf_counter()
        self._code_objects: dict[str, CodeObjectIdentity] = {}
        self._witnesses: list[Witness] = []
        self._facts: list[Fact] = []
        self._verdicts: list[Verdict] = []
        self._sessions: list[Session] = []
        self._not_claimed: list[str] = []

    def built(self, code_object: "CodeObject") -> None:
        """Keep the identity of a binary; a binary already kept is kept once."""
        identity = CodeObjectIdentity(**code_object.identity)
        self._code_objects[identity.sha256] = identity

    def ran(
        self, dispatch: "Dispatch", *, subject: str, arm: str, expected: int, witness: Iterable[int]
    ) -> None:
        """Keep a launch: the binary that ran, and what its workgroups wrote about themselves.

        `witness` holds one int per workgroup as the kernel left it, `expected` the arm's code.
        """
        self.built(dispatch.code_object)
        seen = Counter(operator.index(code) for code in _flat(witness))
        counted = {hex(code): count for code, count in sorted(seen.items())}
        self._witnesses.append(Witness(subject=subject, arm=arm, expected=expected, seen=counted))

    def fact(
        self,
        subject: str,
        quantity: str,
        value: float,
        unit: str,
        *,
        kind: Literal["exact", "measured", "reported"] = "exact",
        bound: tuple[float, str] | None = None,
        source: str | None = None,
    ) -> None:
        """Keep one figure. `bound` is (value, what it is), for figures that have one."""
        self._facts.append(
            Fact(
                subject=subject,
                quantity=quantity,
                value=_plain(value),
                unit=unit,
                kind=kind,
                bound=Bound(value=_plain(bound[0]), what=bound[1]) if bound else None,
                source=source,
            )
        )

    def verdict(self, subject: str, word: Any, reason: str = "", *, expected: str | None = None) -> None:
        """Keep one verdict: a word with its reason, or a verdict object of `hipbook.measure`.

        `expected` is the word predicted before the measurement; a refuted prediction is kept as such.
        """
        reason = reason or getattr(word, "detail", "") or getattr(word, "reason", "")
        word = getattr(word, "word", word)
        if str(word) not in Word.__members__:
            raise BadArgument("word", word, f"one of {', '.join(Word)}")
        self._verdicts.append(
            Verdict(
                word=Word(str(word)),
                subject=subject,
                reason=reason,
                expected=Word(expected) if expected else None,
            )
        )

    def session(self, session: "Session") -> "Judgement":
        """Keep a measuring session whole, with the verdict its runs give and the prediction of its plan."""
        from hipbook.measure.session import judge_session
        from hipbook.records.recheck import verdict_of

        judgement = judge_session(session)
        self._sessions.append(session)
        self._verdicts.append(verdict_of(session, judgement))
        return judgement

    def not_claimed(self, *sentences: str) -> None:
        """Say what the evidence does not support."""
        self._not_claimed.extend(sentences)

    def summary(self) -> str:
        """The verdicts as lines, then what is not claimed: what a notebook's last cells print."""
        wide = max((len(v.word) for v in self._verdicts), default=0)
        lines = []
        for v in self._verdicts:
            predicted = "" if v.expected is None else f" (predicted {v.expected})"
            lines.append(f"{v.word:<{wide}}  {v.subject}{predicted}: {v.reason}")
        return "\n".join(lines + [f"not claimed: {sentence}" for sentence in self._not_claimed])

    @property
    def status(self) -> Status:
        """PASSED unless a verdict fails or a launch left another arm's witness."""
        failing = any(v.fails for v in self._verdicts) or any(not w.reached for w in self._witnesses)
        return Status.INCORRECT if failing else Status.PASSED

    def record(self) -> Record:
        """The record as it stands. An INCORRECT one loses its performance numbers (R1)."""
        finished = datetime.now(UTC)
        passed = self.status is Status.PASSED
        return Record(
            made_by=self.name,
            question=self.question,
            status=self.status,
            parameters=self.parameters,
            board=self.identity,
            toolchain=self._toolchain(),
            code_objects=[self._code_objects[sha] for sha in sorted(self._code_objects)],
            witnesses=self._witnesses,
            facts=[f for f in self._facts if passed or f.kind != "measured"],
            verdicts=[v for v in self._verdicts if passed or v.word not in TIME_WORDS],
            not_claimed=self._not_claimed,
            sessions=self._sessions if passed else [],
            environment=environment.capture(),
            times=Times(
                started=self._started.isoformat(timespec="seconds"),
                finished=finished.isoformat(timespec="seconds"),
                wall_s=round(time.perf_counter() - self._clock, 3),
            ),
        )

    def write(self, folder: Path | None = None) -> None:
        """Write the record, say so in one line, and raise Incorrect when its checks failed."""
        if self.board is not None and dict(self.board.identity()) != self.identity:
            raise BoardMismatch(f"{self.board.name}: its identity changed during the run")
        record = self.record()
        where = folder or records.folder()
        records.write(record, where / records.file_name(self.name, self.parameters))
        print(
            f"record: {record.status}, {len(record.facts)} facts, {len(record.verdicts)} verdicts, "
            f"{len(record.witnesses)} launches"
        )
        if record.status is not Status.PASSED:
            raise Incorrect(self._why())

    def _why(self) -> str:
        failing = [f"{v.word}: {v.subject}: {v.reason}" for v in self._verdicts if v.fails]
        failing += [f"{w.subject}: {w.arm} left {w.seen}" for w in self._witnesses if not w.reached]
        return f"{len(failing)} checks failed; first {failing[0]}"

    def _toolchain(self) -> str | None:
        """The compiler behind this board's code, also where the run kept no binary."""
        if self.board is None:
            return None
        from hipbook.build import toolchain_identity

        try:
            return toolchain_identity(self.board.arch)
        except BuildError:
            return None


def begin(namespace: dict[str, Any], name: str, question: str) -> Investigation:
    """Check the parameters of the notebook whose `globals()` these are, and open its board.

    `name` is the notebook's file name without `.ipynb`. A parameter called `board` names the board; it is
    opened as `run.board`, and its identity must be the one in $HIPBOOK_EXPECT_BOARD where a runner set it.
    Raises BadParameters, BoardUnavailable, BoardMismatch.
    """
    _, values = cell.from_kernel(namespace)
    namespace.update(values)
    board = None
    if "board" in values:
        from hipbook import boards

        board = boards.get(values["board"])
        wanted = os.environ.get("HIPBOOK_EXPECT_BOARD")
        if wanted and wanted != board.name:
            raise BoardMismatch(f"this run was given {wanted} and opened {board.name}")
        _assert_identity(board)
    return Investigation(name, question, values, board)


def _assert_identity(board: "Board") -> None:
    """BoardMismatch unless the board says of itself what $HIPBOOK_EXPECT_IDENTITY says (T13)."""
    wanted = json.loads(os.environ.get("HIPBOOK_EXPECT_IDENTITY") or "{}")
    found = dict(board.identity())
    for name, value in wanted.items():
        if found.get(name) != value:
            raise BoardMismatch(
                f"{board.name}: its {name} is {found.get(name)!r}, this run was given a board with {value!r}"
            )


def _flat(witness: Any) -> Iterable[Any]:
    """A tensor's or array's elements, or the iterable itself."""
    return witness.flatten().tolist() if hasattr(witness, "flatten") else witness


def _plain(value: Any) -> int | float:
    """A Python number: a numpy or torch scalar would not survive JSON."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgument("value", repr(value), "a figure is a number")
    return value
