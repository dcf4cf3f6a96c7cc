"""The comparison of two arms (one record's sessions) or of two records, as data.

Two arms were timed in one session, so their lines carry R5's words. Two records were not: their exact
counts are compared with R10's words, and their times are shown with the reason why two sessions cannot
carry a verdict. comparison_text.py and comparison_figure.py show it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hipbook.errors import BadArgument
from hipbook.measure.comparable import Difference, differences
from hipbook.measure.counts import CountVerdict, counts
from hipbook.measure.families import correct, holm
from hipbook.measure.judge import Judgement, Runs, judge
from hipbook.measure.session import Session, judge_session
from hipbook.records import store
from hipbook.records.recheck import recheck
from hipbook.records.schema import Fact, Record


@dataclass(frozen=True)
class TimeLine:
    """One case of two arms (or of two records), timed."""

    case: str
    base: float  # level, in `unit`
    new: float
    unit: str
    judgement: Judgement
    run_ratios: tuple[float, ...]  # one a block: the dots of the figure
    bound: str | None  # "61.7 us: ..." or None where none was derived
    base_of_bound: float | None  # bound / level: 1 is the bound reached
    new_of_bound: float | None
    prediction: str | None


@dataclass(frozen=True)
class CountLine:
    """One exact count in both records."""

    subject: str
    quantity: str
    verdict: CountVerdict


@dataclass(frozen=True)
class Comparison:
    """All that a report of a comparison says."""

    question: str
    base: str  # what is compared: an arm, or a record's file
    new: str
    boards: tuple[str, ...]
    times: tuple[TimeLine, ...] = ()
    counted: tuple[CountLine, ...] = ()
    environment: tuple[Difference, ...] = ()  # differences that are not the factor under study
    factor: str | None = None
    correction: str = "none"
    not_claimed: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = field(default=())  # facts that only one record has

    @property
    def made(self) -> int:
        """The number of comparisons made, of times and of counts (R13)."""
        return len(self.times) + len(self.counted)


def of_arms(
    record: Record, arms: tuple[str, str] | None = None, *, name: str = "record", method=holm
) -> Comparison:
    """The arms of one record: timed in its sessions and, for a named pair (base, new), counted in its facts.

    Without a pair, every session is shown. BadArgument when the record holds nothing of them.
    """
    recheck(record, name)
    sessions = [one for one in record.sessions if arms is None or (one.plan.base, one.plan.new) == arms]
    pairs = [(session.plan.base, session.plan.new) for session in sessions] or ([arms] if arms else [])
    lines = _time_lines(sessions, method)
    counted, _ = _counted(*(_of_arm(record.facts, arm) for arm in arms)) if arms else ([], [])
    if not lines and not counted:
        rule = f"holds no measuring session and no count of both {' and '.join(arms)}" if arms else (
            "holds no measuring session"
        )  # fmt: skip
        raise BadArgument("record", name, rule, fix="name two of its arms (base,new), or compare two records")
    return Comparison(
        question=record.question,
        base=", ".join(dict.fromkeys(base for base, _ in pairs)),
        new=", ".join(dict.fromkeys(new for _, new in pairs)),
        boards=(str(record.board.get("name")),),
        times=tuple(lines),
        counted=tuple(counted),
        factor="arm",
        correction=method.__name__.replace("_", "-").title(),
        not_claimed=tuple(record.not_claimed),
    )


def of_sessions(sessions: Sequence[Session], *, question: str, method=holm) -> Comparison:
    """Sessions that no record holds yet: what a notebook shows of its own, simulated ones included."""
    if not sessions:
        raise BadArgument("sessions", "[]", "a comparison needs at least one measuring session")
    return Comparison(
        question=question,
        base=", ".join(dict.fromkeys(session.plan.base for session in sessions)),
        new=", ".join(dict.fromkeys(session.plan.new for session in sessions)),
        boards=tuple(dict.fromkeys(str(session.board_start.get("name")) for session in sessions)),
        times=tuple(_time_lines(sessions, method)),
        factor="arm",
        correction=method.__name__.replace("_", "-").title(),
    )


def of_records(
    base: Record, new: Record, *, names: tuple[str, str] = ("A", "B"), factor: str | None = None
) -> Comparison:
    """Two records: counts exactly, times without a verdict, and everything else in which they differ.

    `factor` is the dotted name of what is meant to differ (`parameters.arm`, `board`, `environment.commit`).
    """
    sides = [_context(record) for record in (base, new)]
    found = differences(*sides)
    if factor is not None:
        found = [one for one in found if not (one.name == factor or one.name.startswith(factor + "."))]
    counted, unmatched = _counted(base.facts, new.facts)
    questions = list(dict.fromkeys((base.question, new.question)))
    return Comparison(
        question=" / ".join(questions),
        base=names[0],
        new=names[1],
        boards=tuple(str(record.board.get("name")) for record in (base, new)),
        times=tuple(_across(base.sessions, new.sessions)),
        counted=tuple(counted),
        environment=tuple(found),
        factor=factor,
        not_claimed=tuple(dict.fromkeys((*base.not_claimed, *new.not_claimed))),
        unmatched=tuple(unmatched),
    )


def of_files(
    base: Path, new: Path | None = None, *, arms: tuple[str, str] | None = None, factor: str | None = None
) -> Comparison:
    """`hipbook compare`: one record's arms, or two records."""
    if new is None:
        return of_arms(store.read(base), arms, name=base.name)
    if arms is not None:
        raise BadArgument("arms", arms, "two arms of one record, or two records, not both")
    records = [store.read(path) for path in (base, new)]
    for record, path in zip(records, (base, new), strict=True):
        recheck(record, path.name)
    names = (base.name, new.name) if base.name != new.name else (str(base), str(new))
    return of_records(*records, names=names, factor=factor)


def _time_lines(sessions: Sequence[Session], method) -> list[TimeLine]:
    """One line a session, its p corrected for how many there are."""
    judgements = correct([judge_session(session) for session in sessions], method)
    several = len({(session.plan.base, session.plan.new) for session in sessions}) > 1
    return [
        _time_line(session, judgement, several)
        for session, judgement in zip(sessions, judgements, strict=True)
    ]


def _time_line(session: Session, judgement: Judgement, several: bool) -> TimeLine:
    plan = session.plan
    base, new = session.level(plan.base), session.level(plan.new)
    bound = session.bound
    levels = [[float(np.median(run.samples)) for run in session.of(arm)] for arm in (plan.base, plan.new)]
    ratios = [b / n if plan.better == "lower" else n / b for b, n in zip(*levels, strict=False)]
    case = f"{plan.case}, {plan.cache}"
    return TimeLine(
        case=f"{plan.new} / {plan.base}, {case}" if several else case,
        base=base,
        new=new,
        unit=plan.unit,
        judgement=judgement,
        run_ratios=tuple(ratios),
        bound=None if bound is None else f"{bound.value:.4g} {plan.unit} ({bound.what})",
        base_of_bound=None if bound is None else bound.value / base,
        new_of_bound=None if bound is None else bound.value / new,
        prediction=plan.prediction,
    )


def _across(base: Sequence[Session], new: Sequence[Session]) -> list[TimeLine]:
    """Arms and cases both records timed: two sessions, so no order and no verdict (R3)."""
    lines = []
    theirs = {_arm_case(session, arm): (session, arm) for session in new for arm in _arms(session)}
    ours = {_arm_case(session, arm): (session, arm) for session in base for arm in _arms(session)}
    for key, (session, arm) in ours.items():
        if key not in theirs:
            continue
        other, _ = theirs[key]
        plan = session.plan
        sides = [Runs(np.array([np.median(run.samples) for run in one.of(arm)])) for one in (session, other)]
        judgement = judge(*sides, better=plan.better, minimum_effect=plan.minimum_effect)
        levels = [one.level(arm) for one in (session, other)]
        bounds = [
            one.bound.value / level if one.bound else None
            for one, level in zip((session, other), levels, strict=True)
        ]
        lines.append(
            TimeLine(
                case=f"{arm}, {plan.case}, {plan.cache}",
                base=levels[0],
                new=levels[1],
                unit=plan.unit,
                judgement=judgement,
                run_ratios=(),
                bound=None
                if session.bound is None
                else f"{session.bound.value:.4g} {plan.unit} ({session.bound.what})",
                base_of_bound=bounds[0],
                new_of_bound=bounds[1] if bounds[0] is not None else None,
                prediction=None,
            )
        )
    return lines


def _arms(session: Session) -> tuple[str, str]:
    return session.plan.base, session.plan.new


def _arm_case(session: Session, arm: str) -> tuple:
    plan = session.plan
    return arm, plan.case, plan.cache, plan.clock, plan.metric, plan.unit


def _context(record: Record) -> dict:
    """All of a record in which two may differ without it being a result."""
    binaries = {f"{one.arch} {' '.join(one.flags)}": one.sha256[:12] for one in record.code_objects}
    return {
        "parameters": record.parameters,
        "board": record.board,
        "toolchain": record.toolchain,
        "binaries": binaries,
        "environment": record.environment.model_dump(mode="json"),
    }


def _counted(base: Sequence[Fact], new: Sequence[Fact]) -> tuple[list[CountLine], list[str]]:
    """Whole exact facts both records hold, compared; and the names of those only one holds."""
    sides = [
        {(f.subject, f.quantity, f.unit): f for f in facts if f.kind == "exact"} for facts in (base, new)
    ]
    lines = []
    for key, fact in sides[0].items():
        other = sides[1].get(key)
        if other is None or not (_whole(fact) and _whole(other)):
            continue
        subject, quantity, _ = key
        lines.append(CountLine(subject, quantity, counts(quantity, int(fact.value), int(other.value))))
    lonely = sorted(sides[0].keys() ^ sides[1].keys())
    return lines, [f"{subject}: {quantity}" for subject, quantity, _ in lonely]


def _of_arm(facts: Sequence[Fact], arm: str) -> list[Fact]:
    """Facts about one arm, by what follows its name: `decode, 1024 keys` is `1024 keys` of `decode`."""
    return [
        one.model_copy(update={"subject": one.subject[len(arm) + 2 :] or "all"})
        for one in facts
        if one.subject == arm or one.subject.startswith(f"{arm}, ")
    ]


def _whole(fact: Fact) -> bool:
    return float(fact.value).is_integer() and fact.value >= 0
