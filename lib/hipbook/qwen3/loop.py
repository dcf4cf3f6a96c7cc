"""One decode step after another: torch for everything but attention, which is any of our arms.

A step reads nothing back to the host: on a GPU board it can be captured once and replayed token by
token, since tokens, positions and lengths are on the board.
"""

from collections.abc import Callable, Sequence

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu

from hipbook.boards.base import Board
from hipbook.errors import BadArgument
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.paged_attention import prepare, run_call
from hipbook.qwen3.config import Config
from hipbook.qwen3.state import State
from hipbook.qwen3.weights import Weights

Attention = Callable[[int], None]  # of a layer: from the state's q into the state's out


def attention_by_arm(state: State, arm: str, board: Board, *, checked: bool = True) -> Attention:
    """Attention by one of our arms ("auto": the dispatch rule's) on `board`.

    Checked launches poison the output and verify witness and writes. Unchecked ones on a GPU board are
    prepared here, once a layer, so that a step may be captured.
    """
    if board.kind == "gpu" and not checked:
        launches = [prepare(state.call(layer), arm=arm, board=board) for layer in range(state.config.layers)]
        return lambda layer: launches[layer]()

    def attend(layer: int) -> None:
        run_call(state.call(layer), arm=arm, board=board, checked=checked)

    return attend


def attention_in_float64(state: State) -> Attention:
    """Attention computed exactly and rounded once into `out`: what the arms are held against."""

    def attend(layer: int) -> None:
        state.out.copy_(exact_attention(state.call(layer)))

    return attend


def exact_attention(call: AttentionCall) -> torch.Tensor:
    """float64 [batch, Hq, D] of a decode call (one query token a sequence), on the call's own device.

    A formula of its own beside the oracle's, for caches of gigabytes on a GPU; nothing waits for the host.
    """
    width = call.block_table.shape[1] * call.block_size
    live = torch.arange(width, device=call.q.device) < call.seq_lens[:, None]  # [batch, keys]
    k, v = (
        torch.where(live[..., None, None], cache[call.block_table.long()].flatten(1, 2).double(), 0)
        for cache in (call.k_cache, call.v_cache)
    )
    q = call.q.double().unflatten(1, (call.num_kv_heads, call.ratio))
    scores = call.scale * torch.einsum("bgrd,bkgd->bgrk", q, k)
    weights = torch.softmax(scores.masked_fill(~live[:, None, None], float("-inf")), -1)
    return torch.einsum("bgrk,bkgd->bgrd", weights, v).flatten(1, 2)


def rope_tables(
    config: Config, capacity: int, dtype: torch.dtype, device: torch.device
) -> list[torch.Tensor]:
    """cos and signed sin [capacity, 1, D]: x cos + (x rolled by D / 2) sin turns the pairs (i, i + D / 2)."""
    half = config.head_dim // 2
    frequency = config.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(capacity, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    full = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
    return [table[:, None].to(device=device, dtype=dtype) for table in full]


class Loop:
    """Greedy decode of `state` with these weights; one `step()` a token."""

    def __init__(self, weights: Weights, state: State, attention: Attention) -> None:
        if (weights.dtype, weights.device, weights.config) != (state.dtype, state.device, state.config):
            raise BadArgument(
                "state",
                f"{state.config.name} in {state.dtype} on {state.device}",
                f"the weights are {weights.config.name} in {weights.dtype} on {weights.device}",
            )
        self.weights, self.state, self.attention = weights, state, attention
        config = weights.config
        self._cos, self._sin = rope_tables(config, state.capacity, state.dtype, state.device)
        self._parts = [heads * config.head_dim for heads in
                       (config.num_q_heads + config.num_kv_heads, config.num_kv_heads)]  # fmt: skip

    def step(self) -> None:
        """One token a sequence: tokens -> logits, the greedy choice in tokens, positions one further."""
        weights, state = self.weights, self.state
        config, eps = weights.config, weights.config.rms_eps
        torch.add(state.positions, 1, out=state.seq_lens)
        slots = state.slots()
        turn = self._cos[state.positions], self._sin[state.positions]
        x = embedding(state.tokens, weights.embedding)
        for number, layer in enumerate(weights.layers):
            qkv = linear(rms_norm(x, x.shape[-1:], layer.input_norm, eps), layer.qkv)
            self._into_caches(number, qkv, slots, turn)
            self.attention(number)
            x = torch.addmm(x, state.out.view(state.batch, -1), layer.o.T)
            gate, up = linear(rms_norm(x, x.shape[-1:], layer.post_norm, eps), layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, silu(gate) * up, layer.down.T)
        torch.mm(rms_norm(x, (config.hidden,), weights.norm, eps), weights.head.T, out=state.logits)
        torch.argmax(state.logits, -1, out=state.tokens)
        state.positions.add_(1)

    def _into_caches(
        self, number: int, qkv: torch.Tensor, slots: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        """Normalise and turn q and k, write q, and k and v where the block table says."""
        state, config = self.state, self.weights.config
        qk, v = (part.unflatten(-1, (-1, config.head_dim)) for part in qkv.split(self._parts, -1))
        qk = rms_norm(qk, (config.head_dim,), None, config.rms_eps) * self.weights.layers[number].qk_norm
        cos, sin = turn
        qk = torch.addcmul(qk * cos, qk.roll(config.head_dim // 2, -1), sin)
        state.q.copy_(qk[:, : config.num_q_heads])
        for cache, rows in ((state.k_caches, qk[:, config.num_q_heads :]), (state.v_caches, v)):
            cache[number].view(-1, config.num_kv_heads, config.head_dim).index_copy_(
                0, slots, rows.to(state.kv_dtype)
            )

    def decode(self, prompt: Sequence[Sequence[int]], steps: int) -> torch.Tensor:
        """int64 [steps, batch]: greedy tokens after `prompt` (one list of equal length a sequence)."""
        return self.decode_with_logits(prompt, steps)[0]

    def decode_with_logits(
        self, prompt: Sequence[Sequence[int]], steps: int, *, forced: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(tokens [steps, batch], logits [steps, batch, vocabulary]); along `forced` tokens where given.

        The prompt goes in by steps as well, a token at a time, as decode rows.
        """
        fed = torch.as_tensor(prompt, dtype=torch.int64).T  # [length, batch]
        if fed.ndim != 2 or not fed.numel() or len(fed) + steps - 1 > self.state.capacity or steps < 1:
            raise BadArgument(
                "prompt, steps", (tuple(fed.shape), steps),
                f"prompts of one length, and at most {self.state.capacity} keys in all",
            )  # fmt: skip
        tokens, logits = [], []
        for place, column in enumerate(fed):
            self.state.begin(column, place)
            self.step()
        for number in range(steps):
            if number:
                self.step()
            logits.append(self.state.logits.clone())
            tokens.append(self.state.tokens.clone())
            if forced is not None:
                self.state.tokens.copy_(forced[number])
        return torch.stack(tokens), torch.stack(logits)
