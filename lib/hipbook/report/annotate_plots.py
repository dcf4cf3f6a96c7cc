"""Pictures of one workgroup at work: lanes active over time, and segments that memory instructions touch."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hipbook.errors import BadArgument
from hipbook.report import style

Row = Mapping[str, object]
LANES = 32


def lanes_over_time(by_arm: Mapping[str, Sequence[Row]], *, title: str) -> Figure:
    """One panel an arm, one strip a wave: darker where more of its lanes take part.

    Rows: wave, instruction, until, active lanes (studies/annotate.lanes_over_time). All panels share the axis
    of instructions a wave has executed, so that an arm that is done early shows it.
    """
    if not by_arm or not all(by_arm.values()):
        raise BadArgument("by_arm", dict.fromkeys(by_arm), "a panel needs at least one row")
    heights = [len({row["wave"] for row in rows}) for rows in by_arm.values()]
    figure, axes = plt.subplots(
        len(by_arm),
        1,
        sharex=True,
        squeeze=False,
        figsize=(9, 1.6 + 0.22 * sum(heights)),
        height_ratios=heights,
        layout="constrained",
    )
    for ax, (arm, rows) in zip(axes[:, 0], by_arm.items(), strict=True):
        for wave in sorted({row["wave"] for row in rows}):
            own = [row for row in rows if row["wave"] == wave]
            edges = np.array([row["instruction"] for row in own] + [own[-1]["until"]])
            lanes = np.array(
                [[row["active lanes"] for row in own]], dtype=float
            )  # None: no vector instruction
            mesh = ax.pcolormesh(edges, [wave - 0.45, wave + 0.45], lanes, cmap="cividis", vmin=0, vmax=LANES)
        ax.set_ylabel(f"{arm}\nwave")
        ax.set_yticks(range(0, max(row["wave"] for row in rows) + 1, max(1, heights[0] // 4)))
        ax.invert_yaxis()
        ax.grid(visible=False)
    axes[-1, 0].set_xlabel("instructions a wave has executed")
    figure.colorbar(mesh, ax=list(axes[:, 0]), label="active lanes of 32")
    figure.suptitle(title)
    return figure


def segments(by_arm: Mapping[str, Sequence[Row]], *, title: str) -> Figure:
    """Segments of 32 bytes a memory instruction touches, beside the fewest that would hold its bytes.

    Rows: instruction, times, segments a time, fewest (studies/annotate.segments_of_loads); one bar each, its
    label says how often it executed. An arm's bars have its colour.
    """
    bars = [(arm, row) for arm, rows in by_arm.items() for row in rows]
    if not bars:
        raise BadArgument("by_arm", dict.fromkeys(by_arm), "a figure needs at least one memory instruction")
    figure, ax = plt.subplots(figsize=(9, 1.2 + 0.3 * len(bars)))
    places = range(len(bars))
    ax.barh(
        places, [row["segments a time"] for _, row in bars], color=[style.colour(arm) for arm, _ in bars],
        edgecolor="black", linewidth=0.6,
    )  # fmt: skip
    ax.scatter(
        [row["fewest"] for _, row in bars], places, marker="|", s=140, color=style.FLOOR_COLOUR, zorder=3
    )
    ax.set_yticks(places, [f"{arm}: {row['instruction']} x {row['times']:,}" for arm, row in bars])
    ax.invert_yaxis()
    ax.set_xlabel("segments of 32 bytes a wave's instruction touches (| the fewest that hold its bytes)")
    ax.set_title(title)
    return figure
