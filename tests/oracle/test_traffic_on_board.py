"""Counted on the emulated board against expected from shapes: bytes of K and V, barriers per key, lanes."""

from dataclasses import replace

import pytest
import torch

from hipbook import boards
from hipbook.ops.attention_call import DTYPES
from hipbook.ops.paged_attention import run_call
from hipbook.oracle import traffic
from hipbook.oracle.drafts import Shape, draft, place
from hipbook.oracle.paged_attention import compare, make, reference
from hipbook.oracle.randoms import Randoms

THREE = ("online", "decode", "decode_gqa")
BOARD = boards.get(boards.DEFAULT)


def run(arm: str, call):
    result = run_call(call, arm=arm, board=BOARD)
    assert compare(result.out, reference(call)).passed
    return result.dispatch


def decode_call(keys: int, **shape):
    r = Randoms("traffic", keys, sorted(map(str, shape.items())))
    return place(r, draft(r, Shape(**shape), [(1, keys)]), dead=float("nan"))


def barriers(arm: str, keys: int, **shape) -> tuple[int, float]:
    return keys, run(arm, decode_call(keys, **shape)).counters.barriers_per_wave


@pytest.mark.parametrize(("d", "slope"), [(64, 10), (128, 11), (256, 12), (512, 12)])
def test_barriers_per_key(d, slope):
    """The slope between n and n + 1 keys, as docs/contracts.md has it; 0 for the decode arms."""
    for keys in (1, 8, 33):
        measured = traffic.barriers_slope([barriers("online", n, head_dim=d) for n in (keys, keys + 1)])
        assert measured == slope == traffic.online_barriers_per_key(d)
        for arm in ("decode", "decode_gqa"):
            assert traffic.barriers_slope([barriers(arm, n, head_dim=d) for n in (keys, keys + 1)]) == 0


@pytest.mark.parametrize("arm", THREE)
@pytest.mark.parametrize(
    ("d", "kv", "ratio"),
    [(64, "bf16", 2), (128, "bf16", 2), (128, "f32", 4), (256, "f16", 16), (512, "bf16", 6), (512, "f32", 1)],
)
def test_bytes_and_lanes(arm, d, kv, ratio):
    call = decode_call(37, head_dim=d, kv_dtype=DTYPES[kv], num_q_heads=2 * ratio)
    seen, wanted = run(arm, call).counters, traffic.expected(arm, call)
    assert seen.buffers["k_cache"].bytes_read == wanted.k_bytes
    assert seen.buffers["v_cache"].bytes_read == wanted.v_bytes
    assert seen.buffers["k_cache"].live_lanes == wanted.k_live_lanes
    assert seen.buffers["out"].bytes_written == call.q.numel() * 2


@pytest.mark.parametrize("arm", THREE)
@pytest.mark.parametrize("family", ["empty_rows", "windows", "mixed_batch", "few_keys", "block_sizes"])
def test_bytes_and_lanes_of_whole_batches(arm, family):
    for kind in ("decode", "prefill"):
        for call in make(family, 4, row_kind=kind, num_q_heads=6):
            if not call.total_q:
                continue
            seen = run_call(call, arm=arm, board=BOARD).dispatch.counters.buffers
            wanted = traffic.expected(arm, call)
            loaded = [seen[name].bytes_read if name in seen else 0 for name in ("k_cache", "v_cache")]
            assert loaded == [wanted.k_bytes, wanted.v_bytes]
            assert (seen["k_cache"].live_lanes if "k_cache" in seen else 0) == wanted.k_live_lanes


@pytest.mark.parametrize(("d", "ratio"), [(64, 2), (128, 1), (256, 16)])
def test_split_kv_reads_each_key_once_a_slice(d, ratio):
    call = decode_call(300, head_dim=d, num_q_heads=2 * ratio)
    seen = run("split_kv", call).counters.buffers
    assert seen["k_cache"].bytes_read + seen["v_cache"].bytes_read == traffic.kv_bytes("split_kv", call)


@pytest.mark.parametrize("family", ["empty_rows", "windows", "mixed_batch", "block_sizes"])
def test_prefill_reads_each_key_once_for_the_tokens_that_share_it(family):
    for kind in ("decode", "prefill"):
        for call in make(family, 4, row_kind=kind, num_q_heads=6):
            if not call.total_q:
                continue
            seen = run_call(call, arm="prefill", board=BOARD).dispatch.counters.buffers
            loaded = [seen[name].bytes_read if name in seen else 0 for name in ("k_cache", "v_cache")]
            assert 2 * loaded[0] == 2 * loaded[1] == traffic.kv_bytes("prefill", call)


def test_prefill_reads_less_than_decode_where_tokens_share_keys():
    (call,) = (c for c in make("mixed_batch", 0, row_kind="prefill", num_q_heads=4)[:1])
    assert 0 < traffic.kv_bytes("prefill", call) < traffic.kv_bytes("decode", call)


def test_the_floor_is_met_by_the_fused_arm_alone():
    call = decode_call(50)
    read = {}
    for arm in THREE:
        buffers = run(arm, call).counters.buffers
        read[arm] = buffers["k_cache"].bytes_read + buffers["v_cache"].bytes_read
    floor = traffic.floor_bytes(call)
    assert read == {"online": 2 * floor, "decode": 2 * floor, "decode_gqa": floor}


def test_a_batch_of_empty_rows_reads_no_key():
    call = decode_call(5)
    call = replace(call, seq_lens=torch.zeros(1, dtype=torch.int32))
    counters = run_call(call, arm="decode", board=BOARD).dispatch.counters
    assert counters.buffers["k_cache"].bytes_read == 0
