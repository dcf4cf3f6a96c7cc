"""Notebooks 03 and 04: what arms do on decode steps of a model, and how two of them compare by counts."""

from collections.abc import Sequence

from hipbook.boards.base import Board
from hipbook.measure import counts
from hipbook.measure.counts import CountVerdict
from hipbook.ops import models
from hipbook.ops.attention_call import DTYPES, AttentionCall
from hipbook.ops.models import Model
from hipbook.oracle.decode_step import decode_call
from hipbook.profile.job import subject as subject_name
from hipbook.report import tables
from hipbook.studies.arms import ArmRun, run_arms

# Columns of a stacked bar, in order: what each is, and the counters it adds up. Every wave instruction
# is in exactly one.
CLASS_COUNTERS = {
    "vector ALU": ("SQ_INSTS_VALU",),
    "scalar ALU": ("SQ_INSTS_SALU",),
    "memory": ("SQ_INSTS_VMEM", "SQ_INSTS_SMEM", "INSTS_CACHE"),
    "LDS": ("SQ_INSTS_LDS",),
    "branch": ("SQ_INSTS_BRANCH",),
    "barrier, wait, hint": ("INSTS_INTERNAL",),
}
CLASSES = tuple(CLASS_COUNTERS)


def step_call(shape: Model, seq_lens: Sequence[int], *, dtype: str = "bf16", seed: int = 0) -> AttentionCall:
    """One decode step of one layer of a model."""
    q_heads, kv_heads = shape.heads()
    return decode_call(
        seq_lens,
        num_q_heads=q_heads,
        num_kv_heads=kv_heads,
        head_dim=shape.head_dim,
        dtype=DTYPES[dtype],
        seed=seed,
    )


def sweep(
    model: str, arms: Sequence[str], keys: Sequence[int], board: Board, *, dtype: str = "bf16", seed: int = 0
) -> list[ArmRun]:
    """Every arm at every context length, arm by arm."""
    by_keys = [run_arms(step_call(models.get(model), [n], dtype=dtype, seed=seed), arms, board) for n in keys]
    return [runs[i] for i in range(len(arms)) for runs in by_keys]


def keys_of(run: ArmRun) -> int:
    """Context of the run's longest sequence."""
    return int(run.call.seq_lens.max())


def subject(run: ArmRun) -> str:
    return subject_name(run.arm, keys_of(run))


def classes(run: ArmRun) -> dict[str, int]:
    """Wave instructions by class; they add up to all of them."""
    totals = run.counters.totals
    return {name: sum(totals[counter] for counter in parts) for name, parts in CLASS_COUNTERS.items()}


def row(run: ArmRun) -> dict[str, object]:
    """All that the notebooks show of one run."""
    totals, expected = run.counters.totals, run.expected
    per = keys_of(run) * run.call.num_q_heads
    return {
        "arm": run.arm,
        "keys": keys_of(run),
        "barriers per wave": totals["BARRIERS"] // totals["SQ_WAVES"],
        "live lanes": f"{run.live_lanes} of {run.lanes}",
        "K+V bytes": run.kv_bytes,
        "expected bytes": expected.kv_bytes,
        "floor": expected.floor_bytes,
        "of the floor": run.kv_bytes / expected.floor_bytes,
        "wave instructions": totals["SQ_INSTS"],
        "per key and head": round(totals["SQ_INSTS"] / per, 1),
        "active lanes": round(totals["VALU_ACTIVE_LANES"] / totals["SQ_INSTS_VALU"], 1),
        **classes(run),
    }


def rows(runs: Sequence[ArmRun]) -> list[dict[str, object]]:
    """A row of each run that was counted: none on a board without counters."""
    return [row(run) for run in runs if run.result.dispatch.counters is not None]


def table(counted: Sequence[dict[str, object]], columns: Sequence[str]) -> str:
    """Columns of `rows`; one line where the board counts nothing."""
    if not counted:
        return "this board does not count: take an emulated one for instructions, bytes and barriers"
    return tables.text(counted, columns)


def hottest(run: ArmRun, count: int) -> list[tuple[str, int]]:
    """The opcodes executed most often, with their counts; ties in name order."""
    ordered = sorted(run.counters.opcodes.items(), key=lambda item: (-item[1], item[0]))
    return ordered[:count]


def pairs(
    model: str, base: str, new: str, keys: Sequence[int], board: Board, *, seed: int = 0
) -> list[tuple[ArmRun, ArmRun]]:
    """Both arms on the same call, at each context length."""
    return [tuple(run_arms(step_call(models.get(model), [n], seed=seed), [base, new], board)) for n in keys]


def compare_counts(before: ArmRun, after: ArmRun) -> dict[str, list[CountVerdict]]:
    """Verdicts on what follows from the source ("stable") and on what also depends on the compiler."""

    def total(name: str) -> tuple[int, int]:
        return before.counters.totals[name], after.counters.totals[name]

    return {
        "stable": [
            counts.counts("K and V bytes asked for", before.kv_bytes, after.kv_bytes),
            counts.counts("barriers passed by all waves", *total("BARRIERS")),
            counts.counts("waves launched", *total("SQ_WAVES")),
        ],
        "toolchain": [
            counts.counts("wave instructions", *total("SQ_INSTS")),
            counts.counts("vector instructions", *total("SQ_INSTS_VALU")),
            counts.counts("LDS instructions", *total("SQ_INSTS_LDS")),
        ],
    }
