"""Paged attention over a strided NHD cache: the contract, the wrapper, the result.

    q, out            bf16 | f16 | f32  [total_q, Hq, D]                    contiguous
    k_cache, v_cache  bf16 | f16 | f32  [num_blocks, block_size, Hkv, D]    read through strides, last 1
    block_table       int32 [num_reqs, max_blocks]                          row stride honoured
    seq_lens          int32 [num_reqs]
    query_start_loc   int32 [num_reqs + 1]                                  prefix sums of query lengths
    scale, soft_cap   f32, soft_cap 0 = off;  causal;  window_left, window_right, -1 = unbounded

For token t of request r owning tokens [q0, q1): context = seq_len - (q1 - q0), p = context + t - q0;
keys max(0, p - window_left) .. min(p if causal else seq_len - 1, p + window_right, seq_len - 1);
kv head h / (Hq / Hkv); key j is slot j % block_size of block block_table[r][j / block_size];
score = scale <q, k>, then cap tanh(score / cap); out = softmax(score) V, accumulated in f32 and
rounded once (to nearest, ties to even). A row without keys is zeros; a token that no request owns
(padding past query_start_loc[-1]) is not written; slots at or past seq_len and unused blocks may
hold anything. docs/contracts.md says what is decided and why.

The arms are in `attention_arms`, those that are only measured in `attention_ladder`, the rule of
`arm="auto"` in `attention_dispatch`, what is refused in `attention_validate`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hipbook import boards
from hipbook.boards.base import Arg, Board, Dispatch
from hipbook.boards.gpu import GpuBoard
from hipbook.errors import BadArgument, Refused
from hipbook.ops import split_kv, tiled_ref
from hipbook.ops.attention_arms import ARMS, Arm, Refusal
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.attention_dispatch import choose_arm
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.ops.attention_validate import check_shapes, check_tables, owned_rows
from hipbook.ops.launch import (
    WITNESS_POISON,
    buffer,
    check_unwritten_bytes,
    check_witness,
    check_written,
    empty_aligned_as,
    poison_,
)

__all__ = ["ARMS", "AttentionCall", "AttentionResult", "choose_arm", "paged_attention", "prepare", "run_call"]


@dataclass(frozen=True, eq=False)
class AttentionResult:
    """`out` [total_q, Hq, D]; the arm that ran and why it was taken.

    `witness` is the code every workgroup wrote (None: unchecked, or nothing was launched).
    `dispatch` is None when total_q is 0, for then there is nothing to launch.
    """

    out: torch.Tensor
    arm: str
    witness: int | None
    dispatch: Dispatch | None
    reason: str = ""


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    *,
    scale: float,
    soft_cap: float = 0.0,
    causal: bool = True,
    window_left: int = -1,
    window_right: int = -1,
    arm: str = "auto",
    board: Board | str | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    checked: bool = True,
    **launch_options: Any,
) -> AttentionResult:
    """Compute paged attention with `arm` on `board` (a name, a board, or None: the default board).

    The result lands in `out`, or in a fresh tensor of `out_dtype` (q's when None) whose padding
    rows hold a NaN pattern. `checked` reads the tables before the launch, launches into a poisoned
    output and verifies every workgroup's witness and that exactly the owned rows were written; pass
    False for timing. Whatever is raised, a checked call leaves `out` as it was. `launch_options` go to
    the board.

    Raises `BadArgument` for an argument that breaks the contract, `Refused` when the arm asked for
    does not serve the call, `KernelFault` when the launch misbehaves.
    """
    call = AttentionCall(
        q, k_cache, v_cache, block_table, seq_lens, query_start_loc, scale=scale, soft_cap=soft_cap,
        causal=causal, window_left=window_left, window_right=window_right, out_dtype=out_dtype, out=out,
    )  # fmt: skip
    return run_call(call, arm=arm, board=board, checked=checked, **launch_options)


def run_call(
    call: AttentionCall,
    *,
    arm: str = "auto",
    board: Board | str | None = None,
    checked: bool = True,
    **launch_options: Any,
) -> AttentionResult:
    """`paged_attention` on a call that is already a value. Same rules, same errors."""
    where = boards.get(board) if board is None or isinstance(board, str) else board
    check_shapes(call, where.torch_device)
    if checked:
        check_tables(call)
    name, reason = _resolve(call, arm, where)
    staged = call.out is None or checked
    result = (
        poison_(empty_aligned_as(call.q.shape, call.result_dtype, _aligned_like(call)))
        if staged
        else call.out
    )
    if call.total_q == 0:
        return AttentionResult(call.out if call.out is not None else result, name, None, None, reason)
    into = replace(call, out=result)
    if name == tiled_ref.NAME:
        dispatch, code = tiled_ref.launch(into, where, checked, launch_options)
    else:
        dispatch, code = _launch(into, ALL_ARMS[name], where, checked, launch_options)
    if call.out is None or not staged:
        return AttentionResult(result, name, code, dispatch, reason)
    owned = int(call.query_start_loc[-1])
    call.out[:owned].copy_(result[:owned])
    return AttentionResult(call.out, name, code, dispatch, reason)


def prepare(call: AttentionCall, *, arm: str = "auto", board: GpuBoard) -> Callable[[], None]:
    """`call` on a GPU board as a function without arguments: one launch into call.out, nothing checked.

    For timing: shapes are checked and the kernel is built here; the tensors of `call` must outlive the
    function. Its scratch is shared by all functions prepared on the same stream that fit in it.
    """
    if call.out is None:
        raise BadArgument("out", None, "must be given: the function writes there each time it is called")
    check_shapes(call, board.torch_device)
    chosen = ALL_ARMS[_resolve(call, arm, board)[0]]
    geometry = chosen.launch(call, board)
    args = kernel_args(call, None)
    if chosen.scratch is not None:
        args += chosen.scratch(call, geometry, False)
    code_object = board.build(chosen.source, chosen.flags(call))
    return board.prepare(code_object, chosen.kernel, geometry.grid, geometry.block, args)


def _aligned_like(call: AttentionCall) -> torch.Tensor:
    return call.out if call.out is not None else torch.empty(0, device=call.q.device)


def _resolve(call: AttentionCall, arm: str, board: Board) -> tuple[str, str]:
    """(name of the arm to run, why it)."""
    wave_size = board.wave_size
    if arm == "auto":
        return choose_arm(call, wave_size=wave_size, gpu=board.kind == "gpu")
    known = (*ALL_ARMS, tiled_ref.NAME)
    if arm not in known:
        raise BadArgument("arm", repr(arm), f"must be auto or one of: {', '.join(known)}")
    if arm == tiled_ref.NAME:
        tiled_ref.check_board(board)
    refusal = refusal_of(arm, call, wave_size)
    if refusal is not None:
        raise Refused(str(refusal), fix='arm="auto" picks an arm that serves the call')
    return arm, "asked for by name"


def refusal_of(arm: str, call: AttentionCall, wave_size: int) -> Refusal | None:
    """None, or why the arm of this name (not auto) does not serve the call."""
    return tiled_ref.supports(call) if arm == tiled_ref.NAME else ALL_ARMS[arm].supports(call, wave_size)


def _launch(
    call: AttentionCall, arm: Arm, board: Board, checked: bool, options: dict[str, Any]
) -> tuple[Dispatch, int | None]:
    """One launch of `arm` into call.out; (dispatch, witness code or None when unchecked)."""
    code_object = board.build(arm.source, arm.flags(call))
    geometry = arm.launch(call, board)
    witness = None
    if checked:
        witness = torch.full((geometry.workgroups,), WITNESS_POISON, dtype=torch.int32, device=call.q.device)
    args = kernel_args(call, witness)
    if arm.scratch is not None:
        args += arm.scratch(call, geometry, checked)
    dispatch = board.launch(code_object, arm.kernel, geometry.grid, geometry.block, args, **options)
    if witness is None:
        return dispatch, None
    if arm.scratch is not None:
        split_kv.check_tickets(args)
    code = check_witness(witness, arm.witness, arm.kernel, arm.name)
    owned = owned_rows(call)
    check_written(call.out, owned, arm.kernel)
    row_bytes = call.num_q_heads * call.head_dim * call.out.element_size()
    check_unwritten_bytes(dispatch, "out", int((~owned).sum()) * row_bytes)
    return dispatch, code


def kernel_args(call: AttentionCall, witness: torch.Tensor | None) -> list[Arg]:
    """The parameter list every arm's kernel has, in order; call.out is where it writes."""
    k, v = call.k_cache, call.v_cache
    strides = (*k.stride()[:3], *v.stride()[:3], call.block_table.stride(0))
    extents = (call.num_reqs, call.total_q, call.num_q_heads, call.num_kv_heads, call.block_size)
    scalars = (int(call.causal), call.window_left, call.window_right)
    return [
        buffer("q", call.q),
        buffer("k_cache", k),
        buffer("v_cache", v),
        buffer("out", call.out, "w"),
        None if witness is None else buffer("witness", witness, "w"),
        buffer("block_table", call.block_table),
        buffer("seq_lens", call.seq_lens),
        buffer("query_start_loc", call.query_start_loc),
        *(np.int64(stride) for stride in strides),
        *(np.int32(value) for value in (*extents, *scalars)),
        np.float32(call.scale),
        np.float32(call.soft_cap),
    ]
