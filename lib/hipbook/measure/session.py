"""A measuring session as data: the plan fixed before it, the runs made, and its judgement.

The runner of a real board fills a `Session`; a record keeps it whole, so a verdict can be computed
again from the file and checked. Nothing here touches a GPU.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from hipbook.errors import BadArgument, Refused
from hipbook.measure.bound import within_bound
from hipbook.measure.clocks import Cache, Clock
from hipbook.measure.comparable import same_board
from hipbook.measure.judge import Better, Judgement, Runs, judge
from hipbook.measure.scaling import require_unit
from hipbook.measure.schedule import CONTROL_SUFFIX, Slot, interleave, with_control
from hipbook.measure.thresholds import DEFAULT_RUNS, MINIMUM_EFFECT
from hipbook.measure.verdict import Word

Text = Annotated[str, StringConstraints(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Plan(_Model):
    """What is fixed before measuring (R15). Its hash names it: a plan changed afterwards has another."""

    hypothesis: Text
    base: Text  # the arm compared against
    new: Text
    case: Text  # the shape or workload
    metric: Text  # what the figures are: "time of one launch"
    unit: Text
    better: Better = "lower"
    minimum_effect: Positive = MINIMUM_EFFECT  # share: 0.01 is 1 %
    runs: Annotated[int, Field(ge=2, multiple_of=2)] = DEFAULT_RUNS  # a side
    seed: int = 0
    clock: Clock = Clock.DEVICE_EVENTS
    cache: Cache = Cache.WARM
    prediction: Word | None = None  # written first, shown beside the outcome (T14)
    negative_case: str | None = None  # a case that the change cannot reach (R12)

    @model_validator(mode="after")
    def _makes_sense(self) -> "Plan":
        if self.base == self.new:
            raise ValueError(f"base and new are both {self.base!r}: an A/A control is made for you")
        require_unit(self.metric, self.unit)
        return self

    @property
    def plan_id(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def schedule(self) -> list[Slot]:
        """The session's run order: base, new and the A/A control, interleaved by the plan's seed."""
        return interleave(with_control(self.base, self.new), self.runs, self.seed)


class Run(_Model):
    """One process: one arm, its steady iterations, and how the board was meanwhile."""

    order: Annotated[int, Field(ge=0)]  # place in the session, over all arms and cases
    process: Text  # names the process: the unit of replication (R2)
    arm: Text  # "online", or "online (A/A)" for the control
    case: Text
    kernel: Text  # what the dispatch says ran
    witness: int | None = None  # what the kernel itself wrote (T2); None for a peer that writes none
    samples: Annotated[list[Positive], Field(min_length=1)]  # per launch, in the plan's unit and clock
    second_clock: Clock | None = None
    second_samples: list[Positive] = []
    warmup_dropped: Annotated[int, Field(ge=0)]
    settled: bool  # whether the warm-up's trend ended
    launches_per_sample: Annotated[int, Field(ge=1)] = 1
    clock_mhz: Positive | None = None  # lowest of the run; None: not sampled
    correct_before: bool  # the oracle's word before timing, and after (R1)
    correct_after: bool
    exploratory: bool = False  # added after the results were looked at (R15)


class SessionBound(_Model):
    """The least value the metric can have here, in the plan's unit, and of what (R11)."""

    value: Positive
    what: Text  # "8.4 MB of K and V over 4350 GB/s of measured read bandwidth (best of 3 kernels)"


class Session(_Model):
    """One uninterrupted session on one board."""

    schema_version: Literal[1] = 1
    plan: Plan
    plan_id: Text
    resolution: Annotated[float, Field(ge=0)]  # the clock's step, in the plan's unit
    board_start: dict[str, Any]
    board_end: dict[str, Any]
    bound: SessionBound | None = None  # None: not derived, and the report says so
    runs: list[Run]

    @model_validator(mode="after")
    def _whole(self) -> "Session":
        if self.plan_id != self.plan.plan_id:
            raise ValueError(
                f"plan_id {self.plan_id}: the plan hashes to {self.plan.plan_id}; it was changed"
            )
        orders = [run.order for run in self.runs]
        if orders != sorted(set(orders)):
            raise ValueError("runs are listed in the order they were made, each place once")
        for arm, case in {(run.arm, run.case) for run in self.runs}:
            processes = [run.process for run in self.of(arm, case)]
            if len(set(processes)) != len(processes):
                raise ValueError(f"{arm}, {case}: two runs share a process; a process is one run (R2)")
        return self

    def of(self, arm: str, case: str | None = None) -> list[Run]:
        case = case or self.plan.case
        return [run for run in self.runs if run.arm == arm and run.case == case]

    @property
    def exploratory(self) -> bool:
        """Whether runs were added after looking, marked so or beyond the planned number."""
        beyond = any(len(self.of(arm)) > self.plan.runs for arm in (self.plan.base, self.plan.new))
        return beyond or any(run.exploratory for run in self.runs)

    def level(self, arm: str) -> float:
        """The arm's figure: the median over its runs of their medians, in the plan's unit."""
        return float(np.median([np.median(run.samples) for run in self.of(arm)]))


def joint_schedule(plans: Sequence[Plan]) -> list[Slot]:
    """One run order for several plans of one base: every new arm beside the base and its A/A control."""
    first = plans[0]
    for plan in plans:
        if (plan.base, plan.runs, plan.seed) != (first.base, first.runs, first.seed):
            raise BadArgument("plans", plan.new, "plans of one session share base, runs and seed")
    return interleave(
        with_control(first.base, *dict.fromkeys(plan.new for plan in plans)), first.runs, first.seed
    )


def sessions_of(
    plans: Sequence[Plan], runs: Sequence[Run], bounds: Mapping[str, SessionBound], **shared
) -> list[Session]:
    """One session for each plan with the runs that bear on it; `bounds` by case, `shared` as Session's."""
    sessions = []
    for plan in plans:
        arms = with_control(plan.base, plan.new)
        cases = (plan.case, plan.negative_case)
        sessions.append(
            Session(
                plan=plan,
                plan_id=plan.plan_id,
                bound=bounds.get(plan.case),
                runs=[run for run in runs if run.arm in arms and run.case in cases],
                **shared,
            )
        )
    return sessions


def judge_session(session: Session) -> Judgement:
    """The judgement of a session. Refused when it has no right to one (R1, T3, T13)."""
    plan = session.plan
    same_board(session.board_start, session.board_end)
    wrong = [run for run in session.runs if not (run.correct_before and run.correct_after)]
    if wrong:
        when = "before" if not wrong[0].correct_before else "after"
        raise Refused(
            f"run {wrong[0].order} ({wrong[0].arm}, {wrong[0].case}) was incorrect {when} timing",
            fix="mend the arm; a failed check removes every time of the session",
        )
    base, new = session.of(plan.base), session.of(plan.new)
    if not base or not new:
        missing = plan.new if base else plan.base
        raise Refused(f"no run of {missing} at {plan.case}", fix="run the plan's schedule")
    shared = {(run.kernel, run.witness) for run in base} & {(run.kernel, run.witness) for run in new}
    if shared:
        kernel, _ = shared.pop()
        raise Refused(
            f"{plan.base} and {plan.new} both ran {kernel} with one witness: an arm against itself (T3)",
            fix="name the arm as an argument; a flag may have been read once for the whole process",
        )
    control = session.of(plan.base + CONTROL_SUFFIX)
    if session.bound is not None and plan.better == "lower":
        for arm in (plan.base, plan.new):
            within_bound(session.level(arm), session.bound.value, what=f"{arm}, {plan.case}, {plan.unit}")
    ranks = _ranks(session, plan.case)
    return judge(
        _runs(base, ranks),
        _runs(new, ranks),
        _runs(control, ranks) if control else None,
        exploratory=session.exploratory,
        minimum_effect=plan.minimum_effect,
        better=plan.better,
        resolution=session.resolution,
        block_mhz=_block_mhz(session, plan.case),
        second_clock=_second(base, new),
        negative=_negative(session),
        unsettled_share=float(np.mean([not run.settled for run in session.runs])),
    )


def _ranks(session: Session, case: str) -> Mapping[int, int]:
    """Place in the session's order among the runs of one case: cases may alternate within a block."""
    return {run.order: rank for rank, run in enumerate(run for run in session.runs if run.case == case)}


def _runs(runs: list[Run], ranks: Mapping[int, int]) -> Runs:
    places = np.array([ranks[run.order] for run in runs], dtype=float)
    lengths = {len(run.samples) for run in runs}
    if len(lengths) == 1:
        return Runs.of_samples(np.array([run.samples for run in runs]), places)
    return Runs(np.array([np.median(run.samples) for run in runs]), places)


def _block_mhz(session: Session, case: str) -> np.ndarray | None:
    """The lowest clock of each block; None when any run's clock was not sampled."""
    runs = [run for run in session.runs if run.case == case]
    clocks = [run.clock_mhz for run in runs]
    size = len({run.arm for run in runs})
    if None in clocks or len(clocks) % size:
        return None
    return np.array(clocks, dtype=float).reshape(-1, size).min(axis=1)


def _second(base: list[Run], new: list[Run]) -> tuple[Runs, Runs] | None:
    if not all(run.second_samples for run in base + new) or len(base) != len(new):
        return None
    return tuple(Runs(np.array([np.median(run.second_samples) for run in side])) for side in (base, new))


def _negative(session: Session) -> tuple[Runs, Runs] | None:
    """Base and new of the case out of reach; a plan that names one and did not run it is refused."""
    plan = session.plan
    if plan.negative_case is None:
        return None
    base, new = session.of(plan.base, plan.negative_case), session.of(plan.new, plan.negative_case)
    if len(base) < 2 or len(new) < 2:
        raise Refused(
            f"negative control {plan.negative_case}: {len(base)} and {len(new)} runs",
            fix="run it interleaved with the case under study, at least 2 runs a side",
        )
    ranks = _ranks(session, plan.negative_case)
    return _runs(base, ranks), _runs(new, ranks)
