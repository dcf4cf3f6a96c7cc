"""Notebook 13: the Q8_K quantizer's arms on one row of activations, and on blocks that tell them apart."""

from collections.abc import Mapping, Sequence

import torch

from hipbook.boards.base import Board
from hipbook.checks.quantize_q8k import first_difference
from hipbook.ops.quantize_q8k import ARMS, BLOCK, BLOCK_BYTES, DTYPES, quantize_q8k
from hipbook.oracle import quantize_q8k as oracle
from hipbook.records import reported as reports
from hipbook.studies.op_runs import OpRun, Row

REPORTS = ("mudler/vllm.cpp#1294", "mudler/vllm.cpp#1876", "mudler/vllm.cpp#2472")
COLUMNS = ["source", "board", "model", "workload", "arm", "quantity", "value", "unit", "status"]
QUANTITIES = ("live lanes", "lanes launched", "x bytes", "bytes written", "barriers per wave")
NAMES = ("QuantizeQ8KK", "quantize_q8_1", "thread per block", "cooperative")


def reported() -> list[Row]:
    """The rows of three reports that are about a quantizer."""
    return [
        vars(row) for source in REPORTS for row in reports.find(source=source)
        if any(name in row.arm for name in NAMES)
    ]  # fmt: skip


def cooperative_factor() -> float:
    """How many times less GPU time a token the cooperative kernel took, by its report."""
    before, after = (
        reports.values(source=REPORTS[2], arm=arm, quantity="gpu_time_per_token")
        for arm in ("one thread per block", "cooperative")
    )
    return before[0] / after[0]


def expectation(arms: Sequence[str], k: int, dtype: str, wave_size: int) -> list[Row]:
    """What sizes alone foretell of one row of `k` elements, an arm a row."""
    blocks, size = k // BLOCK, DTYPES[dtype].itemsize
    # a tree over 256 values and one over 16, a barrier after what each starts from and after each step
    tree = 1 + 8 + 1 + 4
    per_arm = {  # lanes that load x, lanes launched, times x is read, barriers
        "serial": (blocks, -(-blocks // 128) * 128, 2, 0),
        "block": (k, k, 1, tree),
        "wave": (blocks * wave_size, blocks * wave_size, 1, 0),
    }
    return [
        {
            "arm": arm,
            "live lanes": per_arm[arm][0],
            "lanes launched": per_arm[arm][1],
            "x bytes": per_arm[arm][2] * k * size,
            "of the floor": per_arm[arm][2],
            "bytes written": blocks * BLOCK_BYTES,
            "barriers per wave": per_arm[arm][3],
        }
        for arm in arms
    ]


def run_arm(arm: str, x: torch.Tensor, board: Board, case: str, *, finite: bool = True) -> OpRun:
    """One launch, all of its bytes held to the oracle; blocks that are not finite need `finite` False."""
    done = quantize_q8k(x, arm=arm, board=board, checked=finite)
    wanted = oracle.reference(x)
    return OpRun(
        arm=arm,
        case=case,
        dispatch=done.dispatch,
        witness=ARMS[arm].witness if done.witness is None else done.witness,
        expected_witness=ARMS[arm].witness,
        compared=wanted.numel(),
        unit="bytes",
        why=first_difference(done.out.cpu(), wanted),
    )


def one_row(arms: Sequence[str], k: int, dtype: str, board: Board, seed: int) -> list[OpRun]:
    """Each arm on one row of `k` random activations."""
    x = oracle.make("random", seed, rows=1, k=k, dtype=DTYPES[dtype])
    return [run_arm(arm, x, board, f"1 x {k} {dtype}") for arm in arms]


def counted(runs: Sequence[OpRun]) -> dict[str, Row]:
    """By arm, the quantities that `expectation` foretells."""
    return {
        one.arm: {
            "live lanes": one.live_lanes("x"),
            "lanes launched": one.lanes,
            "x bytes": one.bytes_read("x"),
            "bytes written": one.bytes_written("out"),
            "barriers per wave": one.counters.totals["BARRIERS"] // one.counters.totals["SQ_WAVES"],
        }
        for one in runs
    }


def telling_blocks(
    arms: Sequence[str], board: Board, seed: int, random_blocks: int
) -> tuple[list[Row], list[OpRun]]:
    """Random blocks and every edge for every arm and dtype: a table row each, and the launches."""
    rows, runs = [], []
    for name, dtype in DTYPES.items():
        edges = torch.stack(list(dict(oracle.edge_blocks(dtype)).values()))
        cases = {
            "random blocks": oracle.make("random", seed, rows=random_blocks, k=BLOCK, dtype=dtype),
            "edges": edges,
        }
        for arm in arms:
            mine = {case: run_arm(arm, x, board, f"{len(x)} {case}, {name}") for case, x in cases.items()}
            runs += mine.values()
            why = next((one.why for one in mine.values() if one.why), "")
            rows.append(
                {
                    "arm": arm,
                    "dtype": name,
                    **{case: len(x) for case, x in cases.items()},
                    "bytes compared": sum(one.compared for one in mine.values()),
                    "differ from the oracle": why or "none",
                }
            )
    return rows, runs


def picture(runs: Sequence[OpRun], expected: Sequence[Mapping[str, object]]) -> list[Row]:
    """Rows for the notebook's figure."""
    floor = {row["arm"]: row["x bytes"] / row["of the floor"] for row in expected}
    return [
        {
            "arm": one.arm,
            "idle lanes": 100 * (1 - one.live_lanes("x") / one.lanes),
            "of the floor": one.bytes_read("x") / floor[one.arm],
            "instructions": one.counters.totals["SQ_INSTS"],
        }
        for one in runs
    ]


PANELS = {
    "idle lanes": "% of lanes that never load x",
    "of the floor": "bytes of x, times the floor",
    "instructions": "wave instructions",
}
