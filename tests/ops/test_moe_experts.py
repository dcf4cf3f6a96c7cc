"""The experts of a layer along both paths: quantizations counted on the board, results equal to the byte."""

from dataclasses import replace

import pytest
import torch

from hipbook import boards
from hipbook.boards.recording import Recording
from hipbook.errors import BadArgument, KernelFault
from hipbook.notebooks.investigation import Investigation
from hipbook.ops.moe_experts import run_experts
from hipbook.records.schema import Status
from hipbook.studies import expert_path
from hipbook.studies.expert_path import PathRun, against_oracle, both, count_token, make_layer, same_bytes

BOARD = boards.get(boards.DEFAULT)
LAYER = make_layer(512, 256, 3, 0, experts=4)


@pytest.fixture(scope="module")
def paths() -> list[PathRun]:
    return both(LAYER, BOARD)


def test_gate_and_up_share_one_quantization(paths):
    """3 -> 2, as the board saw them: gate's and up's come before either product, down's after both."""
    names = [[done.kernel.split("_")[0] for done in path.dispatches] for path in paths]
    assert names == [
        ["quantize", "grouped", "quantize", "grouped", "quantize", "grouped"],
        ["quantize", "grouped", "grouped", "quantize", "grouped"],
    ]
    assert [len(path.quantizations) for path in paths] == [3, 2]
    reported, hoisted = expert_path.layer_rows(paths)
    assert reported["values read, B"] - hoisted["values read, B"] == 512 * 2  # x in bf16
    assert reported["blocks written, B"] - hoisted["blocks written, B"] == 2 * 292
    work = expert_path.instruction_rows(paths)
    less = [work[0][column] - work[1][column] for column in ("in quantize dispatches", "in all dispatches")]
    assert less[0] == less[1] == paths[0].dispatches[0].counters.totals["SQ_INSTS"]


def test_the_paths_agree_to_the_byte_and_with_the_oracle(paths):
    assert same_bytes(paths[0].result, paths[1].result) == 0
    for path in paths:
        compared, worst, why = against_oracle(path, LAYER)
        assert (compared, why) == (3 * (256 + 256 + 512), "")
        assert 0 < worst <= 1


def test_a_record_holds_every_launch_and_what_became_of_it(paths):
    run = Investigation("test", "?", {}, BOARD)
    told = expert_path.keep(run, paths, LAYER)
    assert told[0] == "reported: 3,072 values compared, all within their bounds"
    assert run.status is Status.PASSED
    record = run.record()
    assert len(record.witnesses) == 6 + 5
    assert {witness.arm for witness in record.witnesses} == {"wave", "spread"}
    assert len(record.code_objects) == 4  # the quantizer of bf16 and of f32, the GEMV of Q4_K and of Q6_K
    other = replace(LAYER, expert_ids=LAYER.expert_ids.flip(0))
    expert_path.keep(run, paths, other)
    assert run.status is Status.INCORRECT


def test_a_wrong_result_is_seen(paths):
    result = paths[1].result
    out = result.down.out.clone()
    out[2, 7] *= 1.001
    wrong = replace(paths[1], result=replace(result, out=out, down=replace(result.down, out=out)))
    assert 0 < same_bytes(paths[0].result, wrong.result) <= 4
    assert "down: " in against_oracle(wrong, LAYER)[2]
    blocks = result.gate.act_q8k.clone()
    blocks[0, 0, 9] ^= 1
    wrong = replace(paths[1], result=replace(result, gate=replace(result.gate, act_q8k=blocks)))
    assert against_oracle(wrong, LAYER)[2] == "gate: the quantized activations differ from the oracle's"


def test_a_token_of_the_reported_structure():
    """281 = 7 x 40 + 1 become 241; every one of them went to the board."""
    assert expert_path.structure(281, 40) == (7, 1)
    counted = [
        count_token(path, BOARD, layers=40, per_layer=7, outside=1) for path in ("reported", "hoisted")
    ]
    assert counted == [281, 241]
    with pytest.raises(BadArgument, match="less than gate, up and down"):
        expert_path.structure(80, 40)


def test_layers_that_do_not_fit_are_refused_before_anything_runs():
    experts, recording = LAYER.experts, Recording(BOARD)
    for change, argument in (
        ({"up": experts.up[:, :128]}, "up.shape"),
        ({"down": experts.down[:, :256]}, "down.shape"),
        ({"gate": experts.gate[:, :100], "up": experts.up[:, :100]}, "gate.shape[1]"),
        ({"gate": experts.gate.int()}, "gate.dtype"),
    ):
        with pytest.raises(BadArgument) as caught:
            run_experts(
                LAYER.x, replace(experts, **change), LAYER.expert_ids, path="hoisted", board=recording
            )
        assert caught.value.argument == argument
    for x, path, argument in (
        (LAYER.x.repeat(2, 1), "hoisted", "x.shape"),
        (LAYER.x, "raised", "path"),
        (LAYER.x.half(), "hoisted", "x.dtype"),
    ):
        with pytest.raises(BadArgument) as caught:
            run_experts(x, experts, LAYER.expert_ids, path=path, board=recording)
        assert caught.value.argument == argument
    assert recording.dispatches == []


def test_a_recording_keeps_what_ran_and_is_the_board_otherwise():
    recording = Recording(BOARD)
    assert (recording.name, recording.wave_size) == (BOARD.name, BOARD.wave_size)
    done = expert_path.run_path(LAYER, "hoisted", recording)
    assert [a is b for a, b in zip(recording.dispatches, done.dispatches, strict=True)] == [True] * 5
    assert len(recording.take()) == 5
    assert recording.take() == []
    with pytest.raises(KernelFault):  # a launch that ends in a fault is none
        run_experts(
            LAYER.x,
            LAYER.experts,
            LAYER.expert_ids,
            path="hoisted",
            board=recording,
            max_wave_instructions=10,
        )
    assert recording.dispatches == []
    assert torch.equal(done.result.out, expert_path.run_path(LAYER, "reported", BOARD).result.out)
