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
        family, also.get("seed", 0), tokens=16, heads=also.get("heads", HEADS), dtype=dtype, layout=layout
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_plain_f32_is_within_the_bounds(family, dtype, layout):
    call = case(family, dtype, layout)
    seen = compare(f32(call), reference(call))
    assert seen.why == ""
    assert 0.1 < seen.max_error_over_bound <= 1
    assert seen.values_compared == 16 * (2 * 16 + 15 + 2 * 3)
    assert seen.exact_compared >= 16 * 15


def wrong(call: PostConvCall, kind: str) -> PostConvOutputs:
    """f32 with one rule broken."""
    out = f32(call)
    q = call.conv[:, :16].float().reshape(16, 2, 8)
    x, b = call.a_raw.float() + call.dt_bias, call.b_raw.float()
    rate = call.a_log.exp()
    dtype = call.conv.dtype
    changed = {
        "mean, not sum": {"q": (q / (q.square().mean(2, keepdim=True) + 1e-6).sqrt()).to(dtype)},
        "no epsilon": {"q": (q / q.square().sum(2, keepdim=True).sqrt()).to(dtype)},
        "threshold 10": {"g": torch.where(x > 10, -rate * x, out.g)},
        "no branch": {"g": torch.where(x > 20, -rate * torch.log1p(x.exp()), out.g)},
        "positive g": {"g": -out.g},
        "log of 1 + exp": {"g": torch.where(x.abs() < 17, -rate * torch.log(1 + x.exp()), out.g)},
        "no halves": {"g": torch.where(x < -17, -rate * x.exp(), out.g)},
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
        ("positive g", "random"), ("log of 1 + exp", "gates"), ("no halves", "gates"),
        ("sign of b", "random"), ("k for q", "random"),
        ("v is off by one", "random"), ("negative zero", "random"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_broken_rule_is_outside(kind, family, dtype):
    call = case(family, dtype)
    assert compare(wrong(call, kind), reference(call)).why


def test_a_threshold_of_10_shows_at_10_5_and_no_longer_at_15():
    def ulps_off(x: float) -> float:
        return (math.log1p(math.exp(x)) - x) / float(ulp(np.array(x), 24))

    assert ulps_off(10.5) > 16  # g's bound is 8
    assert ulps_off(15.0) < 1
    assert ulps_off(20.125) < 0.01


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
    call = make("gates", 0, tokens=16, heads=(2, 8, 5, 5), dtype=torch.float32)
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
