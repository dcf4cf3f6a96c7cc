"""Broken kernels of the quantizer, the GEMV and the post-conv: a sample for each arm and kind of check.

`hipbook check --mutants` runs all of them."""

import pytest

from hipbook.checks import mutants
from hipbook.checks.mutants import Outcome, run_mutant

OPERATIONS = ("quantize_q8k", "grouped_gemv", "gdn_post_conv")
TABLE = [mutant for mutant in mutants.hand_made() if mutant.operation in OPERATIONS]
SAMPLE = {
    "q8k-block-no-barrier-in-the-tree": "sanitizer: lds-race",
    "q8k-wave-sums-of-every-other-group": "output bytes",
    "gemv-superblock-no-witness": "witness",
    "gemv-spread-mins-of-the-pair": "oracle",
    "gdn-rows-of-b-as-a": "sanitizer: out-of-bounds",
    "gdn-wave-sum-of-two-lanes": "oracle",
}


def test_each_arm_has_broken_variants():
    for operation in OPERATIONS:
        mine = [mutant for mutant in TABLE if mutant.operation == operation and not mutant.out_of_reach]
        assert len(mine) >= 24
        arms = {arm for mutant in mine for arm in mutant.arms}
        for arm in arms:
            assert len([mutant for mutant in mine if mutant.arms == (arm,)]) >= 2, arm
    assert len([mutant for mutant in TABLE if mutant.out_of_reach]) == 2


@pytest.mark.parametrize(("name", "by"), SAMPLE.items())
def test_a_sample_is_caught(name, by):
    result = run_mutant(*mutants.find([name]))
    assert (result.outcome, result.by) == (Outcome.CAUGHT, by), result.detail


def test_words_for_halves_are_the_same_machine_code():
    """What out_of_reach says: clang merges the 2-byte loads of Q6_K's blocks itself."""
    result = run_mutant(*mutants.find(["gemv-spread-q6-in-words"]))
    assert result.outcome is Outcome.SAME_CODE
