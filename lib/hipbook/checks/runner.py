"""`hipbook check`: build what the cases need, run them, add up what was compared."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from hipbook import boards, build
from hipbook.boards.base import Board
from hipbook.checks.attention import PagedAttentionChecks
from hipbook.checks.built_once import BuiltOnce
from hipbook.checks.case import Case, CheckResult, Operation, Status
from hipbook.checks.gdn_post_conv import PostConvChecks
from hipbook.checks.grouped_gemv import GemvChecks
from hipbook.checks.quantize_q8k import QuantizeChecks
from hipbook.checks.workers import run_group, run_processes
from hipbook.errors import BadArgument

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (PagedAttentionChecks(), QuantizeChecks(), PostConvChecks(), GemvChecks())
}
LEVELS = ("test", "full")


def select(
    level: str = "test",
    *,
    operation: str | None = None,
    arms: Sequence[str] = (),
    families: Sequence[str] = (),
    seeds: int = 1,
) -> list[Case]:
    """The cases of a level, narrowed by operation, arms and families of inputs, for seeds 0 .. seeds - 1."""
    if level not in LEVELS:
        raise BadArgument("level", repr(level), f"must be one of: {', '.join(LEVELS)}")
    if seeds < 1:
        raise BadArgument("seeds", seeds, "must be at least 1")
    chosen = [find_operation(operation)] if operation else list(OPERATIONS.values())
    cases = [case for one in chosen for case in getattr(one, f"{level}_cases")()]
    for what, wanted, of in (("arm", arms, _arm), ("family", families, _family)):
        known = {of(case) for case in cases}
        unknown = set(wanted) - known
        if unknown:
            raise BadArgument(what, sorted(unknown), f"must be one of: {', '.join(sorted(known))}")
        cases = [case for case in cases if not wanted or of(case) in wanted]
    return [case.with_seed(seed) for seed in range(seeds) for case in cases]


def _arm(case: Case) -> str:
    return case.arm


def _family(case: Case) -> str:
    return case.family


def find_operation(name: str) -> Operation:
    if name not in OPERATIONS:
        raise BadArgument("operation", repr(name), f"must be one of: {', '.join(OPERATIONS)}")
    return OPERATIONS[name]


def parse_case(case_id: str) -> Case:
    """The case an id names, as results print it."""
    return find_operation(case_id.split("/")[0]).parse(case_id)


def build_all(cases: Iterable[Case], board: Board) -> int:
    """Build every code object the cases run, in parallel; how many there are."""
    jobs = {job: None for case in cases for job in find_operation(case.operation).build_jobs(case)}
    if board.arch in build.ARCHS:
        build.build_many([(source, board.arch, flags) for source, flags in jobs])
    return len(jobs)


def run_checks(
    cases: Sequence[Case],
    board: Board | str | None = None,
    workers: int | None = None,
    *,
    on_result: Callable[[CheckResult, int, int], None] | None = None,
    **options: object,
) -> list[CheckResult]:
    """Run cases on a board, over `workers` processes (default: one a core; 0: in this process).

    Results come back in the order of the cases; `on_result(result, done, total)` sees each as it
    comes. `options` go to `Board.launch`. A board given as an object runs in this process. Two runs
    of the same cases give equal results, times apart.
    """
    where = boards.get(board) if board is None or isinstance(board, str) else board
    build_all(cases, where)
    groups = _grouped(cases)
    if where is board or workers == 0 or len(groups) == 1:
        once = BuiltOnce(where)
        arriving = (r for group in groups for r in run_group(evaluate, group, once, options))
    else:
        open_board = partial(boards.get, where.name)
        if where.kind == "emulated":
            options = {"threads": 1, **options}  # the workers are the threads
        arriving = run_processes(evaluate, groups, open_board, workers or os.cpu_count() or 1, options)
    results: dict[str, CheckResult] = {}
    for result in arriving:
        results[result.case_id] = result
        if on_result is not None:
            on_result(result, len(results), len(cases))
    return [results[case.id] for case in cases]


def evaluate(case: Case, board: Board, **options: object) -> CheckResult:
    """Run one case in this process."""
    return find_operation(case.operation).evaluate(case, board, **options)


def _grouped(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases with the same inputs together; groups in a fixed order, code objects close together."""
    ordered = sorted(cases, key=lambda case: (case.operation, case.inputs_key, case.id))
    return [list(group) for _, group in groupby(ordered, key=_inputs)]


def _inputs(case: Case) -> tuple:
    return case.operation, case.inputs_key


@dataclass(frozen=True)
class Summary:
    """A run in figures. `passed` only if every case is ok and something was compared."""

    cases: int
    by_status: dict[str, int]
    refused_launches: dict[str, int]  # by kind
    values_compared: int
    exact_compared: int
    worst_nmse: float
    worst_row_nmse: float
    worst_error_over_bound: float
    code_objects: int
    failed: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        return self.cases > 0 and not self.failed and self.values_compared > 0

    @property
    def why(self) -> str:
        if not self.cases:
            return "no case was run"
        if not self.values_compared:
            return "nothing was compared"
        return f"{len(self.failed)} of {self.cases} cases failed" if self.failed else ""

    def __str__(self) -> str:
        statuses = ", ".join(f"{count} {status}" for status, count in self.by_status.items())
        refused = ", ".join(f"{count} for {kind}" for kind, count in self.refused_launches.items()) or "none"
        return (
            f"{self.cases} cases on {self.code_objects} code objects: {statuses}\n"
            f"values compared: {self.values_compared:,} ({self.exact_compared:,} of them held to equality)\n"
            f"worst NMSE: {self.worst_nmse:.3g} a tensor, {self.worst_row_nmse:.3g} a row (at most 5e-4)\n"
            f"worst error / bound: {self.worst_error_over_bound:.3f} (at most 1)\n"
            f"launches refused: {refused}" + (f"\nFAILED: {self.why}" if not self.passed else "")
        )


def summarise(results: Sequence[CheckResult]) -> Summary:
    statuses = Counter(str(result.status) for result in results)
    refused: Counter[str] = Counter()
    for result in results:
        refused.update(result.refused)
    return Summary(
        cases=len(results),
        by_status={str(status): statuses[status] for status in Status if statuses[status]},
        refused_launches=dict(sorted(refused.items())),
        values_compared=sum(result.values_compared for result in results),
        exact_compared=sum(result.exact_compared for result in results),
        worst_nmse=max((result.nmse for result in results), default=0.0),
        worst_row_nmse=max((result.worst_row_nmse for result in results), default=0.0),
        worst_error_over_bound=max((result.max_error_over_bound for result in results), default=0.0),
        code_objects=len({sha for result in results for sha in result.code_objects}),
        failed=tuple(result for result in results if not result.ok),
    )
