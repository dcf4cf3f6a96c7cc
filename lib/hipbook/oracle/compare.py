"""Comparison of an output with its reference: what was compared, how far off, and whether it passes.

Two criteria, both needed: NMSE (sum of squared errors over sum of squares) at most 5e-4, per tensor
and per (token, head) row, so that one bad row among thousands cannot hide; and every value within
its derived bound. Exact rows must be equal. A comparison of nothing does not pass.
"""

from dataclasses import dataclass

import torch

from hipbook.ops.launch import is_poison
from hipbook.oracle.attention_reference import NMSE_GATE, Reference


@dataclass(frozen=True)
class Comparison:
    """`why` names the first reason not to pass, with token, head and value; "" when it passes."""

    values_compared: int
    nmse: float  # over the tensor
    worst_row_nmse: float  # over (token, head) rows whose reference is not all zero
    max_error_over_bound: float  # over values that are not exact by construction
    exact_compared: int  # values held to equality
    passed: bool
    why: str = ""


def compare(out: torch.Tensor, reference: Reference, *, padding_poisoned: bool = True) -> Comparison:
    """Hold `out` [total_q, Hq, D] to `reference`.

    `padding_poisoned`: rows that no request owns must still hold the wrapper's poison (a fresh
    output of a checked launch); pass False for an output the caller provided.
    """
    if tuple(out.shape) != tuple(reference.out.shape) or out.dtype != reference.out_dtype:
        wanted = f"{tuple(reference.out.shape)} {reference.out_dtype}"
        return _failed(f"output is {tuple(out.shape)} {out.dtype}, the reference {wanted}")
    out, written = out.detach().cpu(), reference.written
    if padding_poisoned and not bool(is_poison(out[~written]).all()):
        return _failed("a padding row, owned by no request, was written")
    got, want = out[written].to(torch.float64), reference.out[written]
    if not got.numel():
        return _failed("nothing was compared: no request owns a token")
    error = _error(got, want, reference)
    exact = reference.exact[written]
    rounded = want.to(reference.out_dtype).to(torch.float64)
    unequal = exact & (got != rounded) & ~(got.isnan() & rounded.isnan())
    over = torch.where(exact | (error == 0), 0.0, error / reference.bound[written])
    over = torch.where(over.isnan(), torch.inf, over)
    squares, row_squares = want.square(), want.square().sum(dim=2)
    row_nmse = torch.where(row_squares > 0, error.square().sum(dim=2) / row_squares, 0.0)
    total = squares.sum()
    nmse = float(error.square().sum() / total) if total > 0 else float(error.square().sum())
    figures = {
        "values_compared": got.numel(),
        "nmse": nmse,
        "worst_row_nmse": float(row_nmse.max()),
        "max_error_over_bound": float(over.max()),
        "exact_compared": int(exact.sum()),
    }
    # an all-zero row has no NMSE: it is exact when it has no keys, and within its bound otherwise
    why = (
        _first(unequal, "must be exactly", got, rounded, reference)
        or _first(over > 1, "off by more than its bound from", got, want, reference)
        or _first((row_squares == 0)[:, :, None] & (got != 0), "must be zero:", got, want, reference)
        or _gate("row", figures["worst_row_nmse"])
        or _gate("tensor", nmse)  # never the first: a mean of the rows'
    )
    return Comparison(**figures, passed=not why, why=why)


def _error(got: torch.Tensor, want: torch.Tensor, reference: Reference) -> torch.Tensor:
    """|got - want|; a reference past the output dtype's range must come out as that infinity."""
    most = torch.finfo(reference.out_dtype).max
    overflowed = (want.abs() > most) & (got == torch.copysign(torch.full_like(want, torch.inf), want))
    both_nan = got.isnan() & want.isnan()
    error = (got - want).abs()
    return torch.where(overflowed | both_nan, 0.0, torch.where(error.isnan(), torch.inf, error))


def _first(bad: torch.Tensor, rule: str, got: torch.Tensor, want: torch.Tensor, reference: Reference) -> str:
    if not bool(bad.any()):
        return ""
    row, head, d = (int(i) for i in bad.nonzero()[0])
    token = int(reference.written.nonzero()[row])
    keys = int(reference.keys[token])
    return (
        f"token {token} head {head} d {d} ({keys} keys): {float(got[row, head, d]):.9g} {rule} "
        f"{float(want[row, head, d]):.9g}; {int(bad.sum())} of {bad.numel()} values"
    )


def _gate(what: str, nmse: float) -> str:
    return "" if nmse <= NMSE_GATE else f"NMSE per {what} {nmse:.3g} exceeds {NMSE_GATE:g}"


def _failed(why: str) -> Comparison:
    return Comparison(0, float("nan"), float("nan"), float("nan"), 0, passed=False, why=why)
