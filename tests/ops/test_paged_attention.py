"""The wrapper: errors before launch, poison, witness, zero sizes, outputs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_board import WITNESS, FakeBoard
from torch.utils._python_dispatch import TorchDispatchMode

from hipbook.errors import BadArgument, KernelFault, Refused
from hipbook.ops.attention_validate import check_shapes, check_tables
from hipbook.ops.launch import is_poison
from hipbook.ops.paged_attention import ARMS, AttentionCall, paged_attention, run_call
from hipbook.oracle.paged_attention import make


def good(**changes: object) -> AttentionCall:
    """3 requests of 5, 0 and 18 keys (tokens 1, 0, 2), one padding token."""
    torch.manual_seed(0)
    call = AttentionCall(
        q=torch.rand(4, 4, 128).bfloat16(),
        k_cache=torch.rand(6, 16, 2, 128).bfloat16(),
        v_cache=torch.rand(6, 16, 2, 128).bfloat16(),
        block_table=torch.tensor([[4, -1], [-1, -1], [2, 0]], dtype=torch.int32),
        seq_lens=torch.tensor([5, 9, 18], dtype=torch.int32),
        query_start_loc=torch.tensor([0, 1, 1, 3], dtype=torch.int32),
        scale=128**-0.5,
    )
    return replace(call, **changes)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def unaligned_seq_lens() -> torch.Tensor:
    raw = torch.zeros(16, dtype=torch.uint8).numpy()
    return torch.frombuffer(memoryview(raw)[1:13], dtype=torch.int32)


Q, K, TABLE = good().q, good().k_cache, good().block_table
BAD = {
    "q dtype": ({"q": Q.double()}, "q.dtype", "float64"),
    "q not a tensor": ({"q": Q.float().numpy()}, "q", "torch.Tensor"),
    "q rank": ({"q": Q[0]}, "q.shape", "3 dimensions"),
    "q device": ({"q": Q.to("meta")}, "q.device", "must be cpu"),
    "q strided": ({"q": Q.transpose(0, 1).contiguous().transpose(0, 1)}, "q.stride()", "contiguous"),
    "k dtype": ({"k_cache": K.long()}, "k_cache.dtype", "int64"),
    "v dtype": ({"v_cache": K.float()}, "v_cache.dtype", "k_cache's"),
    "v shape": ({"v_cache": K[:5]}, "v_cache.shape", "k_cache's shape"),
    "head_dim": ({"k_cache": K[..., :64], "v_cache": K[..., :64]}, "k_cache.shape", "head_dim"),
    "k last stride": (
        {"k_cache": torch.rand(6, 16, 2, 256).bfloat16()[..., ::2]},
        "k_cache.stride()",
        "must be 1",
    ),
    "k overlaps": ({"k_cache": K[:1].expand(6, 16, 2, 128)}, "k_cache.stride()", "apart"),
    "k windows overlap": (
        {"k_cache": torch.rand(99999).bfloat16().as_strided((6, 16, 2, 128), (4096, 256, 100, 1))},
        "k_cache.stride()",
        "apart",
    ),
    "Hq % Hkv": ({"q": torch.rand(4, 5, 128).bfloat16()}, "q.shape[1]", "multiple of Hkv"),
    "no heads": ({"q": torch.rand(4, 0, 128).bfloat16()}, "q.shape[1]", "1 .."),
    "table dtype": ({"block_table": TABLE.long()}, "block_table.dtype", "int32"),
    "table last stride": ({"block_table": TABLE.repeat(1, 2)[:, ::2]}, "block_table.stride()", "must be 1"),
    "table rows": ({"block_table": TABLE[:2]}, "block_table.shape", "one row a request"),
    "table short": ({"block_table": TABLE[:, :1]}, "block_table.shape[1]", "too short for request 2"),
    "block id high": ({"block_table": ints(4, -1, -1, -1, 2, 6).view(3, 2)}, "block_table[2, 1]", "0 .. 5"),
    "block id low": ({"block_table": ints(-1, -1, -1, -1, 2, 0).view(3, 2)}, "block_table[0, 0]", "0 .. 5"),
    "seq_lens dtype": ({"seq_lens": torch.tensor([5, 9, 18])}, "seq_lens.dtype", "int32"),
    "seq_lens rank": ({"seq_lens": ints(5, 9, 18)[None]}, "seq_lens.shape", "1 dimensions"),
    "seq_lens stride": ({"seq_lens": ints(5, 0, 9, 0, 18, 0)[::2]}, "seq_lens.stride()", "contiguous"),
    "seq_lens unaligned": ({"seq_lens": unaligned_seq_lens()}, "seq_lens.data_ptr()", "4 bytes"),
    "negative length": ({"seq_lens": ints(5, -9, 18)}, "seq_lens[1]", "negative"),
    "fewer keys than tokens": ({"seq_lens": ints(5, 9, 1)}, "seq_lens[2]", "query length, 2"),
    "starts length": ({"query_start_loc": ints(0, 1, 3)}, "query_start_loc.shape", "(4,)"),
    "starts not at 0": ({"query_start_loc": ints(1, 1, 1, 3)}, "query_start_loc[0]", "must be 0"),
    "starts go back": (
        {"query_start_loc": ints(0, 2, 1, 3)},
        "query_start_loc[2]",
        "below query_start_loc[1]",
    ),
    "starts past total_q": ({"query_start_loc": ints(0, 1, 1, 5)}, "query_start_loc[-1]", "total_q, 4"),
    "scale NaN": ({"scale": math.nan}, "scale", "finite"),
    "scale inf": ({"scale": math.inf}, "scale", "finite"),
    "scale past f32": ({"scale": 1e39}, "scale", "at most 1e+30"),
    "scale text": ({"scale": "1"}, "scale", "real number"),
    "soft_cap negative": ({"soft_cap": -1.0}, "soft_cap", "at least 0"),
    "soft_cap NaN": ({"soft_cap": math.nan}, "soft_cap", "finite"),
    "causal": ({"causal": 1}, "causal", "True or False"),
    "window_left": ({"window_left": -2}, "window_left", "-1 .."),
    "window_right": ({"window_right": 2**31}, "window_right", "-1 .."),
    "window float": ({"window_left": 2.0}, "window_left", "integer"),
    "window bool": ({"window_left": True}, "window_left", "integer"),
    "out dtype": ({"out": torch.zeros(4, 4, 128, dtype=torch.int16)}, "out.dtype", "int16"),
    "out dtypes differ": (
        {"out": torch.zeros(4, 4, 128), "out_dtype": torch.bfloat16},
        "out.dtype",
        "bfloat16",
    ),
    "out_dtype": ({"out_dtype": torch.float64}, "out_dtype", "must be one of"),
    "out shape": ({"out": torch.zeros(4, 4, 64)}, "out.shape", "q's shape"),
    "out strided": ({"out": torch.zeros(4, 4, 256)[..., :128]}, "out.stride()", "contiguous"),
    "out is q": ({"q": Q, "out": Q}, "out", "must not overlap q's"),
    "out in the cache": ({"k_cache": K, "out": K.view(-1)[512:2560].view(4, 4, 128)}, "out", "k_cache's"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_refused_before_anything_runs(case):
    changes, argument, rule = BAD[case]
    board = FakeBoard()
    out = changes.get("out", torch.full((4, 4, 128), 7.0).bfloat16())
    before = out.clone() if isinstance(out, torch.Tensor) else None
    with pytest.raises(BadArgument) as caught:
        run_call(good(**{"out": out, **changes}), board=board)
    assert caught.value.argument == argument
    assert rule in str(caught.value)
    assert not board.launched
    assert torch.equal(out, before)


def test_the_good_call_is_good():
    result = run_call(good(), board=FakeBoard())
    assert result.out[:3].isfinite().all()
    assert is_poison(result.out[3:]).all()


def test_entries_past_the_live_ones_may_hold_anything():
    """Request 0 uses one entry; request 1 owns no token, so none of its own is looked at."""
    table = good().block_table.clone()
    table[0, 1] = 2**31 - 1
    table[1] = -7
    run_call(good(block_table=table), board=FakeBoard())


def test_a_request_without_keys_gives_zeros():
    result = run_call(good(seq_lens=ints(0, 0, 18)), board=FakeBoard())
    assert (result.out[0] == 0).all()
    assert (result.out[1] != 0).any()


@pytest.mark.parametrize("arm", WITNESS)
def test_each_arm_leaves_its_own_witness(arm):
    board = FakeBoard()
    result = run_call(good(), arm=arm, board=board)
    assert (result.arm, result.witness) == (arm, ARMS[arm].witness) == (arm, WITNESS[arm])
    assert result.dispatch.kernel == f"paged_attention_{arm}"


@pytest.mark.parametrize("fault", ["wrong_arm", "no_witness", "short_witness"])
def test_another_arms_kernel_is_found_out(fault):
    out = torch.full((4, 4, 128), 7.0).bfloat16()
    with pytest.raises(KernelFault, match=r"arm decode: workgroup \d+ of 16"):
        run_call(good(out=out), arm="decode", board=FakeBoard(fault))
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("skips_a_row", "output row 2 were never written"),
        ("writes_padding", "row 3 belongs to no request and was written"),
        ("unwritten_reported", "bytes of out were never written"),
    ],
)
def test_rows_are_written_exactly_when_owned(fault, text):
    with pytest.raises(KernelFault, match=text):
        run_call(good(), board=FakeBoard(fault))


def test_a_given_out_keeps_its_padding_rows():
    out = torch.full((4, 4, 128), 7.0).bfloat16()
    result = run_call(good(out=out), board=FakeBoard())
    assert result.out is out
    assert (out[3] == 7).all()
    assert (out[:3] != 7).all()


def test_unchecked_writes_straight_into_out_without_witness():
    out = torch.full((4, 4, 128), 7.0).bfloat16()
    result = run_call(good(out=out), board=FakeBoard("wrong_arm"), checked=False)
    assert result.witness is None
    assert (out[3] == 7).all()
    assert torch.equal(out[:3], run_call(good(), board=FakeBoard()).out[:3])


def test_no_tokens_means_no_launch():
    board = FakeBoard()
    call = good(q=Q[:0], query_start_loc=ints(0, 0, 0, 0))
    result = run_call(call, board=board)
    assert tuple(result.out.shape) == (0, 4, 128)
    assert result.dispatch is None
    assert not board.launched


def test_an_empty_cache_is_a_null_pointer():
    """No blocks, no keys, no table: every row is zeros, on every board."""
    call = good(
        k_cache=K[:0], v_cache=K[:0], seq_lens=ints(0, 0, 0), block_table=torch.zeros(3, 0, dtype=torch.int32)
    )  # fmt: skip
    assert (run_call(call, board=FakeBoard()).out[:3] == 0).all()


def test_out_dtype():
    assert run_call(good(out_dtype=torch.float32), board=FakeBoard()).out.dtype is torch.float32


def test_the_keyword_form_is_the_same_call():
    c = good()
    tensors = (c.q, c.k_cache, c.v_cache, c.block_table, c.seq_lens, c.query_start_loc)
    scalars = {
        "scale": np.float32(c.scale),
        "soft_cap": 3,
        "causal": False,
        "window_left": 4,
        "window_right": 0,
    }
    result = paged_attention(*tensors, **scalars, arm="online", board=FakeBoard())
    expected = run_call(replace(c, **scalars), arm="online", board=FakeBoard())
    assert torch.equal(result.out[:3], expected.out[:3])


def test_unknown_arm():
    with pytest.raises(BadArgument, match="online, decode, decode_gqa"):
        run_call(good(), arm="fast", board=FakeBoard())


def test_a_staged_out_is_as_misaligned_as_the_callers():
    """Otherwise a checked launch would hide the fault that an unchecked one hits."""
    seen = []

    class Looks(FakeBoard):
        def launch(self, code_object, kernel, grid, block, args, **options):
            seen.append(args[3].tensor.data_ptr() % 128)
            return super().launch(code_object, kernel, grid, block, args, **options)

    out = torch.zeros(4 * 4 * 128 + 9, dtype=torch.bfloat16)[9:].view(4, 4, 128)
    for checked in (True, False):
        run_call(good(out=out), arm="online", board=Looks(), checked=checked)
    assert seen[0] == seen[1] == out.data_ptr() % 128


def test_refused_by_name_with_the_alignment_it_needs():
    call = next(c for c in make("misaligned", 0) if c.q.data_ptr() % 16)
    for arm in ("decode", "decode_gqa"):
        with pytest.raises(Refused, match=rf"{arm} loads vectors of 8 bytes and needs q aligned"):
            run_call(call, arm=arm, board=FakeBoard())
    run_call(call, arm="online", board=FakeBoard())


class Counting(TorchDispatchMode):
    operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operations += 1
        return function(*args, **(kwargs or {}))


def operations_to_check(requests: int) -> int:
    """Tensor operations that checking a batch of decode rows takes."""
    call = good(
        q=torch.zeros(requests, 4, 128).bfloat16(),
        block_table=torch.zeros(requests, 256, dtype=torch.int32),
        seq_lens=torch.full((requests,), 4096, dtype=torch.int32),
        query_start_loc=torch.arange(requests + 1).int(),
    )
    with Counting() as counting:
        check_shapes(call, torch.device("cpu"))
        check_tables(call)
    return counting.operations


def test_checks_are_whole_tensor_operations():
    """As many for 4096 sequences as for 4, so that checking stays cheap."""
    assert operations_to_check(4096) == operations_to_check(4) < 60
