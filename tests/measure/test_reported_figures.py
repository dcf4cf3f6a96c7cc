"""The reports' own figures through the measuring part: what may and may not be said of them."""

import pytest

from hipbook.errors import BadArgument, Refused
from hipbook.measure.judge import Runs, judge
from hipbook.measure.scaling import Growth, require_unit, scaling
from hipbook.measure.stability import figure, stability
from hipbook.records import reported

PRINTED_STEP = 0.01  # the reports print milliseconds with two decimals
DECODE = {"source": "mudler/vllm.cpp#767", "quantity": "tpot"}
EIGHT_PROMPTS = {**DECODE, "workload": "1024 in / 128 out, 8 prompts"}


def sides(model, **wanted):
    return [reported.values(**wanted, model=model, arm=arm) for arm in ("d128 off", "d128 on")]


def test_the_negative_control_is_few_runs_and_its_first_repetition_an_outlier():
    off, on = sides("Qwen3.5-0.8B", **DECODE)
    assert (off, on) == ([31.14, 23.86, 23.75, 23.68], [23.52, 23.57])
    found = judge(Runs(off), Runs(on), resolution=PRINTED_STEP)
    assert str(found.verdict) == "INCONCLUSIVE(few_runs)"
    assert len(found.outliers) == 1
    assert found.outliers[0].startswith("base: repetition 1 (31.14) is a severe outlier")
    assert "2 a side; 4 are needed" in found.verdict.why


def test_a_two_repetition_average_would_have_claimed_a_win():
    """T4: (31.14 + 23.86) / 2 against 23.5 reads 1.17; the gate quotes no such figure."""
    off, on = sides("Qwen3.5-0.8B", **DECODE)
    assert (off[0] + off[1]) / 2 / on[0] > 1.16
    with pytest.raises(Refused, match=r"repetition 1 \(31.14\) is a severe outlier"):
        figure(off, what="TPOT, d128 off", unit="ms", resolution=PRINTED_STEP)


def test_two_prompts_are_refused_as_unstable():
    two = reported.values(**DECODE, workload="1024 in / 128 out, 2 prompts")
    assert two == [6.96, 13.45]
    assert not stability(two, resolution=PRINTED_STEP).stable
    with pytest.raises(Refused, match=r"unstable: 2 repetitions spread over 63\.6%"):
        figure(two, what="TPOT of vllm, 2 prompts", unit="ms", resolution=PRINTED_STEP)


@pytest.mark.parametrize(
    ("arm", "median"), [("d128 off", 42.46), ("d128 on", 11.66), ("vllm production", 6.58)]
)
def test_eight_prompts_hold_still(arm, median):
    three = reported.values(**EIGHT_PROMPTS, arm=arm)
    assert len(three) == 3
    assert figure(three, what=arm, unit="ms", resolution=PRINTED_STEP) == median


def test_the_d128_figures_have_a_ratio_and_no_verdict():
    off, on = sides("Qwen3-0.6B", **EIGHT_PROMPTS)
    assert (off, on) == ([42.54, 42.46, 42.19], [11.97, 11.38, 11.66])
    found = judge(Runs(off), Runs(on), resolution=PRINTED_STEP)
    assert str(found.verdict) == "INCONCLUSIVE(few_runs)"
    assert found.ratio == pytest.approx(3.634, abs=0.001)
    assert found.interval[0] > 3.3
    assert found.outliers == ()
    assert any(
        "3 against 3 runs: a perfect separation has a rank-test p of 0.1" in note for note in found.notes
    )


def test_one_repetition_is_no_stable_figure():
    assert not stability([5.0], resolution=0.1).stable
    assert "one repetition" in str(stability([5.0], resolution=0.1))


# --- T10: the table without a unit ----------------------------------------------------------------


@pytest.mark.parametrize("arm", ["block kernel", "EPL=4 arm"])
def test_the_unlabelled_table_scales_as_throughput_and_gets_no_verdict(arm):
    rows = reported.find(source="mudler/vllm.cpp#382", arm=arm)
    seen = scaling([float(row.concurrency) for row in rows], [row.value for row in rows])
    assert seen.growth is Growth.THROUGHPUT
    assert 0.8 < seen.exponent < 1.0
    with pytest.raises(Refused, match="prints no unit"):
        reported.values(source="mudler/vllm.cpp#382", arm=arm)
    with pytest.raises(Refused, match="no unit"):
        require_unit("unlabelled", rows[0].unit)


def test_a_latency_scales_as_latency_and_in_between_is_unclear():
    assert scaling([1, 2, 4, 8], [10.0, 10.5, 11.5, 13.0]).growth is Growth.LATENCY
    assert scaling([1, 2, 4], [10.0, 14.0, 20.0]).growth is Growth.UNCLEAR
    assert scaling([1, 2, 4], [10.0, 5.0, 2.5]).growth is Growth.UNCLEAR


@pytest.mark.parametrize(
    ("load", "values"), [([1, 2], [1, 2]), ([1, 2, 2], [1, 2, 3]), ([1, 2, 4], [1, 0, 2])]
)
def test_a_series_too_short_or_impossible_is_refused(load, values):
    with pytest.raises(BadArgument):
        scaling(load, values)


# --- the file -------------------------------------------------------------------------------------


def test_every_reported_row_is_read():
    assert len(reported.rows()) > 100
    assert {row.status for row in reported.rows()} == {"measured", "directional", "unit-unknown"}


def test_asking_for_nothing_or_the_unknown_is_refused():
    with pytest.raises(BadArgument, match="no such row"):
        reported.find(source="mudler/vllm.cpp#1")
    with pytest.raises(BadArgument, match="columns"):
        reported.find(colour="red")
    with pytest.raises(BadArgument, match="one unit"):
        reported.values(source="mudler/vllm.cpp#488")
