"""R10: the words for exact counts, and the traps they close (T1, T2, T3)."""

from fractions import Fraction

import numpy as np
import pytest

from hipbook.errors import BadArgument
from hipbook.measure.counts import (
    CountWord,
    all_good,
    correctness,
    counts,
    distinct_arms,
    ratio_text,
    reached,
)

POISON, ONLINE, DECODE = -1, 0x10, 0x20


def test_correct_needs_a_comparison():
    assert correctness(4096, 0).word is CountWord.CORRECT
    nothing = correctness(0, 0)
    assert nothing.word is CountWord.INCORRECT
    assert "compared no values" in nothing.detail


def test_one_failed_value_is_incorrect_and_counted():
    verdict = correctness(4096, 1)
    assert verdict.word is CountWord.INCORRECT
    assert verdict.detail == "1 of 4,096 values failed"
    assert verdict.compared == 4096


@pytest.mark.parametrize(("compared", "failed"), [(10, 11), (-1, 0), (10.0, 0), (4, -2)])
def test_impossible_tallies_are_refused(compared, failed):
    with pytest.raises(BadArgument):
        correctness(compared, failed)


@pytest.mark.parametrize(
    ("witness", "expected", "word", "says"),
    [
        ([DECODE] * 6, DECODE, CountWord.REACHED, "0x20 in all 6 workgroups"),
        ([DECODE, 0x21], {DECODE, 0x21}, CountWord.REACHED, "0x20/0x21"),
        ([ONLINE] * 6, DECODE, CountWord.NOT_REACHED, "found 0x10 in 6"),
        ([DECODE] * 5 + [POISON], DECODE, CountWord.NOT_REACHED, "no witness in 1"),
        ([], DECODE, CountWord.NOT_REACHED, "no workgroup"),
    ],
)
def test_reached_reads_every_workgroup(witness, expected, word, says):
    verdict = reached(np.array(witness, dtype=np.int32), expected)
    assert verdict.word is word
    assert says in verdict.detail


def test_poison_is_no_arm():
    with pytest.raises(BadArgument):
        reached([POISON], POISON)
    with pytest.raises(BadArgument):
        reached([ONLINE], ())


@pytest.mark.parametrize(
    ("base", "new", "word", "says"),
    [
        ([ONLINE] * 4, [DECODE] * 2, CountWord.REACHED, "different arms"),
        ([ONLINE] * 4, [ONLINE] * 4, CountWord.NOT_REACHED, "both sides ran 0x10"),
        ([ONLINE], [DECODE, ONLINE], CountWord.NOT_REACHED, "both sides ran 0x10"),
        ([POISON], [DECODE], CountWord.NOT_REACHED, "base side left no witness"),
        ([ONLINE], [], CountWord.NOT_REACHED, "new side left no witness"),
    ],
)
def test_an_arm_against_itself_is_found(base, new, word, says):
    verdict = distinct_arms(base, new)
    assert verdict.word is word
    assert says in verdict.detail


def test_equal_and_different_counts():
    same = counts("bytes read", 4096, 4096)
    assert (same.word, str(same)) == (CountWord.COUNTS_EQUAL, "COUNTS_EQUAL(bytes read)")
    differ = counts("bytes read", 8192, 4096)
    assert differ.word is CountWord.COUNTS_DIFFER
    assert differ.ratio == 2
    assert str(differ) == "COUNTS_DIFFER(bytes read, 2)"
    assert counts("bytes read", 1, 3).ratio == Fraction(1, 3)


def test_a_count_of_zero_has_no_ratio():
    none_left = counts("barriers per key", 11, 0)
    assert none_left.word is CountWord.COUNTS_DIFFER
    assert none_left.ratio is None
    assert str(none_left) == "COUNTS_DIFFER(barriers per key, 11 to 0)"


@pytest.mark.parametrize(
    ("base", "new", "text"),
    [(6, 4, "1.5"), (1, 3, "0.3333"), (100, 1, "100"), (41, 50, "0.82"), (2**53 + 1, 1, "9.007e+15")],
)
def test_ratio_text(base, new, text):
    if base > 2**53:
        assert float(ratio_text(base, new)) == float(base)
    else:
        assert ratio_text(base, new) == text


def test_a_time_is_no_count():
    with pytest.raises(BadArgument, match="whole number"):
        counts("us", 41.1, 5.1)
    with pytest.raises(BadArgument, match="quantity"):
        counts(" ", 1, 2)


def test_a_suite_of_no_checks_fails():
    assert all_good([]).word is CountWord.INCORRECT
    good = all_good([correctness(5, 0), reached([ONLINE], ONLINE)])
    assert (good.word, good.compared) == (CountWord.CORRECT, 6)
    bad = all_good([correctness(5, 0), correctness(0, 0)])
    assert bad.word is CountWord.INCORRECT
    assert "compared no values" in bad.detail
