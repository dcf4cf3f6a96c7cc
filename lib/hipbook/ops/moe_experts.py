"""The routed experts of one token in one layer: gate, up, product, down; as reported and hoisted.

    x           f32 | bf16 [1, hidden]
    gate, up    uint8 [E, width, hidden / 256, bytes]   K-quant superblocks, of one format
    down        uint8 [E, hidden, width / 256, bytes]   of a format of its own
    expert_ids  int32 [P]                               the experts the router chose
    out         f32   [P, hidden]

    gate_p = gate[expert_p] x, up_p = up[expert_p] x
    h_p = gate_p * sigmoid(gate_p) * up_p, out_p = down[expert_p] h_p

Each product is `grouped_gemv`, which quantizes the values it is given. The path as reported calls it for
gate and again for up with the same x, and x is quantized twice; hoisted, x is quantized once and its blocks
go to both. That is the whole difference. The product in the middle is torch's, on the board's device, the
same in both paths; the router and the weighted sum over experts are not part of it.
"""

from dataclasses import dataclass
from typing import Any

import torch

from hipbook import boards
from hipbook.boards.base import Board
from hipbook.errors import BadArgument
from hipbook.ops import validate
from hipbook.ops.grouped_gemv import OUT_NAMES, GemvResult, grouped_gemv
from hipbook.ops.quantize_q8k import BLOCK, QuantizeResult, quantize_q8k

PATHS = ("reported", "hoisted")


@dataclass(frozen=True, eq=False)
class Experts:
    """Weights of the experts of a layer, and the formats they are in."""

    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    gate_up_format: str = "Q4_K"
    down_format: str = "Q6_K"


@dataclass(frozen=True, eq=False)
class ExpertsResult:
    """`out` f32 [P, hidden]; `product` f32 [P, width] is what went into down. `quantized` is the hoisted
    quantization, None as reported."""

    out: torch.Tensor
    product: torch.Tensor
    gate: GemvResult
    up: GemvResult
    down: GemvResult
    quantized: QuantizeResult | None


def run_experts(
    x: torch.Tensor,
    experts: Experts,
    expert_ids: torch.Tensor,
    *,
    path: str,
    quantizer_arm: str = "auto",
    gemv_arm: str = "auto",
    board: Board | str | None = None,
    **launch_options: Any,
) -> ExpertsResult:
    """Run the layer's experts along `path`, "reported" or "hoisted", on `board`.

    Raises `BadArgument` for an argument that breaks the contract, before anything runs; `KernelFault` when a
    launch misbehaves.
    """
    if path not in PATHS:
        raise BadArgument("path", repr(path), "must be reported or hoisted", fix=f"path={PATHS[1]!r}")
    where = boards.get(board)
    check_arguments(x, experts, where.torch_device)
    common = {"arm": gemv_arm, "quantizer_arm": quantizer_arm, "board": where, **launch_options}
    gate_up = {"weight_format": experts.gate_up_format, **common}
    quantized, act = None, x
    if path == "hoisted":
        quantized = quantize_q8k(x, arm=quantizer_arm, board=where, **launch_options)
        act = quantized.out
    gate = grouped_gemv(act, experts.gate, expert_ids, **gate_up)
    up = grouped_gemv(act, experts.up, expert_ids, **gate_up)
    product = torch.nn.functional.silu(gate.out) * up.out
    down = grouped_gemv(product, experts.down, expert_ids, weight_format=experts.down_format, **common)
    return ExpertsResult(down.out, product, gate, up, down, quantized)


def check_arguments(x: torch.Tensor, experts: Experts, device: torch.device) -> None:
    """`BadArgument` for what no single product would see: sizes that do not fit one another."""
    validate.tensor("x", x, tuple(OUT_NAMES), 2, device)
    validate.shape("x", x, (1, x.shape[1]), "one token")
    for name in ("gate", "up", "down"):
        validate.tensor(name, getattr(experts, name), (torch.uint8,), 4, device)
    count, width, blocks, _ = experts.gate.shape
    validate.shape("up", experts.up, tuple(experts.gate.shape), "as gate")
    if width % BLOCK:
        raise BadArgument(
            "gate.shape[1]", width, f"must be a multiple of {BLOCK}: down quantizes it",
            fix="pad the experts' width",
        )  # fmt: skip
    wanted = (count, blocks * BLOCK, width // BLOCK, experts.down.shape[3])
    validate.shape("down", experts.down, wanted, "hidden rows of the experts' width")
