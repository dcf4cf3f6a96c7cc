"""Broken kernels on purpose: what do the checks catch?

A mutant is one textual edit of the kernels' sources. It is built from an edited copy and put through the
cases of its operation until one fails. The unbroken kernels go through the same copy and must fail nothing.
Hand-made mutants are data (`mutants_*.py`), generated ones come from `mutant_generator.py`.
"""

import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from hipbook import boards, paths
from hipbook.boards.base import Board
from hipbook.build.code_object import CodeObject
from hipbook.checks.case import Case, CheckResult, Status
from hipbook.checks.runner import find_operation
from hipbook.emulator.faults import KINDS
from hipbook.errors import BadArgument, BuildError

BUDGET = 20_000_000  # instructions of a wave: a mutant may loop for ever
SECOND_ORDER = 3  # wave order of the second pass, for what only another order shows


@dataclass(frozen=True)
class Mutant:
    """One edit: `old`, which occurs exactly once in `file` (under kernels/), becomes `new`.

    `arms` are those whose machine code it changes (empty: any of the operation). `why` says what is wrong
    with it, in one clause; `out_of_reach`, why no board here can show it: empty for one that must be caught.
    """

    name: str
    operation: str
    file: str
    old: str
    new: str
    why: str
    arms: tuple[str, ...] = ()
    out_of_reach: str = ""


class Outcome(StrEnum):
    CAUGHT = "CAUGHT"
    MISSED = "MISSED"
    SAME_CODE = "SAME_CODE"  # the compiler makes the same machine code of it in every case
    DOES_NOT_BUILD = "DOES_NOT_BUILD"


@dataclass(frozen=True)
class MutantResult:
    """What became of a mutant. `by`: the kind of check; `case_id`, `detail`: the first case that failed."""

    mutant: Mutant
    outcome: Outcome
    by: str = ""
    case_id: str = ""
    detail: str = ""
    cases_run: int = 0  # on changed machine code
    arms_changed: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Caught, or known to be out of reach and said so."""
        return self.outcome is Outcome.CAUGHT or bool(self.mutant.out_of_reach)


UNBROKEN = Mutant("unbroken", "paged_attention", "", "", "", "nothing: the sources as they are")


def edited(text: str, mutant: Mutant) -> str:
    """`text` with the mutant's edit made. BadArgument unless `old` occurs exactly once."""
    count = text.count(mutant.old)
    if count != 1 or mutant.old == mutant.new:
        rule = f"its text must occur exactly once in {mutant.file} and change: found {count}"
        raise BadArgument("mutant", mutant.name, rule, fix="quote more of the line, or the line as it is now")
    return text.replace(mutant.old, mutant.new)


@contextmanager
def edited_copy(mutant: Mutant) -> Iterator[Path]:
    """A folder like kernels/ with the mutant's edit, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hipbook-mutant-") as scratch:
        folder = Path(scratch) / "kernels"
        shutil.copytree(paths.kernels(), folder)
        if mutant.file:
            where = folder / mutant.file
            if not where.is_file():
                raise BadArgument("mutant", mutant.name, f"there is no kernels/{mutant.file}")
            where.write_text(edited(where.read_text(), mutant))
        yield folder


class EditedBoard:
    """A board that builds from an edited copy of kernels/, each code object once."""

    def __init__(self, board: Board, folder: Path) -> None:
        self._board, self._folder = board, folder
        self._built: dict[tuple[str, tuple[str, ...]], CodeObject] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._board, name)

    def build(self, source: str, flags: Sequence[str] = ()) -> CodeObject:
        key = source, tuple(flags)
        if key not in self._built:
            self._built[key] = self._board.build(str(self._folder / source), flags)
        return self._built[key]

    def changed(self, source: str, flags: Sequence[str]) -> bool:
        """Whether the edit changes this code object."""
        return self.build(source, flags).sha256 != self._board.build(source, flags).sha256


def cases_for(mutant: Mutant) -> list[Case]:
    """The operation's test cases of the mutant's arms; those that share the most common binary come first."""
    by_jobs: dict[tuple, list[Case]] = defaultdict(list)
    for case, jobs in _cases(mutant.operation):
        if not mutant.arms or case.arm in mutant.arms:
            by_jobs[jobs].append(case)
    known = {case.arm for case, _ in _cases(mutant.operation)}
    if unknown := set(mutant.arms) - known:
        raise BadArgument("mutant", mutant.name, f"its operation has no arm {sorted(unknown)}")
    groups = sorted(by_jobs.items(), key=lambda item: -len(item[1]))
    return [case for jobs, group in groups if jobs for case in group]


@cache
def _cases(operation: str) -> tuple[tuple[Case, tuple], ...]:
    of = find_operation(operation)
    return tuple((case, tuple(of.build_jobs(case))) for case in of.test_cases() if case.arm != "auto")


def run_mutant(mutant: Mutant, board: Board | str | None = None, *, cases: int | None = None) -> MutantResult:
    """Build the mutant and run its cases until one fails; only the first `cases` of them when given.

    Cases whose machine code the edit does not change are left out.
    """
    began, where = time.perf_counter(), boards.get(board) if not hasattr(board, "launch") else board
    operation, chosen = find_operation(mutant.operation), cases_for(mutant)[:cases]
    arms: dict[str, None] = {}
    run = 0
    with edited_copy(mutant) as folder:
        on = EditedBoard(where, folder)

        def done(outcome: Outcome, by: str = "", result: CheckResult | None = None, detail: str = ""):
            spent = time.perf_counter() - began
            case_id, told = (result.case_id, _first_line(result.reason)) if result else ("", detail)
            return MutantResult(mutant, outcome, by, case_id, told, run, tuple(arms), spent)

        touched = []
        for case in chosen:
            try:
                changed = not mutant.file or any(on.changed(*job) for job in operation.build_jobs(case))
            except BuildError as error:
                return done(Outcome.DOES_NOT_BUILD, detail=_diagnostic(error))
            if not changed:
                continue
            arms[case.arm] = None
            touched.append(case)
            run += 1
            result = operation.evaluate(case, on, threads=1, max_wave_instructions=BUDGET)
            if not result.ok:
                return done(Outcome.CAUGHT, caught_by(result), result)
        if not touched:
            return done(Outcome.SAME_CODE, detail="the same machine code in every case")
        for case in touched[:40]:
            result = operation.evaluate(
                case, on, threads=1, max_wave_instructions=BUDGET, wave_order_seed=SECOND_ORDER
            )
            if not result.ok:
                return done(Outcome.CAUGHT, f"{caught_by(result)}, waves in another order", result)
        return done(Outcome.MISSED)


_KIND = re.compile(r"(?:launch \d+|EmulatedFault): (" + "|".join(name for name, _ in KINDS[1:]) + r"): ")


def caught_by(result: CheckResult) -> str:
    """The kind of check a failed result comes from."""
    if result.status is Status.INCORRECT:
        return "oracle"
    if match := _KIND.search(result.reason):
        return f"sanitizer: {match[1]}"
    for word, kind in (("witness", "witness"), ("written", "output bytes"), ("ticket", "tickets")):
        if word in result.reason:
            return kind
    return str(result.status)


def _first_line(reason: str) -> str:
    return reason.partition("\n")[0][:200]


def _diagnostic(error: BuildError) -> str:
    """The compiler's first error, without the command and its paths."""
    for line in str(error).splitlines():
        if "error:" in line:
            return line.partition("error:")[2].strip()[:200]
    return "the compiler failed"


def run_mutants(
    mutants: Sequence[Mutant],
    board: str | None = None,
    workers: int = 2,
    *,
    on_result: Callable[[MutantResult, int, int], None] | None = None,
) -> list[MutantResult]:
    """Every mutant, over processes; results in the order of `mutants`."""
    results: dict[str, MutantResult] = {}
    if len({mutant.name for mutant in mutants}) != len(mutants):
        raise BadArgument("mutants", len(mutants), "their names must differ")
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_alone) as pool:
        futures = [pool.submit(run_mutant, mutant, board) for mutant in mutants]
        for future in as_completed(futures):
            result = future.result()
            results[result.mutant.name] = result
            if on_result is not None:
                on_result(result, len(results), len(mutants))
    return [results[mutant.name] for mutant in mutants]


def _alone() -> None:
    import torch

    torch.set_num_threads(1)  # a process is the unit of parallelism


def hand_made() -> tuple[Mutant, ...]:
    """The table of hand-made mutants, operation by operation."""
    from hipbook.checks import mutants_gdn_post_conv as gdn_post_conv
    from hipbook.checks import mutants_grouped_gemv as grouped_gemv
    from hipbook.checks import mutants_paged_attention as paged_attention
    from hipbook.checks import mutants_quantize_q8k as quantize_q8k

    tables = (paged_attention, quantize_q8k, grouped_gemv, gdn_post_conv)
    return tuple(mutant for table in tables for mutant in table.MUTANTS)


def find(names: Iterable[str]) -> list[Mutant]:
    """Hand-made mutants by name; BadArgument for a name that none has."""
    known = {mutant.name: mutant for mutant in hand_made()}
    if unknown := [name for name in names if name not in known]:
        raise BadArgument("mutant", unknown[0], f"one of: {', '.join(known)}")
    return [known[name] for name in names]
