"""The figures of a report: for each question and counted or timed quantity, every value on every board.

A figure is a page: the plot, and under it a table in which every value leads to the record it is from.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt

from hipbook.report import board_plots, gather, style, tables
from hipbook.report.gather import Run

MAX_FIGURES = 8  # of one question: the quantities with most values
MAX_ROWS = 1000  # of a figure's table; what is beyond is in the records


@dataclass(frozen=True)
class Figure:
    """One figure's page: what it shows, where, and the table under it."""

    slug: str
    quantity: str
    unit: str
    alt: str
    boards: list[str]
    rows: list[dict[str, Any]]  # subject, point, cells: one a board, {text, href} or None
    left_out: int  # rows beyond MAX_ROWS


def draw(name: str, runs: Sequence[Run], folder: Path) -> list[Figure]:
    """Draw the figures of one question into `folder` as PNG: none when all runs are of one board.

    Controls and figures reported by others are left out.
    """
    shown = [run for run in runs if run.record and run.board and not run.control]
    if len({run.board for run in shown}) < 2:
        return []
    values: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in shown:
        for fact in run.record.facts:
            if fact.kind != "reported":
                row = {"board": run.board, "subject": fact.subject, "value": float(fact.value)}
                values.setdefault((fact.quantity, fact.unit), []).append(
                    row | {"unit": fact.unit, "run": run}
                )
    kept = sorted(values, key=lambda key: -len(values[key]))[:MAX_FIGURES]
    names = gather.varied(shown)
    made = []
    with matplotlib.rc_context():
        style.use()
        for number, key in enumerate(key for key in values if key in kept):
            slug = f"{gather.slug_of(name)}-{number}"
            _picture(values[key], key[0], folder / f"{slug}.png")
            made.append(_figure(slug, key, values[key], names))
    return made


def _picture(rows: Sequence[Mapping[str, Any]], quantity: str, path: Path) -> None:
    figure = board_plots.on_boards(
        [{k: row[k] for k in ("board", "subject", "value", "unit")} for row in rows],
        quantity=quantity, title=quantity,
    )  # fmt: skip
    figure.savefig(path, dpi=96, metadata={"Software": None})
    plt.close(figure)


def _figure(
    slug: str, key: tuple[str, str], values: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Figure:
    quantity, unit = key
    boards = list(dict.fromkeys(row["board"] for row in values))
    told: dict[tuple[str, str], dict[str, Any]] = {}
    for row in values:
        place = told.setdefault((row["subject"], gather.label(row["run"], names)), {})
        cell = {"text": tables.cell(_number(row["value"])), "href": f"../records/{row['run'].slug}.html"}
        place.setdefault(row["board"], []).append(cell)
    rows = [
        {"subject": subject, "point": point, "cells": [cells.get(board, []) for board in boards]}
        for (subject, point), cells in told.items()
    ]
    low, high = min(row["value"] for row in values), max(row["value"] for row in values)
    subjects = len(Counter(row["subject"] for row in values))
    alt = (
        f"{quantity} in {unit} on {len(boards)} boards, {len(values)} values of {subjects} subjects, "
        f"{tables.cell(_number(low))} to {tables.cell(_number(high))}; the table below has all of them"
    )
    return Figure(slug, quantity, unit, alt, boards, rows[:MAX_ROWS], max(0, len(rows) - MAX_ROWS))


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
