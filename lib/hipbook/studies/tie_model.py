"""A small greedy decode around one attention arm, made to meet near ties.

One layer, seeded random weights, float64 everywhere but in the attention itself, so that two runs
differ by their arm alone and the oracle's bound on the attention carries exactly to the logits:
logits = (x + attention Wo) U, hence |error of a logit| <= bound |Wo U|. Words come in pairs whose
output columns differ by TWIN: their logits are a few bf16 ulps apart at most, where greedy choices flip.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hipbook.errors import BadArgument
from hipbook.measure.near_ties import greedy
from hipbook.ops.paged_attention import AttentionCall

VOCABULARY = 128
HIDDEN = 64
TWIN = 2.0**-8  # relative difference of twin columns: about a bf16 ulp of a logit

Attend = Callable[[AttentionCall], torch.Tensor]  # out [1, Hq, D] of a decode call
Bound = Callable[[AttentionCall], torch.Tensor]  # bound on |out - exact|, the same shape


@dataclass(frozen=True)
class Model:
    """Weights of the loop (float64), its head geometry, and the paging of its cache."""

    embedding: np.ndarray  # [VOCABULARY, HIDDEN]
    w_q: np.ndarray  # [HIDDEN, Hq * D]
    w_k: np.ndarray  # [HIDDEN, Hkv * D]
    w_v: np.ndarray
    output: np.ndarray  # Wo U: [Hq * D, VOCABULARY]
    skip: np.ndarray  # U: [HIDDEN, VOCABULARY]
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    block_table: torch.Tensor  # int32 [1, blocks], shuffled: an identity table hides addressing bugs (T17)
    block_size: int


@dataclass(frozen=True)
class Decode:
    """What a decode gave, step by step."""

    tokens: tuple[int, ...]  # chosen or forced, one a step
    logits: np.ndarray  # float64 [steps, VOCABULARY]
    error: np.ndarray  # bound on |logits - exact|, the same shape
    outputs: bytes  # the attention's own bf16 outputs, step after step: for byte identity


def make_model(
    seed: int,
    *,
    num_q_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int = 128,
    capacity: int = 64,
    block_size: int = 16,
) -> Model:
    """A seeded model whose cache holds `capacity` keys."""
    rng = np.random.default_rng(seed)
    heads = num_q_heads * head_dim
    u = rng.standard_normal((HIDDEN, VOCABULARY)) / np.sqrt(HIDDEN)
    u[:, 1::2] = u[:, ::2] * (1 + TWIN * rng.standard_normal((HIDDEN, VOCABULARY // 2)))
    w_o = rng.standard_normal((heads, HIDDEN)) * 4 / np.sqrt(heads)
    blocks = -(-capacity // block_size)
    return Model(
        embedding=rng.standard_normal((VOCABULARY, HIDDEN)),
        w_q=rng.standard_normal((HIDDEN, heads)) / np.sqrt(HIDDEN),
        w_k=rng.standard_normal((HIDDEN, num_kv_heads * head_dim)) / np.sqrt(HIDDEN),
        w_v=rng.standard_normal((HIDDEN, num_kv_heads * head_dim)) / np.sqrt(HIDDEN),
        output=w_o @ u,
        skip=u,
        num_q_heads=num_q_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        block_table=torch.from_numpy(rng.permutation(blocks).astype(np.int32)[None]),
        block_size=block_size,
    )


def decode(
    model: Model,
    attend: Attend,
    bound: Bound,
    *,
    prompt: Sequence[int],
    steps: int,
    forced: Sequence[int] | None = None,
) -> Decode:
    """Decode `steps` tokens greedily after `prompt`, or along `forced` tokens (teacher-forced).

    Every step is one decode call of paged attention (bf16, one query token) over all keys so far.
    """
    capacity = model.block_table.shape[1] * model.block_size
    if not prompt or len(prompt) + steps > capacity:
        raise BadArgument("prompt, steps", (len(prompt), steps), f"1 .. {capacity} keys in all")
    if forced is not None and len(forced) < steps:
        raise BadArgument("forced", len(forced), f"one token a step, {steps} steps")
    cache_shape = (model.block_table.shape[1], model.block_size, model.num_kv_heads, model.head_dim)
    caches = [torch.full(cache_shape, float("nan"), dtype=torch.bfloat16) for _ in range(2)]
    fed, chosen, logits, errors, outputs = list(prompt), [], [], [], []
    for place, token in enumerate(fed):
        _store(model, caches, place, token)
    for step in range(steps):
        call = _call(model, caches, len(fed), fed[-1])
        out = attend(call)
        outputs.append(out.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        logits.append(model.embedding[fed[-1]] @ model.skip + _flat(out) @ model.output)
        errors.append(_flat(bound(call)) @ np.abs(model.output))
        token = int(forced[step]) if forced is not None else int(greedy(logits[-1][None])[0])
        chosen.append(token)
        _store(model, caches, len(fed), token)
        fed.append(token)
    return Decode(tuple(chosen), np.array(logits), np.array(errors), b"".join(outputs))


def _store(model: Model, caches: list[torch.Tensor], place: int, token: int) -> None:
    """Write one token's key and value where the block table says."""
    block = int(model.block_table[0, place // model.block_size])
    x = model.embedding[token] * _position(place)
    for cache, weight in zip(caches, (model.w_k, model.w_v), strict=True):
        row = torch.from_numpy(x @ weight).reshape(model.num_kv_heads, model.head_dim)
        cache[block, place % model.block_size] = row.to(torch.bfloat16)


def _call(model: Model, caches: list[torch.Tensor], keys: int, token: int) -> AttentionCall:
    q = torch.from_numpy(model.embedding[token] * _position(keys - 1) @ model.w_q)
    return AttentionCall(
        q=q.reshape(1, model.num_q_heads, model.head_dim).to(torch.bfloat16),
        k_cache=caches[0],
        v_cache=caches[1],
        block_table=model.block_table,
        seq_lens=torch.tensor([keys], dtype=torch.int32),
        query_start_loc=torch.tensor([0, 1], dtype=torch.int32),
        scale=model.head_dim**-0.5,
    )


def _position(place: int) -> np.ndarray:
    """A rotation's stand-in: signs that depend on the place, so equal tokens make different keys."""
    return np.where(np.arange(HIDDEN) % (2 + place % 5) == 0, -1.0, 1.0)


def _flat(out: torch.Tensor) -> np.ndarray:
    return out.detach().cpu().to(torch.float64).reshape(-1).numpy()
