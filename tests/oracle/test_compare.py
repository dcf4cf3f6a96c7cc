"""The comparison: what it counts, and everything it must not let through."""

import pytest
import torch

from hipbook.ops.launch import poison_
from hipbook.oracle.attention_reference import Reference
from hipbook.oracle.compare import compare

F = torch.float32


def a_reference(want: torch.Tensor, bound: float = 1e-3, written=None, exact=None, dtype=F) -> Reference:
    shape = want.shape
    return Reference(
        want.double(),
        torch.full(shape, bound).double(),
        torch.ones(shape[0], dtype=torch.bool) if written is None else written,
        torch.zeros(shape, dtype=torch.bool) if exact is None else exact,
        torch.full(shape, bound).double(),
        dtype,
        torch.full((shape[0],), 5),
    )


WANT = torch.linspace(0.5, 1.5, 2 * 3 * 4).view(2, 3, 4)


def test_counts_and_passes():
    result = compare(WANT.clone(), a_reference(WANT))
    assert (result.values_compared, result.passed, result.why) == (24, True, "")


def test_one_value_beyond_its_bound():
    got = WANT.clone()
    got[1, 2, 3] += 1.5e-3
    result = compare(got, a_reference(WANT))
    assert not result.passed
    assert "token 1 head 2 d 3 (5 keys)" in result.why
    assert result.max_error_over_bound == pytest.approx(1.5, rel=1e-3)


def test_one_bad_row_among_many_cannot_hide():
    want = torch.ones(2000, 1, 4)
    got = want.clone()
    got[77] *= 1.04  # NMSE of the row 1.6e-3, of the tensor 8e-7
    result = compare(got, a_reference(want, bound=1.0))
    assert result.nmse < 5e-4
    assert "NMSE per row" in result.why


def test_one_head_of_a_token_is_a_row():
    want = torch.ones(1, 64, 4)
    got = want.clone()
    got[0, 5] *= 1.04
    assert "NMSE per row" in compare(got, a_reference(want, bound=1.0)).why


def test_nmse_of_the_tensor_is_reported_and_held():
    """It lies below the worst row's, so that no tensor passes whose rows do not."""
    want = torch.ones(10, 1, 4)
    result = compare(want * 1.03, a_reference(want, bound=1.0))
    assert result.nmse == pytest.approx(9e-4, rel=1e-3)
    assert not result.passed


def test_nothing_compared_does_not_pass():
    result = compare(
        poison_(torch.empty(2, 3, 4)), a_reference(WANT, written=torch.zeros(2, dtype=torch.bool))
    )
    assert (result.values_compared, result.passed) == (0, False)
    assert "nothing was compared" in result.why
    empty = torch.zeros(0, 3, 4)
    assert not compare(empty, a_reference(empty)).passed


def test_nan_infinity_and_poison_fail():
    for value in (float("nan"), float("inf")):
        got = WANT.clone()
        got[0, 0, 0] = value
        assert not compare(got, a_reference(WANT, bound=1e30)).passed
    assert not compare(poison_(WANT.clone()), a_reference(WANT)).passed


def test_an_all_zero_reference_is_compared_exactly():
    want = WANT.clone()
    want[1] = 0
    got = want.clone()
    assert compare(got, a_reference(want)).passed
    got[1, 0, 0] = 1e-30  # far within the bound
    assert "must be zero" in compare(got, a_reference(want)).why


def test_negative_zero_is_zero():
    want = torch.zeros(1, 1, 4)
    exact = torch.ones(1, 1, 4, dtype=torch.bool)
    assert compare(-want, a_reference(want, exact=exact)).passed


def test_padding_rows_must_hold_the_poison():
    written = torch.tensor([True, False])
    got = WANT.clone()
    poison_(got[1:])
    assert compare(got, a_reference(WANT, written=written)).passed
    got[1, 0, 0] = 0
    assert "padding" in compare(got, a_reference(WANT, written=written)).why
    assert compare(got, a_reference(WANT, written=written), padding_poisoned=False).passed


def test_past_the_range_of_f16_is_infinity():
    want = torch.full((1, 1, 4), 1e5)
    got = torch.full((1, 1, 4), torch.inf, dtype=torch.float16)
    assert compare(got, a_reference(want, dtype=torch.float16)).passed
    assert not compare(-got, a_reference(want, dtype=torch.float16)).passed
    assert not compare(torch.full_like(got, 65504), a_reference(want, dtype=torch.float16)).passed


def test_a_live_nan_must_come_out_as_nan():
    want = WANT.clone()
    want[0, 0, 0] = torch.nan
    reference = a_reference(want)
    reference.bound[0, 0, 0] = torch.nan
    assert compare(want.clone(), reference).passed
    assert not compare(want.nan_to_num(0.5), reference).passed


@pytest.mark.parametrize("got", [WANT.half(), WANT[:1], WANT.view(2, 4, 3)])
def test_another_shape_or_dtype_is_not_compared(got):
    assert compare(got, a_reference(WANT)).values_compared == 0
