"""The pieces of the timing protocol: order, warm-up, clocks, outliers, modes (R3, R6, R7, R8, R10)."""

import numpy as np
import pytest

from hipbook.errors import BadArgument
from hipbook.measure.clocks import (
    Clock,
    add_times,
    cold_input_sets,
    flagged_blocks,
    flagged_share,
    launches_per_batch,
)
from hipbook.measure.modes import mode_gap, session_mode_gap
from hipbook.measure.outliers import Outlier, classify, describe
from hipbook.measure.schedule import (
    implementation,
    interleave,
    is_control,
    is_interleaved,
    positions_of,
    with_control,
)
from hipbook.measure.warmup import steady_from

ARMS = with_control("online", "decode")


def names(slots):
    return [slot.arm for slot in slots]


@pytest.mark.parametrize("blocks", [2, 4, 10])
def test_a_straight_drift_adds_the_same_to_every_arm(blocks):
    order = names(interleave(ARMS, blocks, seed=3))
    means = {arm: positions_of(order, arm).mean() for arm in ARMS}
    assert len(set(means.values())) == 1
    assert is_interleaved(order)
    assert len(order) == 3 * blocks


def test_the_order_is_seeded_and_not_one_way():
    assert interleave(ARMS, 8, seed=1) == interleave(ARMS, 8, seed=1)
    firsts = {tuple(names(interleave(ARMS, 2, seed=seed))[:3]) for seed in range(40)}
    assert len(firsts) == 6
    slots = interleave(ARMS, 4, seed=0)
    assert [slot.order for slot in slots] == list(range(12))
    assert [slot.block for slot in slots] == [block for block in range(4) for _ in ARMS]


@pytest.mark.parametrize(("arms", "blocks"), [(("a",), 4), (("a", "a"), 4), (("a", "b"), 3), (("a", "b"), 0)])
def test_impossible_schedules_are_refused(arms, blocks):
    with pytest.raises(BadArgument):
        interleave(arms, blocks, seed=0)


def test_a_then_b_is_not_interleaved():
    assert not is_interleaved(["a"] * 4 + ["b"] * 4)
    assert not is_interleaved(["a", "b"])
    assert not is_interleaved(["a", "b", "b"])
    assert not is_interleaved(["a", "b", "b", "b"])
    assert not is_interleaved(["a", "a"])
    assert is_interleaved(["a", "b", "b", "a"])


def test_the_control_launches_the_base():
    assert [implementation(arm) for arm in ARMS] == ["online", "decode", "online"]
    assert [is_control(arm) for arm in ARMS] == [False, False, True]


def test_warm_up_ends_where_the_trend_does():
    rng = np.random.default_rng(0)
    settling = 100 * (1 + 0.3 * np.exp(-np.arange(80) / 4)) * np.exp(0.001 * rng.standard_normal(80))
    steady = steady_from(settling)
    assert steady.settled
    assert 10 <= steady.dropped <= 30
    assert abs(np.log(np.median(settling[steady.dropped :]) / 100)) < 0.003


def test_a_single_slow_first_launch_is_warm_up():
    rng = np.random.default_rng(1)
    times = 10 * np.exp(0.002 * rng.standard_normal(40))
    assert steady_from(times).dropped == 0
    times[0] *= 1.33
    assert steady_from(times).dropped == 1


def test_a_trend_that_never_ends_is_not_settled():
    endless = np.linspace(100, 150, 64)
    steady = steady_from(endless)
    assert not steady.settled
    assert "still drifting" in steady.why
    too_few = steady_from(np.ones(10))
    assert not too_few.settled
    assert "too few" in too_few.why


def test_noise_is_no_trend():
    rng = np.random.default_rng(2)
    dropped = [steady_from(10 * np.exp(0.02 * rng.standard_normal(60))).dropped for _ in range(50)]
    assert np.median(dropped) <= 2


def test_short_kernels_are_timed_in_batches():
    assert launches_per_batch(20.0) == 1
    assert launches_per_batch(3.0) == 334
    assert launches_per_batch(19.99) * 19.99 >= 1000
    with pytest.raises(BadArgument):
        launches_per_batch(0.0)


def test_cold_inputs_cover_twice_the_cache():
    assert cold_input_sets(10, 100) == 20
    assert cold_input_sets(1000, 100) == 2
    with pytest.raises(BadArgument):
        cold_input_sets(0, 100)


def test_times_of_two_clocks_are_never_added():
    device = {"quantizer": (21.25, Clock.PROFILER), "post-conv": (11.24, Clock.PROFILER)}
    assert add_times(device) == (pytest.approx(32.49), Clock.PROFILER)
    with pytest.raises(BadArgument, match="one clock"):
        add_times({**device, "hipMemcpyAsync": (59.31, Clock.API)})
    with pytest.raises(BadArgument):
        add_times({})


def test_a_block_below_95_percent_of_the_median_clock_is_flagged():
    mhz = np.array([2000, 2000, 2000, 1901, 1899])
    assert flagged_blocks(mhz).tolist() == [False, False, False, False, True]
    assert flagged_share(mhz) == pytest.approx(0.2)


def test_outlier_classes_and_the_resolution_floor():
    control = [31.14, 23.86, 23.75, 23.68]
    assert classify(control, resolution=0.01) == [Outlier.SEVERE, *[Outlier.NONE] * 3]
    (told,) = describe(control, resolution=0.01)
    assert told.startswith("repetition 1 (31.14) is a severe outlier")
    one_step_off = [5.0, 5.0, 5.0, 5.01]
    assert classify(one_step_off, resolution=0.01) == [Outlier.NONE] * 4
    assert classify(one_step_off, resolution=0.0)[3] is Outlier.SEVERE
    # median 2 and MAD 1: 8 away is 5.4 robust sigma, 11 away 7.4
    assert classify([0, 1, 2, 3, 10], resolution=0.1)[-1] is Outlier.MILD
    assert classify([0, 1, 2, 3, 13], resolution=0.1)[-1] is Outlier.SEVERE
    assert classify([0, 1, 2, 3, 7], resolution=0.1)[-1] is Outlier.NONE


def test_two_modes_are_found_and_their_distance_told():
    rng = np.random.default_rng(4)
    clean = 0.005 * rng.standard_normal((200, 30))
    assert (mode_gap(clean) > 0).mean() < 0.01
    two = clean + 0.08 * (np.arange(30) % 3 == 0)
    found = mode_gap(two)
    assert (found > 0).all()
    assert np.median(found) == pytest.approx(0.08, abs=0.003)


def test_one_outlier_is_no_mode_and_few_values_tell_nothing():
    rng = np.random.default_rng(5)
    values = 0.005 * rng.standard_normal(30)
    values[:4] += 0.3  # under a fifth
    assert mode_gap(values) == 0
    assert mode_gap(np.array([0.0, 0, 0, 1, 1, 1])) == 0
    steps = np.array([0.0] * 6 + [0.001] * 6)
    assert mode_gap(steps) == pytest.approx(0.001)
    assert mode_gap(steps, resolution=0.001) == 0


def test_modes_inside_runs_count_when_enough_runs_have_them():
    rng = np.random.default_rng(6)
    inside = 0.002 * rng.standard_normal((12, 40))
    levels = np.median(inside, axis=-1)
    inside[0] += 0.05 * (np.arange(40) % 2)
    assert session_mode_gap(levels, inside) == 0  # one run of twelve
    inside[1] += 0.05 * (np.arange(40) % 2)
    assert session_mode_gap(levels, inside) == pytest.approx(0.05, abs=0.005)
