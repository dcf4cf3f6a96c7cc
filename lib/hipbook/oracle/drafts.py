"""From numbers to a call: requests and their values first, their place in memory second.

A draft holds what the answer depends on (f32 values of q, and of each request's keys and values).
`place` puts it into a paged cache under a layout, with a random block table, and fills everything
the answer must not depend on: unused blocks and slots, the table's tail, padding tokens.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch

from hipbook.ops.attention_call import AttentionCall
from hipbook.oracle.caches import Layout, allocate
from hipbook.oracle.randoms import Randoms

RowKind = Literal["decode", "chunked", "prefill"]
LOUD = 240.0  # finite filler of dead slots: a kernel that reads one is off by far more than a bound


@dataclass(frozen=True)
class Shape:
    """What a family is asked for: dtypes, heads, block size, kind of rows."""

    q_dtype: torch.dtype = torch.bfloat16
    kv_dtype: torch.dtype = torch.bfloat16
    out_dtype: torch.dtype = torch.bfloat16
    head_dim: int = 128
    num_q_heads: int = 4
    num_kv_heads: int = 2
    block_size: int = 16
    row_kind: RowKind = "decode"


@dataclass
class Draft:
    """Values before placement; families overwrite what they need to.

    q f32 [tokens, Hq, D]; k, v: one f32 [seq_len, Hkv, D] a request; requests: (query_len, seq_len).
    """

    shape: Shape
    requests: list[tuple[int, int]]
    q: torch.Tensor
    k: list[torch.Tensor]
    v: list[torch.Tensor]
    scalars: dict[str, object] = field(default_factory=dict)


def draft(randoms: Randoms, shape: Shape, requests: list[tuple[int, int]], **scalars: object) -> Draft:
    """Uniform values in [-1.5, 1.5); scale 1 / sqrt(D) unless `scalars` says otherwise."""
    tokens = sum(query_len for query_len, _ in requests)
    q = randoms.uniform(tokens, shape.num_q_heads, shape.head_dim)
    # a request that owns no tokens is read by nobody: it has no values
    sizes = [seq_len if query_len else 0 for query_len, seq_len in requests]
    k, v = ([randoms.uniform(size, shape.num_kv_heads, shape.head_dim) for size in sizes] for _ in range(2))
    return Draft(shape, requests, q, k, v, {"scale": shape.head_dim**-0.5, **scalars})


def requests_for(kind: RowKind, lens: tuple[int, ...], chunk: int = 3) -> list[tuple[int, int]]:
    """(query_len, seq_len) for sequences of `lens` keys: one token, the last few, or all of them."""
    if kind == "decode":
        return [(1, n) for n in lens]
    if kind == "chunked":  # context left of the chunk wherever the length allows it
        return [(max(1, min(chunk, n - 1)), n) for n in lens]
    return [(n or 1, n) for n in lens]


def place(
    randoms: Randoms,
    values: Draft,
    *,
    layout: Layout = Layout(),  # noqa: B008 (immutable)
    dead: float = LOUD,
    pad_tokens: int = 0,
    table_tail: tuple[int, ...] = (),
    table_stride_pad: int = 0,
    pool: torch.Tensor | None = None,
    num_blocks: int | None = None,
    q_start: int = 0,
    out_start: int | None = None,
) -> AttentionCall:
    """The call. `pool`: block ids to use, in order (default: a random permutation of a small pool).

    `table_tail` is cycled through the entries past each row's live ones (default: random valid ids);
    `q_start`, `out_start` shift q and a caller's own out by elements; `dead` fills what is not live.
    """
    shape, size = values.shape, values.shape.block_size
    live = [-(-keys.shape[0] // size) for keys in values.k]
    blocks = num_blocks if num_blocks is not None else sum(live) + 3
    ids = pool if pool is not None else _never_in_place(randoms.permutation(blocks), sum(live))
    width = max(live, default=0) + 2
    table = _tail(randoms, len(live), width + table_stride_pad, table_tail, blocks)[:, :width]
    k_cache, v_cache = allocate(
        layout, blocks, size, shape.num_kv_heads, shape.head_dim, shape.kv_dtype, dead
    )
    used = 0
    for row, count in enumerate(live):
        mine = ids[used : used + count]
        used += count
        table[row, :count] = mine.int()
        positions = torch.arange(values.k[row].shape[0])
        where = mine[positions // size], positions % size
        k_cache[where] = values.k[row].to(shape.kv_dtype)
        v_cache[where] = values.v[row].to(shape.kv_dtype)
    tokens = values.q.shape[0]
    q = _shifted((tokens + pad_tokens, *values.q.shape[1:]), shape.q_dtype, q_start)
    q[:tokens] = values.q.to(shape.q_dtype)
    q[tokens:] = float("nan")
    out = None if out_start is None else _shifted(tuple(q.shape), shape.out_dtype, out_start)
    counts = torch.tensor([0, *(query_len for query_len, _ in values.requests)])
    return AttentionCall(
        q, k_cache, v_cache, table,
        torch.tensor([seq_len for _, seq_len in values.requests], dtype=torch.int32),
        counts.cumsum(0).int(), out_dtype=shape.out_dtype, out=out, **values.scalars,
    )  # fmt: skip


def _never_in_place(ids: torch.Tensor, used: int) -> torch.Tensor:
    """A table that happens to be 0, 1, 2, ... would hide an addressing bug."""
    in_place = bool((ids[:used] == torch.arange(used)).all())
    return ids.roll(1) if in_place else ids


def _tail(randoms: Randoms, rows: int, width: int, tail: tuple[int, ...], blocks: int) -> torch.Tensor:
    """int32 [rows, width]: what the table holds where no live entry is written over it."""
    if tail:
        cycle = torch.tensor(tail, dtype=torch.int32)
        return cycle[torch.arange(rows * width) % len(tail)].view(rows, width)
    ids = torch.from_numpy((randoms.words(rows * width) % max(blocks, 1)).astype("int32"))
    return ids.view(rows, width)


def _shifted(shape: tuple[int, ...], dtype: torch.dtype, start: int) -> torch.Tensor:
    """A contiguous tensor that starts `start` elements into its storage."""
    count = 1
    for extent in shape:
        count *= extent
    return torch.zeros(start + count, dtype=dtype)[start:].view(shape)
