"""One timed case: so many sequences at one context length, and every arm's decode step ready to replay.

All arms share weights, caches and the place they start from, so one exact step serves them all. An arm is
right when (a) its attention, layer by layer, lies within the public gate of float64 on the same q and
caches, and (b) its step's logits are no further from the float64 step than LOGITS_FACTOR times those of
the same step with exact attention: what is left is the loop's own rounding. (b) is asked of the replayed
graph, before and after it is timed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from hipbook.boards.base import Board
from hipbook.measure.schedule import implementation
from hipbook.ops.paged_attention import run_call
from hipbook.oracle.attention_reference import NMSE_GATE
from hipbook.qwen3.loop import Attention, Loop, attention_by_arm, attention_in_float64, exact_attention
from hipbook.qwen3.state import State
from hipbook.qwen3.weights import Weights

LOGITS_FACTOR = 2.0  # of squared error
MOST_TOKENS = 8  # of one sample
SAMPLE_US = 10_000.0  # a sample lasts at least this long: what waiting for the host adds is then under 1 %

Replay = Callable[[], None]


class Clock(Protocol):
    """How a step is made replayable and timed; `qwen3.on_gpu` on a GPU, a plain call in tests."""

    def capture(self, step: Callable[[], None]) -> Replay: ...

    def time_us(self, replay: Replay, count: int) -> tuple[float, float]:
        """(device events, host wall) of one of `count` replays in a row."""
        ...

    def wait(self) -> None: ...


@dataclass
class Candidate:
    """One label of the session ("online (A/A)" launches online), ready to be timed."""

    label: str
    attention: Attention
    replay: Replay
    kernel: str
    witness: int
    code_object: dict[str, Any]
    attention_nmse: float
    nmse_before: float
    nmse_after: float = float("nan")
    tokens: int = 1  # of one sample


def nmse(values: torch.Tensor, exact: torch.Tensor) -> float:
    """Squared error over squared size; NaN where a value is not finite."""
    values = values.double()
    error = float(((values - exact) ** 2).sum() / (exact**2).sum())
    return error if bool(torch.isfinite(values).all()) else float("nan")


class OpenCase:
    """The case with its candidates; raises what the wrapper raises when an arm cannot run it."""

    def __init__(
        self,
        weights: Weights,
        exact_weights: Weights,
        *,
        concurrency: int,
        context: int,
        labels: Sequence[str],
        board: Board,
        clock: Clock,
        seed: int = 0,
    ) -> None:
        self.context, self.clock, self.board = context, clock, board
        config, device = weights.config, weights.device
        self.state = State(
            config, batch=concurrency, capacity=context + MOST_TOKENS, dtype=weights.dtype, device=device,
            seed=seed,
        )  # fmt: skip
        self.state.fill(context)
        generator = torch.Generator().manual_seed(seed)
        self._first = torch.randint(config.vocabulary, (concurrency,), generator=generator).to(device)
        self.weights = weights
        self.wanted = self._exact_logits(exact_weights)
        self.reset()
        Loop(weights, self.state, attention_in_float64(self.state)).step()
        self.yardstick = nmse(self.state.logits, self.wanted)
        self.candidates = [self._candidate(label) for label in labels]

    def reset(self, tokens: int = MOST_TOKENS) -> None:
        """Back to where the mean context of the next `tokens` steps is the case's.

        Checks start where the longest sample does: what samples write comes after, and is not read there.
        """
        self.state.tokens.copy_(self._first)
        self.state.positions.fill_(max(0, self.context - 1 - (tokens - 1) // 2))

    def estimate(self) -> None:
        """Decide how many tokens each candidate's sample generates."""
        for one in self.candidates:
            self.reset()
            self.clock.time_us(one.replay, 1)
            self.reset()
            step_us, _ = self.clock.time_us(one.replay, 1)
            one.tokens = max(1, min(MOST_TOKENS, round(SAMPLE_US / step_us)))

    def sample_us(self, one: Candidate) -> tuple[float, float]:
        """(device events, host wall) of a token, over the sample's tokens."""
        self.reset(one.tokens)
        self.clock.wait()
        return self.clock.time_us(one.replay, one.tokens)

    def check_after(self) -> None:
        for one in self.candidates:
            one.nmse_after = self._replayed_nmse(one.replay)

    def right(self, logits_nmse: float) -> bool:
        return logits_nmse <= LOGITS_FACTOR * self.yardstick

    def _exact_logits(self, exact_weights: Weights) -> torch.Tensor:
        self.reset()
        twin = self.state.in_float64()
        Loop(exact_weights, twin, attention_in_float64(twin)).step()
        return twin.logits

    def _candidate(self, label: str) -> Candidate:
        arm = implementation(label)
        attention = attention_by_arm(self.state, arm, self.board, checked=False)
        replay = self.clock.capture(Loop(self.weights, self.state, attention).step)
        attention_nmse = self._attention_nmse(attention)
        # the step just made has left lengths and caches as a launch finds them
        checked = run_call(self.state.call(0), arm=arm, board=self.board)
        return Candidate(
            label, attention, replay, checked.dispatch.kernel, checked.witness,
            checked.dispatch.code_object.identity, attention_nmse, self._replayed_nmse(replay),
        )  # fmt: skip

    def _attention_nmse(self, attention: Attention) -> float:
        """The worst layer's, with the output poisoned before each."""
        found = []

        def attend(layer: int) -> None:
            self.state.out.fill_(float("nan"))
            attention(layer)
            found.append(nmse(self.state.out, exact_attention(self.state.call(layer))))

        self.reset()
        Loop(self.weights, self.state, attend).step()
        worst = max(found, key=lambda value: (value != value, value))
        if not worst <= NMSE_GATE:
            return float("nan")
        return worst

    def _replayed_nmse(self, replay: Replay) -> float:
        self.reset()
        for stale in (self.state.out, self.state.logits):
            stale.fill_(float("nan"))
        replay()
        self.clock.wait()
        return nmse(self.state.logits, self.wanted)
