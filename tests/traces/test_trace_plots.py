"""Figures of traces draw what they are given."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
from trace_makers import calls, copies, trace

from hipbook.errors import BadArgument
from hipbook.report import trace_plots
from hipbook.traces import stats
from hipbook.traces.attribute import attribute
from hipbook.traces.compare import compare

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def made():
    return trace(
        ("Cijk_a", 1_000_000, 3_000_000, 1, 1),
        ("ncclB", 2_000_000, 5_000_000, 2, 2),
        copies=copies(("HOST_TO_DEVICE", 5_000_000, 5_500_000, 3, 1)),
        api_calls=calls(("hipLaunchKernel", 500_000, 600_000, 1)),
    )


def test_timeline_has_a_lane_for_each_queue_copies_and_calls():
    figure = trace_plots.timeline(made(), title="two streams")
    ax = figure.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "queue 1",
        "queue 2",
        "copies",
        "API calls",
    ]
    assert ax.get_xlabel() == "time since the first event (ms, profiler clock)"
    assert ax.get_xlim() == (0, 5)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["GEMM library", "communication"]


def test_timeline_joins_what_no_screen_can_show():
    many = trace(*(("k", 1_000 * n, 1_000 * n + 999) for n in range(1, 30_000)))
    collections = trace_plots.timeline(many).axes[0].collections
    assert sum(len(one.get_paths()) for one in collections) < 100


def test_share_bars_gather_the_rest():
    table = stats.per_kernel(trace(*((f"k{n}", 100 * n, 100 * n + n) for n in range(1, 31))).dispatches)
    figure = trace_plots.share_bars(
        table, label="Kernel_Name", value="Total_Ns", title="", axis="GPU time", most=5
    )
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == 6
    assert labels[-1] == "25 others"
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert sum(widths) == pytest.approx(table["Total_Ns"].sum())


def test_wall_shows_every_part_with_time():
    found = attribute(made())
    labels = [label.get_text() for label in trace_plots.wall(found).axes[0].get_yticklabels()]
    assert set(labels) == {"GEMM library", "communication", "copies", "launch calls", "unexplained"}


def test_changes_draw_both_parts_and_intervals():
    base = trace(*(("a", 1000 * n, 1000 * n + 100 + n % 7) for n in range(1, 60)), ("gone", 90_000, 90_500))
    new = trace(*(("a", 1000 * n, 1000 * n + 200 + n % 7) for n in range(1, 60)))
    figure = trace_plots.changes(compare(base, new), title="x")
    left, right = figure.axes
    assert len(left.patches) == 4
    assert any(text.get_text() == "one side only" for text in right.texts)
    with pytest.raises(BadArgument, match="no kernel changed"):
        trace_plots.changes(compare(base, base))


def test_amdahl_lines_end_at_the_part_gone():
    figure = trace_plots.faster_part(88.7e6, {"quantizer": 21.25e6}, title="x")
    line = figure.axes[0].lines[0]
    assert line.get_ydata()[0] == pytest.approx(88.7)
    assert line.get_ydata()[-1] == pytest.approx(88.7 - 21.25 * (1 - 1 / 32))


def test_nothing_to_draw_is_said():
    with pytest.raises(BadArgument):
        trace_plots.timeline(trace())
    with pytest.raises(BadArgument):
        trace_plots.share_bars(
            stats.per_kernel(trace().dispatches), label="Kernel_Name", value="Total_Ns", title="", axis=""
        )


@pytest.mark.parametrize(
    ("length", "unit"), [(5, "ns"), (5_000, "us"), (5_000_000, "ms"), (5_000_000_000, "s")]
)
def test_units_fit(length, unit):
    assert trace_plots.unit_of(length)[1] == unit
