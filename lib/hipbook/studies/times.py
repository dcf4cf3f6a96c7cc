"""Notebook 16: what arms cost on a board that has a clock, and how near each is to its bound.

On a GPU board the notebook measures; on any other it reads the newest record of the same question from
data/measured and says which board and when. A figure is a level (the median over processes of their
medians) with the bound of its own session beside it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hipbook import paths, records
from hipbook.boards.gpu import GpuBoard
from hipbook.errors import BadArgument
from hipbook.measure import counts
from hipbook.measure.clocks import Cache
from hipbook.measure.intervals import student
from hipbook.measure.schedule import CONTROL_SUFFIX
from hipbook.measure.session import Session, judge_session
from hipbook.measure.verdict import Word
from hipbook.notebooks.investigation import Investigation
from hipbook.ops import models
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.oracle import traffic
from hipbook.records import Record
from hipbook.studies import gpu_figures, ladder
from hipbook.studies.arms import run_arms
from hipbook.studies.profile import step_call
from hipbook.studies.timing.session import METRIC, Measured, measure
from hipbook.studies.timing.suite import find_suite

MADE_BY = "16_time_on_a_board"
DEFAULT = "default"  # a parameter that leaves the choice to the suite
Row = dict[str, Any]
COUNTED_MODEL = "Qwen3-0.6B"
COUNTED_KEYS = ([38], [1024], [1024] * 4)
COUNTED_ARMS = ("decode_gqa", "split_kv")
LADDER_CASE = "1x1024"
LADDER_BASE = "decode"

# Shapes, arms and predictions of a suite when the parameters leave them open. Predictions are the word
# expected for `arm` against the base, written before the first session was run.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "attention_decode": {
        "shapes": [
            "1x38", "1x1024", "1x4096", "1x8192", "8x1024", "8x8192", "16x1024", "64x1024", "64x4096",
            "256x1024", "256x4096",
        ],
        "base": "auto",
        "others": ["decode_gqa", "flashinfer", "flashinfer_tc", "vllm_2d", "vllm_unified"],
        "predictions": {
            "decode_gqa": Word.SLOWER, "vllm_2d": Word.SLOWER, "vllm_unified": Word.SLOWER,
            "flashinfer": Word.SLOWER, "flashinfer_tc": Word.SLOWER, "online": Word.SLOWER,
            "decode": Word.SLOWER,
        },
    },
    "quantize_q8k": {
        "shapes": ["1x2048", "1x4096", "8x4096", "8192x4096"],
        "base": "wave",
        "others": ["block", "serial"],
        "predictions": {"block": Word.SLOWER, "serial": Word.SLOWER},
    },
    "gdn_post_conv": {
        "shapes": ["1", "16", "1024"],
        "base": "wave",
        "others": ["chunked", "serial"],
        "predictions": {"chunked": Word.SLOWER, "serial": Word.SLOWER},
    },
}  # fmt: skip


def settings(suite: str, shapes: Sequence[str], base: str, others: Sequence[str]) -> Row:
    """The suite's defaults with what was given instead; `BadArgument` for a suite nobody knows."""
    find_suite(suite)
    given = {"shapes": list(shapes), "base": base, "others": list(others)}
    kept = {name: value for name, value in given.items() if value not in (DEFAULT, [DEFAULT])}
    return {**DEFAULTS[suite], **kept}


def run_sessions(
    run: Investigation, suite: str, chosen: Row, parameters: Row, *, processes: int, cache: str, seed: int
) -> Measured:
    """Measure on the run's board, and keep sessions, levels and rates in its record."""
    if not isinstance(run.board, GpuBoard):
        raise BadArgument("board", run.board.name, "has no clock", fix="name a GPU board")
    taken = measure(
        suite, {**parameters, "shapes": chosen["shapes"], "seed": seed}, base=chosen["base"],
        others=chosen["others"], board=run.board.name, predictions=chosen["predictions"],
        processes=processes, cache=Cache(cache), seed=seed,
    )  # fmt: skip
    keep(run, taken)
    return taken


def keep(run: Investigation, taken: Measured) -> None:
    """Sessions, every level with its bound, rates and the empty launch."""
    operation = find_suite(taken.suite).operation
    for session in taken.sessions:
        run.session(session)
    for level in taken.levels:
        bound = (
            None
            if level.floor_us is None
            else (level.floor_us, f"{level.moved_bytes:,} B at {level.of} rate")
        )
        run.fact(
            f"{operation} {level.arm}, {level.case}", METRIC, round(level.time_us, 4), "us", kind="measured",
            bound=bound,
        )  # fmt: skip
    for name, gb_s in taken.rates_gb_s.items():
        run.fact(
            f"rate of {name}",
            "measured bandwidth, best of all kernels and processes",
            gb_s,
            "GB/s",
            kind="measured",
        )
    run.fact("empty launch", METRIC, round(taken.empty_launch_us, 4), "us", kind="measured")
    for case, arms in taken.absent.items():
        for arm, why in arms.items():
            run.not_claimed(f"{arm} at {case}: not timed: {why}")
    for case, arms in taken.wrong.items():
        for arm, why in arms.items():
            run.not_claimed(f"{arm} at {case}: not timed: wrong ({why})")


def newest(suite: str, wanted: Row, folder: Path | None = None) -> Record | None:
    """The newest record of this notebook on a GPU board with the same suite and parameters."""

    def asked(record: Record) -> bool:
        same = all(record.parameters.get(name) == value for name, value in {"suite": suite, **wanted}.items())
        return record.made_by == MADE_BY and bool(record.sessions) and same

    found = gpu_figures.newest_of(asked, folder)
    return found[1] if found else None


def ladder_rows(record: Record | None, counts_file: Path | None = None) -> list[Row]:
    """Rungs of the ladder at LADDER_CASE: time on the GPU board of `record`, wave instructions as notebook 10
    counted them, and of both the share of the whole fall that each change brought. [] without the record."""
    if record is None:
        return []
    told_by = records.read(counts_file or paths.data() / "measured" / "10_paged_attention_gap.record.json")
    counted_of = {
        fact.subject.removeprefix("ladder: ").partition(",")[0]: fact.value
        for fact in told_by.facts
        if fact.subject.startswith("ladder: ") and fact.quantity == "wave instructions"
    }
    us = {row["arm"]: row["us"] for row in long_rows(record.sessions) if row["case"] == LADDER_CASE}
    missing = [arm for arm in ladder.ARMS if arm not in us or arm not in counted_of]
    if missing:
        raise BadArgument("record", record.board["name"], f"lacks {', '.join(missing)} at {LADDER_CASE}")
    first, last = ladder.ARMS[0], ladder.ARMS[-1]
    rows, before = [], first
    for arm in ladder.ARMS:
        row: Row = {"arm": arm, "change": ladder.CHANGES[arm], "us": us[arm], "instructions": counted_of[arm]}
        for name, of in (("of the time, %", us), ("of the instructions, %", counted_of)):
            row[name] = (
                None if arm == first else round(100 * (of[before] - of[arm]) / (of[first] - of[last]), 1)
            )
        rows.append(row)
        before = arm
    return rows


def told(record: Record | None) -> str:
    """Which board, and when; or that there is no record."""
    return gpu_figures.NONE if record is None else gpu_figures.words(record)


def comparisons(sessions: Sequence[Session]) -> list[Row]:
    """A row for each case and arm against the base: levels, ratio with its interval, verdict, prediction."""
    rows = []
    for session in sessions:
        plan, judged = session.plan, judge_session(session)
        low, high = judged.interval
        rows.append(
            {
                "case": plan.case,
                "base": plan.base,
                f"base {plan.unit}": session.level(plan.base),
                "arm": plan.new,
                plan.unit: session.level(plan.new),
                "base is": f"{1 / judged.ratio:.3f} times as fast ({1 / high:.3f} .. {1 / low:.3f})",
                "times": 1 / judged.ratio,
                "arm is": str(judged.verdict.word),
                "foretold": str(plan.prediction or "-"),
                "A/A": "-" if judged.noise_floor is None else f"{judged.noise_floor:.2%}",
            }
        )
    return rows


def by_case(sessions: Sequence[Session]) -> list[Row]:
    """A row a case: floor, the base with its share of the bound, and every other arm's time."""
    rows: dict[str, Row] = {}
    for session in sessions:
        plan = session.plan
        row = rows.setdefault(
            plan.case,
            {
                "case": plan.case,
                "bound us": session.bound.value,
                plan.base: session.level(plan.base),
                "of the bound": f"{session.bound.value / session.level(plan.base):.1%}",
            },
        )
        row[plan.new] = session.level(plan.new)
    arms = list(dict.fromkeys(name for row in rows.values() for name in row))
    return [{name: row.get(name) for name in arms} for row in rows.values()]


def long_rows(sessions: Sequence[Session]) -> list[Row]:
    """A row for each case and arm: share of the bound, for the picture."""
    rows: dict[tuple[str, str], Row] = {}
    for session in sessions:
        plan = session.plan
        for arm in (plan.base, plan.new):
            share = 100 * session.bound.value / session.level(arm)
            rows[plan.case, arm] = {"case": plan.case, "arm": arm, "share": share, "us": session.level(arm)}
    return list(rows.values())


def aa_named(sessions: Sequence[Session]) -> tuple[int, int]:
    """(A/A controls, those whose control would have been named FASTER or SLOWER): R4's own test."""
    seen: dict[str, str] = {}
    for session in sessions:
        plan = session.plan
        control = plan.base + CONTROL_SUFFIX
        if plan.case in seen or not session.of(control):
            continue
        seen[plan.case] = control_word(session, control)
    return len(seen), sum(word in (Word.FASTER, Word.SLOWER) for word in seen.values())


def control_word(session: Session, control: str) -> str:
    """The word an A/A pair would get from the tree, against no noise floor but the minimum effect."""
    base = np.log([np.median(run.samples) for run in session.of(session.plan.base)])
    again = np.log([np.median(run.samples) for run in session.of(control)])
    estimate = student(base - again)
    low, high = float(estimate.low), float(estimate.high)
    if low > 0 and float(estimate.mean) > np.log1p(session.plan.minimum_effect):
        return Word.FASTER
    if high < 0 and float(estimate.mean) < -np.log1p(session.plan.minimum_effect):
        return Word.SLOWER
    return Word.EQUIVALENT


def counted(run: Investigation) -> list[Row]:
    """Our decode arms at small shapes on a board that counts, held to the oracle, their bytes to the floor.

    Keeps launches, verdicts and bytes in the run's record.
    """
    rows = []
    for keys in COUNTED_KEYS:
        case = f"{len(keys)}x{keys[0]}"
        for one in run_arms(step_call(models.get(COUNTED_MODEL), keys), COUNTED_ARMS, run.board):
            subject, floor = f"{one.arm}, {case}", traffic.floor_bytes(one.call)
            run.ran(
                one.result.dispatch, subject=subject, arm=one.arm, expected=ALL_ARMS[one.arm].witness,
                witness=one.witness,
            )  # fmt: skip
            run.verdict(subject, one.correctness, expected="CORRECT")
            run.verdict(
                f"{subject}: K and V bytes",
                counts.counts("K and V bytes", floor, one.kv_bytes),
                expected="COUNTS_EQUAL",
            )
            run.fact(
                subject, "K and V bytes asked for", one.kv_bytes, "B", bound=(floor, "each key read once")
            )
            x, y, z = one.result.dispatch.grid
            rows.append(
                {
                    "case": case,
                    "arm": one.arm,
                    "result": str(one.correctness.word),
                    "values": one.comparison.values_compared,
                    "workgroups": x * y * z,
                    "K+V bytes": one.kv_bytes,
                    "of the floor": one.kv_bytes / floor,
                }
            )
    return rows
