"""The decode step's session: what is compared, what was predicted, and whether an arm's advantage grows.

The prediction was written before any run, from how the arms share a GPU's units. A step is the rest of
the model (nearly the same time at 1 and at 16 sequences: weights are read once, and launches cost what
they cost) plus attention. `online` waits: a workgroup walks its keys one at a time between barriers, and
16 sequences bring 256 workgroups for 132 units, so its time hardly grows with concurrency. `split_kv` is
near the memory's rate when it has enough to read: at 16 x 4096 keys it must read 268 MB a layer where one
sequence has 17. Its advantage over `online` therefore shrinks with concurrency, most at long contexts.
`decode_gqa` waits as `online` does, only less: 128 workgroups still find a unit each, and its advantage
stays. (The public report had it the other way round on a GPU of 32 units: its win grew with the batch.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from hipbook.errors import BadArgument
from hipbook.measure.intervals import student
from hipbook.measure.schedule import with_control
from hipbook.measure.session import Plan, Session, SessionBound, judge_session
from hipbook.measure.verdict import Word
from hipbook.ops import models
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.ops.models import Model
from hipbook.qwen3.config import Config, of_folder
from hipbook.qwen3.process import Job, case_name

QUESTION = (
    "What does a decode step cost with each arm, and does the arm's advantage grow or shrink with batch?"
)
MODEL = "Qwen3-0.6B"
BASE, ARMS = "online", ("decode_gqa", "split_kv")
CONCURRENCIES, CONTEXTS = (1, 2, 4, 8, 16), (512, 4096)
PROCESSES, SAMPLES = 6, 24
METRIC = "time per output token"
FLAT = 0.10  # an advantage that changes by less than this is called flat
Row = dict[str, object]


class Trend(StrEnum):
    """How an arm's advantage (the base's time over the arm's) goes from the fewest to the most sequences."""

    GROWS = "grows"
    SHRINKS = "shrinks"
    FLAT = "flat"
    UNCLEAR = "unclear"  # the interval does not decide


PREDICTED = {"decode_gqa": Trend.FLAT, "split_kv": Trend.SHRINKS}  # at every context


def config_of(model: Model) -> Config:
    """The loop's config of a model of data/models; refused where the file does not know enough."""
    values = {
        "vocabulary": model.vocabulary, "hidden": model.hidden, "intermediate": model.intermediate,
        "num_q_heads": model.num_q_heads, "num_kv_heads": model.num_kv_heads, "tied": model.tied_head,
    }  # fmt: skip
    absent = [name for name, value in values.items() if value is None]
    if absent or model.gdn or model.moe:
        why = f"its {', '.join(absent)} are not known" if absent else "it is no dense Qwen3"
        raise BadArgument("model", model.name, f"the decode loop cannot run it: {why}", fix=f"take {MODEL}")
    return Config(name=model.name, layers=model.attention_layers, head_dim=model.head_dim, **values)


def model_named(said: str) -> tuple[Config, str]:
    """(config, folder of its weights): of a checkpoint's folder, or of a model of data/models with ""."""
    if Path(said).is_dir():
        return of_folder(Path(said)), str(Path(said).resolve())
    return config_of(models.get(said)), ""


def job_of(
    config: Config,
    board: str,
    *,
    folder: str = "",
    base: str = BASE,
    arms: Sequence[str] = ARMS,
    concurrencies: Sequence[int] = CONCURRENCIES,
    contexts: Sequence[int] = CONTEXTS,
    processes: int = PROCESSES,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Job:
    """What the session's processes do; what breaks a rule is refused here."""
    for name, values in (("concurrencies", concurrencies), ("contexts", contexts), ("arms", arms)):
        if not values or len(set(values)) != len(values):
            raise BadArgument(name, list(values), "at least one, all different")
    for arm in (base, *arms):
        if arm != "auto" and arm not in ALL_ARMS:
            raise BadArgument("arm", repr(arm), f"must be auto or one of: {', '.join(ALL_ARMS)}")
    if base in arms:
        raise BadArgument("arms", list(arms), f"{base} is the base they are compared with")
    if min(*concurrencies, *contexts) < 1:
        raise BadArgument("concurrencies, contexts", (concurrencies, contexts), "all at least 1")
    if samples < 16 or processes < 2 or processes % 2:
        raise BadArgument("samples, processes", (samples, processes), "at least 16; even, at least 2")
    return Job(
        config=config.as_dict(), folder=folder, dtype="bf16", labels=list(with_control(base, *arms)),
        concurrencies=sorted(concurrencies), contexts=sorted(contexts), processes=processes,
        samples=samples, seed=seed, board=board,
    )  # fmt: skip


def plans_of(job: Job) -> list[Plan]:
    """The comparisons, fixed before the first process starts."""
    base, *arms, _ = job.labels
    return [
        Plan(
            hypothesis=f"a decode step with {arm} takes less time than with {base}",
            base=base, new=arm, case=case_name(job.model.name, *case), metric=METRIC, unit="us",
            runs=job.processes, seed=job.seed, prediction=Word.FASTER,
        )
        for case in job.cases()
        for arm in arms
    ]  # fmt: skip


def bound_of(config: Config, concurrency: int, context: int, read_gb_s: float, of: str) -> SessionBound:
    """The least time of a step: its weights and the K and V of all its keys, in bf16, read once."""
    moved = 2 * (config.read_weights + concurrency * context * config.kv_elements_per_key)
    return SessionBound(
        value=moved / read_gb_s / 1e3,
        what=f"{moved:,} bytes of weights, K and V over {read_gb_s:,.0f} GB/s of measured reads ({of})",
    )


# --- the outcome -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """An arm's advantage at the most sequences over that at the fewest, over processes."""

    arm: str
    context: int
    fewest: float  # the base's time over the arm's, at the fewest sequences
    most: float
    ratio: float  # most / fewest
    interval: tuple[float, float]  # 95 %
    predicted: Trend | None

    @property
    def trend(self) -> Trend:
        low, high = self.interval
        if low > 1 / (1 + FLAT) and high < 1 + FLAT:
            return Trend.FLAT
        if low > 1 and self.ratio >= 1 + FLAT:
            return Trend.GROWS
        if high < 1 and self.ratio <= 1 / (1 + FLAT):
            return Trend.SHRINKS
        return Trend.UNCLEAR

    @property
    def foretold(self) -> str:
        if self.predicted is None:
            return "not predicted"
        return "as predicted" if self.predicted is self.trend else "not as predicted"


def advantages(session: Session) -> np.ndarray:
    """[processes]: the base's time over the arm's, process by process."""
    sides = [
        {run.process: float(np.median(run.samples)) for run in session.of(arm)}
        for arm in (session.plan.base, session.plan.new)
    ]
    both = [process for process in sides[0] if process in sides[1]]
    return np.array([sides[0][process] / sides[1][process] for process in both])


def growths(
    sessions: Sequence[Session], model: str, concurrencies: Sequence[int], contexts: Sequence[int]
) -> list[Growth]:
    """Arm by arm and context by context, from the sessions of a record."""
    at = {(session.plan.new, session.plan.case): session for session in sessions}
    found = []
    for arm in dict.fromkeys(session.plan.new for session in sessions):
        for context in contexts:
            fewest, most = (
                advantages(at[arm, case_name(model, each, context)])
                for each in (min(concurrencies), max(concurrencies))
            )
            change = student(np.log(most) - np.log(fewest))
            found.append(
                Growth(
                    arm, context, float(np.median(fewest)), float(np.median(most)),
                    float(np.exp(change.mean)), (float(np.exp(change.low)), float(np.exp(change.high))),
                    PREDICTED.get(arm),
                )
            )  # fmt: skip
    return found


def growth_rows(found: Sequence[Growth]) -> list[Row]:
    """For a table: prediction beside outcome."""
    return [
        {
            "arm": one.arm, "context": one.context, "advantage at fewest": one.fewest,
            "at most": one.most, "changes by": one.ratio,
            "95 % interval": f"{one.interval[0]:.3f} .. {one.interval[1]:.3f}",
            "predicted": str(one.predicted or "-"), "outcome": str(one.trend), "": one.foretold,
        }
        for one in found
    ]  # fmt: skip


def time_rows(sessions: Sequence[Session]) -> list[Row]:
    """TPOT of base and arm for every comparison, with the floor, the advantage and the verdict."""
    rows = []
    for session in sessions:
        plan, judgement = session.plan, judge_session(session)
        low, high = judgement.interval
        rows.append(
            {
                "case": plan.case, "arm": plan.new,
                f"{plan.base} ms": session.level(plan.base) / 1e3, "arm ms": session.level(plan.new) / 1e3,
                "floor ms": session.bound.value / 1e3 if session.bound else None,
                "advantage": judgement.ratio, "95 % interval": f"{low:.3f} .. {high:.3f}",
                "verdict": str(judgement.verdict), "predicted": str(plan.prediction or "-"),
            }
        )  # fmt: skip
    return rows
