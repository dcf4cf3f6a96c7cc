"""What the verdict is worth, in small: the figures `hipbook calibrate` prints at full size."""

import pytest

from hipbook.measure.calibration import (
    POWER_EFFECT,
    RUN_TO_RUN,
    WORLDS,
    a_then_b,
    cell,
    iteration_rank_test,
    percentile_bootstrap,
    report,
)
from hipbook.measure.thresholds import DEFAULT_RUNS

FALSE_DIFFERENCES = 0.05


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("runs", [4, 10])
def test_a_against_a_is_seldom_called_different(world, runs):
    one = cell(world, runs, sessions=1000, seed=11)
    assert one.sessions == 1000
    assert one.difference <= one.difference_bare <= FALSE_DIFFERENCES
    assert sum(one.words.values()) == pytest.approx(1)


@pytest.mark.parametrize("world", [world for world in WORLDS if world.covers], ids=lambda world: world.name)
@pytest.mark.parametrize("runs", [4, 6, 10, 20])
def test_intervals_cover(world, runs):
    """4,000 sessions in the full calibration; 2,000 here put 93 .. 97 % four standard errors away."""
    assert 0.93 <= cell(world, runs, sessions=2000, seed=12).coverage <= 0.97


def test_a_three_percent_effect_is_found_at_the_default_number_of_runs():
    one = cell(RUN_TO_RUN, DEFAULT_RUNS, sessions=2000, effect=POWER_EFFECT, seed=13)
    assert one.words["FASTER"] >= 0.95
    assert one.words.get("SLOWER", 0) == 0
    slower = cell(RUN_TO_RUN, DEFAULT_RUNS, sessions=500, effect=-POWER_EFFECT, seed=13)
    assert slower.words["SLOWER"] >= 0.95


def test_a_bimodal_board_is_named():
    by_run, inside = (cell(world, 10, sessions=300, seed=14) for world in WORLDS[3:])
    assert by_run.words["INCONCLUSIVE(bimodal)"] > 0.9
    assert inside.words["INCONCLUSIVE(bimodal)"] > 0.9


def test_three_wrong_methods_fail_as_told():
    assert iteration_rank_test(sessions=500) > 0.75
    assert a_then_b(sessions=500) > 0.99
    assert 0.75 < percentile_bootstrap(4, sessions=1000, resamples=499) < 0.84


def test_the_report_prints_every_figure():
    lines = []
    cells = report(sessions=40, say=lines.append)
    assert len(cells) == len(WORLDS) * 4 + 1
    text = "\n".join(lines)
    assert all(world.name in text for world in WORLDS)
    assert "power for a 3% effect at the default 10 runs" in text
