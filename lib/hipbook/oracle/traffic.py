"""What an arm must load and synchronise, from shapes alone: the expectation a counter is held to.

Nothing here looks at a kernel, a launch geometry or a counter. Sizes are exact: bytes the kernel asks
for (no cache), barriers a wave passes, lanes that load at all. The formulas: docs/contracts.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from hipbook.errors import BadArgument

ONLINE_ELEMENTS_PER_LANE = 4
DECODE_WAVES = 8
GQA_SLICE = 2048  # ratio * D one workgroup of decode_gqa takes


class Shapes(Protocol):
    """What is read of a call: extents, lengths, windows. No value of q, K or V."""

    q: torch.Tensor
    k_cache: torch.Tensor
    seq_lens: torch.Tensor
    query_start_loc: torch.Tensor
    causal: bool
    window_left: int
    window_right: int


@dataclass(frozen=True)
class Traffic:
    """Expectation for one launch of one arm."""

    k_bytes: int
    v_bytes: int
    workgroups: int
    threads: int  # of a workgroup
    barriers_per_key: int  # the slope: barriers per wave at n + 1 keys less those at n
    k_live_lanes: int  # distinct (wave, lane) that load from K, over the launch
    floor_bytes: int  # fewest bytes of K and V any arm must read

    @property
    def kv_bytes(self) -> int:
        return self.k_bytes + self.v_bytes


def keys_per_row(shapes: Shapes) -> list[int]:
    """Length of each token's key range, padding tokens not included."""
    return [max(0, last - first + 1) for rows in _ranges(shapes) for first, last in rows]


def _ranges(shapes: Shapes) -> list[list[tuple[int, int]]]:
    """[first, last] of every token, by request."""
    starts, lens = shapes.query_start_loc.tolist(), shapes.seq_lens.tolist()
    ranges = []
    for q0, q1, n in zip(starts, starts[1:], lens, strict=False):
        rows = []
        for token in range(q0, q1):
            p = n - (q1 - q0) + (token - q0)
            ends = [n - 1]
            if shapes.causal:
                ends.append(p)
            if shapes.window_right != -1:
                ends.append(p + shapes.window_right)
            rows.append((max(0, p - shapes.window_left) if shapes.window_left != -1 else 0, min(ends)))
        ranges.append(rows)
    return ranges


def floor_bytes(shapes: Shapes) -> int:
    """Each key that some row of a request needs is read once: 2 * keys * Hkv * D * bytes an element."""
    _, _, kv_heads, head_dim = shapes.k_cache.shape
    keys = 0
    for rows in _ranges(shapes):
        live = [(first, last) for first, last in rows if last >= first]
        # ranges of consecutive tokens move by one, so their union has no hole
        keys += max(last for _, last in live) - min(first for first, _ in live) + 1 if live else 0
    return 2 * keys * kv_heads * head_dim * shapes.k_cache.element_size()


def online_threads(head_dim: int) -> int:
    """The least of 64, 128, 256 that is at least head_dim; 256 above."""
    return next((threads for threads in (64, 128) if threads >= head_dim), 256)


def online_barriers_per_key(head_dim: int) -> int:
    """4 + log2(threads): partials stored, the tree's steps, score stored, score taken, state updated."""
    return 4 + online_threads(head_dim).bit_length() - 1


def expected(arm: str, shapes: Shapes, *, wave_size: int = 32) -> Traffic:
    """The expectation for `arm` (online, decode or decode_gqa) on a call of these shapes."""
    total_q, heads, head_dim = shapes.q.shape
    kv_heads = shapes.k_cache.shape[2]
    keys = keys_per_row(shapes)
    if arm == "online":
        groups, threads, barriers = heads, online_threads(head_dim), online_barriers_per_key(head_dim)
        lanes = _ceil(head_dim, ONLINE_ELEMENTS_PER_LANE) * sum(1 for n in keys if n)
    elif arm in ("decode", "decode_gqa"):
        slices = _ceil(heads // kv_heads * head_dim, GQA_SLICE)
        groups = heads if arm == "decode" else kv_heads * slices
        threads, barriers = DECODE_WAVES * wave_size, 0
        lanes = wave_size * sum(min(n, DECODE_WAVES) for n in keys)
    else:
        raise BadArgument("arm", repr(arm), "no expectation is written down for it")
    loaded = sum(keys) * groups * head_dim * shapes.k_cache.element_size()
    return Traffic(
        k_bytes=loaded,
        v_bytes=loaded,
        workgroups=total_q * groups,
        threads=threads,
        barriers_per_key=barriers,
        k_live_lanes=lanes * groups,
        floor_bytes=floor_bytes(shapes),
    )


def barriers_slope(per_wave: Sequence[tuple[int, float]]) -> float:
    """From (keys, barriers per wave) at n and n + 1 keys: what one more key costs."""
    (n, before), (more, after) = per_wave
    if more != n + 1:
        raise BadArgument("keys", (n, more), "the slope is taken between n and n + 1 keys")
    return after - before


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
