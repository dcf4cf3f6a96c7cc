"""Greedy tokens of two arms (T15): where they differ, whether a near tie explains it, when a default flips.

Logits are [tokens, vocabulary], float64 before rounding; engines pick the token after rounding them to
bf16, where exact ties are common. Both arms are compared on the same prefix at every token
(teacher-forced), since after one flip two free runs answer different questions.

An arm's error is a *bound derived elsewhere* (the oracle's, carried through the output projection),
never the distance between the two arms: measured by their own distance, every flip explains itself.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hipbook.errors import BadArgument
from hipbook.measure.counts import CountVerdict, CountWord, correctness
from hipbook.measure.thresholds import KL_LIMIT_NATS, MIN_TOKENS_FOR_FLIP, TOP_K, TOP_K_AGREEMENT


@dataclass(frozen=True)
class Flip:
    """One token at which two arms' greedy choices differ."""

    token: int  # place in the decode
    base_choice: int
    new_choice: int
    margin_ulps: float  # between the two choices by the base arm, in bf16 ulps of the larger
    gap: float  # the same margin as a difference of unrounded logits
    allowed: float  # what the errors of both arms and the rounding explain

    @property
    def explained(self) -> bool:
        return self.gap <= self.allowed


@dataclass(frozen=True)
class Greedy:
    """Two arms' greedy choices over the same prefixes."""

    tokens: int
    exact_ties: int  # tokens whose top two are equal after rounding, by the base arm
    flips: tuple[Flip, ...]
    worst_distance: float  # largest |base - new| over the sum of both errors; above 1 a bound is broken
    values_outside: int  # logits for which it is above 1

    @property
    def unexplained(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self.flips if not flip.explained)

    def verdict(self) -> CountVerdict:
        """CORRECT: tokens were compared, logits lie within the arms' errors, every flip is a near tie."""
        if self.values_outside:
            return CountVerdict(
                CountWord.INCORRECT,
                f"{self.values_outside:,} logits of two arms lie further apart than both errors allow, "
                f"up to {self.worst_distance:.3g} times",
                self.tokens,
            )
        return correctness(self.tokens, len(self.unexplained), what="greedy tokens")


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Rounded once to bf16 (nearest, ties to even), as float64.

    Rounded to odd in float32 first: two roundings to nearest could differ from one at a midpoint.
    """
    values = np.asarray(values, dtype=np.float64)
    single = values.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.int32)
    inexact_even = (back != values) & (bits % 2 == 0) & np.isfinite(single)
    # an inexact result with an even last bit: step to the odd neighbour on the exact value's side
    outward = (np.abs(values) > np.abs(back)).astype(np.int32) * 2 - 1
    odd = np.where(inexact_even, bits + outward, bits).astype(np.int32).view(np.float32)
    return torch.from_numpy(odd.copy()).to(torch.bfloat16).to(torch.float64).numpy()


def ulp_bf16(values: np.ndarray) -> np.ndarray:
    """Spacing of bf16 at each value: 2^(exponent - 7), at least the subnormal spacing 2^-133."""
    magnitude = np.abs(np.asarray(values, dtype=np.float64))
    _, exponent = np.frexp(np.maximum(magnitude, 2.0**-126))
    return np.ldexp(1.0, exponent - 8)


def margins_ulps(logits: np.ndarray) -> np.ndarray:
    """Margin between each token's top two after rounding, in bf16 ulps of the larger; 0 is an exact tie."""
    rounded = to_bf16(logits)
    top = np.sort(np.partition(rounded, -2, axis=-1)[..., -2:], axis=-1)
    return (top[..., 1] - top[..., 0]) / ulp_bf16(top[..., 1])


def greedy(logits: np.ndarray) -> np.ndarray:
    """The chosen tokens: the largest rounded logit, the lowest index where several are equal."""
    return to_bf16(logits).argmax(axis=-1)


def compare_greedy(
    base: np.ndarray, new: np.ndarray, base_error: np.ndarray, new_error: np.ndarray
) -> Greedy:
    """Flips between two arms' logits, held against the arms' own error bounds (all [tokens, vocabulary])."""
    if not base.shape == new.shape == base_error.shape == new_error.shape or base.ndim != 2:
        shapes = [one.shape for one in (base, new, base_error, new_error)]
        raise BadArgument("logits and errors", shapes, "four arrays of one shape [tokens, vocabulary]")
    if not (np.isfinite(base).all() and np.isfinite(new).all()):
        raise BadArgument("logits", "nan or inf", "finite logits have an order; others choose nothing")
    base_choice, new_choice = greedy(base), greedy(new)
    flips = []
    for token in np.flatnonzero(base_choice != new_choice):
        pair = [int(base_choice[token]), int(new_choice[token])]
        gap = float(base[token, pair[0]] - base[token, pair[1]])
        rounded = to_bf16(base[token, pair])
        allowed = sum(
            float((error[token, pair] + ulp_bf16(logits[token, pair]) / 2).sum())
            for logits, error in ((base, base_error), (new, new_error))
        )
        ulps = float((rounded[0] - rounded[1]) / ulp_bf16(rounded[0]))
        flips.append(Flip(int(token), *pair, ulps, gap, allowed))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(base == new, 0.0, np.abs(base - new) / (base_error + new_error))
    worst = float(distance.max()) if distance.size else 0.0
    ties = int((margins_ulps(base) == 0).sum())
    return Greedy(len(base), ties, tuple(flips), worst, int((distance > 1).sum()))


# --- the gate a default passes before it flips -----------------------------------------------------


@dataclass(frozen=True)
class Distribution:
    """How far two arms' next-token distributions are apart over many tokens."""

    tokens: int
    mean_kl_nats: float  # KL(base || new)
    worst_kl_nats: float
    top_k_agreement: float  # mean share of the base's TOP_K tokens that are in the new arm's


def distribution(base: np.ndarray, new: np.ndarray) -> Distribution:
    """KL divergence and top-k agreement of two arms' logits [tokens, vocabulary]."""
    if base.shape != new.shape or base.ndim != 2 or base.shape[1] <= TOP_K:
        raise BadArgument("logits", (base.shape, new.shape), f"one shape [tokens, more than {TOP_K}]")
    log_p, log_q = _log_softmax(base), _log_softmax(new)
    kl = (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)
    top = [np.argpartition(one, -TOP_K, axis=-1)[:, -TOP_K:] for one in (base, new)]
    shared = (top[0][:, :, None] == top[1][:, None, :]).any(axis=-1).mean()
    return Distribution(len(base), float(kl.mean()), float(kl.max()), float(shared))


@dataclass(frozen=True)
class FlipGate:
    """Whether a default may flip to the new arm, with every reason why not."""

    reasons: tuple[str, ...]

    @property
    def may_flip(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        return "may flip" if self.may_flip else f"may not flip: {'; '.join(self.reasons)}"


def flip_gate(choices: Greedy, apart: Distribution, flag_off: CountVerdict, golden: CountVerdict) -> FlipGate:
    """Every condition for a default to flip.

    Near ties alone flip tokens, distributions agree over enough tokens, flag off is byte-identical, and
    the new arm has its own golden and meets it.
    """
    tests = (
        (choices.verdict().word is CountWord.CORRECT, f"greedy tokens: {choices.verdict().detail}"),
        (
            apart.tokens >= MIN_TOKENS_FOR_FLIP,
            f"{apart.tokens} tokens compared, {MIN_TOKENS_FOR_FLIP} are needed",
        ),
        (
            apart.mean_kl_nats <= KL_LIMIT_NATS,
            f"mean KL {apart.mean_kl_nats:.2g} nats, limit {KL_LIMIT_NATS:g}",
        ),
        (
            apart.top_k_agreement >= TOP_K_AGREEMENT,
            f"top-{TOP_K} agreement {apart.top_k_agreement:.3f}, limit {TOP_K_AGREEMENT}",
        ),
        (flag_off.word is CountWord.CORRECT, f"flag off is not byte-identical: {flag_off.detail}"),
        (golden.word is CountWord.CORRECT, f"golden: {golden.detail}"),
    )
    return FlipGate(tuple(reason for held, reason in tests if not held))


def byte_identical(before: bytes, after: bytes) -> CountVerdict:
    """CORRECT when two outputs are the same bytes; what a flag that is off must leave."""
    if len(before) != len(after):
        longer = max(len(before), len(after))
        return correctness(longer, abs(len(before) - len(after)) or longer, what="bytes")
    differ = np.count_nonzero(np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8))
    return correctness(len(before), int(differ), what="bytes")


# --- goldens ---------------------------------------------------------------------------------------


def digest(values: np.ndarray) -> str:
    """sha256 of an array's bytes (little endian, C order): what a byte-identity golden keeps."""
    ordered = np.ascontiguousarray(values)
    return hashlib.sha256(ordered.astype(ordered.dtype.newbyteorder("<")).tobytes()).hexdigest()


def meets_golden(goldens: Mapping[str, Sequence[int]], arm: str, tokens: Sequence[int]) -> CountVerdict:
    """The arm's free-running tokens against its own golden; an arm without one is INCORRECT."""
    golden = goldens.get(arm)
    if golden is None:
        return CountVerdict(CountWord.INCORRECT, f"{arm} has no golden; goldens are per arm", 0)
    if len(golden) != len(tokens):
        told = f"{len(tokens)} tokens against a golden of {len(golden)}"
        return CountVerdict(CountWord.INCORRECT, told, min(len(golden), len(tokens)))
    differ = sum(ours != theirs for ours, theirs in zip(tokens, golden, strict=True))
    return correctness(len(golden), differ, what="golden tokens")


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
