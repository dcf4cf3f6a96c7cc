"""Float64 reference of paged attention, with a bound on what correct f32 arithmetic may differ by.

The function is the contract's (ops/paged_attention.py), row by row, reading only live slots of the
cache. The bound is per output value and holds for any arm that forms scores and P.V in f32 in any
order, with running maxima over ascending keys. It is derived here and nowhere else, with u = 2^-24
and g(K) = K u / (1 - K u).

1. Scores. Each <q, k> is a sum of D products; scale, and log2(e) where it is folded in, cost up to
   three more roundings: |error of s_j| <= e_j = g(D + 3) |scale| sum |q k| (+ D 2^-149 |scale| for
   products that underflow). A soft cap is a contraction, and tanh has an absolute error of 8 u:
   e_j <- (e_j + 3 u |s_j|) sech^2((|s_j| - e_j) / cap) + 8 u cap.
2. Weights. p_j = exp(s_j - m) carries a relative error of at most expm1(a_j),
   a_j = e_j + 4 u (m - s_j) + 3 u (R + 2): the argument's roundings (rescaling telescopes, so the
   sum of |steps| of the running maximum is m - s_j), an exp of 1.5 ulp, and one more for each of at
   most R rescales and two merges. R is how often a running maximum can rise: an arm takes its keys,
   or some of them, in ascending order, so no more often than the longest rising chain of scores
   (errors of e_j considered). With w = softmax(s) and o the exact output, the weights' errors make
       sum w_j expm1(a_j) |v_j - o| / sum w_j exp(-a_j)        (small scores: first order)
   and never more than max_j |v_j - o|, o staying a mean of values   (large scores: the hull).
   The smaller of the two holds; the first takes over from the second near a_j = 1.
   Weights under 2^-126 may be flushed: n 2^-126 max_j |v_j - o| more.
3. P.V and the division. At most n + R + 16 roundings of a partial sum, in numerator and denominator:
   g(n + R + 16) (sum w_j |v_j| + |o|), the mean taken with weights off by a_j; (n + 4) 2^-149 for
   underflow of the numerator.
4. Output. Half an ulp of the output dtype at |o| + the error so far, subnormals included.

A row whose arithmetic is exact (one key; or 2^i equal keys with values whose sums fit 24 bits) has no
error before the last rounding: it must come out as the nearest output value, ties to even.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace

import numpy as np
import torch

from hipbook.ops.attention_call import AttentionCall

U = 2.0**-24
SMALLEST_NORMAL, SMALLEST = 2.0**-126, 2.0**-149
# significand bits and least normal exponent: an ulp at x is 2^(max(floor(log2 x), emin) - bits + 1)
_FORMAT = {torch.bfloat16: (8, -126), torch.float16: (11, -14), torch.float32: (24, -126)}
NMSE_GATE = 5e-4
SHORT_ROW = 64  # up to here R = n is tight enough


def g(k: float | np.ndarray) -> float | np.ndarray:
    """Bound on the relative error of k successive f32 roundings."""
    return k * U / (1 - k * U)


@dataclass(frozen=True, eq=False)
class Reference:
    """What a call must give. Arrays are float64 [total_q, Hq, D] unless said otherwise."""

    out: torch.Tensor
    bound: torch.Tensor  # on |computed - out|, output rounding included
    written: torch.Tensor  # bool [total_q]: False for padding rows
    exact: torch.Tensor  # bool, shape of out: must equal `out` rounded to the output dtype
    before_rounding: torch.Tensor  # the bound without the output's own rounding
    out_dtype: torch.dtype
    keys: torch.Tensor  # int64 [total_q]: length of each row's key range
    # what `for_rounded_weights` needs more: sum of w |v|, and [total_q, Hq] the largest |v| of a row's keys
    weighed: torch.Tensor | None = None
    largest: torch.Tensor | None = None

    def for_dtype(self, out_dtype: torch.dtype) -> "Reference":
        """The same reference for another output dtype."""
        bound = self.before_rounding + half_ulp(self.out.abs() + self.before_rounding, out_dtype)
        return replace(self, bound=bound, out_dtype=out_dtype)

    def for_rounded_weights(self, dtype: torch.dtype) -> "Reference":
        """The same reference for arithmetic that rounds weights to `dtype` before P.V, but not in their sum.

        A rounding is off by half an ulp, relative to a weight of at most 1, or by half the least subnormal:
        u sum w |v| more, and n times the latter (weights are at least exp of what float16 holds of them).
        """
        if dtype is torch.float32:
            return self
        bits, least = _FORMAT[dtype]
        relative = 2.0**-bits
        lost = self.keys[:, None, None] * 2.0 ** (least - bits) * self.largest[:, :, None]
        before = torch.where(
            self.exact, 0.0, self.before_rounding + relative * (1 + relative) * self.weighed + lost
        )
        return replace(self, before_rounding=before).for_dtype(self.out_dtype)


def half_ulp(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half the spacing of `dtype` at |x|, float64; the subnormal spacing below the least normal."""
    bits, least = _FORMAT[dtype]
    _, exponent = torch.frexp(magnitude)  # magnitude = m 2^exponent, m in [0.5, 1)
    exponent = torch.where(magnitude > 0, torch.clamp(exponent - 1, min=least), least)
    return torch.ldexp(torch.ones_like(magnitude), exponent - bits)


def key_range(call: AttentionCall, position: int, seq_len: int) -> tuple[int, int]:
    """[first, last] of the keys the token at `position` of its sequence sees; last < first: none."""
    first = 0 if call.window_left < 0 else max(0, position - call.window_left)
    last = position if call.causal else seq_len - 1
    if call.window_right >= 0:
        last = min(last, position + call.window_right)
    return first, min(last, seq_len - 1)


def reference(call: AttentionCall) -> Reference:
    """The float64 answer to `call` and its bound. CPU work; memory of one request at a time.

    Only slots below seq_len of blocks in a live part of the table are read, so a cache may be a
    sparse mapping far larger than memory.
    """
    shape = tuple(call.q.shape)
    out, error, weighed, largest = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    exact = np.zeros(shape, dtype=bool)
    keys = np.zeros(shape[0], dtype=np.int64)
    starts, lens = call.query_start_loc.tolist(), call.seq_lens.tolist()
    q = _f64(call.q)
    for request, seq_len in enumerate(lens):
        q0, q1 = starts[request], starts[request + 1]
        ranges = [key_range(call, seq_len - (q1 - q0) + i, seq_len) for i in range(q1 - q0)]
        live = [(first, last) for first, last in ranges if last >= first]
        exact[q0:q1] = True  # a row without keys is exactly zero
        if not live:
            continue
        base, end = min(first for first, _ in live), max(last for _, last in live) + 1
        k, v = _gather(call, request, base, end)
        for token, (first, last) in zip(range(q0, q1), ranges, strict=True):
            if last < first:
                continue
            keys[token] = last - first + 1
            rows = slice(first - base, last + 1 - base)
            row = _row(call, q[token], k[:, rows], v[:, rows])
            out[token], error[token], exact[token], weighed[token], largest[token] = row
    written = torch.arange(shape[0]) < starts[-1]
    before = torch.from_numpy(error)
    blank = Reference(
        torch.from_numpy(out), before, written, torch.from_numpy(exact), before, call.result_dtype,
        torch.from_numpy(keys), torch.from_numpy(weighed), torch.from_numpy(largest),
    )  # fmt: skip
    return blank.for_dtype(call.result_dtype)


def _f64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().to(torch.float64).numpy()


def _gather(call: AttentionCall, request: int, base: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """K and V of keys [base, end) of a request, float64 [Hkv, keys, D]."""
    positions = torch.arange(base, end)
    blocks = call.block_table[request].cpu()[positions // call.block_size].long()
    slots = positions % call.block_size
    device = call.k_cache.device
    index = blocks.to(device), slots.to(device)
    return tuple(_f64(cache[index]).transpose(1, 0, 2) for cache in (call.k_cache, call.v_cache))


def _row(call: AttentionCall, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    """One token: q [Hq, D], k and v [Hkv, n, D]. Returns out, the error before rounding, exact,
    weighed and largest."""
    heads, head_dim = q.shape
    kv_heads = k.shape[0]
    scale, cap = float(np.float32(call.scale)), float(np.float32(call.soft_cap))
    grouped = q.reshape(kv_heads, -1, head_dim)
    score = scale * (grouped @ k.transpose(0, 2, 1))  # [Hkv, ratio, n]
    absolute = abs(scale) * (np.abs(grouped) @ np.abs(k).transpose(0, 2, 1))
    e = g(head_dim + 3) * absolute + head_dim * SMALLEST * abs(scale)
    if cap > 0:
        slope = np.cosh(np.clip((np.abs(score) - e) / cap, 0, 300)) ** -2
        e = (e + 3 * U * np.abs(score)) * slope + 8 * U * cap
        score = cap * np.tanh(score / cap)
    below = score.max(axis=2, keepdims=True) - score
    w = np.exp(-below)
    w /= w.sum(axis=2, keepdims=True)
    out = w @ v  # [Hkv, ratio, D]
    rescales = _rescales(score, e)  # [Hkv, ratio]
    a = e + 4 * U * below + 3 * U * (rescales[..., None] + 2)
    error = np.stack([_row_error(w[h], a[h], v[h], out[h], rescales[h]) for h in range(kv_heads)])
    exact = np.broadcast_to(_exact_columns(k, v)[:, None, :], out.shape)
    error = np.where(exact, 0.0, error)
    largest = np.repeat(np.abs(v).max(axis=(1, 2)), heads // kv_heads)
    weighed = w @ np.abs(v)
    return *(x.reshape(heads, head_dim) for x in (out, error, exact, weighed)), largest


def _rescales(score: np.ndarray, e: np.ndarray) -> np.ndarray:
    """R for each head, int [Hkv, ratio]: n for short rows, the longest rising chain for long ones."""
    kv_heads, ratio, n = score.shape
    if n <= SHORT_ROW:
        return np.full((kv_heads, ratio), n)
    rows, slack = score.reshape(-1, n), 2 * e.max(axis=2).reshape(-1)
    return np.array([rises(row, s) for row, s in zip(rows, slack, strict=True)]).reshape(kv_heads, ratio)


def rises(values: np.ndarray, slack: float) -> int:
    """Most values, in order, of which each may pass for above the one before when errors up to half
    of `slack` blur both."""
    tails: list[float] = []  # tails[k]: least last value of a chain of more than k values; ascending
    for x in values.tolist():
        k = bisect_left(tails, x + slack)  # x continues every chain of up to k values
        first = bisect_right(tails, x, 0, k)
        tails[first : k + 1] = [x] * (k + 1 - first)
    return len(tails)


def _row_error(
    w: np.ndarray, a: np.ndarray, v: np.ndarray, out: np.ndarray, rescales: np.ndarray
) -> np.ndarray:
    """Steps 2 and 3 of the bound for one kv head: w, a [ratio, n], v [n, D], out [ratio, D]."""
    n = v.shape[0]
    apart = np.abs(v[None] - out[:, None])  # [ratio, n, D]
    hull = apart.max(axis=1)
    grown = np.minimum(a, 700.0)  # exp stays finite; the hull holds there anyway
    floor = (w * np.exp(-grown)).sum(axis=1)[:, None]
    weights = np.minimum(np.einsum("rn,rnd->rd", w * np.expm1(grown), apart) / floor, hull)
    weights += n * SMALLEST_NORMAL * hull
    mean = np.minimum((w * np.exp(grown)) @ np.abs(v) / floor, np.abs(v).max(axis=0))
    sums = g(n + rescales[:, None] + 16) * (mean + np.abs(out) + weights)
    return weights + sums + (n + 4) * SMALLEST


def _exact_columns(k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """bool [Hkv, D]: columns of V whose f32 mean is exact whatever the order of summation."""
    kv_heads, n, head_dim = v.shape
    if n == 1:
        return np.ones((kv_heads, head_dim), dtype=bool)
    if n & (n - 1):
        return np.zeros((kv_heads, head_dim), dtype=bool)
    equal_keys = (k == k[:, :1]).all(axis=(1, 2))
    steps = v * 2.0**12
    fits = (steps == np.round(steps)).all(axis=1) & (np.abs(steps).sum(axis=1) <= 2.0**24)
    return equal_keys[:, None] & fits
