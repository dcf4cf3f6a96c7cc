"""The figure of a comparison: one row a case, ratio on a log axis, readable in black and white.

The point is the ratio over runs with its 95 % interval; small dots are the blocks behind it; the grey
band of a row is that session's A/A noise floor; dotted lines are the minimum effect. The marker tells
the word, so nothing depends on colour.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hipbook.errors import BadArgument
from hipbook.measure.verdict import Word
from hipbook.report import style
from hipbook.report.comparison import Comparison, TimeLine

# Shape and filling by word; INCONCLUSIVE is hollow.
MARKERS = {Word.FASTER: ">", Word.SLOWER: "<", Word.EQUIVALENT: "s", Word.INCONCLUSIVE: "o"}
BAND_GREY, DOT_GREY = "0.82", "0.45"
LEAST_SPAN = 1.25  # the axis shows at least 1 / 1.25 .. 1.25, so that 1 % does not look like a cliff
ROW_INCHES = 0.55


def figure(comparison: Comparison) -> Figure:
    """Draw the timed lines of a comparison. BadArgument when it has none."""
    if not comparison.times:
        raise BadArgument(
            "comparison", "no times", "the figure is of ratios of times; counts have their table"
        )
    style.use()
    lines = comparison.times
    drawn, ax = plt.subplots(figsize=(9.0, 1.9 + ROW_INCHES * len(lines)))
    low, high = _span(lines)
    ax.set(xscale="log", xlim=(low, high), ylim=(len(lines) - 0.5, -0.5))
    _dots(ax, lines)
    for row, line in enumerate(lines):
        _row(ax, row, line, low, high)
    ax.axvline(1.0, color="black", linewidth=1.0, zorder=2)
    _axis(ax, lines, low, high)
    ax.set_yticks(range(len(lines)), [line.case for line in lines])
    for row, line in enumerate(lines):
        said = f"{line.judgement.ratio:.2f}  {line.judgement.verdict}"
        ax.annotate(
            said,
            (1.01, row),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize="small",
            annotation_clip=False,
        )
    ax.set_title(f"{comparison.new} against {comparison.base}", loc="left")
    ax.set_xlabel("ratio over runs, log axis: right of 1 is better")
    drawn.legend(handles=_legend(lines), loc="outside lower left", ncols=3, fontsize="small", frameon=False)
    drawn.set_layout_engine("constrained")
    return drawn


def alt_text(comparison: Comparison) -> str:
    """The figure in words, for those who do not see it."""
    told = "; ".join(f"{line.case}: {line.judgement}" for line in comparison.times)
    return f"Ratios of {comparison.new} against {comparison.base} with 95 % intervals. {told}."


def _row(ax: plt.Axes, row: int, line: TimeLine, low: float, high: float) -> None:
    """Noise band, minimum effect, interval and point of one case."""
    one = line.judgement
    if one.noise_floor is not None:
        reach = 1 + one.noise_floor
        ax.add_patch(
            Rectangle((1 / reach, row - 0.4), reach - 1 / reach, 0.8, color=BAND_GREY, zorder=1, linewidth=0)
        )
    effect = 1 + one.minimum_effect
    ax.vlines(
        [1 / effect, effect], row - 0.4, row + 0.4, color="black", linestyle=":", linewidth=1.0, zorder=2
    )
    left, right = np.clip(one.interval, low, high)
    ax.hlines(row, left, right, color="black", linewidth=1.6, zorder=3)
    ax.vlines([left, right], row - 0.18, row + 0.18, color="black", linewidth=1.6, zorder=3)
    word = one.verdict.word
    ax.plot(
        one.ratio,
        row,
        marker=MARKERS[word],
        markersize=7,
        color="black",
        markerfacecolor="white" if word is Word.INCONCLUSIVE else "black",
        markeredgewidth=1.2,
        zorder=5,
    )


def _dots(ax: plt.Axes, lines: Sequence[TimeLine]) -> None:
    """The ratio of every block, a little below its row's line."""
    dots = pd.DataFrame(
        [(ratio, row + 0.26) for row, line in enumerate(lines) for ratio in line.run_ratios],
        columns=["ratio", "row"],
    )
    if not dots.empty:
        sns.scatterplot(
            dots,
            x="ratio",
            y="row",
            color=DOT_GREY,
            marker=".",
            s=36,
            linewidth=0,
            ax=ax,
            zorder=4,
            legend=False,
        )
        ax.set_ylabel("")


def _span(lines: Sequence[TimeLine]) -> tuple[float, float]:
    """Axis limits around everything drawn, never narrower than LEAST_SPAN; endless intervals are cut."""
    points = [1.0]
    for line in lines:
        one = line.judgement
        points += [one.ratio, *line.run_ratios]
        points += [edge for edge in one.interval if one.ratio / 8 <= edge <= one.ratio * 8]
        points += [1 + one.noise_floor, 1 / (1 + one.noise_floor)] if one.noise_floor is not None else []
    return min(min(points) / 1.06, 1 / LEAST_SPAN), max(max(points) * 1.06, LEAST_SPAN)


def _axis(ax: plt.Axes, lines: Sequence[TimeLine], low: float, high: float) -> None:
    """Plain numbers on the log axis: 0.8, 1, 1.25 on a narrow span, 0.5, 1, 2, 5 on a wide one."""
    narrow = high / low < 3
    steps = (0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0, 2.5)
    if narrow:
        ax.set_xticks([step for step in steps if low <= step <= high])
    else:
        ax.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="y", visible=False)


def _legend(lines: Sequence[TimeLine]) -> list:
    words = list(dict.fromkeys(line.judgement.verdict.word for line in lines))
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=MARKERS[word],
            color="black",
            markerfacecolor="white" if word is Word.INCONCLUSIVE else "black",
            label=f"{word} (95 % interval)",
        )
        for word in words
    ]
    if any(line.run_ratios for line in lines):
        handles.append(Line2D([], [], linestyle="", marker=".", color=DOT_GREY, label="one block"))
    if any(line.judgement.noise_floor is not None for line in lines):
        handles.append(Patch(color=BAND_GREY, label="A/A noise floor"))
    handles.append(Line2D([], [], linestyle=":", color="black", label="minimum effect"))
    return handles
