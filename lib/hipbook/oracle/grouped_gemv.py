"""Oracles of the grouped K-quant GEMV: dequantised float64 and the exact integer form, and a bound.

Both are the same number in exact arithmetic: `reference` takes the integer form, whose integers are exact in
float64, and `dequantised` the other, to hold one to the other.

The bound, u = 2^-24: an arm forms integers exactly, turns them into f32 (one rounding), multiplies by two
scales (two), subtracts the mins' part (one) and adds at most B shares of a lane and 6 across lanes, in any
order; each share is at most A = sum |d_w d_a| (scale nibble |q|) + |dmin d_a| (min |bsum|) over its part. So
|error| <= (B + 12) u A, B the superblocks of a row, and half an ulp of the output at the result.
The contract: docs/contracts.md.
"""

from dataclasses import dataclass

import numpy as np
import torch

from hipbook.ops.grouped_gemv import FORMATS
from hipbook.oracle.randoms import Randoms
from hipbook.oracle.within import U, half_ulp


@dataclass(frozen=True, eq=False)
class Superblocks:
    """Weights [..., 256] taken apart: value = d * scale * q - dmin * minimum. Scale and minimum are integers
    of G sub-blocks each, of 256 / G neighbouring elements."""

    d: np.ndarray  # float64 [...]
    dmin: np.ndarray  # float64 [...], zero in Q6_K
    scale: np.ndarray  # int64 [..., G]
    minimum: np.ndarray  # int64 [..., G]
    q: np.ndarray  # int64 [..., 256]

    def of_each(self, part: np.ndarray) -> np.ndarray:
        """[..., 256]: scale or minimum of each element."""
        return np.repeat(part, self.q.shape[-1] // part.shape[-1], axis=-1)

    def values(self) -> np.ndarray:
        scaled = self.d[..., None] * (self.of_each(self.scale) * self.q)
        return scaled - self.dmin[..., None] * self.of_each(self.minimum)


def unpack(weights: np.ndarray, weight_format: str) -> Superblocks:
    """uint8 [..., 144 | 210] to its parts."""
    if weight_format == "Q4_K":
        d, dmin = (_f16(weights[..., at : at + 2]) for at in (0, 2))
        s, nibbles = weights[..., 4:16].astype(np.int64), weights[..., 16:]
        scales = [s[..., c] & 63 if c < 4 else s[..., c + 4] & 15 | s[..., c - 4] >> 6 << 4 for c in range(8)]
        mins = [s[..., c + 4] & 63 if c < 4 else s[..., c + 4] >> 4 | s[..., c] >> 6 << 4 for c in range(8)]
        parts = [nibbles[..., c // 2 * 32 : c // 2 * 32 + 32] >> (4 * (c % 2)) & 15 for c in range(8)]
        scale, minimum = (np.stack(of, axis=-1) for of in (scales, mins))
        return Superblocks(d, dmin, scale, minimum, np.concatenate(parts, axis=-1).astype(np.int64))
    parts = []
    for g in range(8):
        h, r = divmod(g, 4)
        low = weights[..., 64 * h + (r & 1) * 32 :][..., :32] >> (4 if r >= 2 else 0) & 15
        high = weights[..., 128 + 32 * h :][..., :32] >> (2 * r) & 3
        parts.append(low | high << 4)
    scale = np.ascontiguousarray(weights[..., 192:208]).view(np.int8).astype(np.int64)
    d = _f16(weights[..., 208:210])
    q = np.concatenate(parts, axis=-1).astype(np.int64) - 32
    return Superblocks(d, np.zeros_like(d), scale, np.zeros_like(scale), q)


def _f16(two: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(two).view("<f2")[..., 0].astype(np.float64)


def activations(act_q8k: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(d float64 [P, B], q int64 [P, B, 256]) of uint8 [P, B, 292]."""
    data = act_q8k.cpu().numpy()
    d = np.ascontiguousarray(data[..., :4]).view("<f4")[..., 0].astype(np.float64)
    return d, np.ascontiguousarray(data[..., 4:260]).view(np.int8).astype(np.int64)


def reference(
    act_q8k: torch.Tensor,
    weights: torch.Tensor,
    expert_ids: torch.Tensor,
    weight_format: str,
    dtype: torch.dtype,
) -> tuple[np.ndarray, np.ndarray]:
    """(values, bounds), float64 [P, N]."""
    d, q = activations(act_q8k)
    values, bounds = [], []
    for p, expert in enumerate(expert_ids.tolist()):
        row = p if len(d) > 1 else 0
        w = unpack(weights[expert].cpu().numpy(), weight_format)  # [N, B, ...]
        products, sizes = _by_sub_block(w, w.q, q[row]), _by_sub_block(w, np.abs(w.q), np.abs(q[row]))
        ones = np.ones((1, *w.q.shape[1:]), dtype=np.int64)
        sums, magnitudes = _by_sub_block(w, ones, q[row]), _by_sub_block(w, ones, np.abs(q[row]))
        dots, belows = (w.scale * products).sum(-1), (w.minimum * sums).sum(-1)
        values.append((d[row] * (w.d * dots - w.dmin * belows)).sum(-1))
        most = np.abs(w.d) * (np.abs(w.scale) * sizes).sum(-1)
        most += np.abs(w.dmin) * (w.minimum * magnitudes).sum(-1)
        bounds.append((np.abs(d[row]) * most).sum(-1))
    value = np.array(values).reshape(len(expert_ids), weights.shape[1])
    error = (weights.shape[2] + 12) * U * np.array(bounds).reshape(value.shape) + 2.0**-140
    return value, error + half_ulp(np.abs(value) + error, dtype)


def _by_sub_block(w: Superblocks, of_weights: np.ndarray, act: np.ndarray) -> np.ndarray:
    """[N, B, G]: sums over a sub-block of weights [N, B, 256] times act [B, 256]. A sum is at most 32 * 63 *
    127, below 2^24: float32 has it exactly."""
    groups = w.scale.shape[-1]
    one, other = (part.astype(np.float32).reshape(*part.shape[:-1], groups, -1) for part in (of_weights, act))
    return np.einsum("nbgi,bgi->nbg", one, other).astype(np.float64)


def dequantised(
    act_q8k: torch.Tensor, weights: torch.Tensor, expert_ids: torch.Tensor, weight_format: str
) -> np.ndarray:
    """The product of dequantised float64 values, [P, N]."""
    d, q = activations(act_q8k)
    act = (d[..., None] * q).reshape(len(d), -1)
    rows = [
        unpack(weights[e].cpu().numpy(), weight_format).values().reshape(weights.shape[1], -1)
        for e in expert_ids.tolist()
    ]
    return np.stack([w @ act[p if len(d) > 1 else 0] for p, w in enumerate(rows)])


def make_weights(seed: int, experts: int, n: int, k: int, weight_format: str) -> torch.Tensor:
    """uint8 [E, N, K / 256, bytes]: random bytes, the f16 scales among them random and finite."""
    randoms = Randoms("grouped_gemv", seed, experts, n, k, weight_format)
    size, blocks = FORMATS[weight_format], experts * n * k // 256
    count = blocks * size
    data = torch.from_numpy(randoms.words(-(-count // 8)).astype("<u8").view(np.uint8)[:count].copy())
    data = data.view(blocks, size)
    places = (0, 2) if weight_format == "Q4_K" else (208,)
    for place in places:
        scale = randoms.uniform(blocks, least=-0.02, most=0.02).to(torch.float16)
        data[:, place : place + 2] = scale.view(torch.uint8).view(blocks, 2)
    return data.view(experts, n, k // 256, size)
