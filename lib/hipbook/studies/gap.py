"""Notebook 10: the reported 8.1x, and what the emulated board can say about where it comes from."""

from collections.abc import Mapping, Sequence

from hipbook.boards.base import Board
from hipbook.measure import counts
from hipbook.notebooks.investigation import Investigation
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.ops.models import Model
from hipbook.oracle import traffic
from hipbook.oracle.paged_attention import NMSE_GATE
from hipbook.records import reported as reports
from hipbook.studies.arms import ArmRun, barriers_per_key, run_arms
from hipbook.studies.profile import CLASSES, classes, keys_of, step_call, subject

__all__ = ["CLASSES"]

REPORT = "mudler/vllm.cpp#488"
Runs = Mapping[str, Sequence[ArmRun]]  # by arm, one run a decode step

# Panels of the notebook's picture: column and axis label.
PANELS = {
    "barriers per key": "barriers per key",
    "idle lanes": "% of lanes that never load a key",
    "of the floor": "K+V bytes, times the floor",
    "million wave instructions": "million wave instructions",
}


def reported() -> list[dict[str, object]]:
    """The rows of the report about the two kernels of one decode."""
    rows = [row for row in reports.find(source=REPORT) if row.quantity in ("mean_per_call", "calls")]
    return [{**vars(row)} for row in sorted(rows, key=lambda row: row.quantity, reverse=True)]


def expectation(
    shape: Model, arms: Sequence[str], keys: int, dtype: str, wave_size: int
) -> list[dict[str, object]]:
    """What shapes alone foretell of one layer at `keys` keys."""
    call = step_call(shape, [keys], dtype=dtype, seed=0)
    rows = []
    for arm in arms:
        foretold = traffic.expected(arm, call, wave_size=wave_size)
        rows.append(
            {
                "arm": arm,
                "barriers per key": foretold.barriers_per_key,
                "live lanes": foretold.k_live_lanes // foretold.workgroups,
                "of lanes": foretold.threads,
                "K+V bytes": foretold.kv_bytes,
                "of the floor": foretold.kv_bytes / foretold.floor_bytes,
            }
        )
    return rows


def decode_steps(
    shape: Model, arms: Sequence[str], contexts: Sequence[int], board: Board, *, dtype: str, seed: int
) -> dict[str, list[ArmRun]]:
    """Every arm on every decode step, each output held to the oracle."""
    steps = [run_arms(step_call(shape, [n], dtype=dtype, seed=seed), arms, board) for n in contexts]
    return {arm: [runs[i] for runs in steps] for i, arm in enumerate(arms)}


def keep(run: Investigation, steps: Runs) -> None:
    """Launches, correctness and totals into the record."""
    for arm, runs in steps.items():
        for step in runs:
            run.ran(
                step.result.dispatch, subject=subject(step), arm=arm,
                expected=ALL_ARMS[arm].witness, witness=step.witness,
            )  # fmt: skip
        where = f"{arm}, {_contexts(runs)} keys"
        run.verdict(where, counts.all_good([step.correctness for step in runs]), expected="CORRECT")
        run.verdict(where, _reach(runs), expected="REACHED")
        run.fact(where, "values compared", sum(step.comparison.values_compared for step in runs), "values")
        floor = sum(step.expected.floor_bytes for step in runs)
        run.fact(
            where, "K and V bytes asked for", sum(step.kv_bytes for step in runs), "B",
            bound=(floor, "each key read once"),
        )  # fmt: skip
        run.fact(where, "wave instructions", _sum(runs, "SQ_INSTS"), "instructions")
        run.fact(where, "barriers", _sum(runs, "BARRIERS"), "barriers")


def totals(steps: Runs) -> list[dict[str, object]]:
    """One row an arm over its steps."""
    rows = []
    for arm, runs in steps.items():
        floor = sum(step.expected.floor_bytes for step in runs)
        widest = max(runs, key=lambda step: step.live_lanes)
        rows.append(
            {
                "arm": arm,
                "reached": str(_reach(runs).word),
                "result": str(counts.all_good([step.correctness for step in runs]).word),
                "steps": len(runs),
                "values": sum(step.comparison.values_compared for step in runs),
                "NMSE within gate": all(step.comparison.worst_row_nmse <= NMSE_GATE for step in runs),
                "live lanes": f"{widest.live_lanes} of {widest.lanes}",
                "K+V bytes": sum(step.kv_bytes for step in runs),
                "of the floor": sum(step.kv_bytes for step in runs) / floor,
            }
        )
    return rows


def per_token(steps: Runs, layers: int) -> list[dict[str, object]]:
    """Bytes of the last step, and their product with the layers: a product, not a count."""
    rows = []
    for arm, runs in steps.items():
        last = runs[-1].kv_bytes
        rows.append(
            {
                "arm": arm,
                "K+V bytes a token and layer": last,
                f"x {layers} layers (not counted)": last * layers,
            }
        )
    return rows


def slopes(
    shape: Model, arms: Sequence[str], keys: int, board: Board, *, dtype: str, seed: int
) -> list[dict[str, object]]:
    """Barriers per key between `keys` and keys + 1, beside what was foretold."""
    rows = []
    for arm in arms:
        counted = barriers_per_key(arm, board, keys, lambda n: step_call(shape, [n], dtype=dtype, seed=seed))
        foretold = traffic.expected(arm, step_call(shape, [keys], dtype=dtype, seed=seed)).barriers_per_key
        rows.append(
            {
                "arm": arm,
                "between keys": f"{keys}, {keys + 1}",
                "barriers per key": counted,
                "expected": foretold,
            }
        )
    return rows


def outcome(
    expected: Sequence[Mapping[str, object]], steps: Runs, slope_rows: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """Each foretold quantity beside the counted one, with R10's word."""
    rows = []
    for foretold, slope in zip(expected, slope_rows, strict=True):
        (step,) = steps[foretold["arm"]]
        counted = {
            "barriers per key": slope["barriers per key"],
            "live lanes": step.live_lanes,
            "K+V bytes": step.kv_bytes,
        }
        for quantity, count in counted.items():
            verdict = counts.counts(quantity, foretold[quantity], count)
            rows.append(
                {
                    "arm": foretold["arm"],
                    "quantity": quantity,
                    "expected": foretold[quantity],
                    "counted": count,
                    "verdict": str(verdict.word),
                }
            )
    return rows


def instructions(steps: Runs) -> list[dict[str, object]]:
    """Wave instructions by class, over the steps, an arm a row; the first arm is the base."""
    rows, base = [], None
    for arm, runs in steps.items():
        parts = {name: sum(classes(step)[name] for step in runs) for name in CLASSES}
        everything = _sum(runs, "SQ_INSTS")
        base = base or everything
        work = sum(keys_of(step) * step.call.num_q_heads for step in runs)
        rows.append(
            {
                "arm": arm,
                "wave instructions": everything,
                f"of {next(iter(steps))}'s": everything / base,
                "per key and query head": round(everything / work, 1),
                **parts,
            }
        )
    return rows


def picture(steps: Runs, slope_rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Rows for the notebook's figure: one arm a row, PANELS' columns."""
    rows = []
    for slope in slope_rows:
        (step,) = steps[slope["arm"]]
        rows.append(
            {
                "arm": slope["arm"],
                "barriers per key": slope["barriers per key"],
                "idle lanes": 100 * (1 - step.live_lanes / step.lanes),
                "of the floor": step.kv_bytes / step.expected.floor_bytes,
                "million wave instructions": step.counters.totals["SQ_INSTS"] / 1e6,
            }
        )
    return rows


def beside(reported_rows: Sequence[Mapping[str, object]], steps: Runs) -> list[dict[str, object]]:
    """Reported times and our counts in one table, a kind a column, never a ratio between them."""
    times = {row["arm"]: row["value"] for row in reported_rows if row["quantity"] == "mean_per_call"}
    rows = [
        {"what": f"reported: {arm}", "us per call (reported)": value, "wave instructions per call": None,
         "barriers per wave": None}
        for arm, value in times.items()
    ]  # fmt: skip
    for arm, runs in steps.items():
        waves = _sum(runs, "SQ_WAVES")
        rows.append(
            {
                "what": f"emulated board: {arm}",
                "us per call (reported)": None,
                "wave instructions per call": _sum(runs, "SQ_INSTS") // len(runs),
                "barriers per wave": round(_sum(runs, "BARRIERS") / waves, 1),
            }
        )
    return rows


def _sum(runs: Sequence[ArmRun], counter: str) -> int:
    return sum(run.counters.totals[counter] for run in runs)


def _reach(runs: Sequence[ArmRun]) -> counts.CountVerdict:
    codes = [code for run in runs for code in run.witness]
    return counts.reached(codes, ALL_ARMS[runs[0].arm].witness)


def _contexts(runs: Sequence[ArmRun]) -> str:
    first, last = keys_of(runs[0]), keys_of(runs[-1])
    return str(first) if first == last else f"{first}..{last}"
