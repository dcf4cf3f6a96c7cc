"""tiled_ref: vLLM's arithmetic, each of its differences off, and what it does not serve."""

from dataclasses import replace

import pytest
import torch

from hipbook import boards
from hipbook.errors import Refused
from hipbook.ops import tiled_ref
from hipbook.ops.paged_attention import run_call
from hipbook.ops.peers import PEERS
from hipbook.ops.tiled_ref import Switches
from hipbook.oracle.decode_step import decode_call
from hipbook.oracle.paged_attention import compare, make, reference

BOARD = boards.get(boards.DEFAULT)
BF16 = torch.bfloat16


def step(keys=(20, 3, 0), d=64, dtype=BF16, heads=(4, 2), **fields):
    shape = {"num_q_heads": heads[0], "num_kv_heads": heads[1], "head_dim": d, "dtype": dtype}
    call = decode_call([max(1, n) for n in keys], seed=3, **shape)
    return replace(call, seq_lens=torch.tensor(keys, dtype=torch.int32), out_dtype=torch.float32, **fields)


def run(call, **switches):
    out = torch.full(call.q.shape, -1.0)
    tiled_ref.launch(replace(call, out=out), BOARD, False, {}, Switches(**switches))
    return out


def test_it_is_an_arm_with_a_witness_and_counts():
    call = step()
    result = run_call(call, arm="tiled_ref", board=BOARD)
    assert (result.arm, result.witness, result.reason) == ("tiled_ref", 0x50, "asked for by name")
    expected = reference(call)
    assert compare(result.out, expected.for_rounded_weights(BF16)).passed
    assert not compare(result.out, expected).passed  # rounded probabilities are past the HIP arms' bound
    assert result.dispatch.counters.opcodes["V_WMMA_F32_16X16X16_BF16"] > 0
    read = result.dispatch.counters.buffers
    assert read["k_cache"].bytes_read == read["v_cache"].bytes_read == (20 + 3) * 2 * 64 * 2


def test_probabilities_that_are_not_rounded_are_within_the_hip_arms_bound():
    call = step()
    assert compare(run(call, rounds_probabilities=False), reference(call), padding_poisoned=False).passed


def test_the_epsilon_decides_empty_rows_and_nothing_else():
    call = step()
    with_it, without = run(call), run(call, epsilon=0.0)
    assert torch.equal(with_it[:2], without[:2])
    assert bool((with_it[2] == 0).all())
    assert bool(without[2].isnan().all())


def test_the_maximum_of_all_keys_moves_the_last_bits_only():
    call = step(keys=(70, 33, 0))
    by_tile, whole = run(call), run(call, maximum_by_tile=False)
    assert not torch.equal(by_tile, whole)
    for out in (by_tile, whole):
        assert compare(out, reference(call).for_rounded_weights(BF16), padding_poisoned=False).passed


def test_windows_caps_and_ratios():
    for call in (
        step(window_left=4), step(soft_cap=2.5), step(heads=(12, 2), d=96), step(heads=(40, 2)),
        step(dtype=torch.float32), step(keys=(17, 16, 1), causal=False, window_right=3),
    ):  # fmt: skip
        out = run_call(call, arm="tiled_ref", board=BOARD).out
        seen = compare(out, reference(call).for_rounded_weights(call.v_cache.dtype))
        assert seen.passed, seen.why


def test_a_wrong_scale_is_seen():
    call = step()
    out = run_call(replace(call, scale=call.scale * 1.01), arm="tiled_ref", board=BOARD).out
    assert not compare(out, reference(call).for_rounded_weights(BF16)).passed


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("rows", make("mixed_batch", 0)[0]),
        ("dtype", step(q=torch.zeros(3, 4, 64))),
        ("head_dim", step(d=512)),
    ],
)
def test_what_it_does_not_serve_is_refused_by_name(kind, call):
    assert tiled_ref.supports(call).kind == kind
    with pytest.raises(Refused, match="tiled_ref"):
        run_call(call, arm="tiled_ref", board=BOARD)


def test_small_blocks_are_refused():
    (call,) = [c for c in make("block_sizes", 0) if c.block_size == 1]
    assert tiled_ref.supports(call).kind == "block_size"
    assert [tiled_ref.tile_keys(size) for size in (16, 128, 256, 17, 544)] == [16, 128, 128, 32, 32]


def test_on_a_gpu_it_is_a_peer():
    assert PEERS["tiled_ref"].why_not(step()) == "peers run on GPU boards only"

    class Gpu:
        kind, name, wave_size, torch_device = "gpu", "nvidia-0", 32, torch.device("cpu")

    with pytest.raises(Refused, match="launched by triton itself"):
        run_call(step(), arm="tiled_ref", board=Gpu())
