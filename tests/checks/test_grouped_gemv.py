"""The grouped GEMV: wrapper and kernels under the check engine, and lanes counted on the board."""

from dataclasses import replace

import pytest
import torch

from hipbook import boards
from hipbook.boards.base import Buffer
from hipbook.checks.built_once import BuiltOnce
from hipbook.checks.case import Status
from hipbook.checks.grouped_gemv import DTYPES, GemvCase, GemvChecks
from hipbook.errors import BadArgument, KernelFault
from hipbook.ops import grouped_gemv as ops
from hipbook.ops.grouped_gemv import ARMS, FORMATS, grouped_gemv
from hipbook.ops.launch import poison_
from hipbook.ops.quantize_q8k import quantize_q8k

CHECKS = GemvChecks()
CASES = [case for case in CHECKS.test_cases() if case not in CHECKS.reported()]
BOARD = boards.get(boards.DEFAULT)
ACT, WEIGHTS, IDS = GemvCase("spread", n=3, k=512).tensors()

SHIFTED = torch.zeros(WEIGHTS.numel() + 2, dtype=torch.uint8)[2:].view(WEIGHTS.shape)


def _inputs_first(case):
    """As the engine runs them: cases with the same inputs one after another."""
    return repr(case.inputs_key), case.id


@pytest.fixture(scope="module")
def results():
    board = BuiltOnce(BOARD)
    return {case: CHECKS.evaluate(case, board) for case in sorted(CASES, key=_inputs_first)}


def test_every_arm_is_within_the_bound(results):
    for case, result in results.items():
        assert result.status is Status.CORRECT, (case.id, result.reason)
        blocks = (8 if case.family == "each" else 1) * case.k // 256 * 292
        assert (result.values_compared, result.launches) == (8 * case.n + blocks, 2)
        assert result.exact_compared == blocks
        assert case.arm == "auto" or result.arms_run == (case.arm,)
    assert {(c.arm, c.weight_format, c.dtype, c.k) for c in CASES if c.arm != "auto"} == {
        (arm, form, dtype, k) for arm in ARMS for form in FORMATS for dtype in DTYPES
        for k in (256, 512, 768, 2048)
    }  # fmt: skip


@pytest.mark.slow
def test_reported_shapes_are_within_the_bound(capsys):
    """Ours in every format, dtype and shape, the baseline in both formats; `hipbook check` runs all."""
    reported = CHECKS.reported()
    assert {(c.arm, c.weight_format, c.dtype, c.n, c.k) for c in reported} == {
        (arm, form, dtype, *shape) for arm in ARMS for form in FORMATS for dtype in DTYPES
        for shape in ((512, 2048), (2048, 512), (768, 4096))
    }  # fmt: skip
    some = [case for case in reported if case.arm == "spread" or (case.dtype, case.n) == ("bf16", 512)]
    assert len(some) == 12 + 2
    worst = 0.0
    for case in some:
        result = CHECKS.evaluate(case, BOARD)
        assert result.status is Status.CORRECT, (case.id, result.reason)
        assert result.values_compared >= 8 * case.n
        worst = max(worst, result.max_error_over_bound)
    with capsys.disabled():
        print(f"\ngrouped GEMV, {len(some)} reported shapes, worst error over bound: {worst:.3f}")
    assert 0.2 < worst <= 1


@pytest.mark.parametrize("weight_format", FORMATS)
def test_live_lanes_of_a_wave(weight_format):
    for k, baseline in ((2048, 8), (512, 2)):
        act, weights, ids = GemvCase("spread", "one", weight_format, n=1, k=k).tensors()
        seen = {}
        for arm in ARMS:
            done = grouped_gemv(act, weights, ids, weight_format=weight_format, arm=arm, board=BOARD).dispatch
            assert done.grid[0] * done.block[0] == 8 * 32
            seen[arm] = done.counters.buffers["weights"].live_lanes / 8
        assert seen == {"superblock": baseline, "spread": 32}


@pytest.mark.parametrize("arm", ARMS)
def test_q6_k_rows_at_odd_multiples_of_two_bytes(arm):
    """By the rule of docs/emulator.md, with the board's checks on: no fault, and the same bytes wherever the
    weights begin. Reading 210-byte blocks always meets both kinds of address."""
    act, weights, ids = GemvCase(arm, weight_format="Q6_K", n=3, k=768).tensors()
    assert {(weights.data_ptr() + 210 * block) % 4 for block in range(4)} == {0, 2}
    asked = {"weight_format": "Q6_K", "arm": arm, "board": BOARD, "checks": True}
    results = []
    for start in (0, 2, 6, 126):
        raw = torch.zeros(weights.numel() + 128, dtype=torch.uint8)
        shifted = raw[start : start + weights.numel()].view(weights.shape).copy_(weights)
        assert shifted.data_ptr() % 4 == start % 4
        results.append(grouped_gemv(act, shifted, ids, **asked).out)
    assert all(torch.equal(results[0], other) for other in results[1:])
    odd = torch.zeros(weights.numel() + 1, dtype=torch.uint8)[1:].view(weights.shape)
    with pytest.raises(BadArgument, match="must be a multiple of 2"):
        grouped_gemv(act, odd, ids, **asked)


def test_blocks_given_are_not_quantized_again():
    values = grouped_gemv(ACT, WEIGHTS, IDS, weight_format="Q4_K", board=BOARD)
    blocks = quantize_q8k(ACT, board=BOARD).out
    given = grouped_gemv(blocks, WEIGHTS, IDS, weight_format="Q4_K", board=BOARD)
    assert values.quantized is not None
    assert given.quantized is None
    assert torch.equal(values.out, given.out)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"weight_format": "Q5_K"}, "weight_format"),
        ({"weight_format": "Q6_K"}, "weights.shape[3]"),
        ({"out_dtype": torch.float16}, "out_dtype"),
        ({"arm": "fast"}, "arm"),
        ({"arm": ["spread"]}, "arm"),
        ({"quantizer_arm": 5}, "quantizer_arm"),
        ({"weight_format": ["Q4_K"]}, "weight_format"),
        ({"out_dtype": "f32"}, "out_dtype"),
        ({"board": 5}, "board"),
        ({"checked": None}, "checked"),
        ({"grid": (1, 1, 1)}, "option grid"),
        ({"act": 5}, "act"),
        ({"out": torch.zeros(8, 3, dtype=torch.bfloat16)}, "out.dtype"),
        ({"out": torch.zeros(7, 3)}, "out.shape"),
        ({"out": torch.zeros(3, 8).T}, "out.stride()"),
        ({"out": torch.zeros(8, 3, requires_grad=True)}, "out"),
        ({"out": ACT.view(-1)[:24].view(8, 3)}, "out"),
        ({"expert_ids": IDS + 1}, "expert_ids[1]"),
        ({"expert_ids": IDS - 1}, "expert_ids[1]"),
        ({"expert_ids": IDS.long()}, "expert_ids.dtype"),
        ({"act": ACT[:7]}, "act.shape"),
        ({"act": ACT[:, :256]}, "act.shape"),
        ({"act": ACT.half()}, "act.dtype"),
        ({"weights": WEIGHTS[:, ::2]}, "weights.stride()"),
        ({"weights": SHIFTED}, "weights.data_ptr()"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(changes, argument):
    call = {"act": ACT, "weights": WEIGHTS, "expert_ids": IDS, "weight_format": "Q4_K"} | changes
    if argument == "expert_ids[1]":
        ids = IDS.clone()
        ids[1] = 8 if int(changes["expert_ids"][0]) > int(IDS[0]) else -1
        call["expert_ids"] = ids
    with pytest.raises(BadArgument) as caught:
        grouped_gemv(**{"board": BOARD, **call})
    assert caught.value.argument == argument
    assert caught.value.fix


@pytest.mark.parametrize("checked", [True, False])
def test_the_result_lands_in_out(checked):
    out = torch.full((8, 3), 7.0)
    result = grouped_gemv(ACT, WEIGHTS, IDS, weight_format="Q4_K", board=BOARD, out=out, checked=checked)
    assert result.out is out
    assert torch.equal(out, grouped_gemv(ACT, WEIGHTS, IDS, weight_format="Q4_K", board=BOARD).out)
    assert result.witness == (0x20 if checked else None)


def test_a_smaller_grid_does_all_results(monkeypatch):
    wanted = grouped_gemv(ACT, WEIGHTS, IDS, weight_format="Q4_K", board=BOARD)
    monkeypatch.setattr(ops, "MAX_WORKGROUPS", 2)
    again = grouped_gemv(ACT, WEIGHTS, IDS, weight_format="Q4_K", board=BOARD)
    assert again.dispatch.grid == (2, 1, 1)
    assert torch.equal(wanted.out, again.out)


def test_a_wrong_witness_and_an_unwritten_row_are_faults():
    class Broken:
        def __init__(self, name):
            self.name = name

        def __getattr__(self, name):
            return getattr(BOARD, name)

        def launch(self, code_object, kernel, grid, block, args, **options):
            done = BOARD.launch(code_object, kernel, grid, block, args, **options)
            for arg in args:
                if isinstance(arg, Buffer) and arg.name == self.name and kernel.startswith("grouped"):
                    arg.tensor[-1:] = -1 if self.name == "witness" else poison_(arg.tensor[-1:].clone())
            return done

    for name, told in (("witness", "wrote no witness"), ("out", "row 7 were never written")):
        with pytest.raises(KernelFault, match=told):
            grouped_gemv(ACT, WEIGHTS, IDS, weight_format="Q4_K", board=Broken(name))


def test_a_wrong_value_is_incorrect_and_named(monkeypatch):
    from hipbook.checks import grouped_gemv as module

    run = module.grouped_gemv

    def spoiled(*args, **options):
        result = run(*args, **options)
        out = result.out.clone()
        out[7, 9] *= 1.001
        return replace(result, out=out)

    monkeypatch.setattr(module, "grouped_gemv", spoiled)
    result = CHECKS.evaluate(GemvCase("spread"), BOARD)
    assert (result.status, result.ok) == (Status.INCORRECT, False)
    assert result.reason.startswith("out[7, 9]")
