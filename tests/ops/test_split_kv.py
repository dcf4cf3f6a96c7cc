"""split_kv on the host: how many parts, with what scratch; and on the board: traffic, parts, tickets."""

import re
from dataclasses import replace

import pytest
import torch

from hipbook import boards, paths
from hipbook.ops import split_kv
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.paged_attention import run_call
from hipbook.oracle import traffic
from hipbook.oracle.drafts import Shape, draft, place
from hipbook.oracle.paged_attention import compare, make, reference
from hipbook.oracle.randoms import Randoms

H200 = split_kv.Shape("sm_90", 132)
GFX1200 = split_kv.Shape("gfx1200", 32)


def decode(
    batch: int, keys: int, *, kv_heads: int = 8, ratio: int = 2, d: int = 128, width: int | None = None
):
    """A call of shapes alone: `batch` sequences of `keys` keys on the meta device."""
    blocks = width or -(-keys // 16)
    meta = {"device": "meta"}
    ints = {"dtype": torch.int32, "device": "meta"}
    return AttentionCall(
        q=torch.empty(batch, kv_heads * ratio, d, dtype=torch.bfloat16, **meta),
        k_cache=torch.empty(batch * blocks, 16, kv_heads, d, dtype=torch.bfloat16, **meta),
        v_cache=torch.empty(batch * blocks, 16, kv_heads, d, dtype=torch.bfloat16, **meta),
        block_table=torch.empty(batch, blocks, **ints),
        seq_lens=torch.empty(batch, **ints),
        query_start_loc=torch.empty(batch + 1, **ints),
        scale=1.0,
    )


@pytest.mark.parametrize(
    ("batch", "keys", "least", "most"),
    [
        (1, 38, 1, 1),
        (1, 1024, 8, 16),
        (1, 8192, 28, 33),
        (8, 8192, 4, 4),
        (64, 4096, 1, 1),
        (256, 1024, 1, 1),
    ],
)
def test_parts_fill_an_h200_and_no_more(batch, keys, least, most):
    assert least <= split_kv.splits(decode(batch, keys), H200) <= most


def test_parts_follow_shape_and_board_alone():
    """Meta tensors have no lengths to look at; a smaller board takes fewer parts."""
    call = decode(1, 8192)
    assert split_kv.splits(call, GFX1200) < split_kv.splits(call, H200)
    assert split_kv.splits(decode(1, 38, width=512), H200) == split_kv.splits(call, H200)
    assert 1 <= split_kv.splits(decode(1, 10**6), H200) <= split_kv.MAX_SPLITS


def test_constants_are_the_kernels():
    text = (paths.kernels() / "paged_attention" / "split_kv.h").read_text()
    constants = dict(re.findall(r"constexpr int (\w+) = (\d+);", text))
    assert int(constants["TILE"]) == split_kv.TILE
    assert int(constants["MAX_SPLITS"]) == split_kv.MAX_SPLITS
    assert f"SLICES = (RATIO * D + {split_kv.SLICE_VALUES - 1}) / {split_kv.SLICE_VALUES};" in text


def test_only_what_no_cache_holds_is_read_as_a_stream():
    """Decided by shapes; 16 x 1024 keys of Qwen3-0.6B are 64 MiB."""
    assert split_kv.macros(decode(8, 1024)) == ("-DHIPBOOK_BLOCK_16=1",)
    assert split_kv.macros(decode(16, 1024)) == ("-DHIPBOOK_BLOCK_16=1", "-DHIPBOOK_STREAM=1")


@pytest.mark.parametrize(
    ("q", "kv", "d", "arch", "wanted"),
    [("bfloat16", "bfloat16", 128, "sm_90", 6), ("float32", "float16", 128, "sm_90", 6),
     ("bfloat16", "bfloat16", 64, "sm_90", 4), ("float32", "float32", 128, "sm_90", 4),
     ("bfloat16", "bfloat16", 512, "sm_90", 4), ("bfloat16", "bfloat16", 128, "gfx1200", 4)],
)  # fmt: skip
def test_waves_of_a_workgroup_follow_the_path_the_kernel_takes(q, kv, d, arch, wanted):
    call = decode(1, 64, d=d)
    q_, k_ = call.q.to(getattr(torch, q)), call.k_cache.to(getattr(torch, kv))
    assert split_kv.waves(replace(call, q=q_, k_cache=k_, v_cache=k_), arch) == wanted


def long_call(keys: int = 700, **shape):
    r = Randoms("split_kv", keys, sorted(map(str, shape.items())))
    return place(r, draft(r, Shape(**shape), [(1, keys), (1, 0), (1, 17)]), dead=float("nan"))


@pytest.mark.parametrize(
    ("d", "ratio", "kv"), [(128, 2, torch.bfloat16), (256, 16, torch.float16), (64, 3, torch.float32)]
)
def test_each_key_is_loaded_once_however_many_parts(d, ratio, kv):
    call = long_call(head_dim=d, num_q_heads=2 * ratio, kv_dtype=kv)
    result = run_call(call, arm="split_kv")
    assert compare(result.out, reference(call)).passed
    parts = result.dispatch.grid[2] // split_kv.slices(d, ratio)
    assert parts > 1
    seen, wanted = result.dispatch.counters.buffers, traffic.expected("decode_gqa", call)
    assert (seen["k_cache"].bytes_read, seen["v_cache"].bytes_read) == (wanted.k_bytes, wanted.v_bytes)
    assert seen["partial"].bytes_written == seen["partial"].bytes_read > 0


def test_tickets_are_left_at_zero_and_reused(monkeypatch):
    """Two unchecked launches share their scratch, and a third with fewer tokens fits in it."""
    monkeypatch.setattr(split_kv, "_scratch", {})
    call = long_call()
    want = reference(call)
    for _ in range(2):
        assert compare(run_call(call, arm="split_kv", checked=False).out, want).passed
    ((_, tickets),) = split_kv._scratch.values()
    assert tickets.numel() == 3 * 2
    assert not tickets.any()


def test_parts_do_not_change_what_a_batch_computes(monkeypatch):
    """One part against many: the same rows within the bound, and empty parts leave no trace."""
    (call, *_) = make("few_keys", 1)
    board = boards.get(boards.DEFAULT)
    for parts in (1, 7, split_kv.MAX_SPLITS):
        monkeypatch.setattr(split_kv, "splits", lambda *_, parts=parts: parts)
        result = run_call(call, arm="split_kv", board=board)
        assert ARMS["split_kv"].launch(call, board).grid[2] == parts
        assert compare(result.out, reference(call)).passed
