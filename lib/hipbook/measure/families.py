"""Many comparisons (R13): corrected, and their number printed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hipbook.measure.judge import Judgement
from hipbook.measure.thresholds import CONFIDENCE
from hipbook.measure.verdict import Reason, Verdict, Word

DIFFERENCES = frozenset({Word.FASTER, Word.SLOWER})  # the words that a correction can take away


def survives(adjusted_p: float) -> bool:
    """Whether a difference stands at this adjusted p value."""
    return adjusted_p < 1 - CONFIDENCE


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p values: the chance of any false difference in the family ("is any arm better?")."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    return _back(np.minimum(stepped, 1.0), order)


def benjamini_hochberg(p: Sequence[float]) -> np.ndarray:
    """Benjamini and Hochberg's: the share of false differences among those named (sweeps)."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)
    stepped = p[order] * len(p) / (1 + np.arange(len(p)))
    return _back(np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0), order)


def correct(judgements: Sequence[Judgement], method=holm) -> list[Judgement]:
    """The same judgements as one family: FASTER and SLOWER that do not survive become INCONCLUSIVE.

    Every p becomes its adjusted one and every judgement notes the family's size. EQUIVALENT and
    INCONCLUSIVE stay: correction can only take a difference away.
    """
    adjusted = method([one.p for one in judgements]) if judgements else []
    note = f"{len(judgements)} comparisons, corrected by {method.__name__.replace('_', '-').title()}"
    return [_corrected(one, float(p), note) for one, p in zip(judgements, adjusted, strict=True)]


def _corrected(one: Judgement, p: float, note: str) -> Judgement:
    verdict = one.verdict
    if verdict.word in DIFFERENCES and not survives(p):
        why = f"significant alone (p = {one.p:.2g}) but not among its family (adjusted p = {p:.2g})"
        verdict = Verdict(Word.INCONCLUSIVE, Reason.WIDE_INTERVAL, why, verdict.exploratory)
    return replace(one, verdict=verdict, p=p, notes=(*one.notes, note))


def _back(adjusted: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Undo the sorting."""
    result = np.empty_like(adjusted)
    result[order] = adjusted
    return result
