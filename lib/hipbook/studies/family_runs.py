"""Notebook 02: every arm on every family of inputs, and whether the oracle would notice damage."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from hipbook.boards.base import Board
from hipbook.checks import CheckResult, Status, run_checks
from hipbook.checks.attention import AttentionCase
from hipbook.ops.attention_arms import DECODE_HEAD_DIMS
from hipbook.ops.attention_call import DTYPES, AttentionCall
from hipbook.oracle.compare import compare
from hipbook.oracle.decode_step import decode_call
from hipbook.oracle.families import FAMILIES
from hipbook.oracle.paged_attention import Reference, reference
from hipbook.studies.arms import run_arm

# How far one value is moved, by bytes an element. A float32 output's bound is that of the sums before it,
# thousands of its ulps wide; a 16-bit output's is hardly more than its own rounding.
_STEPS = {2: 2, 4: 1 << 14}
ODD_HEAD_DIM = 96  # family 8 asks for head sizes that are no power of two: `online` serves it, others refuse


def cases(arms: Sequence[str], *, head_dim: int, ratio: int, dtype: str, seed: int) -> list[AttentionCase]:
    """Each family for each arm; family 8 at a size every arm serves and at one only `online` does."""
    found = []
    for family in FAMILIES:
        sizes = (min(DECODE_HEAD_DIMS), ODD_HEAD_DIM) if family == "head_dims" else (head_dim,)
        found += [
            AttentionCase(arm, family, dtype, dtype, dtype, size, ratio, "decode", seed)
            for arm in arms
            for size in sizes
        ]
    return found


def run(chosen: Sequence[AttentionCase], board: Board) -> list[tuple[AttentionCase, CheckResult]]:
    """Run them in this process; a failed case is a result, not an exception."""
    return list(zip(chosen, run_checks(chosen, board), strict=True))


def rows(results: Sequence[tuple[AttentionCase, CheckResult]]) -> list[dict[str, object]]:
    """One row a family and arm. CORRECT: values were compared, and everything refused was allowed to be."""
    pairs: dict[tuple[str, str], list[CheckResult]] = {}
    for case, result in results:
        pairs.setdefault((case.family, case.arm), []).append(result)
    return [_row(family, arm, found) for (family, arm), found in pairs.items()]


def _row(family: str, arm: str, found: Sequence[CheckResult]) -> dict[str, object]:
    failed = [result for result in found if not result.ok]
    values = sum(result.values_compared for result in found)
    wrong = failed[0].reason if failed else "" if values else "nothing was compared"
    return {
        "family": family,
        "arm": arm,
        "calls": sum(result.launches for result in found),
        "values": values,
        "exact": sum(result.exact_compared for result in found),
        "refused": sum(sum(result.refused.values()) for result in found),
        "result": str(Status.INCORRECT if wrong else Status.CORRECT),
        "why": wrong or f"{values:,} values compared",
        "worst row NMSE": max(result.worst_row_nmse for result in found),
        "worst error / bound": max(result.max_error_over_bound for result in found),
    }


def damage(
    board: Board, arm: str, *, head_dim: int, ratio: int, dtype: str, seed: int
) -> list[dict[str, object]]:
    """A correct output damaged the way real kernels damage theirs, and what the oracle says of each."""
    call = decode_call(
        [33, 64], num_q_heads=2 * ratio, num_kv_heads=2, head_dim=head_dim, dtype=DTYPES[dtype], seed=seed
    )
    good = run_arm(call, arm, board)
    expected = reference(call)
    out_bytes = good.result.out.element_size()
    damaged = {
        "the first key left out": _answer(replace(call, window_left=int(call.seq_lens.min()) - 2)),
        "the scale 1 % off": _answer(replace(call, scale=call.scale * 1.01)),
        "a neighbour's head": good.result.out.roll(1, dims=1),
        "another sequence's row": good.result.out.roll(1, dims=0),
        f"one value {_STEPS[out_bytes]} ulps off": _off_by_ulps(good.result.out, _STEPS[out_bytes]),
        "one row of zeros": _zero_row(good.result.out),
    }
    found = [_noticed("nothing", good.result.out, expected)]
    found += [_noticed(name, out, expected) for name, out in damaged.items()]
    return found


def _answer(call: AttentionCall) -> torch.Tensor:
    """The exact answer to another question, rounded as a kernel would."""
    return reference(call).out.to(call.result_dtype)


def _off_by_ulps(out: torch.Tensor, steps: int) -> torch.Tensor:
    """One value in the middle moved to the `steps`-th next value of its dtype."""
    bits = out.clone().view(torch.int32 if out.element_size() == 4 else torch.int16)
    bits.view(-1)[bits.numel() // 2] += steps
    return bits.view(out.dtype)


def _zero_row(out: torch.Tensor) -> torch.Tensor:
    out = out.clone()
    out[-1, -1] = 0
    return out


def _noticed(name: str, out: torch.Tensor, expected: Reference) -> dict[str, object]:
    seen = compare(out, expected)
    return {
        "damage": name,
        "values compared": seen.values_compared,
        "verdict": str(Status.CORRECT if seen.passed else Status.INCORRECT),
        "predicted": str(Status.CORRECT if name == "nothing" else Status.INCORRECT),
    }
