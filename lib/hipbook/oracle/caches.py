"""Paged caches in the layouts engines use, and in layouts that find addressing bugs.

A layout says where K and V of a pool live in memory; the views it gives are always
[num_blocks, block_size, Hkv, D]. Pools larger than memory are anonymous mappings without reserved
pages: only pages that are touched exist.
"""

import mmap
from dataclasses import dataclass
from typing import Literal

import torch

_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux; Python names it from 3.13 on


@dataclass(frozen=True)
class Layout:
    """Memory layout of a pool. Padding and shifts are in elements.

    order: "separate" (K and V on their own), "interleaved" (views of [num_blocks, 2, block_size,
    Hkv, D]: the block stride doubles) or "heads_first" (a permuted [num_blocks, Hkv, block_size, D]).
    `v_slot_pad` more on V's slots, or `v_head_pad` on its heads, gives K and V different strides.
    `start` shifts the first element of K and of V away from an aligned address. `sparse` maps pages
    lazily, and leaves them zero.
    """

    order: Literal["separate", "interleaved", "heads_first"] = "separate"
    head_pad: int = 0
    slot_pad: int = 0
    v_slot_pad: int = 0
    v_head_pad: int = 0
    start: tuple[int, int] = (0, 0)
    sparse: bool = False


def allocate(
    layout: Layout,
    num_blocks: int,
    block_size: int,
    kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    fill: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(k_cache, v_cache): views of memory that holds `fill` everywhere, padding included."""
    extents = (num_blocks, block_size, kv_heads, head_dim)
    k_strides = _strides(layout, extents, 0, 0)
    v_strides = _strides(layout, extents, layout.v_slot_pad, layout.v_head_pad)
    if layout.order == "interleaved":
        half = k_strides[0]
        strides = (2 * half, *k_strides[1:])
        memory = _memory(num_blocks * 2 * half + layout.start[0], dtype, layout.sparse, fill)
        return tuple(
            torch.as_strided(memory, extents, strides, layout.start[0] + which * half) for which in (0, 1)
        )
    views = []
    for strides, start in zip((k_strides, v_strides), layout.start, strict=True):
        memory = _memory(num_blocks * strides[0] + start, dtype, layout.sparse, fill)
        views.append(torch.as_strided(memory, extents, strides, start))
    return tuple(views)


def _strides(
    layout: Layout, extents: tuple[int, ...], more_slot: int, more_head: int
) -> tuple[int, int, int, int]:
    """(block, slot, head, 1) of one of the two caches when each lies on its own."""
    _, block_size, kv_heads, head_dim = extents
    row = head_dim + layout.head_pad + more_head
    if layout.order == "heads_first":
        head = block_size * row
        return kv_heads * head, row, head, 1
    slot = kv_heads * row + layout.slot_pad + more_slot
    return block_size * slot, slot, row, 1


def _memory(count: int, dtype: torch.dtype, sparse: bool, fill: float) -> torch.Tensor:
    if not sparse:
        return torch.full((count,), fill, dtype=dtype)
    size = torch.empty((), dtype=dtype).element_size()
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, count * size, flags=flags), dtype=dtype)
