"""`tiled_ref`: paged attention in vLLM's 2D arithmetic, as a Triton kernel of our own.

One program per (request, kv head), for requests of one token. The query heads of the kv head, padded to 16
rows or more, meet a tile of keys at once on matrix units. What sets the arithmetic apart from the HIP arms
can be switched off one by one:

    ROUND_P    probabilities are rounded to V's type before P V, while their sum stays float32
    TILE_MAX   the running maximum moves once a tile; off: the maximum over all keys is found first
    EPSILON    is added to the denominator (1e-10); 0.0 takes it away

Written from the contract in docs/contracts.md. Works with triton 3.6 and 3.7.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _keys(
    start, first, last, block_table, table_row, block_size,
    block_stride, slot_stride, TILE: tl.constexpr,
):  # fmt: skip
    """Element offsets of a tile's rows in the cache, and which of its keys the token sees."""
    key = start + tl.arange(0, TILE)
    seen = (key >= first) & (key <= last)
    block = tl.load(block_table + table_row + key // block_size, mask=seen, other=0).to(tl.int64)
    return block * block_stride + (key % block_size).to(tl.int64) * slot_stride, seen


@triton.jit
def _scores(
    query, k_cache, offsets, seen, scale, soft_cap, D: tl.constexpr, D_PAD: tl.constexpr, CAPPED: tl.constexpr
):
    """float32 [rows, tile]: scores of a tile, -inf for keys that are not seen."""
    d = tl.arange(0, D_PAD)
    k = tl.load(k_cache + offsets[None, :] + d[:, None], mask=seen[None, :] & (d[:, None] < D), other=0.0)
    score = scale * tl.dot(query, k, input_precision="ieee")
    if CAPPED:
        score = soft_cap * libdevice.tanh(score / soft_cap)
    return tl.where(seen[None, :], score, float("-inf"))


@triton.jit
def tiled_ref(
    q, k_cache, v_cache, out, witness, block_table, seq_lens, query_start_loc,
    k_block_stride, k_slot_stride, k_head_stride, v_block_stride, v_slot_stride, v_head_stride,
    block_table_stride, num_q_heads, block_size, window_left, scale, soft_cap,
    WITNESS: tl.constexpr, RATIO: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    TILE: tl.constexpr, CAPPED: tl.constexpr, ROUND_P: tl.constexpr, TILE_MAX: tl.constexpr,
    EPSILON: tl.constexpr,
):  # fmt: skip
    request, kv_head = tl.program_id(0), tl.program_id(1)
    tl.store(witness + request + tl.num_programs(0) * kv_head, WITNESS)
    token = tl.load(query_start_loc + request)
    if tl.load(query_start_loc + request + 1) - token != 1:
        return
    last = tl.load(seq_lens + request) - 1
    first = tl.where((window_left >= 0) & (last > window_left), last - window_left, 0)
    k_head, v_head = k_cache + kv_head * k_head_stride, v_cache + kv_head * v_head_stride
    table_row = request * block_table_stride

    head, d = tl.arange(0, ROWS), tl.arange(0, D_PAD)
    row = (token.to(tl.int64) * num_q_heads + kv_head * RATIO + head)[:, None] * D + d[None, :]
    live = (head[:, None] < RATIO) & (d[None, :] < D)
    query = tl.load(q + row, mask=live, other=0.0)

    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    pv = tl.zeros([ROWS, D_PAD], tl.float32)
    begin = first // TILE * TILE
    if not TILE_MAX:
        for start in range(begin, last + 1, TILE):
            offsets, seen = _keys(
                start, first, last, block_table, table_row, block_size, k_block_stride, k_slot_stride, TILE
            )
            score = _scores(query, k_head, offsets, seen, scale, soft_cap, D, D_PAD, CAPPED)
            top = tl.maximum(top, tl.max(score, 1))
    for start in range(begin, last + 1, TILE):
        offsets, seen = _keys(
            start, first, last, block_table, table_row, block_size, k_block_stride, k_slot_stride, TILE
        )
        score = _scores(query, k_head, offsets, seen, scale, soft_cap, D, D_PAD, CAPPED)
        offsets, seen = _keys(
            start, first, last, block_table, table_row, block_size, v_block_stride, v_slot_stride, TILE
        )
        v = tl.load(v_head + offsets[:, None] + d[None, :], mask=seen[:, None] & (d[None, :] < D), other=0.0)
        if TILE_MAX:
            new_top = tl.maximum(top, tl.max(score, 1))
            keep = tl.exp(top - new_top)  # every tile of the loop holds a key: new_top is finite
            total *= keep
            pv *= keep[:, None]
            top = new_top
        p = tl.exp(score - top[:, None])
        total += tl.sum(p, 1)
        if ROUND_P:
            pv += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        else:
            pv += tl.dot(p, v.to(tl.float32), input_precision="ieee")
    tl.store(out + row, pv / (total + EPSILON)[:, None], mask=live)
