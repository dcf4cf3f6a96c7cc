"""Expectations from shapes: the formulas of docs/contracts.md at known sizes, and rows by hand."""

import ast
from pathlib import Path

import pytest
import torch

from hipbook.errors import BadArgument
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_call import AttentionCall
from hipbook.oracle import traffic
from hipbook.oracle.paged_attention import FAMILIES, make, reference


def decode(keys: list[int], heads: int, kv_heads: int, d: int, dtype=torch.bfloat16) -> AttentionCall:
    n = len(keys)
    cache = torch.empty(1, 16, kv_heads, d, dtype=dtype)
    return AttentionCall(
        torch.empty(n, heads, d), cache, cache, torch.zeros(n, 1).int(), torch.tensor(keys).int(),
        torch.arange(n + 1).int(), scale=1.0,
    )  # fmt: skip


def test_bytes_of_the_reported_case():
    """Qwen3-0.6B, 1024 keys: 4 KiB a key at the floor, twice that without fusion."""
    call = decode([1024], 16, 8, 128)
    assert traffic.floor_bytes(call) == 1024 * 4096
    assert traffic.expected("decode_gqa", call).kv_bytes == 1024 * 4096
    for arm in ("online", "decode"):
        assert traffic.expected(arm, call).kv_bytes == 2 * 1024 * 4096


@pytest.mark.parametrize(("d", "barriers"), [(64, 10), (128, 11), (256, 12), (512, 12)])
def test_barriers_per_key(d, barriers):
    assert traffic.expected("online", decode([9], 2, 2, d)).barriers_per_key == barriers
    assert traffic.expected("decode", decode([9], 2, 2, d)).barriers_per_key == 0
    assert traffic.expected("online_shuffle", decode([9], 2, 2, d)).barriers_per_key == 4
    assert traffic.expected("online_tile", decode([9], 2, 2, d)).barriers_per_key == 3 / 16


def test_barriers_of_a_whole_wave():
    """One before the loop of an arm in step, its keys' or tiles', and decode's one merge."""
    keys = (0, 1, 16, 17)
    assert [traffic.barriers_per_wave("online", 128, n) for n in keys] == [1, 12, 177, 188]
    assert [traffic.barriers_per_wave("online_wide", 128, n) for n in keys] == [1, 5, 65, 69]
    assert [traffic.barriers_per_wave("online_tile", 128, n) for n in keys] == [1, 4, 4, 7]
    assert [traffic.barriers_per_wave("decode", 128, n) for n in keys] == [0, 1, 1, 1]
    with pytest.raises(BadArgument):
        traffic.barriers_per_wave("split_kv", 128, 5)


def test_slices_read_k_again():
    call = decode([10], 16, 1, 256)  # ratio 16 at D 256: two slices
    assert traffic.expected("decode_gqa", call).kv_bytes == 2 * traffic.floor_bytes(call)


def test_live_lanes():
    call = decode([20, 3, 0], 4, 2, 128)
    assert (
        traffic.expected("online", call).k_live_lanes == 2 * 4 * 32
    )  # 32 of 128 threads, two rows with keys
    assert traffic.expected("online_wide", call).k_live_lanes == 2 * 4 * 128
    assert traffic.expected("online_tile", decode([20], 1, 1, 500)).k_live_lanes == 250  # two elements a lane
    assert traffic.expected("decode", call).k_live_lanes == (8 + 3) * 4 * 32
    assert traffic.expected("decode_gqa", call).k_live_lanes == (8 + 3) * 2 * 32
    assert traffic.expected("decode", call, wave_size=64).k_live_lanes == (8 + 3) * 4 * 64


@pytest.mark.parametrize("kind", ["decode", "chunked", "prefill"])
@pytest.mark.parametrize("family", FAMILIES)
def test_key_counts_agree_with_the_reference(family, kind):
    for call in make(family, 0, row_kind=kind):
        ref = reference(call)
        assert traffic.keys_per_row(call) == ref.keys[ref.written].tolist()


def test_the_floor_counts_a_key_of_a_request_once():
    (call,) = make("sparse_pool", 0, row_kind="prefill")
    assert traffic.floor_bytes(call) == 2 * (9 + 3 + 5) * 2 * 128 * 2
    assert sum(traffic.keys_per_row(call)) == 45 + 6 + 15


def test_geometry_agrees_with_the_arms():
    """Two modules derive it on their own; they must agree."""
    for arm in ("online", "decode", "decode_gqa"):
        for d in (32, 64, 96, 128, 256, 512):
            for heads in (2, 8, 32):
                call = decode([5, 6], heads, 2, d)
                geometry = ARMS[arm].geometry(call, 32)
                wanted = traffic.expected(arm, call)
                assert (geometry.workgroups, geometry.block[0]) == (wanted.workgroups, wanted.threads)


def test_it_imports_no_counter_and_no_kernel_side():
    tree = ast.parse(Path(traffic.__file__).read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.startswith("hipbook")} == {"hipbook.errors"}


def test_no_expectation_for_an_unknown_arm():
    for ask in (traffic.expected, traffic.kv_bytes):
        with pytest.raises(BadArgument):
            ask("tiled", decode([5], 2, 2, 64))


def test_parts_share_the_keys():
    call = decode([1000], 16, 1, 256)
    assert (
        traffic.kv_bytes("split_kv", call) == traffic.kv_bytes("decode_gqa", call) == 2 * 2 * 1000 * 256 * 2
    )


def test_the_slope_is_between_neighbours():
    assert traffic.barriers_slope([(7, 80.0), (8, 91.0)]) == 11
    with pytest.raises(BadArgument):
        traffic.barriers_slope([(7, 80.0), (9, 91.0)])
