"""The quantizer's wrapper on the emulated board: errors before launch, poison, witness, geometry."""

from dataclasses import replace

import pytest
import torch

from hipbook import boards
from hipbook.boards.base import Buffer
from hipbook.errors import BadArgument, KernelFault
from hipbook.ops import quantize_q8k as q8k
from hipbook.ops.quantize_q8k import ARMS, BLOCK_BYTES, check_blocks_written, poison_blocks_, quantize_q8k
from hipbook.oracle.quantize_q8k import make, reference

BOARD = boards.get(boards.DEFAULT)
X = make("random", 0, rows=3, k=512, dtype=torch.float32)
NAN, INF = X.clone(), X.clone()
NAN[1, 300], INF[2, 5] = float("nan"), float("-inf")
OUT = torch.zeros(3, 2, BLOCK_BYTES, dtype=torch.uint8)
GRAD = torch.zeros(3, 2, BLOCK_BYTES, requires_grad=True)  # no integer tensor can
with torch.inference_mode():
    INFERENCE = OUT.clone()
RAW = torch.zeros(3 * 2 * 300, dtype=torch.uint8)
BAD = {
    "x dtype": (X.double(), {}, "x.dtype", "float64"),
    "x rank": (X[0], {}, "x.shape", "2 dimensions"),
    "x device": (X.to("meta"), {}, "x.device", "must be cpu"),
    "x last stride": (X.repeat(1, 2)[:, ::2], {}, "x.stride()", "must be 1"),
    "K": (X[:, :500], {}, "x.shape[1]", "multiple of the block's 256"),
    "NaN": (NAN, {}, "x[1, 300]", "must be finite"),
    "infinity": (INF, {}, "x[2, 5]", "must be finite"),
    "arm": (X, {"arm": "fast"}, "arm", "serial, block, wave"),
    "arm unhashable": (X, {"arm": ["wave"]}, "arm", "serial, block, wave"),
    "board": (X, {"board": 5}, "board", "a board or the name of one"),
    "checked": (X, {"checked": "yes"}, "checked", "True or False"),
    "option of the wrapper": (X, {"kernel": "k"}, "option kernel", "the wrapper's own"),
    "x negated": (torch._neg_view(X), {}, "x", "its own values"),
    "out dtype": (X, {"out": OUT.to(torch.int8)}, "out.dtype", "int8"),
    "out shape": (X, {"out": OUT[:2]}, "out.shape", "292"),
    "out strided": (X, {"out": RAW.view(3, 2, 300)[..., :292]}, "out.stride()", "contig"),
    "out unaligned": (X, {"out": RAW[1:1753].view(3, 2, 292)}, "out.data_ptr()", "4"),
    "out wants grad": (X.detach(), {"out": GRAD}, "out.dtype", "uint8"),
    "out inference": (X, {"out": INFERENCE}, "out", "outside inference mode"),
    "out is x": (X, {"out": X.view(torch.uint8).view(-1)[:1752].view(3, 2, 292)}, "out", "overlap x's"),
}  # fmt: skip


class NoLaunch:
    """The board, but nothing may reach it."""

    kind, wave_size, torch_device = "emulated", 32, torch.device("cpu")

    def build(self, *args, **kwargs):
        raise AssertionError("built")


class Broken:
    """The board with a fault after the launch: `spoil` gets the buffers by name."""

    def __init__(self, spoil):
        self.spoil = spoil

    def __getattr__(self, name):
        return getattr(BOARD, name)

    def launch(self, code_object, kernel, grid, block, args, **options):
        done = BOARD.launch(code_object, kernel, grid, block, args, **options)
        self.spoil({arg.name: arg.tensor for arg in args if isinstance(arg, Buffer)})
        return done


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_refused_before_anything_runs(case):
    x, options, argument, rule = BAD[case]
    with pytest.raises(BadArgument) as caught:
        quantize_q8k(x, **{"board": NoLaunch(), **options})
    assert caught.value.argument == argument
    assert rule in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("arm", ARMS)
def test_the_result_lands_in_out_checked_or_not(arm):
    for checked in (True, False):
        out = torch.full_like(OUT, 7)
        result = quantize_q8k(X, arm=arm, board=BOARD, out=out, checked=checked)
        assert result.out is out
        assert torch.equal(out, reference(X))
        assert result.witness == (ARMS[arm].witness if checked else None)
    assert len({arm.witness for arm in ARMS.values()}) == len(ARMS)


def test_unchecked_writes_the_block_that_is_not_finite_and_its_neighbours():
    for arm in ARMS:
        out = quantize_q8k(NAN, arm=arm, board=BOARD, checked=False).out
        assert torch.equal(out, reference(NAN))
        assert out[1, 1].tolist() == [0, 0, 0xC0, 0x7F] + [0] * 288


def test_nothing_to_do_is_not_launched():
    for x in (X[:0], X[:, :0]):
        result = quantize_q8k(x, board=NoLaunch())
        assert result.dispatch is None
        assert result.out.shape == (x.shape[0], x.shape[1] // 256, 292)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda a: a["witness"][-1:].fill_(-1), "wrote no witness"),
        (lambda a: a["witness"][:1].fill_(0x10), "wrote witness 0x10, expected 0x20"),
        (lambda a: a["out"][2, 1, 259:260].fill_(0x80), "qs of block 5 of 6"),
    ],
)
def test_a_launch_that_misbehaves_is_a_fault_and_leaves_out_alone(spoil, told):
    out = torch.full_like(OUT, 7)
    with pytest.raises(KernelFault, match=told):
        quantize_q8k(X, arm="block", board=Broken(spoil), out=out)
    assert (out == 7).all()


def test_each_field_of_a_block_left_unwritten_is_seen():
    good = reference(X)
    check_blocks_written(good, "k")
    poison = poison_blocks_(torch.empty_like(good))
    for field, part in (("d", slice(0, 4)), ("qs", slice(30, 31)), ("bsums", slice(290, 292))):
        spoiled = good.clone()
        spoiled[1, 0, part] = poison[1, 0, part]
        with pytest.raises(KernelFault, match=f"{field} of block 2 of 6"):
            check_blocks_written(spoiled, "k")


def test_live_lanes_of_one_row():
    """docs/contracts.md's definition: distinct (wave, lane) that load from x, over the lanes launched."""
    x = make("random", 0, rows=1, k=4096, dtype=torch.bfloat16)
    seen = {}
    for arm in ARMS:
        done = quantize_q8k(x, arm=arm, board=BOARD).dispatch
        threads = done.grid[0] * done.block[0]
        seen[arm] = (done.counters.buffers["x"].live_lanes, threads)
        assert done.counters.buffers["x"].bytes_read == 8192 * (2 if arm == "serial" else 1)
        assert done.counters.buffers["out"].bytes_written == 16 * 292
    assert seen == {"serial": (16, 128), "block": (4096, 4096), "wave": (512, 512)}
    assert quantize_q8k(x, arm="wave", board=BOARD).dispatch.lds_bytes == 0


@pytest.mark.parametrize("arm", ARMS)
def test_rows_are_on_x_alone_and_a_smaller_grid_does_all_blocks(arm, monkeypatch):
    assert ARMS[arm].geometry(70_000, 32)[0][1:] == (1, 1)
    assert ARMS[arm].geometry(2**31 - 1, 32)[0] == (q8k.MAX_WORKGROUPS, 1, 1)
    monkeypatch.setattr(q8k, "MAX_WORKGROUPS", 2)
    x = make(
        "edges",
        0,
        rows=5 if arm != "serial" else 131,
        k=1280 if arm != "serial" else 768,
        dtype=torch.float16,
    )
    result = quantize_q8k(x, arm=arm, board=BOARD)
    assert result.dispatch.grid == (2, 1, 1)
    assert torch.equal(result.out, reference(x))


def test_vectors_are_as_wide_as_the_rows_allow():
    raw = torch.zeros(4096, dtype=torch.bfloat16)
    assert raw.data_ptr() % 64 == 0
    for start, stride, wanted in (
        (0, 512, 8),
        (0, 516, 4),
        (2, 512, 2),
        (1, 512, 1),
        (0, 513, 1),
        (4, 520, 4),
    ):
        x = raw[start:].as_strided((2, 512), (stride, 1))
        assert q8k.vector_elements(x) == wanted
    assert q8k.vector_elements(raw.as_strided((1, 512), (513, 1))) == 8  # one row has no stride
    assert q8k.vector_elements(raw.float().view(8, 512)) == 4


@pytest.mark.parametrize("start", [2, 4])
def test_narrower_vectors_give_the_same_bytes(start):
    x = make("edges", 0, rows=3, k=512, dtype=torch.bfloat16)
    raw = torch.zeros(3 * 512 + 8, dtype=torch.bfloat16)
    view = raw[start : start + 3 * 512].view(3, 512).copy_(x)
    result = quantize_q8k(view, arm="wave", board=BOARD)
    assert f"-DHIPBOOK_VECTOR={start}" in result.dispatch.code_object.flags
    assert torch.equal(result.out, reference(x))


def test_waves_of_a_workgroup_in_another_order_change_nothing():
    x = make("edges", 0, rows=4, k=2048, dtype=torch.bfloat16)
    for arm in ARMS:
        first, again = (quantize_q8k(x, arm=arm, board=BOARD, wave_order_seed=seed) for seed in (0, 7))
        assert torch.equal(first.out, again.out)
        assert replace(first.dispatch, code_object=None) == replace(again.dispatch, code_object=None)
