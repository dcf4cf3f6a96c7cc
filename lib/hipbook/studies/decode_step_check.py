"""The loop on a small model, with each arm on any board, against the same model in float64.

Weights, activations and caches are f32: what the loop and an arm may be off is then far below what a wrong
key, head or turn makes. In bf16 the loop rounds at every operation; there an arm is held to the same loop
with exact attention, whose own error is the yardstick.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hipbook.boards.base import Board
from hipbook.measure.counts import CountVerdict, CountWord, correctness
from hipbook.qwen3 import reference, weights
from hipbook.qwen3.case import LOGITS_FACTOR, nmse
from hipbook.qwen3.config import Config
from hipbook.qwen3.loop import Loop, attention_by_arm, attention_in_float64
from hipbook.qwen3.state import State
from hipbook.studies.decode_step import Row

TINY = Config(
    "tiny", vocabulary=96, hidden=32, intermediate=48, layers=2, num_q_heads=4, num_kv_heads=2, head_dim=64,
    tied=True,
)  # fmt: skip
PROMPTS = ((11, 3, 57, 90, 8), (2, 71, 40, 40, 19))
STEPS = 16  # 20 keys at the end: two blocks
MOST_ERROR = 2.0**-18  # of f32 logits, over the largest: the loop alone is off by about 2^-22


@dataclass(frozen=True)
class Checked:
    """One arm's decode, and how far it is from float64."""

    arm: str
    dtype: torch.dtype
    logits: int  # compared
    error: float  # largest difference over the largest logit
    nmse: float
    yardstick: float  # NMSE of the loop with exact attention
    tokens: int  # compared: greedy ones, where the two best logits are further apart than the error
    flips: int  # of them that differ

    @property
    def verdict(self) -> CountVerdict:
        """CORRECT: logits within what the rounding explains, and no greedy token moved."""
        if self.dtype is torch.float32:
            held = self.error <= MOST_ERROR
        else:
            held = self.nmse <= LOGITS_FACTOR * self.yardstick
        if not held:
            why = f"logits are off by {self.error:.2g} of the largest, NMSE {self.nmse:.2g}"
            return CountVerdict(CountWord.INCORRECT, why, self.logits)
        return correctness(self.tokens, self.flips, what="greedy tokens")

    def row(self) -> Row:
        return {
            "arm": self.arm, "dtype": str(self.dtype).removeprefix("torch."), "logits": self.logits,
            "largest error": self.error, "NMSE": self.nmse, "with exact attention": self.yardstick,
            "greedy tokens": self.tokens, "flips": self.flips, "verdict": str(self.verdict.word),
        }  # fmt: skip


def check(
    arms: Sequence[str],
    board: Board,
    *,
    dtype: torch.dtype = torch.float32,
    config: Config = TINY,
    steps: int = STEPS,
    seed: int = 0,
) -> list[Checked]:
    """Decode PROMPTS greedily in float64, then the same tokens with each arm in the loop.

    All arms follow float64's tokens: after one flip, two free runs answer different questions.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors of a few kilobytes: more threads only wait for each other
    try:
        return _check(arms, board, dtype, config, steps, seed)
    finally:
        torch.set_num_threads(before)


def _check(
    arms: Sequence[str], board: Board, dtype: torch.dtype, config: Config, steps: int, seed: int
) -> list[Checked]:
    made = weights.random(config, seed=seed, dtype=dtype)
    chosen = [reference.greedy(made, prompt, steps) for prompt in PROMPTS]
    exact = torch.stack(
        [
            reference.logits_of(made, [*prompt, *tokens[:-1]])[-steps:]
            for prompt, tokens in zip(PROMPTS, chosen, strict=True)
        ],
        dim=1,
    )  # [steps, batch, vocabulary]
    forced = torch.tensor(chosen).T
    with_exact = _decoded(made, forced, None, board, seed)
    yardstick = nmse(with_exact, exact)
    found = []
    for arm in arms:
        logits = _decoded(made, forced, arm, board, seed)
        error = (logits.double() - exact).abs().max()
        best = exact.topk(2).values
        clear = best[..., 0] - best[..., 1] > 2 * error
        flips = int((clear & (logits.argmax(-1) != forced)).sum())
        found.append(
            Checked(
                arm, dtype, logits.numel(), float(error / exact.abs().max()), nmse(logits, exact), yardstick,
                int(clear.sum()), flips,
            )
        )  # fmt: skip
    return found


def _decoded(
    made: weights.Weights, forced: torch.Tensor, arm: str | None, board: Board, seed: int
) -> torch.Tensor:
    """Logits [steps, batch, vocabulary] along `forced`; `arm` None is exact attention."""
    state = State(
        made.config, batch=len(PROMPTS), capacity=len(PROMPTS[0]) + len(forced), dtype=made.dtype, seed=seed
    )
    attention = attention_in_float64(state) if arm is None else attention_by_arm(state, arm, board)
    return Loop(made, state, attention).decode_with_logits(PROMPTS, len(forced), forced=forced)[1]
