"""Boards are a random factor (R14): one number per board, never pooled iterations."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log

import numpy as np

from hipbook.errors import BadArgument
from hipbook.measure.intervals import student
from hipbook.measure.thresholds import BOARDS_FOR_ARCHITECTURE


@dataclass(frozen=True)
class AcrossBoards:
    """A ratio over the boards of one architecture, or a sentence about the boards there are."""

    architecture: str
    ratios: dict[str, float]  # by board: each board's own ratio over its runs
    ratio: float  # geometric mean over boards
    interval: tuple[float, float] | None  # over boards; None below BOARDS_FOR_ARCHITECTURE

    @property
    def about(self) -> str:
        """Whom a sentence may be about."""
        if self.interval is not None:
            return f"{self.architecture} ({len(self.ratios)} boards)"
        boards = ", ".join(sorted(self.ratios))
        return f"{boards} only: {self.architecture} needs {BOARDS_FOR_ARCHITECTURE} boards"


def across_boards(architecture: str, ratios: Mapping[str, float]) -> AcrossBoards:
    """Combine one ratio per board, keyed by the board's identity so that no board counts twice."""
    if not ratios or not all(ratio > 0 for ratio in ratios.values()):
        raise BadArgument("ratios", dict(ratios), "one positive ratio per board")
    logs = np.array([log(ratio) for ratio in ratios.values()])
    interval = None
    if len(ratios) >= BOARDS_FOR_ARCHITECTURE:
        estimate = student(logs)
        interval = (exp(estimate.low), exp(estimate.high))
    return AcrossBoards(architecture, dict(ratios), exp(logs.mean()), interval)
