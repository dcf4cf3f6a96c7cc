"""Figures the notebooks share. Each takes plain rows (lists of mappings) and returns a matplotlib Figure.

No figure mixes reported times with our counts on one axis: they are different kinds of fact.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from hipbook.errors import BadArgument
from hipbook.measure.counts import CountVerdict
from hipbook.report import style

Row = Mapping[str, object]


def _frame(rows: Sequence[Row], needed: Sequence[str]) -> pd.DataFrame:
    """The rows as a frame, or BadArgument naming the column that is missing."""
    frame = pd.DataFrame(list(rows))
    if frame.empty:
        raise BadArgument("rows", "[]", "a figure needs at least one row")
    for column in needed:
        if column not in frame:
            raise BadArgument("rows", sorted(frame.columns), f"a column {column!r} is needed")
    return frame


def _bars(
    ax: plt.Axes, labels: Sequence[str], values: Sequence[float], *, value_format: str = "{:,.4g}"
) -> None:
    """Horizontal bars in the arms' own colours and hatches, each with its value written beside it."""
    places = range(len(labels))
    bars = ax.barh(
        places, values, color=[style.colour(label) for label in labels], edgecolor="black", linewidth=0.8
    )
    for bar, label in zip(bars, labels, strict=True):
        bar.set_hatch(style.ARM_HATCHES.get(label, ""))
    ax.set_yticks(list(places), labels)
    if not ax.yaxis_inverted():  # panels may share the axis: turn it over once
        ax.invert_yaxis()
    ax.bar_label(bars, labels=[value_format.format(value) for value in values], padding=4)
    ax.margins(x=0.25)
    ax.grid(axis="y", visible=False)


def small_multiples(
    rows: Sequence[Row], quantities: Mapping[str, str], *, title: str, label: str = "arm"
) -> Figure:
    """One panel a quantity, one bar an arm: `quantities` maps a column to its axis label (with unit)."""
    frame = _frame(rows, [label, *quantities])
    figure, axes = plt.subplots(
        1, len(quantities), figsize=(4.2 * len(quantities), 0.8 + 0.55 * len(frame)), sharey=True
    )
    for ax, (column, axis_label) in zip(
        figure.axes if len(quantities) > 1 else [axes], quantities.items(), strict=True
    ):
        _bars(ax, list(frame[label]), list(frame[column].astype(float)))
        ax.set_xlabel(axis_label)
    figure.suptitle(title)
    return figure


def growth(
    rows: Sequence[Row], *, x: str, y: str, x_label: str, y_label: str, title: str, floor: str | None = None
) -> Figure:
    """`y` over `x`, a line an arm on two log axes; `floor` names a column drawn as a dashed bound."""
    frame = _frame(rows, ["arm", x, y] + ([floor] if floor else []))
    figure, ax = plt.subplots(figsize=(7.2, 4.2))
    arms = list(dict.fromkeys(frame["arm"]))
    sns.lineplot(
        frame,
        x=x,
        y=y,
        hue="arm",
        style="arm",
        hue_order=arms,
        style_order=arms,
        markers=True,
        dashes=False,
        palette={arm: style.colour(arm) for arm in arms},
        ax=ax,
    )
    if floor:
        bound = frame.drop_duplicates(x).sort_values(x)
        ax.plot(bound[x], bound[floor], linestyle="--", color=style.FLOOR_COLOUR, label="floor")
        ax.legend()
    ax.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label, title=title)
    return figure


def mix(rows: Sequence[Row], classes: Sequence[str], *, unit: str, title: str, label: str = "arm") -> Figure:
    """Stacked bars: what each arm's instructions are. `classes` are columns, in stacking order."""
    frame = _frame(rows, [label, *classes])
    figure, ax = plt.subplots(figsize=(8.4, 1.0 + 0.6 * len(frame)))
    colours = sns.color_palette("colorblind", len(classes))
    left = pd.Series(0.0, index=frame.index)
    for number, (name, colour) in enumerate(zip(classes, colours, strict=True)):
        ax.barh(
            frame[label],
            frame[name],
            left=left,
            color=colour,
            edgecolor="black",
            linewidth=0.6,
            hatch=["", "//", "..", "xx", "\\\\", "++"][number % 6],
            label=name,
        )
        left = left + frame[name]
    ax.invert_yaxis()
    ax.set(xlabel=unit, title=title)
    ax.grid(axis="y", visible=False)
    ax.legend(bbox_to_anchor=(1.01, 1), loc="upper left", frameon=False)
    return figure


def registers(rows: Sequence[Row], *, title: str) -> Figure:
    """VGPRs of each arm over the head size, from rows of `measure.builds.facts` of one architecture."""
    frame = _frame(rows, ["arm", "D", "VGPRs"])
    arms = list(dict.fromkeys(frame["arm"]))
    figure, ax = plt.subplots(figsize=(7.2, 3.8))
    sns.barplot(
        frame, x="D", y="VGPRs", hue="arm", hue_order=arms, palette={arm: style.colour(arm) for arm in arms},
        edgecolor="black", ax=ax,
    )  # fmt: skip
    for container, arm in zip(ax.containers, arms, strict=True):
        for bar in container:
            bar.set_hatch(style.ARM_HATCHES.get(arm, ""))
        ax.bar_label(container, fontsize=9)
    ax.set(xlabel="head size D (elements)", ylabel="VGPRs a lane", title=title)
    return figure


def heat(rows: Sequence[Row], *, index: str, columns: str, values: str, title: str) -> Figure:
    """A table as a heat map with its figures written in; empty where there is no row."""
    frame = _frame(rows, [index, columns, values])
    order = {name: list(dict.fromkeys(frame[name])) for name in (index, columns)}
    table = frame.pivot(index=index, columns=columns, values=values).astype(float)
    table = table.reindex(index=order[index], columns=order[columns])
    figure, ax = plt.subplots(figsize=(3.0 + 1.5 * table.shape[1], 0.8 + 0.36 * table.shape[0]))
    sns.heatmap(table, annot=True, fmt=".2g", cmap="cividis", linewidths=0.5, ax=ax, vmin=0, vmax=1)
    ax.set(title=title, xlabel="", ylabel="")
    return figure


def ratios(verdicts: Sequence[tuple[str, CountVerdict]], *, base: str, new: str) -> Figure:
    """Counts of `base` over counts of `new`, a bar each on a log axis; equal counts sit at 1."""
    told = [(name, float(verdict.ratio)) for name, verdict in verdicts if verdict.ratio]
    if not told:
        raise BadArgument("verdicts", "[]", "a figure needs at least one ratio")
    figure, ax = plt.subplots(figsize=(8.0, 0.9 + 0.38 * len(told)))
    names, values = zip(*told, strict=True)
    bars = ax.barh(names, [value - 1 for value in values], left=1, color=style.colour(new), edgecolor="black")
    ax.bar_label(bars, labels=[f"{value:.3g}" for value in values], padding=4, fontsize=9)
    ax.axvline(1, color="black", linewidth=1)
    ax.set(xscale="log", xlabel=f"{base} / {new}, exact counts", title=f"What {new} does less of than {base}")
    ax.margins(x=0.15)
    ax.invert_yaxis()
    return figure


def off_on(rows: Sequence[Row], *, quantity: str, unit: str, title: str) -> Figure:
    """A pair of bars a case, flag off and flag on; rows as `studies.flag_study.bought` gives them."""
    frame = _frame(rows, ["D", "ratio", f"{quantity}, off", f"{quantity}, on"])
    figure, ax = plt.subplots(figsize=(7.2, 3.8))
    places = range(len(frame))
    for shift, side, hatch in ((-0.2, "off", ""), (0.2, "on", "//")):
        arms = list(frame[f"arm {side}"])
        bars = ax.bar(
            [place + shift for place in places], frame[f"{quantity}, {side}"], width=0.38, hatch=hatch,
            color=[style.colour(arm) for arm in arms], edgecolor="black",
        )  # fmt: skip
        ax.bar_label(bars, labels=[f"{side}\n{arm}" for arm in arms], fontsize=8, padding=2)
    ax.set_xticks(
        list(places), [f"D {d}, ratio {r}" for d, r in zip(frame["D"], frame["ratio"], strict=True)]
    )
    ax.set(ylabel=unit, title=title)
    ax.margins(y=0.25)
    ax.grid(axis="x", visible=False)
    return figure


def shares(rows: Sequence[Row], *, title: str) -> Figure:
    """How near each arm comes to its bound: a dot an arm on a line for each case, 100 % marked.

    `rows` have case, arm and share (%).
    """
    frame = _frame(rows, ["case", "arm", "share"])
    arms, cases = list(dict.fromkeys(frame["arm"])), list(dict.fromkeys(frame["case"]))
    figure, ax = plt.subplots(figsize=(9, 1.2 + 0.42 * len(cases)))
    for arm, marker in zip(arms, "oDsv^<>PX*hp" * 2, strict=False):
        mine = frame[frame["arm"] == arm]
        places = [cases.index(case) for case in mine["case"]]
        ax.plot(
            mine["share"], places, marker, color=style.colour(arm), markersize=9, markeredgecolor="black",
            label=arm,
        )  # fmt: skip
    ax.axvline(100, linestyle="--", color=style.FLOOR_COLOUR)
    ax.set_yticks(range(len(cases)), cases)
    ax.invert_yaxis()
    ax.set(xlim=(0, 108), xlabel="% of the bound: the least time its bytes need here", title=title)
    ax.grid(axis="x", visible=True)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure
