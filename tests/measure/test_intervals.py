"""Intervals over runs and of medians (R2, R4): against scipy, closed forms and by coverage."""

import numpy as np
import pytest
from scipy import stats

from hipbook.errors import BadArgument
from hipbook.measure.intervals import median_interval, rank_test_floor, student, trend, welch

RNG = np.random.default_rng(7)


def test_student_agrees_with_scipy_along_any_leading_axis():
    values = RNG.normal(0.2, 1.0, size=(3, 5, 8))
    estimate = student(values)
    reference = stats.ttest_1samp(values, 0.0, axis=-1)
    interval = reference.confidence_interval(0.95)
    assert np.allclose(estimate.p, reference.pvalue)
    assert np.allclose(estimate.low, interval.low)
    assert np.allclose(estimate.high, interval.high)


def test_welch_agrees_with_scipy():
    base, new = RNG.normal(1.0, 1.0, 9), RNG.normal(0.0, 3.0, 5)
    estimate = welch(base, new)
    reference = stats.ttest_ind(base, new, equal_var=False)
    interval = reference.confidence_interval(0.95)
    assert np.allclose([estimate.p, estimate.low, estimate.high], [reference.pvalue, *interval])


def test_equal_readings_of_a_coarse_clock_are_not_infinitely_precise():
    assert student(np.full(4, 0.3)).low == pytest.approx(0.3)
    floored = student(np.full(4, 0.3), sd_floor=0.1)
    assert floored.high - floored.low == pytest.approx(2 * stats.t.ppf(0.975, 3) * 0.1 / 2)
    assert welch(np.full(4, 1.3), np.full(4, 1.0)).p == 0
    assert welch(np.ones(4), np.ones(4)).p == 1
    assert welch(np.full(4, 1.3), np.full(4, 1.0), sd_floor=0.1).p > 0.004


def test_one_run_has_no_interval():
    with pytest.raises(BadArgument, match="at least 2"):
        student(np.ones(1))
    with pytest.raises(BadArgument, match="runs of new"):
        welch(np.ones(3), np.ones(1))


def test_widened_is_a_wider_interval_of_the_same_estimate():
    estimate = student(RNG.normal(size=6))
    again = estimate.widened(0.95)
    assert np.allclose([again.low, again.high], [estimate.low, estimate.high])
    wider = estimate.widened(0.99)
    assert wider.low < estimate.low
    assert wider.high > estimate.high


def test_a_median_interval_needs_six_values():
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval([6, 1, 2, 3, 4, 5]) == (1, 6)


@pytest.mark.parametrize("n", [6, 9, 17, 30])
def test_the_median_interval_covers_at_least_95_percent_and_no_pair_further_in_does(n):
    low, high = median_interval(np.arange(1, n + 1))
    k = int(low)
    assert high == n + 1 - k
    assert 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95
    assert 1 - 2 * stats.binom.cdf(k, n, 0.5) < 0.95


def test_rank_test_floor_is_the_p_of_a_perfect_separation():
    for base, new in ((3, 3), (4, 4), (4, 2)):
        exact = stats.mannwhitneyu(range(base), range(100, 100 + new), method="exact").pvalue
        assert rank_test_floor(base, new) == pytest.approx(exact)
    assert rank_test_floor(3, 3) > 0.05 > rank_test_floor(4, 4)
    assert rank_test_floor(0, 5) == 1


def test_trend_is_the_change_over_the_span_and_its_p():
    places = np.array([0.0, 3, 5, 8, 9])
    exact, p = trend(2 * places + 1, places)
    assert exact == pytest.approx(18)
    assert p < 1e-6
    noisy = RNG.normal(size=(4, 5)) + 0.1 * places
    change, p = trend(noisy, places)
    for row in range(4):
        fit = stats.linregress(places, noisy[row])
        assert change[row] == pytest.approx(9 * fit.slope)
        assert p[row] == pytest.approx(fit.pvalue)


def test_two_values_carry_no_trend():
    change, p = trend(np.array([1.0, 5.0]), np.array([0.0, 1.0]))
    assert (change, p) == (0, 1)
