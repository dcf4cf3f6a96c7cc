"""Sums, unions and per-kernel figures, against brute force."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_makers import dispatches

from hipbook.traces import stats

spans = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 40)), min_size=0, max_size=12)


@settings(max_examples=200, deadline=None)
@given(spans)
def test_busy_union_against_a_set_of_instants(pairs):
    start = np.array([a for a, _ in pairs], dtype=np.int64)
    end = np.array([a + d for a, d in pairs], dtype=np.int64)
    instants = {t for a, d in pairs for t in range(a, a + d)}
    assert stats.busy_union(start, end) == len(instants)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 1 << 60), st.integers(0, 1 << 40)),
        min_size=1,
        max_size=20,
    )
)
def test_per_kernel_adds_up_and_its_order_holds(rows):
    table = stats.per_kernel(dispatches(*((name, a, a + d) for name, a, d in rows)))
    totals = stats.totals(dispatches(*((name, a, a + d) for name, a, d in rows)))
    assert table["Total_Ns"].sum() == totals.sum_ns == sum(d for *_, d in rows)
    assert table["Calls"].sum() == len(rows)
    for row in table.to_dicts():
        assert row["Min_Ns"] <= row["Mean_Ns"] <= row["Max_Ns"]
        assert row["Min_Ns"] <= row["P50_Ns"] <= row["P95_Ns"] <= row["Max_Ns"]
        values = [d for name, _, d in rows if name == row["Kernel_Name"]]
        assert row["P50_Ns"] in values
    assert table["Total_Ns"].is_sorted(descending=True)
    assert totals.busy_union_ns <= min(totals.sum_ns, totals.span_ns)


def test_mean_stays_between_minimum_and_maximum_where_a_double_rounds():
    big = (1 << 53) + 1  # not a double, and over an hour: kept below the limit by a shorter length
    length = 3_599_999_999_999
    table = stats.per_kernel(dispatches(*(("k", big, big + length) for _ in range(3))))
    row = table.to_dicts()[0]
    assert row["Min_Ns"] == row["Max_Ns"] == length
    assert row["Mean_Ns"] == length


def test_sum_union_and_span_are_three_things():
    totals = stats.totals(dispatches(("a", 100, 200), ("b", 150, 250), ("c", 400, 410)))
    assert (totals.sum_ns, totals.busy_union_ns, totals.span_ns, totals.idle_ns) == (210, 160, 310, 150)
