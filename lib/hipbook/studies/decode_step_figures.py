"""Notebook 15: what the newest record of a decode step says, and the traces that lie beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from hipbook.measure import families
from hipbook.measure.counts import CountWord
from hipbook.measure.session import judge_session
from hipbook.notebooks.investigation import Investigation
from hipbook.qwen3.process import case_name
from hipbook.qwen3.tracing import TOKENS, file_name
from hipbook.records import Record
from hipbook.studies import decode_attribution, decode_step, decode_step_check, gpu_figures
from hipbook.studies.decode_step import Growth, Row
from hipbook.studies.decode_step_run import OPERATION
from hipbook.traces.difference import Difference
from hipbook.traces.reconstruction import MS

NONE = "no record of a decode step on a GPU board is in data/measured: `hipbook decode-step run` makes one"


@dataclass(frozen=True)
class Measured:
    """A record of a decode step and the folder it lies in."""

    record: Record
    folder: Path

    @property
    def model(self) -> str:
        return str(self.record.parameters["model"])

    @property
    def concurrencies(self) -> list[int]:
        return list(self.record.parameters["concurrencies"])

    @property
    def contexts(self) -> list[int]:
        return list(self.record.parameters["contexts"])

    @property
    def arms(self) -> list[str]:
        return [str(self.record.parameters["base"]), *map(str, self.record.parameters["arms"])]

    @property
    def told(self) -> str:
        """Board, date and commit in words."""
        return gpu_figures.words(self.record)

    @property
    def times(self) -> list[Row]:
        return decode_step.time_rows(self.record.sessions)

    @property
    def growths(self) -> list[Growth]:
        return decode_step.growths(self.record.sessions, self.model, self.concurrencies, self.contexts)

    def family(self) -> str:
        """How many comparisons there were, and how many still name a difference when corrected (R13)."""
        judgements = [judge_session(session) for session in self.record.sessions]
        named = sum(str(one.verdict.word) in ("FASTER", "SLOWER") for one in families.correct(judgements))
        return f"{len(judgements)} comparisons, {named} name a difference after Holm's correction"

    def lines(self, context: int) -> list[Row]:
        """Rows for a plot at one context: arm, sequences, TPOT in ms, the floor in ms."""
        at = {(session.plan.new, session.plan.case): session for session in self.record.sessions}
        base, *arms = self.arms
        rows = []
        for each in self.concurrencies:
            case = case_name(self.model, each, context)
            for arm in self.arms:
                session = at[arm if arm != base else arms[0], case]
                floor = session.bound.value / 1e3 if session.bound else np.nan
                rows.append(
                    {"arm": arm, "sequences": each, "TPOT ms": session.level(arm) / 1e3, "floor ms": floor}
                )
        return rows

    def traced(self) -> dict[str, Difference]:
        """A token of each arm whose two traces lie beside the record, by differencing."""
        found = {}
        for arm in self.arms:
            low, high = (self.folder / file_name(arm, tokens) for tokens in TOKENS)
            if low.is_file() and high.is_file():
                pair = decode_attribution.pair(str(low), str(high), *TOKENS, seed=0)
                found[arm] = decode_attribution.subtract(pair)
        return found


def newest(folder: Path | None = None) -> Measured | None:
    """The newest record of a GPU board's decode step in data/measured, or in `folder`."""
    found = gpu_figures.newest_file(OPERATION, folder)
    return Measured(found[1], found[0].parent) if found else None


def predictions(arms: Sequence[str]) -> list[Row]:
    """What was written before any run."""
    return [
        {"arm": arm, "a step": "FASTER than with online", "its advantage with more sequences": str(trend)}
        for arm, trend in decode_step.PREDICTED.items()
        if arm in arms
    ]


def token_rows(traced: dict[str, Difference]) -> list[Row]:
    """A token by kernel class, an arm after the other: dispatches and device time."""
    rules, rows = decode_attribution.rules("by_kind"), []
    for arm, found in traced.items():
        rows += [
            {"arm": arm, "class": row["class"], "dispatches": row["calls"], "ms": row["ms"],
             "% of device time": row["% of GPU time"]}
            for row in decode_attribution.class_rows(found, rules)
        ]  # fmt: skip
    return rows


def wall_rows(traced: dict[str, Difference]) -> list[Row]:
    """A token as a whole: device time, wall, dispatches, copies, and what the difference's notes say."""
    return [
        {
            "arm": arm,
            "dispatches": found.dispatches_per_token,
            "device ms": found.gpu_ns_per_token / MS,
            "wall ms": found.wall_ns_per_token / MS,
            "copies": found.copies["Calls_Per_Token"].sum(),
            "kernels of uneven calls": found.kernels.filter(pl.col("Note").str.contains("not even")).height,
        }
        for arm, found in traced.items()
    ]


def keep_checked(run: Investigation, checked: Sequence[decode_step_check.Checked]) -> list[Row]:
    """The loop's checks into the record, and as rows that are the same on every machine."""
    rows = []
    for one in checked:
        dtype = str(one.dtype).removeprefix("torch.")
        verdict = one.verdict
        right = verdict.word is CountWord.CORRECT  # how many leads are wide enough depends on the machine
        reason = f"{one.logits:,} logits compared" if right else verdict.detail
        run.verdict(f"{one.arm}, {dtype}: the loop against float64", verdict.word, reason)
        run.fact(f"{one.arm}, {dtype}", "logits compared", one.logits, "values")
        rows.append({"arm": one.arm, "dtype": dtype, "logits": one.logits, "flips": one.flips,
                     "verdict": str(verdict.word)})  # fmt: skip
    return rows
