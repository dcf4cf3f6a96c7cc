"""The decision tree (R5): every branch taken, its order, and the words of reports and sessions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hipbook.errors import BadArgument
from hipbook.measure.judge import Runs, judge, read_signs
from hipbook.measure.schedule import interleave, positions_of, with_control
from hipbook.measure.verdict import (
    TREE,
    Reason,
    Signs,
    Verdict,
    Word,
    decide,
    explain,
    is_difference,
    verdict,
)

GOOD = Signs(
    runs=np.array(10),
    interleaved=np.array(True),
    effect=np.array(0.05),
    low=np.array(0.04),
    high=np.array(0.06),
    minimum_effect=np.array(0.01),
    floor=np.array(0.012),
    drift=np.array(0.0),
    ratio_trend_p=np.array(1.0),
    ratio_trend=np.array(0.0),
    mode_gap=np.array(0.0),
    throttled_share=np.array(np.nan),
    control_moved=np.array(False),
    unsettled_share=np.array(0.0),
    clock_gap=np.array(0.0),
)


def at(effect, half):
    return {"effect": np.array(effect), "low": np.array(effect - half), "high": np.array(effect + half)}


BRANCHES = [
    ("FASTER", {}),
    ("SLOWER", at(-0.05, 0.01)),
    ("EQUIVALENT", at(0.002, 0.005)),
    ("EQUIVALENT", at(0.004, 0.002)),  # excludes 1, and still inside the minimum effect
    ("INCONCLUSIVE(wide_interval)", at(0.05, 0.06)),
    ("INCONCLUSIVE(wide_interval)", at(0.0, 0.02)),
    ("INCONCLUSIVE(below_noise_floor)", at(0.0115, 0.001)),  # beyond the minimum, not the floor
    ("INCONCLUSIVE(below_noise_floor)", {"floor": np.array(np.nan)}),
    ("INCONCLUSIVE(below_noise_floor)", {"floor": np.array(0.051)}),
    ("INCONCLUSIVE(few_runs)", {"runs": np.array(3)}),
    ("INCONCLUSIVE(drift)", {"interleaved": np.array(False)}),
    ("INCONCLUSIVE(drift)", {"drift": np.array(-0.06)}),
    ("INCONCLUSIVE(drift)", {"ratio_trend": np.array(0.05), "ratio_trend_p": np.array(0.001)}),
    ("INCONCLUSIVE(drift)", {"unsettled_share": np.array(0.2)}),
    ("INCONCLUSIVE(throttled)", {"throttled_share": np.array(0.11)}),
    ("INCONCLUSIVE(control_moved)", {"control_moved": np.array(True)}),
    ("INCONCLUSIVE(clock_disagrees)", {"clock_gap": np.array(0.02)}),
    ("INCONCLUSIVE(bimodal)", {"mode_gap": np.array(0.045)}),
]

# Signs close to a branch that must not take it.
HARMLESS = [
    {"runs": np.array(4)},
    {"drift": np.array(0.049)},  # within what interleaving cancels
    {"ratio_trend": np.array(0.05), "ratio_trend_p": np.array(0.02)},
    {"ratio_trend": np.array(0.005), "ratio_trend_p": np.array(0.001)},
    {"throttled_share": np.array(0.10)},
    {"unsettled_share": np.array(0.10)},
    {"clock_gap": np.array(0.009)},
    {"mode_gap": np.array(0.035)},  # smaller than what the interval guarantees
    {"drift": np.array(0.06), **at(0.5, 0.01)},  # a drift of 6 % cannot make 65 %
]


@pytest.mark.parametrize(("told", "change"), BRANCHES)
def test_every_branch(told, change):
    assert str(verdict(replace(GOOD, **change))) == told


@pytest.mark.parametrize("change", HARMLESS)
def test_what_a_branch_lets_through(change):
    assert str(verdict(replace(GOOD, **change))) == "FASTER"


def test_every_branch_of_the_tree_is_tested():
    taken = {int(decide(replace(GOOD, **change))) for _, change in BRANCHES}
    assert taken == set(range(len(TREE)))
    assert {branch.reason for branch in TREE} - {None} == set(Reason)


def test_the_order_names_the_first_reason():
    everything = replace(
        GOOD,
        runs=np.array(2),
        interleaved=np.array(False),
        throttled_share=np.array(1.0),
        control_moved=np.array(True),
    )
    order = [Reason.FEW_RUNS, Reason.DRIFT, Reason.THROTTLED, Reason.CONTROL_MOVED]
    mend = [
        {"runs": np.array(10)},
        {"interleaved": np.array(True)},
        {"throttled_share": np.array(0.0)},
        {"control_moved": np.array(False)},
    ]
    for reason, change in zip(order, mend, strict=True):
        assert verdict(everything).reason is reason
        everything = replace(everything, **change)
    assert verdict(everything).word is Word.FASTER


def test_many_sessions_are_decided_at_once():
    signs = Signs(*(np.array([value, value]) for value in vars(GOOD).values()))
    signs = replace(signs, runs=np.array([3, 10]))
    assert is_difference(decide(signs)).tolist() == [False, True]


def test_explain_lists_every_branch_and_the_sentence_has_numbers():
    assert len(explain().splitlines()) == len(TREE)
    told = verdict(replace(GOOD, **at(0.0, 0.02)))
    assert "ratio 1.000, interval 0.980 .. 1.020" in told.why
    assert str(Verdict(Word.FASTER, None, "", exploratory=True)) == "FASTER (exploratory)"


# --- sessions ------------------------------------------------------------------------------------


def session(effect=0.0, runs=10, seed=0, sd=0.004, arms=("base", "new")):
    """Three arms interleaved; `new` faster by `effect` (log)."""
    rng = np.random.default_rng(seed)
    order = [slot.arm for slot in interleave(with_control(*arms), runs, seed)]
    return tuple(
        Runs(
            100 * np.exp(sd * rng.standard_normal(runs) - (effect if arm == arms[1] else 0)),
            positions_of(order, arm),
        )
        for arm in with_control(*arms)
    )


def test_a_session_says_faster_with_ratio_interval_and_floor():
    found = judge(*session(0.10), block_mhz=np.full(10, 2500.0))
    assert str(found.verdict) == "FASTER"
    assert found.interval[0] < np.exp(0.10) < found.interval[1]
    assert found.ratio == pytest.approx(np.exp(0.10), rel=0.01)
    assert 0 < found.noise_floor < 0.01
    assert found.runs == (10, 10)
    assert found.notes == ()
    assert str(judge(*session(-0.10)).verdict) == "SLOWER"
    assert str(judge(*session(0.0)).verdict) == "EQUIVALENT"


def test_higher_is_better_for_rates():
    base, new, control = (Runs(1e4 / side.levels, side.places) for side in session(0.10))
    assert str(judge(base, new, control, better="higher").verdict) == "FASTER"
    assert judge(base, new, control, better="higher").ratio == pytest.approx(np.exp(0.10), rel=0.01)
    assert str(judge(base, new, control).verdict) == "SLOWER"


def test_without_control_or_order_no_difference_is_named():
    base, new, control = session(0.10)
    assert str(judge(base, new).verdict) == "INCONCLUSIVE(below_noise_floor)"
    unordered = [Runs(side.levels) for side in (base, new, control)]
    found = judge(*unordered)
    assert str(found.verdict) == "INCONCLUSIVE(drift)"
    assert "the order of the runs is not recorded" in found.notes


def test_throttled_blocks_second_clock_and_negative_control_reach_the_tree():
    sides = session(0.10)
    slow = np.full(10, 2500.0)
    slow[:2] = 2000
    assert str(judge(*sides, block_mhz=slow).verdict) == "INCONCLUSIVE(throttled)"
    same = session(0.0, seed=9)[:2]
    assert str(judge(*sides, second_clock=same).verdict) == "INCONCLUSIVE(clock_disagrees)"
    assert str(judge(*sides, second_clock=sides[:2]).verdict) == "FASTER"
    assert str(judge(*sides, negative=session(0.05, seed=3)[:2]).verdict) == "INCONCLUSIVE(control_moved)"
    assert str(judge(*sides, negative=same).verdict) == "FASTER"


def test_r3_what_a_block_shares_cancels_in_its_ratio():
    """Blocks 5 % apart from one another, arms 3 % apart within each: found only by ratios within blocks."""
    common = np.exp(0.05 * np.array([1, -1, 0.6, -0.4, -0.8, 0.9, 0.2, -0.9, 0.7, -0.3]))
    sides = [Runs(side.levels * common, side.places) for side in session(0.03)]
    found = judge(*sides)
    assert str(found.verdict) == "FASTER"
    assert found.interval[1] / found.interval[0] < 1.02


def test_the_noise_floor_is_the_far_edge_of_the_control_s_interval():
    base, new, control = session(0.10, sd=0.01)
    ratios = np.log(base.levels) - np.log(control.levels)
    half = stats.t.ppf(0.975, 9) * ratios.std(ddof=1) / np.sqrt(10)
    edge = max(abs(ratios.mean() - half), abs(ratios.mean() + half))
    assert judge(base, new, control).noise_floor == pytest.approx(np.exp(edge) - 1)


def test_a_negative_control_that_moves_less_than_the_noise_does_not_count_as_moved():
    sides = session(0.10)
    barely = session(0.004, seed=3, sd=0.0005)[:2]  # significant, and below the minimum effect of 1 %
    assert str(judge(*sides, negative=barely).verdict) == "FASTER"
    beyond = session(0.02, seed=3, sd=0.0005)[:2]
    assert str(judge(*sides, negative=beyond).verdict) == "INCONCLUSIVE(control_moved)"


def test_a_drifting_ratio_and_a_drifting_board_reach_the_tree():
    base, new, control = session(0.02, sd=0.001)
    moving = Runs(new.levels * np.linspace(1.03, 0.97, 10), new.places)
    assert str(judge(base, moving, control).verdict) == "INCONCLUSIVE(drift)"
    warming = [Runs(side.levels * np.exp(0.2 * side.places / 29), side.places) for side in session(0.02)]
    found = judge(*warming)
    assert str(found.verdict) == "INCONCLUSIVE(drift)"
    assert any("drifted together by 2" in note for note in found.notes)


def test_modes_inside_the_runs_reach_the_tree():
    rng = np.random.default_rng(1)
    sides = [
        Runs.of_samples(side.levels[:, None] * np.exp(0.001 * rng.standard_normal((10, 40))), side.places)
        for side in session(0.03)
    ]
    assert str(judge(*sides).verdict) == "FASTER"
    two = [
        Runs.of_samples(side.samples * np.where(rng.random((10, 40)) < 0.5, 1.0, 1.08), side.places)
        for side in sides
    ]
    assert str(judge(*two).verdict) == "INCONCLUSIVE(bimodal)"


def test_the_clock_step_floors_the_interval():
    base, new, control = session(0.0)
    equal = [Runs(np.full(10, 100.0), side.places) for side in (base, new, control)]
    signs, _ = read_signs(*equal, resolution=1.0)
    assert signs.high - signs.low > 0.004
    signs, _ = read_signs(*equal)
    assert signs.high == signs.low


def test_impossible_runs_are_refused():
    with pytest.raises(BadArgument, match="positive"):
        Runs(np.array([1.0, 0.0]))
    with pytest.raises(BadArgument, match="one place per run"):
        Runs(np.array([1.0, 2.0]), np.array([0.0]))
    with pytest.raises(BadArgument, match="in the order they were made"):
        Runs(np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    both_at_once = [Runs(np.ones(4), np.arange(4.0)) for _ in range(2)]
    with pytest.raises(BadArgument, match="belongs to one run"):
        judge(*both_at_once)
    lone = judge(Runs([2.0]), Runs([1.0]))
    assert str(lone.verdict) == "INCONCLUSIVE(few_runs)"
    assert lone.ratio == pytest.approx(2.0)
