"""Comparison of runs: no false regression, true changes found and split, words only where runs allow them."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_makers import trace

from hipbook.traces.compare import compare


def run(seed, *, kernels=None, run_noise=0.01, jitter=0.05, start=1_000_000, calls=60):
    """A run: every kernel `calls` times with jitter of single calls and a common factor for the run."""
    rng = np.random.default_rng(seed)
    whole = float(np.exp(rng.normal(0, run_noise)))
    rows, now = [], start
    kernels = kernels or {"a": (1.0, 10_000), "b": (1.0, 50_000), "c": (0.5, 5_000)}
    for _ in range(calls):
        for name, (often, length) in kernels.items():
            for _ in range(int(often) or rng.random() < often):
                took = max(1, round(length * whole * float(np.exp(rng.normal(0, jitter)))))
                rows.append((name, now, now + took, len(rows) + 1))
                now += took + 500
    return trace(*rows)


def changed(found):
    return {
        row["Name"]: row["Change"]
        for row in found.kernels.to_dicts()
        if row["Change"] in ("slower", "faster", "gone", "new")
    }


def row(found, name):
    return found.kernels.filter(pl.col("Name") == name).to_dicts()[0]


@pytest.mark.parametrize("seed", range(25))
def test_a_run_against_its_rerun_names_no_change(seed):
    assert changed(compare(run(seed), run(1000 + seed))) == {}


def test_a_run_against_itself_is_nothing():
    one = run(1)
    found = compare(one, one)
    assert found.kernels["Change_Ns"].to_list() == [0.0] * 3
    assert found.named().height == 0


def test_a_two_fold_change_of_time_is_found_and_split():
    new = run(2, kernels={"a": (1.0, 20_000), "b": (1.0, 50_000), "c": (0.5, 5_000)})
    found = compare(run(1), new)
    assert changed(found) == {"a": "slower"}
    a = row(found, "a")
    assert found.kernels["Name"][0] == "a"
    assert (a["From_Calls_Ns"], a["Low"] < a["Ratio"] < a["High"] < 1) == (0.0, True)
    assert a["Ratio"] == pytest.approx(0.5, rel=0.05)
    assert a["Change_Ns"] == pytest.approx(600_000, rel=0.05)


def test_a_two_fold_change_of_calls_is_found_and_split():
    new = run(2, kernels={"a": (2.0, 10_000), "b": (1.0, 50_000), "c": (0.5, 5_000)})
    a = row(compare(run(1), new), "a")
    assert (a["Calls_Base"], a["Calls_New"], a["Change"]) == (60, 120, "more calls")
    assert a["From_Calls_Ns"] == pytest.approx(60 * a["Mean_Base_Ns"])
    assert abs(a["From_Mean_Ns"]) < 0.1 * a["From_Calls_Ns"]


def test_a_renamed_signature_is_one_kernel():
    base = trace(*(("void k<int>(int)", 100 * n, 100 * n + 50) for n in range(1, 30)))
    new = trace(*(("_Z1kIiEviPf.kd", 100 * n, 100 * n + 50) for n in range(1, 30)))
    found = compare(base, new)
    assert found.kernels.select("Name", "Matched", "Change").rows() == [("k<int>", "normalised name", "")]
    templated = compare(trace(("k<int>(int)", 100, 150)), trace(("k<float>(float)", 100, 150)))
    assert sorted(templated.kernels["Change"]) == ["gone", "new"]
    asked = compare(trace(("k<int>(int)", 100, 150)), trace(("k<float>(float)", 100, 150)), templates=True)
    assert asked.kernels["Name"].to_list() == ["k"]


def test_gone_and_new_kernels_carry_their_whole_time():
    found = compare(trace(("a", 100, 150), ("b", 200, 260)), trace(("b", 200, 260), ("c", 300, 400)))
    assert changed(found) == {"a": "gone", "c": "new"}
    assert (row(found, "a")["Change_Ns"], row(found, "c")["Change_Ns"]) == (-50, 100)


def test_one_run_a_side_gives_candidates_and_no_word():
    found = compare(run(1), run(2, kernels={"a": (1.0, 20_000), "b": (1.0, 50_000)}))
    words = {(one["Word"], one["Reason"]) for one in found.kernels.to_dicts() if one["Name"] != "c"}
    assert words == {("INCONCLUSIVE", "few_runs")}
    assert any("4 runs a side" in note for note in found.notes)


def sides(n, *, slower=1.0, interleaved=True, control=0):
    """n runs a side, one after the other by their clocks, in turn or all of one side first."""
    kernels = {"a": (1.0, 10_000 * slower), "b": (1.0, 50_000)}
    plain = {"a": (1.0, 10_000), "b": (1.0, 50_000)}
    length = 100_000_000
    places = [(2 * i, 2 * i + 1) if interleaved else (i, n + i) for i in range(n)]
    base = [run(i, kernels=plain, start=1 + p * length) for i, (p, _) in enumerate(places)]
    new = [run(100 + i, kernels=kernels, start=1 + q * length) for i, (_, q) in enumerate(places)]
    extra = [run(200 + i, kernels=plain, start=1 + (2 * n + i) * length) for i in range(control)]
    return base, new, extra


def test_words_need_four_runs_made_in_turn_and_a_control():
    def word(**options):
        n = options.pop("n", 5)
        base, new, control = sides(n, slower=1.5, **options)
        a = row(compare(base, new, control=control), "a")
        return a["Word"], a["Reason"]

    assert word(control=5) == ("SLOWER", "")
    assert word(control=0) == ("INCONCLUSIVE", "below_noise_floor")
    assert word(control=5, interleaved=False) == ("INCONCLUSIVE", "drift")
    assert word(control=5, n=3) == ("INCONCLUSIVE", "few_runs")


def test_what_did_not_change_is_never_called_slower_or_faster():
    words = []
    for number in range(6):
        base, new, control = sides(4, control=4)
        shifted = [run(300 + 10 * number + i, start=1 + (2 * i + 1) * 100_000_000) for i in range(4)]
        words += compare(base, shifted if number else new, control=control).kernels["Word"].to_list()
    assert not {"SLOWER", "FASTER"} & set(words)


def test_the_control_sets_the_floor():
    base, new, control = sides(4, slower=1.03, control=4)
    found = compare(base, new, control=control)
    assert found.floor < 0.05
    assert "A/A control of 4 runs" in found.floor_source
    assumed = compare(base, new)
    assert assumed.floor == 0.05
    assert "assumed" in assumed.floor_source


def test_a_kernel_seen_once_has_no_interval_and_is_never_beyond_noise():
    one = row(compare(trace(("a", 100, 200)), trace(("a", 100, 400))), "a")
    assert (one["Low"], one["High"], one["Beyond_Noise"], one["Change"]) == (0.0, math.inf, False, "")


def test_unusable_rows_count_for_nothing():
    rows = [("a", 100 * n, 100 * n + 50) for n in range(1, 30)]
    found = compare(trace(*rows), trace(*rows, ("a", -1, -1), ("a", 0, 0)))
    assert found.kernels["Change_Ns"].to_list() == [0.0]


lists = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 1_000_000)), min_size=1, max_size=25)


def laid_out(pairs):
    rows, now = [], 1
    for name, length in pairs:
        rows.append((name, now, now + length))
        now += length
    return trace(*rows)


@settings(max_examples=80, deadline=None)
@given(lists, lists)
def test_changes_add_up_and_turn_round(base, new):
    there, back = compare(laid_out(base), laid_out(new)), compare(laid_out(new), laid_out(base))
    total = sum(length for _, length in new) - sum(length for _, length in base)
    assert there.kernels["Change_Ns"].sum() == pytest.approx(total, abs=1e-3)
    assert back.kernels["Change_Ns"].sum() == pytest.approx(-total, abs=1e-3)
    for one in there.kernels.to_dicts():
        assert one["Change_Ns"] == pytest.approx(one["From_Calls_Ns"] + one["From_Mean_Ns"], abs=1e-3)
    assert set(there.kernels["Name"]) == {name for name, _ in base} | {name for name, _ in new}
