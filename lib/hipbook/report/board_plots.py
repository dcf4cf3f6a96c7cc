"""One figure a quantity: boards along the axis, a colour and a marker a subject, every value a point."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from hipbook.errors import BadArgument
from hipbook.report import style

MAX_SUBJECTS = 8  # more cannot be told apart; the table beside a figure has them all
_DODGE = 0.75  # of the place between two boards, shared by the subjects


def on_boards(rows: Sequence[Mapping[str, object]], *, quantity: str, title: str) -> Figure:
    """`rows` have board, subject, value and unit; one unit in all of them. Several values of a subject on a
    board (other parameters) are several points: nothing is averaged.
    """
    frame = pd.DataFrame(list(rows))
    if frame.empty:
        raise BadArgument("rows", "[]", "a figure needs at least one value")
    units = sorted(set(frame["unit"]))
    if len(units) > 1:
        raise BadArgument("rows", units, "one unit in a figure")
    boards, subjects = list(dict.fromkeys(frame["board"])), list(dict.fromkeys(frame["subject"]))
    shown = subjects[:MAX_SUBJECTS]
    frame = frame[frame["subject"].isin(shown)]
    shift = {s: (i - (len(shown) - 1) / 2) * _DODGE / max(1, len(shown)) for i, s in enumerate(shown)}
    frame = frame.assign(x=frame["board"].map(boards.index) + frame["subject"].map(shift))
    frame = frame.assign(subject=frame["subject"].map(_short))
    shown = list(dict.fromkeys(_short(subject) for subject in shown))
    figure, ax = plt.subplots(figsize=(max(6.4, 1.6 * len(boards) + 2.4), 4.0))
    sns.scatterplot(
        frame, x="x", y="value", hue="subject", style="subject", hue_order=shown, style_order=shown, s=70,
        palette=_palette(shown), edgecolor="black", linewidth=0.6, ax=ax,
    )  # fmt: skip
    ax.set_xticks(range(len(boards)), [_short(board) for board in boards])
    ax.set_xlim(-0.6, len(boards) - 0.4)
    values = frame["value"]
    if values.min() > 0 and values.max() > 20 * values.min():
        ax.set_yscale("log")
    elif values.min() >= 0:
        ax.set_ylim(bottom=0)
    left_out = f" ({len(shown)} of {len(subjects)} subjects)" if len(shown) < len(subjects) else ""
    ax.set(xlabel="board", ylabel=_short(units[0]), title=f"{_short(title, 60)}{left_out}")
    ax.legend(bbox_to_anchor=(1.01, 1), loc="upper left", frameon=False, title="")
    return figure


def _palette(subjects: Sequence[str]) -> dict[str, object]:
    """An arm keeps its colour, whatever case it ran; what is no arm gets one for colour-blind readers."""
    spare = iter(sns.color_palette("colorblind", len(subjects)))
    return {
        subject: style.ARM_COLOURS.get(subject.split(",")[0].split(" ")[0]) or next(spare)
        for subject in subjects
    }


def _short(text: str, longest: int = 28) -> str:
    """A name in a figure: it may come from elsewhere and be of any length, and `$` would begin a formula."""
    return (text if len(text) <= longest else text[: longest - 3] + "...").replace("$", r"\$")
