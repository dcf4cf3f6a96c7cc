"""A measuring session on a GPU board: plans first, then processes, then one session a comparison.

    measured = measure("attention_decode", parameters, base="auto", others=[...], board="nvidia-0")
    for session in measured.sessions: run.session(session)

`probe` finds out which arms can run where; the plans are fixed before the first time is taken. All
comparisons share the base's runs and its A/A control, each process holds every arm of every case once.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hipbook.errors import HipbookError, Refused
from hipbook.measure.bound import BOUND_EXCESS, Bandwidth, bounded
from hipbook.measure.clocks import Cache
from hipbook.measure.session import Plan, Run, Session, SessionBound, joint_schedule, sessions_of
from hipbook.measure.verdict import Word
from hipbook.studies.timing.process import Job, Result, Turn
from hipbook.studies.timing.suite import Parameters, find_suite

PROCESSES = 6
METRIC = "time of one launch, graph-replayed"
PROCESS_LIMIT_S = 900
Say = Callable[[str], None]


@dataclass(frozen=True)
class Level:
    """One arm's figure on one case, with its bound: the median of the processes' medians, in us."""

    case: str
    arm: str
    time_us: float
    moved_bytes: int
    floor_us: float | None  # None: too little work for a rate to bound it
    of: str  # the rate behind the floor, in words

    @property
    def fraction(self) -> float | None:
        return None if self.floor_us is None else self.floor_us / self.time_us


@dataclass(frozen=True)
class Measured:
    """A session's outcome. `absent` and `wrong`: {case: {arm: why}}; `empty_launch_us` a lower bound."""

    suite: str
    sessions: list[Session]
    levels: list[Level]
    rates_gb_s: Mapping[str, float]
    empty_launch_us: float
    absent: Mapping[str, Mapping[str, str]]
    wrong: Mapping[str, Mapping[str, str]]
    power_w: float | None
    seconds: float
    moved_bytes: Mapping[str, int] = field(default_factory=dict)


def measure(
    suite: str,
    parameters: Parameters,
    *,
    base: str,
    others: Sequence[str],
    board: str,
    predictions: Mapping[str, Word] | None = None,
    processes: int = PROCESSES,
    cache: Cache = Cache.WARM,
    minimum_effect: float = 0.01,
    seed: int = 0,
    say: Say = print,
) -> Measured:
    """Run a whole session of `suite` on a GPU board; `predictions` by arm are written into the plans.

    Raises `Refused` when the base itself is wrong or absent, `HipbookError` with a process's own words
    when one fails: a session with a missing replication is no session.
    """
    arms = [base, *others]
    with tempfile.TemporaryDirectory(prefix="hipbook-times-") as folder:
        job = {"suite": suite, "parameters": dict(parameters), "board": board, "arms": arms, "cache": cache}
        found = _process(Job(process="probe", **job), Path(folder))
        say(f"probed {len(found.moved_bytes)} cases in {found.seconds:.0f} s")
        plans = _plans(
            found, find_suite(suite), parameters, base, others, predictions or {}, processes, cache,
            minimum_effect, seed,
        )  # fmt: skip
        results = []
        for number in range(processes):
            turns = _turns(plans, number)
            results.append(_process(Job(process=f"process {number}", turns=turns, **job), Path(folder)))
            say(f"process {number + 1} of {processes}: {len(turns)} runs in {results[-1].seconds:.0f} s")
    return _gather(suite, plans, found, results, cache)


def _plans(
    found: Result, suite, parameters: Parameters, base: str, others: Sequence[str],
    predictions: Mapping[str, Word], processes: int, cache: Cache, minimum_effect: float, seed: int,
) -> dict[str, list[Plan]]:  # fmt: skip
    """Plans by case, for every arm that can run it and was right in the probe."""
    plans: dict[str, list[Plan]] = {}
    for case in suite.names(parameters):
        refused = {**found.absent[case], **found.wrong[case]}
        if base in refused:
            raise Refused(f"{base} cannot be timed at {case}: {refused[base]}")
        plans[case] = [
            Plan(
                hypothesis=f"{other} takes another time than {base} at {case}",
                base=base, new=other, case=case, metric=METRIC, unit="us", runs=processes, seed=seed,
                minimum_effect=minimum_effect, cache=cache, prediction=predictions.get(other),
            )
            for other in others
            if other not in refused
        ]  # fmt: skip
        if not plans[case]:
            raise Refused(f"nothing to compare {base} with at {case}: {refused}")
    return plans


def _turns(plans: Mapping[str, Sequence[Plan]], number: int) -> list[Turn]:
    """Block `number` of every case's schedule, one case after the other."""
    turns, per_process = [], sum(len(of_case) + 2 for of_case in plans.values())
    for case, of_case in plans.items():
        for slot in joint_schedule(of_case):
            if slot.block == number:
                turns.append(Turn(order=number * per_process + len(turns), case=case, arm=slot.arm))
    return turns


def _gather(
    suite: str, plans: Mapping[str, Sequence[Plan]], found: Result, results: Sequence[Result], cache: Cache
) -> Measured:
    runs = sorted((run for result in results for run in result.runs), key=lambda run: run.order)
    boards = [result.board for result in results]
    # the best rate any process saw: a bound that a later process could beat would be no bound
    rates = {level: max(result.gb_s[level] for result in results) for level in results[0].gb_s}
    empty_us = min(result.empty_launch_us for result in results)
    step_us = max(result.step_us for result in results)
    wrong = {
        case: {arm: why for result in results for arm, why in result.wrong.get(case, {}).items()}
        for case in plans
    }
    sessions, levels = [], []
    for case, of_case in plans.items():
        kept = [plan for plan in of_case if not wrong[case].get(plan.new)]
        of = _rate(found, case, rates, results[0].best, boards[0], cache)
        moved = found.moved_bytes[case]
        bound = _session_bound(moved, of, empty_us)
        sessions += sessions_of(
            kept, runs, {case: bound}, resolution=step_us, board_start=boards[0], board_end=boards[-1]
        )
        for arm in [of_case[0].base, *(plan.new for plan in kept)]:
            levels.append(_level(case, arm, runs, moved, of))
    return Measured(
        suite, sessions, levels, rates, empty_us, found.absent, wrong,
        max((r.power_w for r in results if r.power_w), default=None), sum(r.seconds for r in results),
        found.moved_bytes,
    )  # fmt: skip


def _rate(
    found: Result, case: str, rates: Mapping[str, float], best: Mapping[str, str], board: dict[str, Any],
    cache: Cache,
) -> Bandwidth | None:  # fmt: skip
    """The rate that bounds a case: none, the copy's, the memory's, or the cache's for what stays in it."""
    kind, fits = found.bounds[case], found.moved_bytes[case] <= (board.get("last_level_cache_bytes") or 0)
    if kind is None:
        return None
    level = "copy of memory" if kind == "copy" else "memory"
    if cache is Cache.WARM and fits:
        level = "last-level cache"
    return Bandwidth(level, rates[level], best[level], 18)


def _session_bound(moved: int, of: Bandwidth | None, empty_us: float) -> SessionBound:
    if of is None:
        return SessionBound(value=empty_us / BOUND_EXCESS, what="an empty launch under graph replay")
    what = (
        f"{moved:,} bytes over {of.gb_s:.4g} GB/s of {of.level} (best of {of.candidates} kernels and grids)"
    )
    return SessionBound(value=moved / of.gb_s / 1e3, what=what)


def _level(case: str, arm: str, runs: Sequence[Run], moved: int, of: Bandwidth | None) -> Level:
    """Raises FasterThanBound above 1.03 of the bound (R11)."""
    medians = sorted(_median(run.samples) for run in runs if (run.arm, run.case) == (arm, case))
    time_us = _median(medians)
    if of is None:
        return Level(case, arm, time_us, moved, None, "")
    one = bounded(time_us, moved, of)
    return Level(case, arm, time_us, moved, one.floor_us, of.level)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _process(job: Job, folder: Path) -> Result:
    """Run one process to its end."""
    job_path, result_path = folder / f"{job.process}.job.json", folder / f"{job.process}.result.json"
    job_path.write_text(job.model_dump_json(), encoding="utf-8")
    command = [sys.executable, "-m", "hipbook.studies.timing.process", str(job_path), str(result_path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise HipbookError(
            f"{job.process} of {job.suite} ran past {PROCESS_LIMIT_S} s", fix="fewer cases or arms"
        ) from None
    if done.returncode or not result_path.exists():
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-6:])
        raise HipbookError(f"{job.process} of {job.suite} ended with {done.returncode}:\n{last}")
    return Result.model_validate_json(result_path.read_text(encoding="utf-8"))
