"""The decode loop with each arm on the emulated board, against the same weights in plain float64."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hipbook import boards
from hipbook.errors import BadArgument
from hipbook.measure.counts import CountWord
from hipbook.ops.attention_call import AttentionCall
from hipbook.oracle.paged_attention import reference as oracle
from hipbook.qwen3 import loop as loops
from hipbook.qwen3 import reference, weights
from hipbook.qwen3.loop import Loop, attention_in_float64, exact_attention
from hipbook.qwen3.state import State, shapes_only
from hipbook.studies import decode_step_check
from hipbook.studies.decode_step_check import PROMPTS, TINY, check

BOARD = boards.get(boards.DEFAULT)
STEPS = 13  # 18 keys at the end: a second block begins


def test_every_arm_decodes_as_float64_does():
    found = check(["online", "decode_gqa", "split_kv"], BOARD, steps=STEPS)
    assert [one.verdict.word for one in found] == [CountWord.CORRECT] * 3
    for one in found:
        assert one.logits == STEPS * len(PROMPTS) * TINY.vocabulary
        assert one.tokens == STEPS * len(PROMPTS)  # none of them a near tie: all were compared
        assert one.error < 2.0**-20


def test_in_bf16_an_arm_is_as_near_as_exact_attention():
    (one,) = check(["split_kv"], BOARD, dtype=torch.bfloat16, steps=4)
    assert one.verdict.word is CountWord.CORRECT
    assert 1e-6 < one.yardstick < 1e-4


def wrong(kind, state, arm, board, checked=True):
    """Attention with a mistake in it, in float64 otherwise."""

    def attend(layer: int) -> None:
        call = state.call(layer)
        if kind == "a key short":
            call = replace(call, seq_lens=(call.seq_lens - 1).clamp(min=1))
        elif kind == "an identity table":
            call = replace(call, block_table=torch.arange(call.block_table.numel()).view_as(call.block_table))
        elif kind == "kv heads swapped":
            call = replace(call, k_cache=call.k_cache.flip(2))
        elif kind == "another scale":
            call = replace(call, scale=call.scale * 1.01)
        state.out.copy_(torch.nan_to_num(exact_attention(call)))

    return attend


@pytest.mark.parametrize("kind", ["a key short", "an identity table", "kv heads swapped", "another scale"])
def test_a_wrong_attention_is_found_out(kind, monkeypatch):
    monkeypatch.setattr(decode_step_check, "attention_by_arm", lambda *arguments: wrong(kind, *arguments))
    (one,) = check(["online"], BOARD, steps=6)
    assert one.verdict.word is CountWord.INCORRECT
    monkeypatch.undo()
    monkeypatch.setattr(decode_step_check, "attention_by_arm", lambda *arguments: wrong("", *arguments))
    (one,) = check(["online"], BOARD, steps=6)
    assert one.verdict.word is CountWord.CORRECT


def run(made, *, steps=6, dtype=torch.float32):
    """Logits of the loop with exact attention, and of float64, along float64's tokens."""
    chosen = [reference.greedy(made, prompt, steps) for prompt in PROMPTS]
    state = State(made.config, batch=2, capacity=16, dtype=dtype)
    _, logits = Loop(made, state, attention_in_float64(state)).decode_with_logits(
        PROMPTS, steps, forced=torch.tensor(chosen).T
    )
    exact = torch.stack(
        [reference.logits_of(made, [*p, *c[:-1]])[-steps:] for p, c in zip(PROMPTS, chosen, strict=True)], 1
    )
    return float((logits.double() - exact).abs().max() / exact.abs().max())


def test_the_loop_around_attention_is_the_model(monkeypatch):
    made = weights.random(TINY).to(torch.float32)
    assert run(made) < 1e-6
    untied = weights.random(replace(TINY, tied=False), dtype=torch.float32)
    assert run(untied) < 1e-6
    tables = loops.rope_tables
    for name, broken in (
        ("rms_norm", lambda x, shape, weight, eps: x if weight is None else x * weight),
        ("rope_tables", lambda *a: [table.flip(0) for table in tables(*a)]),
        ("rope_tables", lambda *a: (lambda cos, sin: [cos, -sin.abs()])(*tables(*a))),
        ("silu", torch.relu),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(loops, name, broken)
            assert run(made) > 1e-4, name


def test_the_state_is_paged_at_random_and_refuses_what_it_cannot_hold():
    state = State(TINY, batch=3, capacity=40, dtype=torch.bfloat16)
    table = state.block_table.flatten().tolist()
    assert table != sorted(table)
    assert len(set(table)) == 9
    assert set(table) < set(range(len(state.k_caches[0])))
    state.fill(20)
    state.begin([1, 2, 3], 19)
    state.seq_lens.fill_(20)
    call = state.call(1)
    call.q.normal_(generator=torch.Generator().manual_seed(0))
    assert torch.isnan(call.k_cache).any()  # the unwritten slots: a kernel that reads them is found out
    assert torch.allclose(exact_attention(call), oracle(call).out, atol=1e-12)
    for tokens, position in (([1, 2, 3], 40), ([1, 2], 0), ([1, 2, TINY.vocabulary], 0), ([1, 2, -1], 0)):
        with pytest.raises(BadArgument):
            state.begin(tokens, position)
    with pytest.raises(BadArgument, match="capacity"):
        state.fill(41)
    made = weights.random(TINY, dtype=torch.float32)
    with pytest.raises(BadArgument, match=r"the weights are tiny in torch.float32"):
        Loop(made, state, attention_in_float64(state))
    state = State(TINY, batch=2, capacity=16, dtype=torch.float32)
    one = Loop(made, state, attention_in_float64(state))
    for prompt, steps in ((PROMPTS, 13), ([[], []], 1), (PROMPTS, 0)):
        with pytest.raises(BadArgument, match="prompts of one length"):
            one.decode(prompt, steps)


def test_a_state_without_memory_has_the_shapes_of_one_with():
    """What kernels are built from before a process starts must be what the process asks for."""
    state = State(TINY, batch=3, capacity=40, dtype=torch.bfloat16)
    real, bare = state.call(0), shapes_only(TINY, batch=3, capacity=40, dtype=torch.bfloat16)
    for name in AttentionCall.__dataclass_fields__:
        one, other = getattr(real, name), getattr(bare, name)
        if isinstance(one, torch.Tensor):
            one, other = (one.shape, one.dtype, one.stride()), (other.shape, other.dtype, other.stride())
        assert one == other, name


class Operations(TorchDispatchMode):
    """What torch is asked to compute."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_step_reads_nothing_back_to_the_host():
    """A value that the host waits for cannot be captured: on a GPU it would end the capture with an error."""
    made = weights.random(TINY)
    state = State(TINY, batch=2, capacity=40, dtype=torch.bfloat16)
    state.fill(20)
    state.begin([1, 2], 20)
    for attention in (lambda layer: None, attention_in_float64(state)):
        step = Loop(made, state, attention).step
        with Operations() as seen:
            step()
        assert len(seen.names) > 50
        waits = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "masked_select")
        assert [name for name in seen.names if any(f".{word}." in name for word in waits)] == []
