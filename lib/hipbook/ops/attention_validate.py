"""What a paged-attention call must satisfy before any arm is launched.

`check_shapes` looks at what the host knows for free; `check_tables` reads the three int32 tables
(on a GPU that waits for the device), in whole-tensor operations. Both raise `BadArgument`.
"""

import torch

from hipbook.errors import BadArgument
from hipbook.ops import validate
from hipbook.ops.attention_call import DTYPES, AttentionCall

_FLOATS = tuple(DTYPES.values())
_MAX_GRID_Y = 65_535  # heads are on grid y


def check_shapes(call: AttentionCall, device: torch.device) -> None:
    """Types, shapes, strides, devices, addresses and scalars."""
    validate.tensor("q", call.q, _FLOATS, 3, device)
    validate.tensor("k_cache", call.k_cache, _FLOATS, 4, device)
    validate.tensor("v_cache", call.v_cache, _FLOATS, 4, device)
    validate.tensor("block_table", call.block_table, (torch.int32,), 2, device)
    validate.tensor("seq_lens", call.seq_lens, (torch.int32,), 1, device)
    validate.tensor("query_start_loc", call.query_start_loc, (torch.int32,), 1, device)
    if call.v_cache.dtype != call.k_cache.dtype:
        raise BadArgument(
            "v_cache.dtype",
            validate.dtype_word(call.v_cache.dtype),
            f"must be k_cache's, {validate.dtype_word(call.k_cache.dtype)}",
        )
    _check_extents(call)
    validate.contiguous("q", call.q)
    validate.contiguous("seq_lens", call.seq_lens)
    validate.contiguous("query_start_loc", call.query_start_loc)
    for name in ("k_cache", "v_cache", "block_table"):
        validate.last_stride_one(name, getattr(call, name))
    for name in ("k_cache", "v_cache"):
        validate.no_overlap(name, getattr(call, name))
    validate.real("scale", call.scale)
    validate.real("soft_cap", call.soft_cap, least=0.0)
    validate.boolean("causal", call.causal)
    validate.integer("window_left", call.window_left, -1)
    validate.integer("window_right", call.window_right, -1)
    _check_out(call, device)


def _check_extents(call: AttentionCall) -> None:
    total_q, heads, head_dim = call.q.shape
    blocks, block_size, kv_heads, _ = call.k_cache.shape
    validate.integer("q.shape[0]", total_q, 0)
    validate.integer("q.shape[1]", heads, 1, _MAX_GRID_Y)
    validate.integer("q.shape[2]", head_dim, 1)
    validate.integer("k_cache.shape[1]", block_size, 1)
    validate.integer("k_cache.shape[2]", kv_heads, 1)
    wanted = (blocks, block_size, kv_heads, head_dim)
    validate.shape("k_cache", call.k_cache, wanted, f"head_dim is q's, {head_dim}")
    validate.shape("v_cache", call.v_cache, wanted, "k_cache's shape")
    if heads % kv_heads:
        raise BadArgument(
            "q.shape[1]", heads, f"Hq must be a multiple of Hkv, which is {kv_heads} (k_cache.shape[2])"
        )
    requests = call.seq_lens.shape[0]
    validate.shape(
        "block_table",
        call.block_table,
        (requests, call.block_table.shape[1]),
        "one row a request of seq_lens",
    )
    validate.shape(
        "query_start_loc", call.query_start_loc, (requests + 1,), f"prefix sums of {requests} query lengths"
    )


def _check_out(call: AttentionCall, device: torch.device) -> None:
    if call.out_dtype is not None and call.out_dtype not in _FLOATS:
        words = ", ".join(validate.dtype_word(dtype) for dtype in _FLOATS)
        raise BadArgument("out_dtype", call.out_dtype, f"must be one of: {words}")
    if call.out is None:
        return
    wanted = _FLOATS if call.out_dtype is None else (call.out_dtype,)
    validate.tensor("out", call.out, wanted, 3, device)
    validate.shape("out", call.out, tuple(call.q.shape), "q's shape")
    validate.contiguous("out", call.out)
    for name in ("q", "k_cache", "v_cache", "block_table", "seq_lens", "query_start_loc"):
        validate.apart("out", call.out, name, getattr(call, name))


def check_tables(call: AttentionCall) -> None:
    """Contents of query_start_loc, seq_lens and the live part of block_table.

    A request that owns tokens has either no keys at all (seq_len 0: its rows are zeros) or at
    least as many as it has tokens. Of block_table only entries below ceil(seq_len / block_size)
    of requests that own tokens are looked at.
    """
    starts, lens = call.query_start_loc, call.seq_lens
    first = int(starts[0])
    if first != 0:
        raise BadArgument("query_start_loc[0]", first, "must be 0")
    counts = starts[1:].long() - starts[:-1].long()
    if (index := _first(counts < 0)) is not None:
        raise BadArgument(
            f"query_start_loc[{index + 1}]",
            int(starts[index + 1]),
            f"must not be below query_start_loc[{index}], which is {int(starts[index])}",
        )
    if int(starts[-1]) > call.total_q:
        raise BadArgument("query_start_loc[-1]", int(starts[-1]), f"must not pass total_q, {call.total_q}")
    if (index := _first(lens < 0)) is not None:
        raise BadArgument(f"seq_lens[{index}]", int(lens[index]), "must not be negative")
    if (index := _first((lens > 0) & (lens < counts))) is not None:
        raise BadArgument(
            f"seq_lens[{index}]",
            int(lens[index]),
            f"must be 0 or at least the request's query length, {int(counts[index])}",
        )
    _check_blocks(call, torch.where(counts > 0, lens.long(), 0))


def _check_blocks(call: AttentionCall, live_lens: torch.Tensor) -> None:
    blocks, block_size = call.k_cache.shape[:2]
    width = call.block_table.shape[1]
    live = (live_lens + block_size - 1) // block_size  # entries each row uses
    if (index := _first(live > width)) is not None:
        raise BadArgument(
            "block_table.shape[1]",
            width,
            f"too short for request {index}: {int(live_lens[index])} keys in blocks of {block_size} "
            f"need {int(live[index])} entries",
        )
    columns = torch.arange(width, device=live.device)
    bad = ((call.block_table < 0) | (call.block_table >= blocks)) & (columns < live[:, None])
    if bad.any():
        row, column = (int(i) for i in bad.nonzero()[0])
        raise BadArgument(
            f"block_table[{row}, {column}]",
            int(call.block_table[row, column]),
            f"must be a block of the cache, 0 .. {blocks - 1}",
        )


def _first(mask: torch.Tensor) -> int | None:
    hits = mask.nonzero()
    return int(hits[0]) if hits.numel() else None


def owned_rows(call: AttentionCall) -> torch.Tensor:
    """bool [total_q]: rows some request owns. The others are padding and are never written."""
    return torch.arange(call.total_q, device=call.q.device) < call.query_start_loc[-1]
