"""Windows by launch, graph, marker, period and time; the edge rules."""

import pytest
from trace_makers import calls, copies, trace

from hipbook.errors import BadArgument
from hipbook.traces import schema, windows
from hipbook.traces.trace import TraceError

ROWS = [
    ("p", 1000, 1100, 1),
    ("a", 1200, 1300, 2),
    ("p", 2000, 2100, 3),
    ("b", 2200, 2300, 4),
    ("p", 3000, 3100, 5),
]
CALLS = calls(
    ("hipLaunchKernel", 10, 20, 1, 7),
    ("hipGraphLaunch", 30, 40, 2, 7),
    ("hipLaunchKernel", 50, 60, 3, 7),
    ("hipLaunchKernel", 55, 65, 4, 8),
    ("hipLaunchKernel", 90, 95, 5, 7),
)
MARKS = calls(
    ("step 0", 5, 45, None, 7), ("step 1", 48, 70, None, 7), ("point", 80, 80, None, 7), table=schema.MARKERS
)


def made(**tables):
    return trace(*ROWS, **{"api_calls": CALLS, "markers": MARKS, **tables})


def kept(window):
    return window.dispatches["Correlation_Id"].to_list()


@pytest.mark.parametrize(
    ("edge", "expected"), [("contained", [2, 3]), ("overlapping", [1, 2, 3, 4]), ("clipped", [1, 2, 3, 4])]
)
def test_edge_rules(edge, expected):
    window = windows.by_time(made(), 1050, 2250, edge=edge)
    assert kept(window) == expected
    spans = window.dispatches.select("Start_Timestamp", "End_Timestamp").rows()
    inside = edge != "overlapping"
    assert all(a >= 1050 and b <= 2250 for a, b in spans) is inside
    assert window.facts["window"]["edge"] == edge


def test_clipping_keeps_lengths_inside():
    window = windows.by_time(made(), 1050, 2250, edge="clipped")
    assert window.dispatches.select("Start_Timestamp", "End_Timestamp").row(0) == (1050, 1100)


def test_a_window_of_time_excludes_its_end_and_takes_touching_rows():
    assert kept(windows.by_time(made(), 1000, 1100)) == [1]
    assert kept(windows.by_time(made(), 1100, 1200, edge="overlapping")) == []


def test_marker_by_launches_takes_its_own_threads_launches():
    assert kept(windows.by_marker(made(), "^step", 0)) == [1, 2]
    assert kept(windows.by_marker(made(), "^step", 1)) == [3]  # 4 was launched by another thread
    assert kept(windows.by_marker(made(), "^step", -1)) == [3]


def test_marker_by_time_takes_what_ran_then_and_the_sentence_tells_them_apart():
    late = made(markers=calls(("step 0", 990, 1150, None, 7), table=schema.MARKERS))
    assert kept(windows.by_marker(late, "step", follow="time")) == [1]
    assert kept(windows.by_marker(late, "step")) == []
    told = windows.why_by_time_differs(made(), "step 0")
    assert "holds 0 kernels, by launch 2" in told
    assert "starts 0.001 ms after the marker has ended" in told


def test_graph_period_and_launch():
    assert kept(windows.by_graph(made())) == [2]
    assert windows.periods(made(), "^p$") == [(1000, 2000), (2000, 3000)]
    assert kept(windows.by_period(made(), "^p$", 0)) == [1, 2]
    assert kept(windows.by_period(made(), "^p$", -1)) == [3, 4]
    assert kept(windows.by_launch(made(), CALLS.head(1))) == [1]


def test_copies_follow_their_calls():
    window = windows.by_marker(
        made(copies=copies(("HOST_TO_DEVICE", 1, 2, 1, 1), ("FILL", 1, 2, 5, 1))), "step 0"
    )
    assert window.copies["Correlation_Id"].to_list() == [1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: windows.by_time(t, 5, 5), BadArgument, "after start_ns"),
        (lambda t: windows.by_time(t, 1, 5, edge="half"), BadArgument, "contained, overlapping or clipped"),
        (lambda t: windows.by_marker(t, "nothing"), TraceError, "there are: point, step 0, step 1"),
        (lambda t: windows.by_marker(t, "step", 2), BadArgument, "2 markers match"),
        (lambda t: windows.by_marker(t, "point", follow="time"), TraceError, "a point in time"),
        (lambda t: windows.by_graph(t, 1), BadArgument, "1 graph launches"),
        (
            lambda t: windows.by_graph(t.replace_tables(api_calls=CALLS.clear())),
            TraceError,
            "no graph launch",
        ),
        (
            lambda t: windows.by_marker(t.replace_tables(api_calls=CALLS.clear()), "step"),
            TraceError,
            "no API calls",
        ),
        (lambda t: windows.by_period(t, "^a$"), TraceError, "1 dispatches match"),
        (lambda t: windows.by_period(t, "^p$", 2), BadArgument, "2 periods"),
    ],
)
def test_impossible_windows_are_clear_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(made())


def test_unusable_rows_belong_to_no_window_of_time():
    bad = trace(("x", -1, -1, 1), ("y", 0, 0, 2), ("z", 10, 20, 3))
    assert kept(windows.by_time(bad, 1, 100)) == [3]
