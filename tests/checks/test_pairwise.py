"""Covering designs: every allowed pair occurs, forbidden cases never, the same design every time."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipbook.checks.attention import FACTORS, PagedAttentionChecks, of_the_arm, sensible, serves
from hipbook.checks.pairwise import allowed_product, pairs_of, pairwise
from hipbook.errors import BadArgument
from hipbook.ops.attention_arms import ARMS


def covered(rows):
    return set().union(*(pairs_of(row) for row in rows))


def all_pairs(factors, allowed=lambda row: True):
    """Every pair of levels that some allowed case holds, found by going through the whole product."""
    pairs = set()
    for values in product(*factors.values()):
        row = dict(zip(factors, values, strict=True))
        if allowed(row):
            pairs |= set(combinations(row.items(), 2))
    return pairs


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(0, 5), st.integers(0, 3))
def test_every_allowed_pair_is_covered(sizes, forbidden, seed):
    factors = {f"f{i}": tuple(range(size)) for i, size in enumerate(sizes)}

    def allowed(row):
        return sum(row.values()) != forbidden

    wanted = all_pairs(factors, allowed)
    if not wanted:
        with pytest.raises(BadArgument):
            pairwise(factors, (allowed,), seed)
        return
    design = pairwise(factors, (allowed,), seed)
    assert covered(design.rows) == wanted
    assert design.pairs == len(wanted)
    assert all(allowed(row) for row in design.rows)


def test_a_design_is_small_and_reproducible():
    factors = {name: tuple(range(5)) for name in "abcd"}
    design = pairwise(factors)
    assert 25 <= len(design.rows) <= 40  # of 625; 25 is the least possible
    assert design == pairwise(factors)
    assert design.rows != pairwise(factors, seed=1).rows


def test_a_design_with_a_row_less_is_not_covering():
    factors = {name: tuple(range(3)) for name in "abc"}
    design = pairwise(factors)
    assert covered(design.rows[:-1]) != covered(design.rows)


def test_the_attention_design_covers_every_pair_that_any_arm_serves():
    design = PagedAttentionChecks().design()
    wanted = all_pairs(FACTORS, lambda row: sensible(row) and serves(row))
    assert covered(design.rows) == wanted
    assert design.pairs == len(wanted) > 600
    assert len(design.rows) < 160
    assert str(len(design.rows)) in str(design)


def test_what_the_design_leaves_out_is_what_arms_may_refuse():
    """Arms that load vectors on misaligned calls, arms of few head sizes on family 8, nothing else."""
    left_out = [row for row in allowed_product(FACTORS, (sensible, of_the_arm)) if not serves(row)]
    picky = {name for name, arm in ARMS.items() if arm.vectors or arm.head_dims}
    assert {row["arm"] for row in left_out} == picky >= {"decode", "decode_gqa"}
    assert {row["family"] for row in left_out} == {"misaligned", "head_dims"}
    kinds = {(row["family"], row["head_dim"]) for row in left_out if row["family"] == "head_dims"}
    assert kinds == {("head_dims", d) for d in (32, 80, 96, 100, 160, 192)}


@pytest.mark.parametrize("factors", [{}, {"a": (1,)}, {"a": (1,), "b": ()}])
def test_factors_that_make_no_pairs(factors):
    with pytest.raises(BadArgument):
        pairwise(factors)


def test_a_product_that_is_too_large():
    with pytest.raises(BadArgument, match="at most"):
        pairwise({name: tuple(range(60)) for name in "abcd"})
