"""The float64 reference of GDN post-conv: rules by hand, bounds that bite, inputs that tell."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from hipbook.ops.gdn_post_conv import PostConvCall, PostConvOutputs
from hipbook.oracle.gdn_post_conv import (
    FAMILIES,
    GATE_A_LOG,
    GATE_B,
    GATE_X,
    LAYOUTS,
    compare,
    make,
    reference,
    ulp,
)

HEADS = (2, 8, 3, 5)


def f32(call: PostConvCall) -> PostConvOutputs:
    """The contract in torch's f32, another implementation than numpy's float64."""
    tokens, hk, dk = call.tokens, call.num_k_heads, call.dk
    dtype = call.conv.dtype
    q, k, v = call.conv.float().split([hk * dk, hk * dk, call.v_width], dim=1)
    q, k = (part.reshape(tokens, hk, dk) for part in (q, k))
    q, k = ((part / (part.square().sum(2, keepdim=True) + 1e-6).sqrt()).to(dtype) for part in (q, k))
    x = call.a_raw.float() + call.dt_bias
    softplus = torch.where(x > 20, x, torch.log1p(x.clamp(max=20).exp()))
    rate = call.a_log.exp()
    far = (x / 2).exp()  # exp(x) is subnormal near -100
    g = torch.where(x < -17, -rate * far * far, -rate * softplus)
    beta = 1 / (1 + (-call.b_raw.float()).exp())
    v = v.reshape(tokens, call.num_v_heads, call.dv).to(dtype).contiguous()
    return PostConvOutputs(q, k, v, g, beta)


def case(family: str = "random", dtype: torch.dtype = torch.float32, layout: str = "contiguous", **also):
    return make(
        family, also.get("seed", 0), tokens=15, heads=also.get("heads", HEADS), dtype=dtype, layout=layout
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_plain_f32_is_within_the_bounds(family, dtype, layout):
    call = case(family, dtype, layout)
    seen = compare(f32(call), reference(call))
    assert seen.why == ""
    assert 0.1 < seen.max_error_over_bound <= 1
    assert seen.values_compared == 15 * (2 * 16 + 15 + 2 * 3)
    assert seen.exact_compared >= 15 * 15


def wrong(call: PostConvCall, kind: str) -> PostConvOutputs:
    """f32 with one rule broken."""
    out = f32(call)
    q = call.conv[:, :16].float().reshape(15, 2, 8)
    x, b = call.a_raw.float() + call.dt_bias, call.b_raw.float()
    rate = call.a_log.exp()
    dtype = call.conv.dtype
    changed = {
        "mean, not sum": {"q": (q / (q.square().mean(2, keepdim=True) + 1e-6).sqrt()).to(dtype)},
        "no epsilon": {"q": (q / q.square().sum(2, keepdim=True).sqrt()).to(dtype)},
        "threshold 10": {"g": -rate * torch.where(x > 10, x, torch.log1p(x.exp()))},
        "no branch": {"g": -rate * torch.log1p(x.exp())},
        "positive g": {"g": -out.g},
        "exp, not log1p": {"g": -rate * torch.log(1 + x.exp())},
        "sign of b": {"beta": 1 / (1 + b.exp())},
        "k for q": {"q": out.k},
        "v is off by one": {"v": out.v.roll(1, 2)},
        "negative zero": {"v": torch.where(out.v == out.v[0, 0, 0], -out.v, out.v)},
    }
    return replace(out, **changed[kind])


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("mean, not sum", "random"), ("no epsilon", "heads"),
        ("threshold 10", "gates"), ("no branch", "gates"),
        ("positive g", "random"), ("exp, not log1p", "gates"), ("sign of b", "random"), ("k for q", "random"),
        ("v is off by one", "random"), ("negative zero", "random"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_broken_rule_is_outside(kind, family, dtype):
    call = case(family, dtype)
    assert compare(wrong(call, kind), reference(call)).why


def test_a_threshold_of_10_shows_at_15_and_not_at_20():
    """log1p(exp(x)) - x is 3e-7 at 15, 3 ulp of 15 relative to nothing; g's bound is 8 ulp."""
    assert math.log1p(math.exp(12.0)) - 12.0 > 8 * float(ulp(np.array(12.0), 24)) / 2
    assert math.log1p(math.exp(20.125)) - 20.125 < float(ulp(np.array(20.125), 24)) / 2


def test_one_value_off_by_more_than_its_bound_is_named():
    call = case()
    out = f32(call)
    out.beta[7, 2] *= 1 + 2.0**-19
    seen = compare(out, reference(call))
    assert seen.why.startswith("beta[7, 2]")
    assert seen.max_error_over_bound > 1
    out.beta[7, 2] = math.nan
    assert compare(out, reference(call)).why.startswith("beta[7, 2]: nan")


def test_zero_references_are_exact():
    call = case("gates", heads=(2, 8, 5, 5))
    wanted = reference(call)
    assert not wanted.values["g"][:, 1].any()  # a_log -inf
    assert not wanted.bounds["g"][:, 1].any()
    out = f32(call)
    out.g[3, 1] = -1e-45
    assert compare(out, wanted).why.startswith("g[3, 1]")


def test_ulps():
    assert ulp(np.array([1.0, 1.5, 2.0, -4.0, 0.0, 1e-45]), 24).tolist() == [
        2.0**-23, 2.0**-23, 2.0**-22, 2.0**-21, 2.0**-149, 2.0**-149,
    ]  # fmt: skip
    assert ulp(np.array([1.0]), 8)[0] == 2.0**-7


def test_the_gates_family_meets_every_value_of_its_lists():
    call = make("gates", 0, tokens=15, heads=(2, 8, 5, 5), dtype=torch.float32)
    x = (call.a_raw + call.dt_bias).numpy()
    assert {float(v) for v in x.reshape(-1)} >= {float(np.float32(v)) for v in GATE_X if v != 1e-3}
    assert {float(v) for v in call.b_raw.reshape(-1)} == {float(np.float32(v)) for v in GATE_B}
    assert call.a_log.tolist() == list(GATE_A_LOG)
    low = (x == -100).nonzero()
    assert {10.0, 0.0} <= {float(call.a_log[head]) for head in low[1]}  # a subnormal exp, brought back


def test_layouts_hold_the_same_values_in_other_places():
    plain, strided, odd = (case(layout=layout) for layout in LAYOUTS)
    for other in (strided, odd):
        for name in ("conv", "a_raw", "b_raw"):
            assert torch.equal(getattr(plain, name), getattr(other, name))
    assert (strided.a_raw.stride(0), strided.b_raw.stride(0)) == (3 + 3, 3 + 5)
    assert odd.conv.storage_offset() == 1
    assert odd.conv.stride(0) == odd.conv.shape[1] + 1
