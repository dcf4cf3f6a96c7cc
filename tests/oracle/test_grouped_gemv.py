"""The weight formats against the gguf package, and the two oracles of the GEMV against each other."""

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from hipbook.ops.grouped_gemv import FORMATS
from hipbook.oracle.grouped_gemv import dequantised, make_weights, reference, unpack
from hipbook.oracle.quantize_q8k import make
from hipbook.oracle.quantize_q8k import reference as quantized


@pytest.mark.parametrize("weight_format", FORMATS)
def test_weights_are_what_gguf_makes_of_them(weight_format):
    """gguf computes in f32: three roundings of a value's two terms."""
    weights = make_weights(1, 2, 9, 1024, weight_format).numpy()
    theirs = dequantize(weights.reshape(18, -1), GGMLQuantizationType[weight_format]).astype(np.float64)
    ours = unpack(weights, weight_format)
    scale, minimum = ours.of_each(ours.scale), ours.of_each(ours.minimum)
    most = np.abs(ours.d[..., None] * scale * ours.q) + np.abs(ours.dmin[..., None] * minimum)
    assert theirs.size == 18 * 1024
    assert (np.abs(theirs.reshape(most.shape) - ours.values()) <= 3 * 2.0**-24 * most).all()
    assert np.abs(theirs).max() > 5
    levels = (0, 15) if weight_format == "Q4_K" else (-32, 31)
    assert (ours.q.min(), ours.q.max()) == levels
    assert len(np.unique(ours.scale)) >= (64 if weight_format == "Q4_K" else 200)


@pytest.mark.parametrize("weight_format", FORMATS)
def test_integers_and_dequantised_values_give_the_same_product(weight_format):
    act = quantized(make("random", 0, rows=3, k=768, dtype=torch.float32))
    weights, ids = make_weights(0, 4, 6, 768, weight_format), torch.tensor([3, 0, 2], dtype=torch.int32)
    value, bound = reference(act, weights, ids, weight_format, torch.float32)
    assert (np.abs(dequantised(act, weights, ids, weight_format) - value) < bound * 1e-6).all()
    one, _ = reference(act[:1], weights, ids, weight_format, torch.float32)
    assert np.array_equal(one[0], value[0])
    assert not np.array_equal(one[1], value[1])


def test_the_bound_is_far_below_the_values():
    act = quantized(make("random", 0, rows=2, k=2048, dtype=torch.float32))
    weights, ids = make_weights(0, 2, 50, 2048, "Q4_K"), torch.tensor([1, 0], dtype=torch.int32)
    value, bound = reference(act, weights, ids, "Q4_K", torch.float32)
    assert np.median(bound / np.abs(value)) < 1e-4
