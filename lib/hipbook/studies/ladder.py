"""Notebook 10's main table: what each change between `online` and `decode_gqa` does to the counts.

One step of the ladder is one change; the last is reuse. Counts say what a change removes; they have no clock.
"""

from collections.abc import Mapping, Sequence

from hipbook.boards.base import Board
from hipbook.errors import BadArgument
from hipbook.measure import counts
from hipbook.notebooks.investigation import Investigation
from hipbook.ops.attention_ladder import ALL_ARMS, LADDER
from hipbook.ops.models import Model
from hipbook.oracle import traffic
from hipbook.studies.arms import ArmRun, run_arms
from hipbook.studies.profile import classes, keys_of, step_call

ARMS = (*LADDER, "decode_gqa")
# What each arm changes of the one before it.
CHANGES = {
    "online": "(the baseline)",
    "online_shuffle": "barriers: lane moves for the tree",
    "online_wide": "idle lanes: the row over all threads",
    "online_tile": "rescaling: once a tile of 16 keys",
    "decode": "no step: a wave takes a key",
    "decode_gqa": "reuse: a row for all heads of a group",
}
# What is attributed: name, and how it is read from a run.
QUANTITIES = ("barriers", "idle lanes", "wave instructions", "scalar ALU", "K+V bytes")
PANELS = {
    "barriers per wave and key": "barriers a wave and key",
    "idle lanes, %": "% of lanes that never load a key",
    "instructions per key and head": "wave instructions, key and head",
    "bytes per key and head": "K+V bytes, key and head",
}


def keep(run: Investigation, runs: Sequence[ArmRun]) -> None:
    """Launches, correctness, barriers as foretold, and instructions into the record."""
    for one, row in zip(runs, table(runs), strict=True):
        where = f"ladder: {one.arm}, {keys_of(one)} keys"
        run.ran(one.result.dispatch, subject=where, arm=one.arm, expected=ALL_ARMS[one.arm].witness,
                witness=one.witness)  # fmt: skip
        run.verdict(where, one.correctness, expected="CORRECT")
        foretold = counts.counts("barriers per wave", row["foretold"], row["barriers per wave"])
        run.verdict(where, foretold, expected="COUNTS_EQUAL")
        run.fact(where, "wave instructions", one.counters.totals["SQ_INSTS"], "instructions")


def climb(shape: Model, keys: int, board: Board, *, dtype: str, seed: int) -> list[ArmRun]:
    """Every arm of the ladder on one decode step of one layer, each held to the oracle."""
    runs = run_arms(step_call(shape, [keys], dtype=dtype, seed=seed), ARMS, board)
    wrong = [f"{run.arm}: {run.comparison.why}" for run in runs if not run.comparison.passed]
    if wrong:
        raise BadArgument("arms", wrong[0], "nothing is counted for a result that is not right")
    return runs


def table(runs: Sequence[ArmRun]) -> list[dict[str, object]]:
    """One arm a row: what follows from the sources, whatever compiler built them."""
    return [
        {
            "arm": run.arm,
            "changes": CHANGES[run.arm],
            "barriers per wave": _barriers(run),
            "foretold": traffic.barriers_per_wave(run.arm, run.call.head_dim, keys_of(run)),
            "live lanes": f"{run.live_lanes} of {run.lanes}",
            "K+V bytes per key and head": run.kv_bytes // _work(run),
        }
        for run in runs
    ]


def instructions(runs: Sequence[ArmRun]) -> list[dict[str, object]]:
    """Wave instructions per key and query head, by class: these depend on the compiler too."""
    rows = []
    for run in runs:
        per = {name: round(count / _work(run), 1) for name, count in classes(run).items()}
        totals = run.counters.totals
        rows.append(
            {
                "arm": run.arm,
                "instructions": round(totals["SQ_INSTS"] / _work(run), 1),
                **per,
                "active lanes": round(totals["VALU_ACTIVE_LANES"] / totals["SQ_INSTS_VALU"], 1),
            }
        )
    return rows


def shares(runs: Sequence[ArmRun], quantities: Sequence[str] = QUANTITIES) -> list[dict[str, object]]:
    """Of what lies between the first arm and the last, the percentage that each change takes away.

    A negative share: the change added to the quantity. A column adds up to 100.
    """
    amounts = [_amounts(run) for run in runs]
    rows = []
    for run, before, after in zip(runs[1:], amounts, amounts[1:], strict=False):
        row: dict[str, object] = {"arm": run.arm, "change": CHANGES[run.arm]}
        for name in quantities:
            whole = amounts[0][name] - amounts[-1][name]
            row[f"{name}, %"] = round(100 * (before[name] - after[name]) / whole, 1) if whole else None
        rows.append(row)
    return rows


def answer(runs: Sequence[ArmRun]) -> list[str]:
    """Sentences: for each quantity, the change that takes most of it away, with its counts."""
    amounts, told = [_amounts(run) for run in runs], []
    for name in QUANTITIES:
        drops = [(b[name] - a[name], r.arm, b[name], a[name])
                 for r, b, a in zip(runs[1:], amounts, amounts[1:], strict=False)]  # fmt: skip
        drop, arm, before, after = max(drops)
        whole = amounts[0][name] - amounts[-1][name]
        told.append(f"{name}: most go with {arm} ({CHANGES[arm]}): {before:,} to {after:,}, "
                    f"{100 * drop / whole:.0f} % of what the ladder removes")  # fmt: skip
    return told


def picture(runs: Sequence[ArmRun]) -> list[dict[str, object]]:
    """Rows for the figure: PANELS' columns."""
    return [
        {
            "arm": run.arm,
            "barriers per wave and key": _barriers(run) / keys_of(run),
            "idle lanes, %": 100 * (1 - run.live_lanes / run.lanes),
            "instructions per key and head": run.counters.totals["SQ_INSTS"] / _work(run),
            "bytes per key and head": run.kv_bytes / _work(run),
        }
        for run in runs
    ]


def _amounts(run: ArmRun) -> Mapping[str, int]:
    """QUANTITIES of the whole launch. Idle lanes: of all workgroups' lanes, those that never load from K."""
    x, y, z = run.result.dispatch.grid
    parts, totals = classes(run), run.counters.totals
    return {
        "barriers": totals["BARRIERS"],
        "idle lanes": (run.lanes - run.live_lanes) * x * y * z,
        "wave instructions": totals["SQ_INSTS"],
        "scalar ALU": parts["scalar ALU"],
        "K+V bytes": run.kv_bytes,
    }


def _barriers(run: ArmRun) -> int:
    totals = run.counters.totals
    if totals["BARRIERS"] % totals["SQ_WAVES"]:
        raise BadArgument("arm", run.arm, "its waves do not all pass the same number of barriers")
    return totals["BARRIERS"] // totals["SQ_WAVES"]


def _work(run: ArmRun) -> int:
    return keys_of(run) * run.call.num_q_heads
