"""What the notebooks share: an arm is checked before it is counted, and its counts are the board's."""

from dataclasses import replace

import pytest
import torch

from hipbook import boards
from hipbook.errors import BadArgument
from hipbook.measure.counts import CountWord
from hipbook.oracle.decode_step import decode_call
from hipbook.oracle.paged_attention import reference
from hipbook.studies import arms


@pytest.fixture(scope="module")
def board():
    return boards.get("gfx1200-emu")


def call(keys, **more):
    return decode_call([keys], **{"num_q_heads": 4, "num_kv_heads": 2, "head_dim": 128, **more})


@pytest.mark.parametrize("arm", ["online", "decode", "decode_gqa"])
def test_an_arm_is_correct_reached_and_as_foretold(board, arm):
    run = arms.run_arm(call(37), arm, board)
    assert run.correctness.word is CountWord.CORRECT
    assert run.correctness.compared == 4 * 128
    assert run.reach.word is CountWord.REACHED
    assert run.kv_bytes == run.expected.kv_bytes
    assert run.live_lanes * run.expected.workgroups == run.expected.k_live_lanes


def test_a_wrong_reference_makes_the_run_incorrect_and_says_where(board):
    asked = call(9)
    other = reference(replace(asked, scale=asked.scale * 1.05))
    run = arms.run_arm(asked, "decode", board, expected=other)
    assert run.correctness.word is CountWord.INCORRECT
    assert "token 0" in run.correctness.detail


@pytest.mark.parametrize(
    ("head_dim", "barriers"), [(64, 10), (128, 11), (256, 12), (512, 12)]
)  # 4 + log2(threads), threads 64 doubled until >= D, at most 256
def test_barriers_per_key_of_the_baseline(board, head_dim, barriers):
    assert arms.barriers_per_key("online", board, 20, lambda n: call(n, head_dim=head_dim)) == barriers


@pytest.mark.parametrize("arm", ["decode", "decode_gqa"])
@pytest.mark.parametrize("head_dim", [64, 128, 256, 512])
def test_the_decode_arms_pass_no_barrier_per_key(board, arm, head_dim):
    assert arms.barriers_per_key(arm, board, 20, lambda n: call(n, head_dim=head_dim)) == 0


def test_no_slope_from_a_wrong_run(board, monkeypatch):
    def wrong(asked, *rest, **more):
        return right(asked, *rest, **{**more, "expected": reference(replace(asked, scale=-asked.scale))})

    right = arms.run_arm
    monkeypatch.setattr(arms, "run_arm", wrong)
    with pytest.raises(BadArgument, match="is wrong at 5 keys"):
        arms.barriers_per_key("decode", board, 5, call)


def test_decode_calls_hold_nan_wherever_nobody_may_read():
    asked = call(17)
    dead = torch.isnan(asked.k_cache).sum() + torch.isnan(asked.v_cache).sum()
    live = 2 * 17 * 2 * 128
    assert int(dead) == asked.k_cache.numel() + asked.v_cache.numel() - live
    assert asked.k_cache.stride(0) == 2 * 16 * 2 * 128  # two interleaved halves


@pytest.mark.parametrize("lens", [[], [0], [4, 0]])
def test_a_decode_step_needs_keys(lens):
    with pytest.raises(BadArgument, match="seq_lens"):
        decode_call(lens, num_q_heads=1, num_kv_heads=1, head_dim=64)
