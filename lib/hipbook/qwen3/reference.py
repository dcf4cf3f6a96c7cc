"""A Qwen3 in plain float64, whole sequences at once: no cache, no pages, no kernel of ours.

Written from the model's definition, not from the loop: it masks instead of paging, and turns pairs by a
complex product instead of a roll.
"""

from collections.abc import Sequence

import torch

from hipbook.qwen3.config import Config
from hipbook.qwen3.weights import Weights


def logits_of(weights: Weights, tokens: Sequence[int]) -> torch.Tensor:
    """float64 [len(tokens), vocabulary]: the model's logits after each token of one sequence."""
    config = weights.config
    x = weights.embedding[torch.as_tensor(tokens, device=weights.device)].double()
    for layer in weights.layers:
        x = x + _attention(config, layer, _norm(x, layer.input_norm, config.rms_eps))
        gate, up = (_norm(x, layer.post_norm, config.rms_eps) @ layer.gate_up.double().T).chunk(2, -1)
        x = x + (gate * torch.sigmoid(gate) * up) @ layer.down.double().T
    return _norm(x, weights.norm, config.rms_eps) @ weights.head.double().T


def greedy(weights: Weights, prompt: Sequence[int], steps: int) -> list[int]:
    """The `steps` greedy tokens after `prompt`."""
    fed = list(prompt)
    for _ in range(steps):
        fed.append(int(logits_of(weights, fed)[-1].argmax()))
    return fed[len(prompt) :]


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight.double()


def _attention(config: Config, layer, x: torch.Tensor) -> torch.Tensor:
    length, d, kv = len(x), config.head_dim, config.num_kv_heads
    sides = (x @ layer.qkv.double().T).view(length, -1, d).split([config.num_q_heads, kv, kv], 1)
    norms = layer.qk_norm.double().split([config.num_q_heads, kv])
    q, k = (
        _turned(_norm(side, norm, config.rms_eps), config.rope_theta)
        for side, norm in zip(sides[:2], norms, strict=True)
    )
    q = q.view(length, kv, config.ratio, d)
    scores = torch.einsum("tgrd,sgd->grts", q, k) / d**0.5
    ahead = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    weights = torch.softmax(scores.masked_fill(ahead, float("-inf")), -1)
    return torch.einsum("grts,sgd->tgrd", weights, sides[2]).reshape(length, -1) @ layer.o.double().T


def _turned(x: torch.Tensor, theta: float) -> torch.Tensor:
    """x [length, heads, D] with the pair (i, i + D / 2) of row p turned by p theta^(-2 i / D)."""
    length, _, d = x.shape
    frequency = theta ** (-torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d)
    angle = torch.arange(length, dtype=torch.float64, device=x.device)[:, None] * frequency
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    pairs = torch.complex(x[..., : d // 2], x[..., d // 2 :]) * turn
    return torch.cat([pairs.real, pairs.imag], -1)
