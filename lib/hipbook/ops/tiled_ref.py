"""`tiled_ref`: vLLM's 2D arithmetic in a Triton kernel of our own, beside the HIP arms.

On an emulated board `run_call(call, arm="tiled_ref")` runs it like an arm: compiled for the board by triton,
witness and stores checked, counted. On a GPU it is a peer (`peers/`), launched by triton itself.
What it computes and what can be switched off: `tiled_ref_kernel`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hipbook.boards.base import Board, Dispatch
from hipbook.boards.triton_run import run_triton
from hipbook.errors import Refused
from hipbook.ops.attention_arms import Refusal
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.launch import WITNESS_POISON, buffer, check_unwritten_bytes, check_witness, check_written

NAME, WITNESS = "tiled_ref", 0x50
KERNEL = "tiled_ref"
LEAST = 16  # rows and keys of a matrix operand
MAX_HEAD_DIM = 256
NUM_WARPS = 4


@dataclass(frozen=True)
class Switches:
    """What sets this arithmetic apart from the HIP arms'; each can be switched off."""

    rounds_probabilities: bool = True  # to V's type before P V
    maximum_by_tile: bool = True  # off: over all keys, before anything else
    epsilon: float = 1e-10  # added to the denominator


AS_IN_VLLM = Switches()


def tile_keys(block_size: int) -> int:
    """Keys of a tile: the block's, at most 128; 32 when the block size is no power of two."""
    return min(block_size, 128) if block_size & (block_size - 1) == 0 else 32


def supports(call: AttentionCall) -> Refusal | None:
    """None, or why this kernel does not serve the call. Reads query_start_loc."""
    if call.head_dim > MAX_HEAD_DIM:
        return Refusal("head_dim", f"{NAME} serves head_dim up to {MAX_HEAD_DIM}, got {call.head_dim}")
    if call.q.dtype != call.k_cache.dtype:
        dtypes = f"{call.q.dtype} and {call.k_cache.dtype}"
        return Refusal("dtype", f"{NAME} multiplies q and K as they are and needs one dtype, got {dtypes}")
    if tile_keys(call.block_size) < LEAST:
        return Refusal(
            "block_size", f"{NAME} takes {LEAST} keys of a block or more, got blocks of {call.block_size}"
        )
    if call.num_reqs and int(call.query_start_loc.diff().max()) > 1:
        return Refusal("rows", f"{NAME} serves requests of one token, as vLLM's 2D kernel does")
    return None


def launch_arguments(call: AttentionCall, witness: torch.Tensor | None, switches: Switches) -> dict[str, Any]:
    """The kernel's parameters by name, tensors as they are; call.out is where it writes."""
    k, v = call.k_cache, call.v_cache
    return {
        "q": call.q, "k_cache": k, "v_cache": v, "out": call.out, "witness": witness,
        "block_table": call.block_table, "seq_lens": call.seq_lens, "query_start_loc": call.query_start_loc,
        **{f"{name}_{axis}_stride": stride for name, cache in (("k", k), ("v", v))
           for axis, stride in zip(("block", "slot", "head"), cache.stride(), strict=False)},
        "block_table_stride": call.block_table.stride(0),
        "num_q_heads": call.num_q_heads, "block_size": call.block_size,
        "window_left": call.window_left, "scale": float(call.scale), "soft_cap": float(call.soft_cap),
        "WITNESS": WITNESS, "RATIO": call.ratio, "ROWS": max(LEAST, _power_of_two(call.ratio)),
        "D": call.head_dim, "D_PAD": max(LEAST, _power_of_two(call.head_dim)),
        "TILE": tile_keys(call.block_size), "CAPPED": call.soft_cap > 0,
        "ROUND_P": switches.rounds_probabilities, "TILE_MAX": switches.maximum_by_tile,
        "EPSILON": switches.epsilon,
    }  # fmt: skip


def launch(
    call: AttentionCall, board: Board, checked: bool, options: dict[str, Any], switches: Switches = AS_IN_VLLM
) -> tuple[Dispatch, int]:
    """One launch into call.out on an emulated board; (dispatch, witness)."""
    from hipbook.ops.tiled_ref_kernel import tiled_ref  # triton is only needed here

    grid = (call.num_reqs, call.num_kv_heads)
    witness = torch.full((grid[0] * grid[1],), WITNESS_POISON, dtype=torch.int32)
    arguments = launch_arguments(call, witness, switches)
    access = {"out": "w", "witness": "w"}
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            arguments[name] = buffer(name, value, access.get(name, "r"))
        elif name.endswith("_stride"):
            arguments[name] = np.int64(value)
    dispatch = run_triton(tiled_ref, grid, board=board, num_warps=NUM_WARPS, options=options, **arguments)
    code = check_witness(witness, WITNESS, KERNEL, NAME)
    if checked:
        owned = torch.arange(call.total_q) < int(call.query_start_loc[-1])
        check_written(call.out, owned, KERNEL)
        row_bytes = call.num_q_heads * call.head_dim * call.out.element_size()
        check_unwritten_bytes(dispatch, "out", int((~owned).sum()) * row_bytes)
    return dispatch, code


def check_board(board: Board) -> None:
    if board.kind != "emulated":
        raise Refused(
            f"{NAME} is launched by triton itself on {board.name}", fix="PEERS['tiled_ref'].prepare(call)"
        )


def why_not(call: AttentionCall) -> str:
    """For a peer: empty, or why this machine or this kernel cannot run the call."""
    if call.q.device.type != "cuda":
        return "peers run on GPU boards only"
    refusal = supports(call)
    return "" if refusal is None else str(refusal)


def prepare(call: AttentionCall, switches: Switches = AS_IN_VLLM) -> Callable[[], None]:
    """A function that runs the kernel into call.out on torch's current stream, launched by triton."""
    from hipbook.ops.tiled_ref_kernel import tiled_ref

    grid = (call.num_reqs, call.num_kv_heads)
    witness = torch.empty(grid[0] * grid[1], dtype=torch.int32, device=call.q.device)
    arguments = launch_arguments(call, witness, switches)
    return lambda: tiled_ref[grid](**arguments, num_warps=NUM_WARPS, num_stages=1)


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()
