"""What may be compared, how many comparisons, and what stands beside a figure (R9, R11, R13, R14)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hipbook.errors import BadArgument
from hipbook.measure.across_boards import across_boards
from hipbook.measure.bound import FasterThanBound, best_bandwidth, bounded
from hipbook.measure.comparable import (
    BoardChanged,
    NotComparable,
    differences,
    require_axis,
    require_comparable,
    same_board,
    shared_axes,
)
from hipbook.measure.families import benjamini_hochberg, correct, holm
from hipbook.measure.judge import Runs, judge
from hipbook.measure.schedule import interleave, positions_of, with_control
from hipbook.measure.verdict import Reason, Verdict, Word

BASE = {"python": "3.11.2", "packages": {"torch": "2.9", "triton": "3.7.1"}, "flags": ["-O3"], "started": "1"}


def test_differences_are_leaves_by_dotted_name_without_times():
    new = {**BASE, "packages": {"torch": "2.9", "triton": "3.6"}, "extra": 1, "started": "2"}
    assert [str(one) for one in differences(BASE, new)] == [
        "extra: None against 1",
        "packages.triton: '3.7.1' against '3.6'",
    ]


def test_r9_only_the_factor_under_study_may_differ():
    new = {**BASE, "flags": ["-O3", "-DHIPBOOK_ARM_DECODE=1"]}
    assert [one.name for one in require_comparable(BASE, new, factor="flags")] == ["flags"]
    with pytest.raises(NotComparable, match=r"python: '3.11.2' against '3.12'"):
        require_comparable(BASE, {**new, "python": "3.12"}, factor="flags")
    with pytest.raises(NotComparable):  # a factor is a whole name, not the beginning of another
        require_comparable(BASE, new, factor="fla")


def test_t9_a_substitution_is_inert_only_by_its_own_equivalent():
    native, container = {**BASE, "runtime": "native"}, {**BASE, "runtime": "container"}
    with pytest.raises(NotComparable, match="measure this substitution as an A/B first"):
        require_comparable(native, container, factor="flags")
    inert = {"runtime": Verdict(Word.EQUIVALENT, None, "")}
    assert require_comparable(native, container, factor="flags", inert=inert)
    unproven = {"runtime": Verdict(Word.INCONCLUSIVE, Reason.FEW_RUNS, "")}
    with pytest.raises(NotComparable, match="few_runs"):
        require_comparable(native, container, factor="flags", inert=unproven)


def test_t13_identity_is_compared_whole():
    same_board({"name": "a", "uuid": "1"}, {"name": "a", "uuid": "1"})
    with pytest.raises(BoardChanged, match="uuid"):
        same_board({"name": "a", "uuid": "1"}, {"name": "a", "uuid": "2"})
    with pytest.raises(BoardChanged):
        same_board({"name": "a", "uuid": "1"}, {"name": "a"})


def test_t8_only_axes_that_both_harnesses_pay():
    in_engine, over_http = {"tpot", "throughput"}, {"tpot", "ttft", "throughput", "http"}
    assert shared_axes(in_engine, over_http) == (["throughput", "tpot"], ["http", "ttft"])
    assert require_axis("tpot", in_engine, over_http) == "tpot"
    with pytest.raises(NotComparable, match="ttft is paid by new alone"):
        require_axis("ttft", in_engine, over_http)
    with pytest.raises(NotComparable, match="measured by neither"):
        require_axis("goodput", in_engine, over_http)


# --- many comparisons ------------------------------------------------------------------------------


def test_adjusted_p_values_agree_with_references():
    p = np.random.default_rng(3).uniform(0, 0.2, 12)
    assert np.allclose(benjamini_hochberg(p), stats.false_discovery_control(p, method="bh"))
    assert np.allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]).max() == 1
    assert (holm(p) >= benjamini_hochberg(p) - 1e-12).all()


def a_judgement(effect, seed=0):
    rng = np.random.default_rng(seed)
    arms = with_control("a", "b")
    order = [slot.arm for slot in interleave(arms, 6, seed)]
    logs = {arm: 0.012 * rng.standard_normal(6) - (effect if arm == "b" else 0) for arm in arms}
    return judge(*(Runs(np.exp(logs[arm]), positions_of(order, arm)) for arm in arms))


def test_r13_a_difference_that_does_not_survive_its_family_is_taken_back():
    strong = a_judgement(0.5)
    weak = replace(strong, p=0.02)
    alone = correct([weak])
    assert alone[0].verdict.word is Word.FASTER
    family = correct([strong, weak, *(replace(a_judgement(0.0, seed), p=0.5) for seed in range(4))])
    assert family[0].verdict.word is Word.FASTER
    assert str(family[1].verdict) == "INCONCLUSIVE(wide_interval)"
    assert "adjusted p = 0.1" in family[1].verdict.why
    assert family[2].verdict == a_judgement(0.0).verdict
    assert "6 comparisons, corrected by Holm" in family[1].notes
    sweep = correct([strong, weak], benjamini_hochberg)
    assert sweep[1].verdict.word is Word.FASTER
    assert "2 comparisons, corrected by Benjamini-Hochberg" in sweep[1].notes
    assert correct([]) == []


# --- bounds ----------------------------------------------------------------------------------------

READS = {"float4 grid stride": 4350.0, "one block a row": 3100.0}


def test_r11_a_figure_carries_its_fraction_of_the_bound():
    memory = best_bandwidth("memory", READS)
    assert (memory.gb_s, memory.kernel, memory.candidates) == (4350.0, "float4 grid stride", 2)
    figure = bounded(250.0, 64 * 4096 * 4096, memory)
    assert figure.floor_us == pytest.approx(246.8, abs=0.1)
    assert figure.fraction == pytest.approx(0.987, abs=0.001)
    assert "99% of the memory bound" in str(figure)


def test_r11_faster_than_the_bound_is_an_error():
    memory = best_bandwidth("memory", READS)
    floor = bounded(1000.0, 10**9, memory).floor_us
    assert bounded(floor / 1.029, 10**9, memory).fraction > 1
    with pytest.raises(FasterThanBound, match=r"GB/s of memory .* is 1\.04 times faster than its bound"):
        bounded(floor / 1.04, 10**9, memory)


def test_warm_bytes_that_fit_in_the_cache_are_bounded_by_the_cache():
    memory, cache = (
        best_bandwidth("memory", READS),
        best_bandwidth("last-level cache", {"a": 9000.0, "b": 1.0}),
    )
    inside = bounded(5.0, 40_000_000, memory, cache=cache, cache_bytes=50_000_000, warm=True)
    assert inside.of.level == "last-level cache"
    assert bounded(15.0, 40_000_000, memory, cache=cache, cache_bytes=50_000_000).of.level == "memory"
    assert (
        bounded(15.0, 60_000_000, memory, cache=cache, cache_bytes=50_000_000, warm=True).of.level == "memory"
    )
    with pytest.raises(BadArgument, match="cache's bandwidth"):
        bounded(5.0, 40_000_000, memory, cache_bytes=50_000_000, warm=True)


def test_one_read_kernel_is_no_bandwidth():
    with pytest.raises(BadArgument, match="at least 2"):
        best_bandwidth("memory", {"only": 100.0})
    with pytest.raises(BadArgument, match="positive"):
        best_bandwidth("memory", {"a": 0.0, "b": 0.0})
    with pytest.raises(BadArgument):
        bounded(0.0, 1, best_bandwidth("memory", READS))


# --- boards ----------------------------------------------------------------------------------------


def test_r14_an_architecture_needs_three_boards():
    two = across_boards("gfx1200", {"card-1": 1.2, "card-2": 1.3})
    assert two.interval is None
    assert two.about == "card-1, card-2 only: gfx1200 needs 3 boards"
    three = across_boards("gfx1200", {"card-1": 1.2, "card-2": 1.3, "card-3": 1.25})
    assert three.about == "gfx1200 (3 boards)"
    assert three.interval[0] < three.ratio < three.interval[1]
    assert three.ratio == pytest.approx((1.2 * 1.3 * 1.25) ** (1 / 3))
    with pytest.raises(BadArgument):
        across_boards("gfx1200", {})
