"""Float64 reference of GDN post-conv, what correct f32 arithmetic may differ by, and inputs that tell.

Bounds (u = 2^-24; an ulp is that of the result's dtype at the reference):
  q, k   (Dk / 2 + 4) u relative in f32: the sum of Dk squares has a relative error of at most Dk u, halved
         by the root, the rest are epsilon's addition, root, reciprocal and product. In bf16 one ulp: half
         for the rounding, and f32's error is far below the other half. 2^-149 more for subnormal results.
  v      the same bits.
  g      8 ulp of x as f32 rounds the sum: two or three exponentials and log1p, and their products.
  beta   4 ulp for b >= -87; below it 1 + exp(-b) passes f32's range and |error| <= 2^-126.
A reference of zero is exact. The contract: docs/contracts.md.
"""

from dataclasses import dataclass

import numpy as np
import torch

from hipbook.ops.gdn_post_conv import PostConvCall, PostConvOutputs
from hipbook.oracle.randoms import Randoms
from hipbook.oracle.within import Compared, U, all_of, same_bits, ulp, within

FAMILIES = ("random", "gates", "heads")
LAYOUTS = ("contiguous", "strided", "odd")
# x = a + dt_bias: a threshold of 10 is 29 ulp off at 10.5 (6 at 12, none at 15);
# exp overflows from 89 on; exp(-100) is subnormal
GATE_X = (
    15.0,
    20.0,
    20.125,
    19.875,
    89.0,
    100.0,
    -100.0,
    -17.0,
    -16.875,
    -90.0,
    0.0,
    9.5,
    10.5,
    12.0,
    -3.5,
    1e-3,
)
GATE_B = (0.0, -87.0, -87.5, -89.0, -100.0, 100.0, -88.5, 30.0, -1e-3, 3.25, -20.0)
GATE_A_LOG = (0.0, -np.inf, 10.0, -1.5, 10.0)


@dataclass(frozen=True, eq=False)
class PostConvReference:
    """name -> float64 values, and bounds on |computed - value|, of q, k, g and beta; v to the bit."""

    values: dict[str, np.ndarray]
    bounds: dict[str, np.ndarray]
    v: torch.Tensor


def reference(call: PostConvCall) -> PostConvReference:
    """The contract in float64."""
    tokens, hk, dk = call.tokens, call.num_k_heads, call.dk
    conv = call.conv.cpu().double().numpy()
    heads = {"q": conv[:, : hk * dk], "k": conv[:, hk * dk : 2 * hk * dk]}
    values, bounds = {}, {}
    for name, part in heads.items():
        part = part.reshape(tokens, hk, dk)
        value = part / np.sqrt((part * part).sum(axis=2, keepdims=True) + 1e-6)
        error = (dk / 2 + 4) * U * np.abs(value) + 2.0**-149
        values[name] = value
        bounds[name] = ulp(value, 8) if call.conv.dtype == torch.bfloat16 else error
    a, b = (tensor.cpu().float().numpy() for tensor in (call.a_raw, call.b_raw))
    x = (a + call.dt_bias.cpu().numpy()[None]).astype(np.float64)  # f32's sum
    with np.errstate(over="ignore"):
        softplus = np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20.0))))
        values["g"] = -np.exp(call.a_log.cpu().double().numpy())[None] * softplus
        values["beta"] = 1 / (1 + np.exp(-b.astype(np.float64)))
    bounds["g"] = 8 * ulp(values["g"], 24)
    bounds["beta"] = np.where(b >= -87, 4 * ulp(values["beta"], 24), 2.0**-126)
    for name, value in values.items():
        bounds[name] = np.where(value == 0, 0.0, bounds[name])
    v = call.conv[:, 2 * hk * dk :].cpu().reshape(tokens, call.num_v_heads, call.dv)
    return PostConvReference(values, bounds, v)


def compare(outputs: PostConvOutputs, wanted: PostConvReference) -> Compared:
    """Hold every value of every output to its bound, and v to equal bits."""
    parts = [
        within(name, getattr(outputs, name), value, wanted.bounds[name])
        for name, value in wanted.values.items()
    ]
    return all_of([*parts, same_bits("v", outputs.v, wanted.v)])


def make(
    family: str,
    seed: int,
    *,
    tokens: int,
    heads: tuple[int, int, int, int],
    dtype: torch.dtype,
    layout: str = "contiguous",
) -> PostConvCall:
    """A call of `tokens` rows with heads = (Hk, Dk, Hv, Dv).

    "gates" takes a + dt_bias, b and a_log from the lists above; "heads" has q and k heads of zeros, of one
    value, of tiny and of large ones; "strided" puts a's rows Hv + 3 and b's Hv + 5 apart, "odd" conv's
    width + 1, from an odd element.
    """
    hk, dk, hv, dv = heads
    randoms = Randoms("gdn_post_conv", family, seed, tokens, heads)
    width = 2 * hk * dk + hv * dv
    conv = randoms.uniform(tokens, width)
    a, b = (randoms.uniform(tokens, hv, least=-8, most=8) for _ in range(2))
    a_log, dt_bias = randoms.uniform(hv, least=-4, most=2), randoms.uniform(hv, least=-2, most=2)
    if family == "gates":
        token, head = np.indices((tokens, hv))
        dt_bias = torch.tensor([0.5 * (h % 2) for h in range(hv)])
        a = torch.from_numpy(np.array(GATE_X)[(token + head + seed) % len(GATE_X)]).float() - dt_bias
        b = torch.from_numpy(np.array(GATE_B)[(token + 3 * head + seed) % len(GATE_B)]).float()
        a_log = torch.tensor(
            [GATE_A_LOG[(h + seed) % len(GATE_A_LOG)] for h in range(hv)], dtype=torch.float32
        )
    elif family == "heads":
        parts = conv[:, : 2 * hk * dk].view(tokens, 2 * hk, dk)
        for at in range(tokens * 2 * hk):
            part = parts[at // (2 * hk), at % (2 * hk)]
            kind = (at + seed) % 6
            if kind == 0:
                part.zero_()
            elif kind == 1:
                part[: dk - 1] = 0.0
            elif kind < 5:
                part *= (1e-20, 1e-3, 1e15)[kind - 2]
    a, b, conv = (tensor.to(dtype) for tensor in (a, b, conv))
    if layout != "contiguous":
        pads = (16, 3, 5, 0) if layout == "strided" else (1, 0, 0, 1)
        conv, a, b = (
            _spread(tensor, pad, start)
            for tensor, pad, start in ((conv, pads[0], pads[3]), (a, pads[1], 0), (b, pads[2], 0))
        )
    return PostConvCall(conv, a, b, a_log, dt_bias, hk, dk, dv)


def _spread(tensor: torch.Tensor, pad: int, start: int) -> torch.Tensor:
    """The same values, rows `pad` elements further apart, `start` elements into their memory; NaN between."""
    rows, width = tensor.shape
    raw = torch.full((start + rows * (width + pad),), float("nan"), dtype=tensor.dtype)
    return raw[start:].view(rows, width + pad)[:, :width].copy_(tensor)
