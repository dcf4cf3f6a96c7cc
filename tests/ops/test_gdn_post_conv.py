"""GDN post-conv's wrapper on the emulated board: errors before launch, poison, witness, geometry."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hipbook import boards
from hipbook.boards.base import Buffer
from hipbook.errors import BadArgument, KernelFault, Refused
from hipbook.ops import gdn_post_conv as gdn
from hipbook.ops.gdn_post_conv import ARMS, PostConvOutputs, output_shapes, run_call, vector_elements
from hipbook.ops.launch import poison_
from hipbook.oracle.gdn_post_conv import compare, make, reference

BOARD = boards.get(boards.DEFAULT)
CALL = make("random", 0, tokens=3, heads=(3, 20, 5, 12), dtype=torch.bfloat16, layout="strided")


def outputs(call=CALL, fill: float = 7.0) -> PostConvOutputs:
    shapes = output_shapes(call).items()
    return PostConvOutputs(**{name: torch.full(shape, fill, dtype=dtype) for name, (shape, dtype) in shapes})


def same_bits(one: PostConvOutputs, other: PostConvOutputs) -> bool:
    pairs = zip(one.named().values(), other.named().values(), strict=True)
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in pairs)


BAD = {
    "conv dtype": ({"conv": CALL.conv.half()}, "conv.dtype", "float16"),
    "conv width": ({"conv": CALL.conv[:, 1:]}, "conv.shape", "Hv Dv"),
    "conv last stride": ({"conv": CALL.conv.repeat(1, 2)[:, ::2]}, "conv.stride()", "must be 1"),
    "a dtype": ({"a_raw": CALL.a_raw.float()}, "a_raw.dtype", "bfloat16"),
    "a shape": ({"a_raw": CALL.a_raw[:2]}, "a_raw.shape", "a row a token"),
    "b last stride": ({"b_raw": CALL.b_raw.repeat(1, 2)[:, ::2]}, "b_raw.stride()", "must be 1"),
    "a_log dtype": ({"a_log": CALL.a_log.bfloat16()}, "a_log.dtype", "float32"),
    "a_log strided": ({"a_log": CALL.a_log.repeat(2)[::2]}, "a_log.stride()", "contiguous"),
    "dt_bias shape": ({"dt_bias": CALL.dt_bias[:4]}, "dt_bias.shape", "as a_log"),
    "dk": ({"dk": 0}, "dk", "1 .."),
    "dv": ({"dv": 2.0}, "dv", "integer"),
    "heads": ({"num_k_heads": True}, "num_k_heads", "integer"),
    "heads f32": ({"num_k_heads": np.float32(3)}, "num_k_heads", "integer"),
    "conv negated": ({"conv": torch._neg_view(CALL.conv.contiguous())}, "conv", "its own values"),
}


class NoLaunch:
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
    changes, argument, rule = BAD[case]
    with pytest.raises(BadArgument) as caught:
        run_call(replace(CALL, **changes), board=NoLaunch())
    assert caught.value.argument == argument
    assert rule in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"arm": ["wave"]}, "arm"), ({"arm": None}, "arm"), ({"board": 5}, "board"),
        ({"out": 5}, "out"), ({"out": CALL.conv}, "out"), ({"checked": 1}, "checked"),
    ],
)  # fmt: skip
def test_options_of_the_wrong_kind_are_named(options, argument):
    with pytest.raises(BadArgument) as caught:
        run_call(CALL, **{"board": NoLaunch(), **options})
    assert (caught.value.argument, bool(caught.value.fix)) == (argument, True)
    with pytest.raises(BadArgument, match="call = int"):
        run_call(5, board=NoLaunch())


def test_outputs_torch_would_not_let_be_written_are_refused_before_the_launch():
    good = outputs()
    with torch.inference_mode():
        inference = good.k.clone()
    for checked in (True, False):
        for name, tensor, word in (
            ("g", good.g.clone().requires_grad_(), "requires grad"), ("k", inference, "inference tensor"),
        ):  # fmt: skip
            with pytest.raises(BadArgument, match=word) as caught:
                run_call(CALL, board=NoLaunch(), out=replace(good, **{name: tensor}), checked=checked)
            assert caught.value.argument == f"out.{name}"
    with torch.inference_mode():  # where torch lets it
        run_call(CALL, board=BOARD, out=replace(good, k=inference))
    assert compare(replace(good, k=inference.clone()), reference(CALL)).why == ""


def test_outputs_that_break_the_contract_are_refused():
    good = outputs()
    for name, tensor, rule in (
        ("q", good.q[:2], "the contract's"),
        ("g", good.g.bfloat16(), "float32"), ("k", good.q, "overlap out"),
        ("v", CALL.conv[:, 120:180].view(3, 5, 12), "contiguous"),
    ):  # fmt: skip
        with pytest.raises(BadArgument, match=rule):
            run_call(CALL, board=NoLaunch(), out=replace(good, **{name: tensor}))


@pytest.mark.parametrize("arm", ARMS)
def test_results_land_in_out_checked_or_not(arm):
    for checked in (True, False):
        out = outputs()
        result = run_call(CALL, arm=arm, board=BOARD, out=out, checked=checked)
        assert result.outputs is out
        assert compare(out, reference(CALL)).why == ""
        assert result.witness == (ARMS[arm].witness if checked else None)
    assert len({arm.witness for arm in ARMS.values()}) == len(ARMS)


@pytest.mark.parametrize("family", ["random", "gates", "heads"])
def test_serial_and_chunked_are_byte_identical(family):
    for dtype in (torch.float32, torch.bfloat16):
        call = make(family, 1, tokens=15, heads=(3, 20, 5, 12), dtype=dtype, layout="strided")
        serial, chunked = (run_call(call, arm=arm, board=BOARD).outputs for arm in ("serial", "chunked"))
        assert same_bits(serial, chunked)


def test_no_token_is_not_launched():
    empty = replace(CALL, conv=CALL.conv[:0], a_raw=CALL.a_raw[:0], b_raw=CALL.b_raw[:0])
    result = run_call(empty, board=NoLaunch())
    assert result.dispatch is None
    assert result.outputs.v.shape == (0, 5, 12)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda a: a["witness"][:1].fill_(-1), "wrote no witness"),
        (lambda a: a["witness"][:1].fill_(0x10), "wrote witness 0x10, expected 0x20"),
        *((lambda a, n=n: poison_(a[n][1:2]), f"{n}: .* row 1") for n in ("q", "k", "v", "g", "beta")),
    ],
)
def test_a_launch_that_misbehaves_is_a_fault_and_leaves_out_alone(spoil, told):
    out = outputs()
    with pytest.raises(KernelFault, match=told):
        run_call(CALL, arm="chunked", board=Broken(spoil), out=out)
    assert all(bool((tensor == 7).all()) for tensor in out.named().values())


def test_work_of_one_token_of_the_reported_model():
    """17 threads work in serial, 49 items in chunked; every lane of wave loads."""
    call = make("random", 0, tokens=1, heads=(16, 128, 32, 128), dtype=torch.bfloat16)
    row = call.conv.numel() * 2
    seen = {}
    for arm in ARMS:
        done = run_call(call, arm=arm, board=BOARD).dispatch
        seen[arm] = done.counters.buffers
        assert done.counters.buffers["v"].bytes_written == 32 * 128 * 2
    assert seen["serial"]["conv"].live_lanes == 17
    assert seen["chunked"]["conv"].live_lanes == 48  # and the gates' thread, which reads a and b
    assert seen["chunked"]["a_raw"].live_lanes == 1
    assert seen["wave"]["conv"].live_lanes == (32 + 16) * 32
    assert seen["wave"]["a_raw"].live_lanes == 32
    assert seen["wave"]["conv"].bytes_read == row
    assert seen["serial"]["conv"].bytes_read == row + 2 * 16 * 128 * 2  # q and k twice


@pytest.mark.parametrize("arm", ARMS)
def test_a_smaller_grid_does_all_the_work(arm, monkeypatch):
    monkeypatch.setattr(gdn, "MAX_WORKGROUPS", 2)
    call = make("random", 2, tokens=130, heads=(3, 20, 5, 12), dtype=torch.bfloat16, layout="strided")
    result = run_call(call, arm=arm, board=BOARD)
    assert result.dispatch.grid == (2, 1, 1)
    assert compare(result.outputs, reference(call)).why == ""


def test_vectors_are_as_wide_as_heads_and_rows_allow():
    out = outputs()
    for size, layout, wanted in (
        ((2, 64, 4, 96), "contiguous", 8), ((3, 20, 5, 12), "contiguous", 4), ((3, 20, 5, 12), "odd", 1),
        ((2, 8, 3, 2), "contiguous", 2), ((2, 37, 4, 8), "contiguous", 1),
    ):  # fmt: skip
        call = make("random", 0, tokens=2, heads=size, dtype=torch.bfloat16, layout=layout)
        assert vector_elements(call, out) == wanted, size
    raw = torch.zeros(3 * 3 * 20 + 8, dtype=torch.bfloat16)
    shifted = replace(out, k=raw[2:182].view(3, 3, 20))
    assert vector_elements(CALL, shifted) == 2


def test_wave_serves_dk_up_to_1024_and_auto_any():
    call = make("random", 0, tokens=1, heads=(1, 1032, 1, 8), dtype=torch.float32)
    with pytest.raises(Refused, match="up to 1024, got 1032"):
        run_call(call, arm="wave", board=NoLaunch())
    result = run_call(call, board=BOARD)
    assert result.arm == "chunked"
    assert compare(result.outputs, reference(call)).why == ""
    with pytest.raises(BadArgument, match="serial, chunked, wave"):
        run_call(call, arm="fast", board=NoLaunch())
