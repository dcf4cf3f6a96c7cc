"""Notebook 13: the experts of a layer as reported and hoisted, and the quantizations counted on the board.

A count here is a number of dispatches that a `Recording` saw go to the board.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hipbook.boards.base import Board, Dispatch
from hipbook.boards.recording import Recording
from hipbook.checks.built_once import BuiltOnce
from hipbook.errors import BadArgument
from hipbook.notebooks.investigation import Investigation
from hipbook.ops.grouped_gemv import GemvResult
from hipbook.ops.moe_experts import PATHS, Experts, ExpertsResult, run_experts
from hipbook.ops.quantize_q8k import ARMS as QUANTIZER_ARMS
from hipbook.ops.quantize_q8k import BLOCK, quantize_q8k
from hipbook.oracle import grouped_gemv as gemv_oracle
from hipbook.oracle import quantize_q8k as oracle

QUANTIZER = "quantize_q8k_"  # its kernels' names begin so
Row = dict[str, object]


@dataclass(frozen=True, eq=False)
class Layer:
    """One token's activations and one layer's experts, with those the router chose."""

    x: torch.Tensor
    experts: Experts
    expert_ids: torch.Tensor


@dataclass(frozen=True, eq=False)
class PathRun:
    """One path through a layer: what the board was given, and what came out."""

    path: str
    result: ExpertsResult
    dispatches: Sequence[Dispatch]

    @property
    def quantizations(self) -> list[Dispatch]:
        return [done for done in self.dispatches if done.kernel.startswith(QUANTIZER)]


def make_layer(hidden: int, width: int, chosen: int, seed: int, *, experts: int = 8) -> Layer:
    """Random weights (Q4_K gate and up, Q6_K down) and activations; `chosen` of the experts, in an order."""
    if not 1 <= chosen <= experts:
        raise BadArgument("chosen", chosen, f"must be in 1 .. {experts}", fix=f"chosen={experts}")
    x = oracle.make("random", seed, rows=1, k=hidden, dtype=torch.bfloat16)
    weights = Experts(
        gate=gemv_oracle.make_weights(seed, experts, width, hidden, "Q4_K"),
        up=gemv_oracle.make_weights(seed + 1, experts, width, hidden, "Q4_K"),
        down=gemv_oracle.make_weights(seed, experts, hidden, width, "Q6_K"),
    )
    ids = torch.tensor([(3 * p + 5) % experts for p in range(chosen)], dtype=torch.int32)
    return Layer(x, weights, ids)


def run_path(layer: Layer, path: str, board: Board, *, quantizer_arm: str = "auto") -> PathRun:
    recording = Recording(board)
    result = run_experts(
        layer.x, layer.experts, layer.expert_ids, path=path, quantizer_arm=quantizer_arm, board=recording
    )
    return PathRun(path, result, tuple(recording.dispatches))


def both(layer: Layer, board: Board, *, quantizer_arm: str = "auto") -> list[PathRun]:
    """The same layer as reported and hoisted."""
    return [run_path(layer, path, board, quantizer_arm=quantizer_arm) for path in PATHS]


def same_bytes(one: ExpertsResult, other: ExpertsResult) -> int:
    """How many bytes of gate, up, product and out differ between two paths (0: byte-identical)."""
    pairs = ((one.gate.out, other.gate.out), (one.up.out, other.up.out),
             (one.product, other.product), (one.out, other.out))  # fmt: skip
    return sum(int((a.view(torch.uint8) != b.view(torch.uint8)).sum()) for a, b in pairs)


def against_oracle(run: PathRun, layer: Layer) -> tuple[int, float, str]:
    """(values compared, worst error over bound, first objection): each product held to its own bound, its
    activations byte for byte to the quantizer's oracle."""
    experts, result = layer.experts, run.result
    parts: tuple[tuple[str, GemvResult, torch.Tensor, torch.Tensor, str], ...] = (
        ("gate", result.gate, layer.x, experts.gate, experts.gate_up_format),
        ("up", result.up, layer.x, experts.up, experts.gate_up_format),
        ("down", result.down, result.product, experts.down, experts.down_format),
    )
    compared, worst = 0, 0.0
    for name, done, values, weights, weight_format in parts:
        blocks = oracle.reference(values)
        if not torch.equal(blocks, done.act_q8k.cpu()):
            return compared, worst, f"{name}: the quantized activations differ from the oracle's"
        wanted, bound = gemv_oracle.reference(
            blocks, weights, layer.expert_ids, weight_format, done.out.dtype
        )
        over = np.abs(done.out.cpu().double().numpy() - wanted) / bound
        over = np.where(np.isnan(over), np.inf, over)
        compared, worst = compared + over.size, max(worst, float(over.max()))
        if worst > 1:
            return compared, worst, f"{name}: {worst:.3g} times the bound"
    return compared, worst, ""


def keep(run: Investigation, paths: Sequence[PathRun], layer: Layer) -> list[str]:
    """Launches and verdicts of each path into the record; a line on each for the reader."""
    told = []
    for path in paths:
        result = path.result
        products = (("gate", result.gate), ("up", result.up), ("down", result.down))
        codes = {done.dispatch.kernel: (done.arm, done.witness) for _, done in products}
        codes |= {arm.kernel: (arm.name, arm.witness) for arm in QUANTIZER_ARMS.values()}
        for number, done in enumerate(path.dispatches):
            arm, witness = codes[done.kernel]
            subject = f"experts as {path.path}, dispatch {number}: {done.kernel}"
            workgroups = done.grid[0] * done.grid[1] * done.grid[2]  # the wrapper saw that all wrote it
            run.ran(done, subject=subject, arm=arm, expected=witness, witness=[witness] * workgroups)
        compared, _, why = against_oracle(path, layer)
        word, reason = ("INCORRECT", why) if why else ("CORRECT", f"{compared:,} values within their bounds")
        run.verdict(f"experts as {path.path}", word, reason, expected="CORRECT")
        told.append(f"{path.path}: {compared:,} values compared, {why or 'all within their bounds'}")
    return told


def layer_rows(runs: Sequence[PathRun]) -> list[Row]:
    """What the board was given, a path a row; all of it counted."""
    return [
        {
            "path": run.path,
            "dispatches": len(run.dispatches),
            "quantize dispatches": len(run.quantizations),
            "values read, B": sum(done.counters.buffers["x"].bytes_read for done in run.quantizations),
            "blocks written, B": sum(
                done.counters.buffers["out"].bytes_written for done in run.quantizations
            ),
        }
        for run in runs
    ]


def saving(runs: Sequence[PathRun]) -> str:
    """What the second path leaves out of the first, in words; counted."""
    first, second = layer_rows(runs)
    read, written = (first[name] - second[name] for name in ("values read, B", "blocks written, B"))
    return (
        f"{first['quantize dispatches'] - second['quantize dispatches']} of {first['quantize dispatches']} "
        f"quantize dispatches, {read:,} of {first['values read, B']:,} B of values read, "
        f"{written:,} of {first['blocks written, B']:,} B of blocks written"
    )


def instruction_rows(runs: Sequence[PathRun]) -> list[Row]:
    """Wave instructions of the quantizations, and of the whole path, a path a row."""
    return [
        {
            "path": run.path,
            "in quantize dispatches": sum(done.counters.totals["SQ_INSTS"] for done in run.quantizations),
            "in all dispatches": sum(done.counters.totals["SQ_INSTS"] for done in run.dispatches),
        }
        for run in runs
    ]


def structure(total: int, layers: int) -> tuple[int, int]:
    """(quantizations a layer, those outside the layers) of a reported total: 281 of 40 layers is 7 and 1."""
    per_layer, outside = divmod(total, layers)
    if per_layer < 3:
        raise BadArgument(
            "total", total, f"is less than gate, up and down of {layers} layers", fix="name the model's own"
        )
    return per_layer, outside


def count_token(path: str, board: Board, *, layers: int, per_layer: int, outside: int) -> int:
    """Quantize dispatches that reach the board in one token of `layers` layers along `path`.

    `per_layer` is the number as reported, three of them the experts'; the others, and the `outside` ones,
    are one row each. Which products they belong to the report does not say, and the sizes here are the
    least there are: dispatches are counted, nothing else.
    """
    layer = make_layer(BLOCK, BLOCK, 2, 0, experts=2)
    recording = Recording(BuiltOnce(board))
    others = per_layer - 3
    for _ in range(layers):
        for _ in range(others):
            quantize_q8k(layer.x, board=recording)
        run_experts(layer.x, layer.experts, layer.expert_ids, path=path, board=recording)
    for _ in range(outside):
        quantize_q8k(layer.x, board=recording)
    return sum(done.kernel.startswith(QUANTIZER) for done in recording.dispatches)
