"""Notebook 10: do the HIP arms and a kernel with vLLM's arithmetic compute the same function?

In exact arithmetic they do, for requests of one token. In floating point each may differ from float64 by its
own derived bound, and so from another by the sum of both. What sets the arithmetics apart by design is
switched off one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from hipbook.boards.base import Board
from hipbook.measure.counts import CountVerdict, correctness
from hipbook.ops import tiled_ref
from hipbook.ops.attention_call import DTYPES, AttentionCall
from hipbook.ops.models import Model
from hipbook.ops.paged_attention import run_call
from hipbook.ops.tiled_ref import Switches
from hipbook.oracle.compare import Comparison, compare
from hipbook.oracle.paged_attention import Reference, reference
from hipbook.studies.profile import step_call

ARMS = ("online", "decode", "decode_gqa", tiled_ref.NAME)
BAND = 5e-3  # of a row's largest value: what a realistic bf16 kernel keeps to (docs/contracts.md)
VARIANTS = {
    "as in vLLM": Switches(),
    "probabilities not rounded": Switches(rounds_probabilities=False),
    "maximum over all keys": Switches(maximum_by_tile=False),
    "no 1e-10": Switches(epsilon=0.0),
    "all three off": Switches(False, False, 0.0),
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """One arm's (or variant's) output for the call, and how it compares with float64."""

    name: str
    out: torch.Tensor
    comparison: Comparison
    reference: Reference

    @property
    def verdict(self) -> CountVerdict:
        failed = 0 if self.comparison.passed else self.comparison.values_compared
        return correctness(self.comparison.values_compared, failed)

    @property
    def relative_error(self) -> float:
        """Largest |error| of any value, of the largest value of its row; NaN rows aside."""
        return float(of_row(self.out.double() - self.reference.out, self.reference.out).max())


def of_row(difference: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """|difference| [rows, Hq, D] over the largest |value| of each row; 0 for rows that are all zero."""
    largest = out.abs().amax(dim=2, keepdim=True)
    return torch.where(largest > 0, difference.abs() / largest.clamp(min=1e-300), 0.0)


def batch(shape: Model, contexts: Sequence[int], *, dtype: str, seed: int) -> AttentionCall:
    """One decode step of a batch of these contexts; 0 is a request without keys."""
    call = step_call(shape, [max(1, keys) for keys in contexts], dtype=dtype, seed=seed)
    return replace(call, seq_lens=torch.tensor(contexts, dtype=torch.int32))


def run_all(call: AttentionCall, board: Board, *, out_dtype: str) -> list[Outcome]:
    """Every arm on the same inputs, each held to its own bound."""
    call = replace(call, out_dtype=DTYPES[out_dtype])
    expected = reference(call)
    outcomes = []
    for arm in ARMS:
        own = expected.for_rounded_weights(call.v_cache.dtype) if arm == tiled_ref.NAME else expected
        out = run_call(call, arm=arm, board=board).out
        outcomes.append(Outcome(arm, out, compare(out, own), own))
    return outcomes


def table(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """One arm a row: against float64, within its derived bound and within the band."""
    return [
        {
            "arm": outcome.name,
            "result": str(outcome.verdict),
            "values": outcome.comparison.values_compared,
            "held to equality": outcome.comparison.exact_compared,
            f"within {BAND:g} of the row's largest": outcome.relative_error <= BAND,
            "within its derived bound": outcome.comparison.max_error_over_bound <= 1,
        }
        for outcome in outcomes
    ]


def apart(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """Each pair of arms: the largest difference, of the row's largest value, and of both bounds together."""
    rows = []
    for i, a in enumerate(outcomes):
        for b in outcomes[i + 1 :]:
            difference = a.out.double() - b.out.double()
            bounds = a.reference.bound + b.reference.bound
            rows.append(
                {
                    "arms": f"{a.name}, {b.name}",
                    "values": difference.numel(),
                    "largest difference": float(of_row(difference, a.reference.out).max()),
                    "within both bounds": bool((difference.abs() <= bounds).all()),
                    "equal bits": int((a.out == b.out).sum()),
                }
            )
    return rows


def variants(call: AttentionCall, board: Board) -> list[Outcome]:
    """tiled_ref with each of its differences switched off, float32 results: what each is worth in error."""
    call = replace(call, out_dtype=torch.float32)
    expected = reference(call)
    outcomes = []
    for name, switches in VARIANTS.items():
        own = expected.for_rounded_weights(call.v_cache.dtype) if switches.rounds_probabilities else expected
        out = torch.full(call.q.shape, -1.0, dtype=torch.float32)
        tiled_ref.launch(replace(call, out=out), board, False, {}, switches)
        outcomes.append(Outcome(name, out, compare(out, own, padding_poisoned=False), own))
    return outcomes


def variant_table(outcomes: Sequence[Outcome], call: AttentionCall) -> list[dict[str, object]]:
    """One variant a row: its error, how many values differ from the first's, what an empty row becomes."""
    keys = call.seq_lens > 0
    first = outcomes[0].out[keys]
    rows = []
    for outcome in outcomes:
        live = outcome.out[keys].double() - outcome.reference.out[keys]
        empty = outcome.out[~keys]
        nan = bool(empty.isnan().all()) if empty.numel() else None
        rows.append(
            {
                "tiled_ref": outcome.name,
                "error of the row's largest": float(of_row(live, outcome.reference.out[keys]).max()),
                "values that differ": int((outcome.out[keys] != first).sum()),
                "of values": first.numel(),
                "row without keys": "-" if nan is None else "NaN" if nan else f"{float(empty.max()):g}",
            }
        )
    return rows
