"""The byte oracle of the Q8_K quantizer against rational arithmetic, and the rules by hand."""

import struct
from fractions import Fraction

import numpy as np
import pytest
import torch

from hipbook.ops.quantize_q8k import DTYPES
from hipbook.oracle.quantize_q8k import (
    BLOCK,
    FAMILIES,
    SUBNORMAL_D_NEAR_TIES,
    edge_blocks,
    exact_block,
    make,
    non_finite_blocks,
    reference,
    round_to_f32,
)


def parts(block: torch.Tensor) -> tuple[float, tuple[int, ...], tuple[int, ...]]:
    """(d, qs, bsums) of the oracle's bytes for one block."""
    data = reference(block[None]).numpy().tobytes()
    d, *rest = struct.unpack("<f256b16h", data)
    return d, tuple(rest[:256]), tuple(rest[256:])


def with_values(**at: float) -> torch.Tensor:
    block = torch.zeros(BLOCK)
    for position, value in at.items():
        block[int(position[1:])] = value
    return block


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_oracles_agree_on_every_edge(dtype):
    blocks = dict(edge_blocks(DTYPES[dtype]))
    assert len(blocks) >= 48
    for name, block in blocks.items():
        assert reference(block[None]).numpy().tobytes() == exact_block(block.tolist()), name


def test_both_oracles_agree_on_random_blocks():
    x = make("random", 3, rows=1, k=BLOCK * 20, dtype=torch.float32)
    wanted = b"".join(exact_block(block.tolist()) for block in x.view(-1, BLOCK))
    assert reference(x).numpy().tobytes() == wanted


def test_the_extremum_becomes_minus_127_and_d_its_opposite_sign():
    d, q, sums = parts(with_values(_20=2.0, _21=-1.0, _255=1.0))
    assert (q[20], q[21], q[255]) == (-127, 64, -64)  # 63.5 both ways: to even
    assert d == np.float32(1) / np.float32(-63.5)
    assert (sums[0], sums[1], sums[15]) == (0, -63, -64)


@pytest.mark.parametrize(("first", "second"), [(3, 200), (1, 128)])
def test_of_equals_the_lowest_index_decides_the_sign(first, second):
    d, q, _ = parts(with_values(**{f"_{first}": 1.0, f"_{second}": -1.0}))
    assert d < 0
    assert (q[first], q[second]) == (-127, 127)
    assert parts(with_values(**{f"_{first}": -1.0, f"_{second}": 1.0}))[0] > 0


def test_zeros_of_either_sign_are_zero_bytes():
    assert not reference(torch.zeros(1, BLOCK)).any()
    assert not reference(-torch.zeros(1, BLOCK)).any()


def test_an_iscale_that_overflows_is_a_zero_block_and_the_next_value_is_not():
    edge = np.float32(127 / np.finfo(np.float32).max)
    assert 3.7e-37 < edge < 3.8e-37
    below = np.nextafter(edge, np.float32(0))
    assert not reference(with_values(_0=float(below))[None]).any()
    assert parts(with_values(_0=float(np.nextafter(edge, np.float32(1)))))[1][0] == -127


def test_d_is_subnormal_below_1_49e_36():
    assert 0 < -parts(with_values(_0=1.48e-36))[0] < 2.0**-126
    assert -parts(with_values(_0=1.50e-36))[0] >= 2.0**-126


def test_near_ties_of_a_subnormal_d_are_what_they_claim():
    """Rounded to 24 bits before it is scaled, each d would come out one off."""
    for value in SUBNORMAL_D_NEAR_TIES:
        factor = round_to_f32(Fraction(-127) / Fraction(value))
        twice = round_to_f32(round_to_f32(Fraction(2) ** 64 / factor) / 2**64)
        assert twice != round_to_f32(1 / factor)


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_that_are_not_finite(dtype):
    for name, block in non_finite_blocks(DTYPES[dtype]):
        data = reference(block[None]).numpy().tobytes()
        if block.isfinite().all():
            assert data == exact_block(block.tolist()), name
        else:
            assert data == struct.pack("<I", 0x7FC00000) + bytes(288), name


def test_rounding_to_f32_is_numpys():
    values = [1 / 3, -(2.0**-149) * 1.5, 2.0**-150, 2.0**-149 * 0.75, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 1.1e-40]
    for value in values:
        assert float(round_to_f32(Fraction(value))) == float(np.float32(value))
    assert round_to_f32(Fraction(2) ** 128) is None
    assert round_to_f32(Fraction(2) ** 128 - Fraction(2) ** 103) is None  # the tie at the top goes up


@pytest.mark.parametrize("family", FAMILIES)
def test_inputs_are_the_same_again_and_differ_by_seed(family):
    a, b, c = (make(family, seed, rows=2, k=512, dtype=torch.float16).view(torch.int16) for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
