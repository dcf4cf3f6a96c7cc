"""Grouped K-quant GEMV: the contract, the arms, the wrapper.

    act         f32 | bf16 [Pa, K] (quantized here), or uint8 [Pa, K / 256, 292] Q8_K blocks; Pa = P or 1
    weights     uint8 [E, N, K / 256, 144 (Q4_K) | 210 (Q6_K)], contiguous, aligned to 4 (Q4_K) or 2 bytes
    expert_ids  int32 [P]
    out         f32 | bf16 [P, N]

out[p, n] = dot(weights[expert_ids[p], n], act[p]) (act[0] for all when Pa = 1), block by block in integers,
scaled and added in f32, rounded once. Giving blocks instead of values is what lets two calls share one
quantization. The contract: docs/contracts.md.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import torch

from hipbook import boards
from hipbook.boards.base import Board, Dim3, Dispatch
from hipbook.errors import BadArgument
from hipbook.ops import validate
from hipbook.ops.one_launch import OneLaunch, Output
from hipbook.ops.quantize_q8k import ARMS as QUANTIZER_ARMS
from hipbook.ops.quantize_q8k import BLOCK, BLOCK_BYTES, quantize_q8k

SOURCE = "grouped_gemv/grouped_gemv.hip"  # under kernels/
FORMATS = {"Q4_K": 144, "Q6_K": 210}  # bytes of a superblock
ALIGNMENT = {"Q4_K": 4, "Q6_K": 2}
OUT_NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}
FLAGS = ("-ffp-contract=off",)
MAX_WORKGROUPS = 1 << 20


@dataclass(frozen=True)
class Arm:
    """One way of computing the operation; all of them give a wave a result."""

    name: str
    idea: str
    witness: int

    @property
    def kernel(self) -> str:
        return f"grouped_gemv_{self.name}"

    def flags(self, weight_format: str, out_dtype: torch.dtype) -> tuple[str, ...]:
        """Build macros of a specialisation; the board adds the wave width."""
        macros = (f"HIPBOOK_OUT={OUT_NAMES[out_dtype]}", f"HIPBOOK_FORMAT_{weight_format}=1")
        return (*FLAGS, *(f"-D{macro}" for macro in macros), f"-DHIPBOOK_ARM_{self.name.upper()}=1")


ARMS = {
    arm.name: arm
    for arm in (Arm("superblock", "a lane a superblock", 0x10), Arm("spread", "16 lanes a superblock", 0x20))
}


@dataclass(frozen=True, eq=False)
class GemvResult:
    """`out` [P, N]; `act_q8k` the blocks that were multiplied; `quantized` the quantizer's dispatch, None
    when act came as blocks; `dispatch` None when there was nothing to launch."""

    out: torch.Tensor
    act_q8k: torch.Tensor
    arm: str
    witness: int | None
    dispatch: Dispatch | None
    quantized: Dispatch | None


def grouped_gemv(
    act: torch.Tensor,
    weights: torch.Tensor,
    expert_ids: torch.Tensor,
    *,
    weight_format: str,
    arm: str = "auto",
    quantizer_arm: str = "auto",
    out_dtype: torch.dtype = torch.float32,
    board: Board | str | None = None,
    out: torch.Tensor | None = None,
    checked: bool = True,
    **launch_options: Any,
) -> GemvResult:
    """Multiply with `arm` ("auto": spread) on `board`, into `out` (of `out_dtype`) or a fresh tensor; values
    of `act` are quantized on it first.

    `checked` looks at the expert ids, verifies every workgroup's witness and that every value was written,
    and only then touches `out`.
    Raises `BadArgument` for an argument that breaks the contract, `KernelFault` when a launch misbehaves.
    """
    where = boards.get(board)
    validate.one_of("arm", arm, ("auto", *ARMS))
    validate.one_of("quantizer_arm", quantizer_arm, ("auto", *QUANTIZER_ARMS))
    validate.boolean("checked", checked)
    chosen = ARMS["spread" if arm == "auto" else arm]
    check_arguments(act, weights, expert_ids, weight_format, out_dtype, out, where.torch_device)
    if checked:
        check_expert_ids(expert_ids, weights.shape[0])
    quantized = None
    if act.dtype != torch.uint8:
        made = quantize_q8k(act, arm=quantizer_arm, board=where, checked=checked, **launch_options)
        act, quantized = made.out, made.dispatch
    rows, n, blocks = expert_ids.shape[0], weights.shape[1], weights.shape[2]
    result = {"out": Output((rows, n), out_dtype)}
    launch = OneLaunch(where, result, None if out is None else {"out": out}, checked=checked)
    if not rows * n:
        return GemvResult(launch.handed_over()["out"], act, chosen.name, None, None, quantized)
    step = blocks if act.shape[0] > 1 else 0
    inputs = {"act": act, "weights": weights, "expert_ids": expert_ids}
    done = launch.run(
        chosen, SOURCE, chosen.flags(weight_format, out_dtype), geometry(rows * n, where.wave_size),
        inputs, [np.int32(extent) for extent in (rows, n, blocks, step)], launch_options,
    )  # fmt: skip
    return GemvResult(done.results["out"], act, chosen.name, done.witness, done.dispatch, quantized)


def geometry(results: int, wave_size: int) -> tuple[Dim3, Dim3]:
    """(workgroups, work-items): a wave a result, up to four a workgroup, none without one."""
    waves = gcd(results, 4)
    return (min(results // waves, MAX_WORKGROUPS), 1, 1), (waves * wave_size, 1, 1)


def check_arguments(
    act: torch.Tensor,
    weights: torch.Tensor,
    expert_ids: torch.Tensor,
    weight_format: str,
    out_dtype: torch.dtype,
    out: torch.Tensor | None,
    device: torch.device,
) -> None:
    """`BadArgument` for what breaks the contract; looks at no element."""
    validate.one_of("weight_format", weight_format, FORMATS)
    if not isinstance(out_dtype, torch.dtype) or out_dtype not in OUT_NAMES:
        raise BadArgument(
            "out_dtype",
            repr(out_dtype),
            "must be torch.float32 or torch.bfloat16",
            fix="out_dtype=torch.float32",
        )
    validate.tensor("weights", weights, (torch.uint8,), 4, device)
    validate.contiguous("weights", weights)
    size, aligned = FORMATS[weight_format], ALIGNMENT[weight_format]
    if weights.shape[3] != size:
        raise BadArgument(
            "weights.shape[3]",
            weights.shape[3],
            f"must be {weight_format}'s {size} bytes",
            fix="name the format that the blocks are in",
        )
    _check_aligned("weights", weights, aligned)
    blocks = validate.integer("weights.shape[2]", weights.shape[2], 1)
    validate.tensor("expert_ids", expert_ids, (torch.int32,), 1, device)
    validate.contiguous("expert_ids", expert_ids)
    validate.integer("expert_ids.shape[0]", expert_ids.shape[0], 0)
    validate.integer("weights.shape[1]", weights.shape[1], 0)
    is_blocks = isinstance(act, torch.Tensor) and act.dtype == torch.uint8
    dtypes = (torch.uint8,) if is_blocks else tuple(OUT_NAMES)
    validate.tensor("act", act, dtypes, 3 if is_blocks else 2, device)
    rows = 1 if act.shape[0] == 1 else expert_ids.shape[0]
    wanted = (rows, blocks, BLOCK_BYTES) if is_blocks else (rows, blocks * BLOCK)
    validate.shape("act", act, wanted, "a row for each expert id, or one for all; K as the weights'")
    if is_blocks:
        validate.contiguous("act", act)
        _check_aligned("act", act, 4)
    if out is not None:
        validate.tensor("out", out, (out_dtype,), 2, device)
        validate.shape("out", out, (expert_ids.shape[0], weights.shape[1]), "a row for each expert id")
        validate.contiguous("out", out)
        validate.writable("out", out)
        for name, tensor in (("act", act), ("weights", weights), ("expert_ids", expert_ids)):
            validate.apart("out", out, name, tensor)


def _check_aligned(name: str, tensor: torch.Tensor, multiple: int) -> None:
    if tensor.data_ptr() % multiple:
        raise BadArgument(
            f"{name}.data_ptr()",
            hex(tensor.data_ptr()),
            f"must be a multiple of {multiple}",
            fix=f"{name}.clone() starts at one",
        )


def check_expert_ids(expert_ids: torch.Tensor, experts: int) -> None:
    """`BadArgument` that names the first id outside 0 .. experts - 1."""
    bad = ((expert_ids < 0) | (expert_ids >= experts)).nonzero()
    if len(bad):
        at = int(bad[0])
        raise BadArgument(
            f"expert_ids[{at}]",
            int(expert_ids[at]),
            f"must be an expert, 0 .. {experts - 1}",
            fix=f"weights holds {experts} experts",
        )
