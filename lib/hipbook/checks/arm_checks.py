"""What the checks of an operation have in common: ids, known words, and a result for whatever happens.

    @dataclass(frozen=True)
    class NormCase(ArmCase):
        operation: ClassVar[str] = "norm"
        dtype: str = "f32"
        width: int = 256

    class NormChecks(ArmChecks):
        case = NormCase
        arms = ("serial", "wave")
        known = {"family": ("random",), "dtype": ("f32", "bf16")}
        def test_cases(self): ...          # which cases `make test` and `hipbook check` run
        def build_jobs(self, case): ...    # (source, flags) of what a case runs
        def run(self, case, board, **options): ...    # launch, compare: a `Ran`

An operation whose launches may be refused, or that needs more than one a case, implements `Operation` itself
(checks/attention.py).
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from hipbook.boards.base import Board, Dispatch
from hipbook.checks.case import CheckResult, Status
from hipbook.errors import BadArgument
from hipbook.oracle.within import Compared


@dataclass(frozen=True)
class ArmCase:
    """One arm on one input. Fields that a subclass adds are its factors: texts, and counts of at least 1.

    The id is operation/arm/family/factors/seed, a count with its field's first letter before it.
    """

    operation: ClassVar[str]

    arm: str
    family: str
    seed: int = field(default=0, kw_only=True)

    @classmethod
    def factors(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls) if f.name not in ("arm", "family", "seed"))

    @property
    def id(self) -> str:
        words = [_word(name, getattr(self, name)) for name in self.factors()]
        return "/".join((self.operation, self.arm, self.family, *words, f"s{self.seed}"))

    @property
    def inputs_key(self) -> tuple:
        """Everything but the arm."""
        return (*(getattr(self, name) for name in self.factors()), self.family, self.seed)

    def with_seed(self, seed: int) -> Self:
        return replace(self, seed=seed)


def _word(name: str, value: object) -> str:
    return f"{name[0]}{value}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Ran:
    """What one case ran and how it compares: the arm by its witness, and every launch, the arm's own last."""

    arm: str
    dispatches: Sequence[Dispatch]
    compared: Compared


class ArmChecks:
    """An operation as the check engine sees it; a subclass says what is its own."""

    case: ClassVar[type[ArmCase]]
    arms: ClassVar[Sequence[str]]
    known: ClassVar[Mapping[str, Collection[str]]]  # the words each text of a case may be, but the arm's

    @property
    def name(self) -> str:
        return self.case.operation

    def test_cases(self) -> list[ArmCase]:
        raise NotImplementedError

    def full_cases(self) -> list[ArmCase]:
        """By default what `test_cases` has."""
        return self.test_cases()

    def build_jobs(self, case: ArmCase) -> list[tuple[str, tuple[str, ...]]]:
        raise NotImplementedError

    def run(self, case: ArmCase, board: Board, **options: object) -> Ran:
        raise NotImplementedError

    def allows(self, case: ArmCase) -> bool:
        """Whether the counts of a case whose words are known make sense."""
        return True

    def parse(self, case_id: str) -> ArmCase:
        case = self._read(case_id)
        if case is None or case.id != case_id or not self._known(case):
            example = self.test_cases()[0].id
            raise BadArgument("case", case_id, "no check has this id", fix=f"one looks like {example}")
        return case

    def _read(self, case_id: str) -> ArmCase | None:
        parts = case_id.split("/")
        kinds = {f.name: f.type for f in fields(self.case)}
        names = ("arm", "family", *self.case.factors(), "seed")
        if len(parts) != len(names) + 1:
            return None
        try:
            values = {
                name: int(word[1:]) if kinds[name] is int else word
                for name, word in zip(names, parts[1:], strict=True)
            }
        except ValueError:
            return None
        return self.case(**values)

    def _known(self, case: ArmCase) -> bool:
        words: dict[str, Collection[str]] = {"arm": self.arms, **self.known}
        for name in ("arm", "family", *case.factors()):
            value = getattr(case, name)
            if value not in words[name] if name in words else value < 1:
                return False
        return case.seed >= 0 and self.allows(case)

    def coverage(self, cases: Sequence[ArmCase]) -> dict[str, list[object]]:
        names = ("family", *self.case.factors())
        return {name: sorted({getattr(case, name) for case in cases}) for name in names}

    def evaluate(self, case: ArmCase, board: Board, **options: object) -> CheckResult:
        start = time.perf_counter()
        status, reason, seen = Status.CORRECT, "", {}
        try:
            ran = self.run(case, board, **options)
            reason, seen = ran.compared.why, _seen(ran)
            if not (reason or ran.compared.values_compared):
                reason = "nothing was compared"
            status = Status.INCORRECT if reason else status
        except Exception as error:  # a check reports whatever happens
            status, reason = Status.FAULT, f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        ok = status is Status.CORRECT
        return CheckResult(case.id, case.operation, case.arm, status, ok, reason, **seen, seconds=seconds)


def _seen(ran: Ran) -> dict[str, Any]:
    objects = [done.code_object for done in ran.dispatches]
    return {
        "launches": len(ran.dispatches),
        "values_compared": ran.compared.values_compared,
        "exact_compared": ran.compared.exact_compared,
        "max_error_over_bound": ran.compared.max_error_over_bound,
        "arms_run": (ran.arm,),
        "code_objects": tuple(dict.fromkeys(one.sha256 for one in objects)),
        "source_sha256": objects[-1].source_sha256 or "",
    }
