"""Every finding of the health report: planted, found, counted; and absent where nothing was planted."""

import polars as pl
import pytest
from trace_makers import calls, copies, dispatches, trace

from hipbook.traces import stats
from hipbook.traces.health import health

GOOD = [("a", 100, 150, 1), ("b", 160, 200, 2), ("a", 210, 260, 3)]
LAUNCHES = calls(*(("hipLaunchKernel", 10 * n, 10 * n + 5, n) for n in (1, 2, 3)))


def test_a_good_trace_has_nothing_to_report():
    report = health(trace(*GOOD, api_calls=LAUNCHES))
    assert report.findings == ()
    assert "nothing to report" in str(report)
    assert "sum 140 ns, busy union 140 ns, span 160 ns" in str(report)


@pytest.mark.parametrize(
    ("kind", "row", "usable"),
    [
        ("negative_durations", ("bad", 300, 290, 9), 3),
        ("zero_timestamps", ("bad", 0, 290, 9), 3),
        ("zero_timestamps", ("bad", 280, 0, 9), 3),
        ("uint64_max_timestamps", ("bad", 280, -1, 9), 3),
        ("uint64_max_timestamps", ("bad", -1, -1, 9), 3),
        ("impossible_durations", ("bad", 280, 280 + stats.IMPOSSIBLE_NS + 1, 9), 3),
        ("zero_durations", ("bad", 280, 280, 9), 4),
    ],
)
def test_bad_times_are_counted_placed_and_left_out(kind, row, usable):
    report = health(trace(*GOOD, row))
    found = [one for one in report.findings if one.kind == kind]
    assert [(one.count, one.rows) for one in found] == [(1, (("made", 4),))]
    assert report.totals.usable_rows == usable
    assert report.totals.sum_ns == 140
    assert {one.kind for one in report.findings} == {kind}


def test_kernel_before_its_launch_is_clock_skew():
    report = health(trace(("a", 100, 150, 1), api_calls=calls(("hipLaunchKernel", 120, 130, 1))))
    assert report.count("kernel_before_launch") == 1
    assert [one.kind for one in report.problems] == ["kernel_before_launch"]


def test_kernel_before_the_copy_it_needs():
    copied = copies(("HOST_TO_DEVICE", 50, 180, 1, 1))
    made = trace(
        ("a", 100, 150, 2),
        ("b", 190, 220, 3),
        copies=copied,
        api_calls=calls(
            ("hipMemcpyAsync", 10, 20, 1), ("hipLaunchKernel", 30, 35, 2), ("hipLaunchKernel", 40, 45, 3)
        ),
    )
    assert health(made).count("kernel_before_copy") == 1
    other_stream = trace(("a", 100, 150, 2, 9), copies=copied, api_calls=made.api_calls)
    assert not health(other_stream).has("kernel_before_copy")
    issued_later = trace(
        ("a", 100, 150, 2), copies=copies(("HOST_TO_DEVICE", 50, 180, 7, 1)), api_calls=made.api_calls
    )
    assert not health(issued_later).has("kernel_before_copy")


def test_overlaps_of_one_queue_not_of_two():
    same = health(trace(("a", 100, 200, 1, 1), ("b", 150, 300, 2, 1)))
    two = health(trace(("a", 100, 200, 1, 1), ("b", 150, 300, 2, 2)))
    assert same.count("same_queue_overlaps") == 1
    assert "overlap by 50 ns" in str(same)
    assert not two.has("same_queue_overlaps")
    assert two.has("sum_exceeds_span")


def test_launches_without_kernels_and_kernels_without_launch():
    made = trace(
        ("a", 100, 150, 1),
        ("b", 160, 170, 9),
        api_calls=calls(
            ("hipLaunchKernel", 10, 20, 1), ("hipModuleLaunchKernel", 30, 40, 2), ("hipFree", 50, 60, 3)
        ),
    )
    report = health(made)
    assert report.count("launches_without_kernels") == 1
    assert report.count("kernels_without_launch") == 1


def test_correlation_ids_of_two_processes_are_not_mixed():
    both = pl.concat(
        [dispatches(("a", 100, 150, 1), process="p"), dispatches(("b", 100, 150, 1), process="q")]
    )
    report = health(trace(dispatches=both, api_calls=calls(("hipLaunchKernel", 10, 20, 1), process="p")))
    assert report.count("kernels_without_launch") == 1
    assert report.count("several_processes") == 2


def test_graph_launches_with_their_kernel_counts():
    rows = [("k", 100 * n, 100 * n + 50, 7) for n in range(1, 101)]
    report = health(trace(*rows, api_calls=calls(("hipGraphLaunch", 10, 20, 7))))
    assert "owning 100 kernels" in str(report)
    assert not report.has("under_recorded_graphs")


def test_a_graph_launch_without_kernels_explains_idle_time():
    rows = [("a", 100, 150, 1), ("b", 5_000_000, 5_000_100, 2)]
    made = trace(
        *rows,
        api_calls=calls(
            ("hipLaunchKernel", 10, 20, 1), ("hipGraphLaunch", 200, 300, 9), ("hipLaunchKernel", 400, 410, 2)
        ),
    )
    report = health(made)
    assert report.count("under_recorded_graphs") == 1
    gap = next(one for one in report.findings if one.kind == "long_gaps")
    assert "not idle time" in gap.text
    plain = health(
        trace(*rows, api_calls=calls(("hipLaunchKernel", 10, 20, 1), ("hipLaunchKernel", 400, 410, 2)))
    )
    assert "not idle time" not in str(plain)


def test_duplicates_row_order_and_gaps():
    report = health(trace(("a", 500, 600, 1), ("a", 100, 200, 2)))
    assert report.count("row_order") == 1
    twice = dispatches(("a", 100, 200, 1))
    report = health(trace(dispatches=pl.concat([twice, twice])))
    assert report.count("duplicate_dispatches") == 1


def test_memcpy_api_time_is_told_apart_from_copying():
    made = trace(
        ("a", 100, 150, 1),
        copies=copies(("HOST_TO_DEVICE", 200, 210, 2, 1)),
        api_calls=calls(("hipLaunchKernel", 10, 20, 1), ("hipMemcpyAsync", 30, 930, 2)),
    )
    report = health(made)
    found = next(one for one in report.findings if one.kind == "api_time_is_not_copy_time")
    assert "900 ns of CPU time; copies: 10 ns" in found.text


def test_rows_that_cannot_be_used_do_not_break_the_rest():
    report = health(trace(("a", -1, -1, None), ("b", 0, 0, None)))
    assert report.totals.usable_rows == 0
    assert report.totals.span_ns == 0
    assert str(report)
