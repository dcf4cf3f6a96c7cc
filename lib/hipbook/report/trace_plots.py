"""Figures of traces: the timeline, where time went, what changed. Each returns a matplotlib Figure."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import seaborn as sns
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullFormatter, ScalarFormatter

from hipbook.errors import BadArgument
from hipbook.traces import stats
from hipbook.traces.attribute import Attribution, amdahl
from hipbook.traces.classes import Rules, classed, load_rules
from hipbook.traces.compare import Comparison
from hipbook.traces.difference import Difference
from hipbook.traces.names import short
from hipbook.traces.trace import Trace

MAX_RECTANGLES = 20_000  # more than a screen has columns: neighbours of one class are joined first
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


def unit_of(nanoseconds: float) -> tuple[float, str]:
    """(divisor, unit) in which a length reads best."""
    return next(pair for pair in _UNITS if abs(nanoseconds) >= pair[0] or pair[0] == 1.0)


def _palette(labels: Sequence[str]) -> dict[str, tuple]:
    return dict(zip(labels, sns.color_palette("colorblind", max(1, len(labels))), strict=False))


def timeline(trace: Trace, rules: Rules | None = None, *, title: str = "") -> Figure:
    """One lane per queue of kernels, one of copies, one of API calls, over time from the first event."""
    rules = rules or load_rules()
    lanes: list[tuple[str, pl.DataFrame]] = []
    rows = classed(trace.dispatches.filter(stats.usable()), rules)
    several = rows["Process"].n_unique() > 1
    for (process, queue), part in rows.group_by("Process", "Queue_Id", maintain_order=True):
        lanes.append((f"{process} queue {queue}" if several else f"queue {queue}", part))
    for label, table in (("copies", trace.copies), ("API calls", trace.api_calls)):
        part = table.filter(stats.usable()).with_columns(pl.lit(label).alias("Class"))
        if part.height:
            lanes.append((label, part))
    if not lanes:
        raise BadArgument("trace", "no rows with times", "a timeline needs some")
    first = min(part["Start_Timestamp"].min() for _, part in lanes)
    last = max(part["End_Timestamp"].max() for _, part in lanes)
    scale, unit = unit_of(last - first)
    used = [label for label in rules.labels if label in set(rows["Class"])]
    colours = _palette([*used, "copies", "API calls"])
    figure, ax = plt.subplots(figsize=(10, 1.2 + 0.55 * len(lanes)))
    for place, (_, part) in enumerate(lanes):
        for label, start, end in _bars(part, (last - first) / MAX_RECTANGLES):
            boxes = [
                Rectangle(((a - first) / scale, place - 0.4), (b - a) / scale, 0.8)
                for a, b in zip(start.tolist(), end.tolist(), strict=True)
            ]
            # a line of the same colour keeps what is narrower than a pixel visible
            ax.add_collection(
                PatchCollection(boxes, facecolor=colours[label], edgecolor=colours[label], linewidth=0.2)
            )
    ax.set(xlim=(0, (last - first) / scale), ylim=(len(lanes) - 0.5, -0.5))
    ax.set_yticks(range(len(lanes)), [label for label, _ in lanes])
    ax.set(xlabel=f"time since the first event ({unit}, profiler clock)", title=title)
    ax.grid(axis="y", visible=False)
    handles = [Patch(color=colours[label], label=label) for label in used]
    if handles:
        ax.legend(handles=handles, bbox_to_anchor=(1.01, 1), loc="upper left", frameon=False)
    return figure


def _bars(rows: pl.DataFrame, closer_ns: float):
    """(class, starts, ends) with rows of one class joined where less than `closer_ns` lies between them."""
    for (label,), part in rows.group_by("Class", maintain_order=True):
        part = part.sort("Start_Timestamp")
        start = part["Start_Timestamp"].to_numpy()
        end = np.maximum.accumulate(part["End_Timestamp"].to_numpy())
        first = np.concatenate(([True], start[1:] - end[:-1] > closer_ns))
        yield str(label), start[first], end[np.concatenate((first[1:], [True]))]


def share_bars(
    parts: pl.DataFrame, *, label: str, value: str, title: str, axis: str, most: int = 12
) -> Figure:
    """Horizontal bars of the largest rows and one for the rest; `value` is in ns, shares stand beside."""
    if not parts.height:
        raise BadArgument("parts", "[]", "a figure needs at least one row")
    rows = parts.sort(value, descending=True)
    whole = rows[value].sum()
    kernels = label in ("Kernel_Name", "Name")
    names = [short(name) if kernels else name for name in rows[label].head(most)]
    values = rows[value].head(most).to_list()
    if rows.height > most:
        names.append(f"{rows.height - most} others")
        values.append(rows[value].slice(most).sum())
    scale, unit = unit_of(max(values))
    figure, ax = plt.subplots(figsize=(9, 1.0 + 0.36 * len(names)))
    bars = ax.barh(
        range(len(names)), [one / scale for one in values], color=sns.color_palette("colorblind")[0]
    )
    ax.bar_label(bars, labels=[f"{one / whole:.1%}" if whole else "" for one in values], padding=4)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set(xlabel=f"{axis} ({unit})", title=title)
    ax.grid(axis="y", visible=False)
    return figure


def wall(attribution: Attribution, *, title: str = "") -> Figure:
    """Where the wall went: the parts of an attribution, which add up to it."""
    parts = attribution.parts.filter(pl.col("Wall_Ns") > 0)
    return share_bars(parts, label="Part", value="Wall_Ns", title=title, axis="wall time, each instant once")


def changes(comparison: Comparison, *, title: str = "", most: int = 12) -> Figure:
    """The largest changes of kernel time, split into calls and mean, and the ratios with their intervals."""
    rows = comparison.kernels.filter(pl.col("Change_Ns") != 0).head(most)
    if not rows.height:
        raise BadArgument("comparison", "no kernel changed", "at least one change to draw")
    names = [short(name) for name in rows["Name"]]
    places = range(len(names))
    colours = sns.color_palette("colorblind")
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 1.2 + 0.4 * len(names)), sharey=True)
    scale, unit = unit_of(rows["Change_Ns"].abs().max())
    for column, what, colour, hatch in (
        ("From_Calls_Ns", "calls", colours[0], ""),
        ("From_Mean_Ns", "time a call", colours[1], "//"),
    ):
        offset = 0.18 if column == "From_Mean_Ns" else -0.18
        heights = [place + offset for place in places]
        left.barh(heights, rows[column] / scale, height=0.36, label=what, color=colour, hatch=hatch)
    left.set(xlabel=f"change a run ({unit}), new - base", title=title)
    left.axvline(0, color="black", linewidth=0.8)
    left.legend(title="from", frameon=False)
    left.set_yticks(places, names)
    left.invert_yaxis()
    floor = float(np.exp(comparison.floor))
    right.axvspan(1 / floor, floor, color="0.9", label=f"noise floor ({comparison.floor:.1%})")
    for place, (ratio, low, high, beyond) in enumerate(
        rows.select("Ratio", "Low", "High", "Beyond_Noise").rows()
    ):
        if not np.isfinite(ratio):
            right.annotate("one side only", (1, place), va="center", fontsize=8)
            continue
        if np.isfinite(low) and np.isfinite(high) and low > 0:
            right.plot([low, high], [place, place], color="black", linewidth=1.2)
        right.plot(ratio, place, "o" if beyond else "x", color=colours[2 if ratio > 1 else 3])
    right.set(xscale="log", xlabel="time a call, base / new (above 1: faster)", title="with intervals")
    low, high = right.get_xlim()
    right.set_xlim(min(low, 0.5), max(high, 2.0))
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.xaxis.set_minor_formatter(NullFormatter())
    right.axvline(1, color="black", linewidth=0.8)
    right.legend(frameon=False, loc="lower right")
    return figure


def per_token(difference: Difference, *, title: str = "", most: int = 12) -> Figure:
    """GPU time a token by kernel, from a differenced pair."""
    return share_bars(
        difference.kernels.filter(pl.col("Ns_Per_Token") > 0),
        label="Name", value="Ns_Per_Token", title=title, axis="GPU time a token", most=most,
    )  # fmt: skip


def faster_part(wall_ns: float, parts: dict[str, float], *, title: str = "", step: str = "token") -> Figure:
    """Amdahl: the wall of a step when one part becomes k times faster, a line a part."""
    factors = tuple(float(one) for one in np.geomspace(1, 32, 40))
    figure, ax = plt.subplots(figsize=(7.6, 4.2))
    for (name, part), colour in zip(parts.items(), sns.color_palette("colorblind"), strict=False):
        table = amdahl(wall_ns, part, factors)
        ax.plot(table["Factor"], table["Wall_Ns"] / 1e6, color=colour, label=short(name))
        ax.axhline((wall_ns - part) / 1e6, color=colour, linestyle=":", linewidth=0.8)
    ax.set(
        xscale="log", xlabel="this part k times faster", ylabel=f"wall a {step} (ms)", title=title,
        ylim=(0, wall_ns / 1e6 * 1.05),
    )  # fmt: skip
    ax.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    ax.legend(frameon=False, title="dotted: that part free")
    return figure
