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
TILE_KEYS = 16  # of online_tile
PREFILL_TOKENS = 32  # of a workgroup of prefill
IN_STEP = ("online", "online_shuffle", "online_wide", "online_tile")  # the whole workgroup takes a key
GQA_SLICE = 2048  # ratio * D one workgroup of decode_gqa or split_kv takes


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
    barriers_per_key: float  # the slope: barriers per wave at n + 1 keys less those at n; a mean for tiles
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


def kv_bytes(arm: str, shapes: Shapes) -> int:
    """Bytes of K and V that `arm` asks for: 2 * keys * (Hq, or Hkv * slices) * D * bytes an element.

    For any arm of the table, split_kv included: parts share the keys, so their number does not matter.
    prefill loads a key once for PREFILL_TOKENS consecutive tokens of a request and each query head.
    """
    if arm == "prefill":
        return 2 * _keys_of_tiles(shapes) * shapes.q.shape[1] * _row_bytes(shapes)
    return 2 * sum(keys_per_row(shapes)) * _readers(arm, shapes) * _row_bytes(shapes)


def _keys_of_tiles(shapes: Shapes) -> int:
    """Keys from the first token's first to the last token's last, over tiles of PREFILL_TOKENS tokens of the
    launch, request by request within a tile."""
    keys, starts = 0, shapes.query_start_loc.tolist()
    for q0, rows in zip(starts, _ranges(shapes), strict=False):
        tiles: dict[int, list[tuple[int, int]]] = {}
        for i, row in enumerate(rows):
            tiles.setdefault((q0 + i) // PREFILL_TOKENS, []).append(row)
        keys += sum(max(0, tile[-1][1] - tile[0][0] + 1) for tile in tiles.values())
    return keys


def _readers(arm: str, shapes: Shapes) -> int:
    """How many times each key of a row is loaded."""
    (_, heads, head_dim), kv_heads = shapes.q.shape, shapes.k_cache.shape[2]
    if arm in (*IN_STEP, "decode"):
        return heads
    if arm in ("decode_gqa", "split_kv"):
        return kv_heads * _ceil(heads // kv_heads * head_dim, GQA_SLICE)
    raise BadArgument("arm", repr(arm), "no expectation is written down for it")


def _row_bytes(shapes: Shapes) -> int:
    return shapes.k_cache.shape[3] * shapes.k_cache.element_size()


def online_threads(head_dim: int) -> int:
    """The least of 64, 128, 256 that is at least head_dim; 256 above."""
    return next((threads for threads in (64, 128) if threads >= head_dim), 256)


def online_barriers_per_key(head_dim: int) -> int:
    """4 + log2(threads): partials stored, the tree's steps, score stored, score taken, state updated."""
    return 4 + online_threads(head_dim).bit_length() - 1


def in_step_barriers_per_key(arm: str, head_dim: int) -> float:
    """online's; without the tree's steps 4; 3 a tile for online_tile, a mean over whole tiles."""
    if arm == "online":
        return online_barriers_per_key(head_dim)
    return 3 / TILE_KEYS if arm == "online_tile" else 4


def barriers_per_wave(arm: str, head_dim: int, keys: int) -> int:
    """All barriers a wave of a row with `keys` keys passes, those outside the loop over keys too."""
    if arm in IN_STEP:
        per = TILE_KEYS if arm == "online_tile" else 1
        return 1 + int(in_step_barriers_per_key(arm, head_dim) * per) * _ceil(keys, per)
    if arm in ("decode", "decode_gqa"):
        return 1 if keys else 0  # before the waves' results are merged
    raise BadArgument("arm", repr(arm), "no expectation is written down for it")


def expected(arm: str, shapes: Shapes, *, wave_size: int = 32) -> Traffic:
    """The expectation for `arm` (online, a rung, decode or decode_gqa) on a call of these shapes."""
    total_q, _, head_dim = shapes.q.shape
    keys = keys_per_row(shapes)
    if arm in IN_STEP:
        threads, barriers = online_threads(head_dim), in_step_barriers_per_key(arm, head_dim)
        held = ONLINE_ELEMENTS_PER_LANE if arm in IN_STEP[:2] else _ceil(head_dim, threads)
        lanes = _ceil(head_dim, held) * sum(1 for n in keys if n)
    elif arm in ("decode", "decode_gqa"):
        threads, barriers = DECODE_WAVES * wave_size, 0
        lanes = wave_size * sum(min(n, DECODE_WAVES) for n in keys)
    else:
        raise BadArgument("arm", repr(arm), "its launch depends on the board: see kv_bytes and floor_bytes")
    groups, loaded = _readers(arm, shapes), kv_bytes(arm, shapes) // 2
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
