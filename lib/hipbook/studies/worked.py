"""Worked examples of the decision tree for times, on figures that public reports give.

None of these times was measured here; they show what the words mean and when a word is withheld.
"""

from dataclasses import dataclass

from hipbook.errors import Refused
from hipbook.measure.judge import Runs, judge
from hipbook.measure.stability import figure
from hipbook.records import reported

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


def _text(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
