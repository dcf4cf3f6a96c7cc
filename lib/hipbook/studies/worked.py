"""Notebook 04: worked examples of the decision tree for times, and the arms of a record already made.

No time here was measured by us. Reported figures show when a word is withheld; simulated sessions, whose
true ratio is known because it was put in, show when each word is earned.
"""

from dataclasses import dataclass

from hipbook import paths
from hipbook.errors import BadArgument, Refused
from hipbook.measure.calibration import RUN_TO_RUN, WORLDS
from hipbook.measure.judge import Runs, judge
from hipbook.measure.session import Plan, Session, judge_session
from hipbook.measure.simulated import simulated_session
from hipbook.measure.stability import figure
from hipbook.records import reported, store
from hipbook.report import comparison_text
from hipbook.report.comparison import of_files

PRINTED_STEP_MS = 0.01  # the reports print milliseconds with two decimals
REPORT = {"source": "mudler/vllm.cpp#767", "quantity": "tpot"}


@dataclass(frozen=True)
class Example:
    title: str
    figures: str
    verdict: str


def _a_b(title: str, model: str, **wanted: str) -> Example:
    off, on = (reported.values(**REPORT, model=model, arm=arm, **wanted) for arm in ("d128 off", "d128 on"))
    found = judge(Runs(off), Runs(on), resolution=PRINTED_STEP_MS)
    told = [str(found), f"why: {found.verdict.why}", *found.outliers, *found.notes]
    return Example(title, f"off {_text(off)} against on {_text(on)} ms", "\n   ".join(told))


def _refused(title: str, arm: str, **wanted: str) -> Example:
    values = reported.values(**REPORT, arm=arm, **wanted)
    try:
        verdict = f"the figure is {figure(values, what=arm, unit='ms', resolution=PRINTED_STEP_MS):g} ms"
    except Refused as refusal:
        verdict = f"refused: {refusal.what}"
    return Example(title, f"{arm}: {_text(values)} ms", verdict)


def examples() -> list[Example]:
    """The control, the flag's own figures, and two repetitions that no figure may stand for."""
    return [
        _a_b("A negative control that seems to move", "Qwen3.5-0.8B"),
        _a_b("A flag that changes TPOT by a factor", "Qwen3-0.6B", workload="1024 in / 128 out, 8 prompts"),
        _refused("Two prompts", "vllm production", workload="1024 in / 128 out, 2 prompts"),
    ]


@dataclass(frozen=True)
class Simulated:
    """A session of 10 runs a side in a world whose true ratio is known."""

    world: str
    true_ratio: float
    session: Session


def simulated(seed: int) -> list[Simulated]:
    """Two worlds that behave and two that do not, each without an effect and with one of 5 %."""
    found = []
    for world in (RUN_TO_RUN, *(one for one in WORLDS if one.drift or one.mode_per == "iteration")):
        for ratio in (1.0, 1.05):
            plan = Plan(
                hypothesis="the new arm is faster",
                base="base",
                new="new",
                case=f"{world.name}, true {ratio:g}",
                metric="time of one launch",
                unit="us",
                seed=seed,
            )
            found.append(Simulated(world.name, ratio, simulated_session(plan, world, ratio=ratio, seed=seed)))
    return found


def judged(sessions: list[Simulated]) -> list[dict[str, object]]:
    """What the tree says of each, beside the ratio that was put in."""
    rows = []
    for one in sessions:
        found = judge_session(one.session)
        low, high = found.interval
        rows.append(
            {
                "simulated world": one.world,
                "true ratio": f"{one.true_ratio:.2f}",
                "ratio": f"{found.ratio:.3f}",
                "95 % interval": f"{low:.3f} .. {high:.3f}",
                "noise floor": f"{found.noise_floor:.1%}",
                "verdict": str(found.verdict),
            }
        )
    return rows


def arms_of_record(name: str, base: str, new: str) -> str:
    """The comparison of two arms of a record, as text; `name` is a path seen from the checkout.

    An empty name and a record without both arms are said in a line; a damaged record, or one of an older
    binary, is refused.
    """
    if not name:
        return "no record was named: `record_file` is empty"
    path = paths.root() / name
    if not path.is_file():
        raise BadArgument("record_file", name, "no such file in the checkout", fix="see data/measured")
    held = {fact.subject.split(",")[0] for fact in store.read(path).facts}
    missing = [arm for arm in (base, new) if arm not in held]
    if missing:
        return f"{path.name} holds nothing about {' and '.join(missing)}: nothing was compared"
    return comparison_text.text(of_files(path, arms=(base, new)))


def _text(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
