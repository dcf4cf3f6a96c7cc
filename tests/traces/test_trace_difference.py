"""Differencing, and the reconstruction that stands in for the report's own pair."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_makers import calls, trace

from hipbook.errors import BadArgument
from hipbook.records import reported
from hipbook.traces import difference as D
from hipbook.traces import stats, windows
from hipbook.traces.attribute import attribute
from hipbook.traces.classes import load_rules
from hipbook.traces.health import health
from hipbook.traces.reconstruction import LABEL, pair, reconstruct, spread


@pytest.fixture(scope="module")
def runs():
    return pair()


@pytest.fixture(scope="module")
def found(runs):
    return D.difference(runs[0], 4, runs[1], 36)


def digits(value: float, like: float) -> str:
    """`value` with as many decimals as the reported figure has."""
    text = f"{like:g}"
    return f"{value:.{len(text.split('.')[1]) if '.' in text else 0}f}"


def rows_of(table, name):
    return table.filter(pl.col("Name").str.contains(name, literal=True)).to_dicts()[0]


def per_token(found):
    """The report's figures as the differenced pair gives them, by (arm, quantity)."""
    ours = {}
    ours["total", "wall"] = found.wall_ns_per_token / 1e6
    ours["total", "gpu_kernel_time"] = found.gpu_ns_per_token / 1e6
    ours["total", "dispatches"] = found.dispatches_per_token
    ours["total", "real_h2d_d2h_time"] = found.copies["Ns_Difference"].sum() / found.tokens / 1e6
    ours["total", "copies"] = found.copies["Calls_Difference"].sum() / found.tokens
    memcpy = rows_of(found.calls, "hipMemcpyAsync")
    ours["total", "hipMemcpyAsync_api_time"] = memcpy["Ns_Per_Token"] / 1e6
    ours["total", "hipMemcpyAsync_api_calls"] = memcpy["Calls_Per_Token"]
    rules = load_rules()
    from hipbook import paths

    by_origin = load_rules(paths.data() / "kernel_classes_by_origin.toml")
    assert rules.source != by_origin.source
    classed = found.kernels.with_columns(by_origin.column(found.kernels["Name"]))
    for arm, label in (
        ("vt kernels", "own kernels"),
        ("hipBLASLt GEMM", "GEMM library"),
        ("copy/fill", "copy and fill"),
    ):
        part = classed.filter(pl.col("Class") == label)
        ours[arm, "dispatches"] = part["Calls_Per_Token"].sum()
        ours[arm, "gpu_time"] = part["Ns_Per_Token"].sum() / 1e6
        ours[arm, "share_of_gpu_time"] = 100 * part["Share"].sum()
    for name in ("QuantizeQ8KK", "GdnPostConvK"):
        row = rows_of(found.kernels, name)
        ours[name, "calls"] = row["Calls_Per_Token"]
        ours[name, "gpu_time"] = row["Ns_Per_Token"] / 1e6
        ours[name, "mean_per_call"] = row["Mean_Ns"] / 1e3
        ours[name, "share_of_gpu_time"] = 100 * row["Share"]
    return ours


def test_every_reported_per_token_figure_is_recovered_to_its_last_digit(found):
    theirs = reported.find(source="mudler/vllm.cpp#1294", workload="decode, per token")
    ours = per_token(found)
    compared = {
        (row.arm, row.quantity): (digits(ours[row.arm, row.quantity], row.value), f"{row.value:g}")
        for row in theirs
    }
    assert len(compared) == 24
    assert {key: a for key, (a, _) in compared.items()} == {key: b for key, (_, b) in compared.items()}


@pytest.mark.parametrize("seed", range(4))
def test_recovery_does_not_hang_on_the_seed(seed):
    again = per_token(D.difference(*_alternate(pair(seed=seed))))
    assert digits(again["total", "wall"], 88.7) == "88.7"
    assert digits(again["QuantizeQ8KK", "gpu_time"], 21.25) == "21.25"
    assert digits(again["total", "gpu_kernel_time"], 59.99) == "59.99"


def _alternate(both):
    return both[0], 4, both[1], 36


def test_more_run_to_run_noise_shows_in_the_last_digit():
    low, high = (reconstruct(n, run_noise_ns=20_000_000) for n in (4, 36))
    noisy = per_token(D.difference(low, 4, high, 36))
    assert digits(noisy["total", "gpu_kernel_time"], 59.99) != "59.99"


def test_three_wrong_methods_give_visibly_other_numbers(runs, found):
    _, high = runs
    right = found.gpu_ns_per_token / 1e6
    one_run = stats.totals(high.dispatches).sum_ns / 36 / 1e6
    assert one_run > 1.2 * right  # load, warm-up and prefill spread over the tokens
    by_time = windows.by_marker(high, "decode_step", 10, follow="time")
    assert stats.totals(by_time.dispatches).sum_ns / 1e6 < 0.5 * right
    by_launch = windows.by_marker(high, "decode_step", 10)
    assert abs(stats.totals(by_launch.dispatches).sum_ns / 1e6 - right) < 0.05 * right
    api = rows_of(found.calls, "hipMemcpyAsync")["Ns_Per_Token"]
    assert api > 50 * found.copies["Ns_Per_Token"].sum()


def test_the_reconstruction_is_labelled_and_healthy(runs):
    for run in runs:
        assert run.facts["label"] == LABEL
        assert "not a measurement" in str(health(run))
        assert not health(run).problems
        assert run.markers["Function"].cast(pl.String).unique().sort().to_list() == [
            "decode_step",
            "prefill",
            "warm-up",
        ]


def test_the_reconstruction_is_seeded_and_its_runs_jitter(runs):
    again = reconstruct(4)
    assert again.dispatches.equals(runs[0].dispatches)
    other = reconstruct(4, seed=7)
    assert not other.dispatches["End_Timestamp"].equals(again.dispatches["End_Timestamp"])
    quantizer = (
        stats.per_kernel(again.dispatches)
        .filter(pl.col("Kernel_Name").str.contains("Quantize"))
        .to_dicts()[0]
    )
    assert quantizer["Min_Ns"] < 0.8 * quantizer["Mean_Ns"]


def test_attribution_of_the_reconstruction_adds_up(runs):
    found = attribute(runs[1])
    assert found.parts["Wall_Ns"].sum() == found.wall_ns


@pytest.mark.parametrize("tokens", [0, -1, 10_001])
def test_tokens_out_of_range(tokens):
    with pytest.raises(BadArgument):
        reconstruct(tokens)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 50), st.lists(st.floats(0.01, 100), min_size=1, max_size=30))
def test_spread_adds_up_exactly(total, weights):
    import numpy as np

    parts = spread(total, np.array(weights))
    assert int(parts.sum()) == total
    assert (parts >= 0).all()


# --- differencing itself ------------------------------------------------------------------------


def run_of(tokens, *, per_token, fixed, start=1000, api=True):
    """`fixed` and `per_token`: lists of (kernel, duration); every token repeats its list."""
    rows, now = [], start
    for name, length in [*fixed, *(per_token * tokens)]:
        rows.append((name, now, now + length, len(rows) + 1))
        now += length + 10
    extra = (
        {"api_calls": calls(*(("hipLaunchKernel", a - 5, a - 4, n) for _, a, _, n in rows))} if api else {}
    )
    return trace(*rows, **extra)


kernels = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 10_000)), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(kernels, kernels, st.integers(0, 4), st.integers(1, 5))
def test_what_both_runs_have_cancels_exactly(per, fixed, low, more):
    runs = run_of(low, per_token=per, fixed=fixed), run_of(low + more, per_token=per, fixed=fixed)
    found = D.difference(runs[0], low, runs[1], low + more)
    for row in found.kernels.to_dicts():
        lengths = [length for name, length in per if name == row["Name"]]
        assert row["Calls_Per_Token"] == len(lengths)
        assert row["Ns_Difference"] == sum(lengths) * more
        assert row["Note"] == ""
    assert found.gpu_ns_per_token == sum(length for _, length in per)
    assert found.wall_ns_per_token == sum(length + 10 for _, length in per)


def test_uneven_calls_and_negative_differences_are_said():
    low = trace(("a", 100, 110), ("b", 120, 140), ("c", 150, 160))
    high = trace(("a", 100, 110), ("a", 120, 130), ("b", 140, 150))
    found = D.difference(low, 1, high, 3)
    notes = {row["Name"]: row["Note"] for row in found.kernels.to_dicts()}
    assert notes == {
        "a": "1 more calls over 2 tokens: not even",
        "b": "less in the longer run",
        "c": "less in the longer run",
    }
    told = " ".join(found.notes)
    assert "1 kernels" in told
    assert "do not add a whole number of calls" in told
    assert "2 kernels have less" in told
    assert "no API calls" in told


def test_a_renamed_signature_is_one_kernel_in_both_runs():
    low, high = (
        trace(("void k<int>(int)", 100, 110)),
        trace(("_Z1kIiEviPf.kd", 100, 110), ("k<int>", 120, 130)),
    )
    assert D.difference(low, 1, high, 2).kernels.select("Name", "Calls_Difference").rows() == [("k<int>", 1)]
    raw = D.difference(low, 1, high, 2, normalised=False).kernels
    assert raw.height == 3


@pytest.mark.parametrize(("low", "high"), [(4, 4), (5, 4), (-1, 4)])
def test_token_counts_must_grow(low, high):
    with pytest.raises(BadArgument):
        D.difference(trace(("a", 1, 2)), low, trace(("a", 1, 2)), high)
