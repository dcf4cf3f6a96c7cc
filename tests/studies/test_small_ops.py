"""Notebooks 13 and 14: what they foretell holds on the board at other sizes, and they see what is wrong."""

from dataclasses import replace

import pytest
import torch
from measured_records import GPU, a_record

from hipbook import boards, records
from hipbook.boards.base import Dispatch
from hipbook.errors import BadArgument
from hipbook.measure.counts import CountWord
from hipbook.notebooks.investigation import Investigation
from hipbook.ops import models
from hipbook.oracle import quantize_q8k as oracle
from hipbook.records.schema import Fact, Status
from hipbook.studies import gpu_figures, op_runs, post_conv, quantizer, tpot

BOARD = boards.get(boards.DEFAULT)


@pytest.mark.parametrize(("k", "dtype"), [(256, "f32"), (2048, "bf16"), (34_816, "f16")])
def test_what_sizes_foretell_of_the_quantizer_is_counted(k, dtype):
    run = Investigation("test", "?", {}, BOARD)
    expected = quantizer.expectation(tuple(quantizer.ARMS), k, dtype, 32)
    runs = quantizer.one_row(tuple(quantizer.ARMS), k, dtype, BOARD, 3)
    rows = op_runs.outcome(run, expected, quantizer.counted(runs), quantizer.QUANTITIES)
    assert len(rows) == 15
    assert {row["verdict"] for row in rows} == {"COUNTS_EQUAL"}
    op_runs.keep(run, runs)
    assert run.status is Status.PASSED


@pytest.mark.parametrize(("tokens", "dtype"), [(1, "bf16"), (3, "f32"), (9, "bf16")])
def test_what_sizes_foretell_of_post_conv_is_counted(tokens, dtype):
    run = Investigation("test", "?", {}, BOARD)
    heads = post_conv.heads_of(models.get("Qwen3.6-A3B"))
    expected = post_conv.expectation(tuple(post_conv.ARMS), heads, tokens, dtype, 32)
    runs = post_conv.decode_step(tuple(post_conv.ARMS), heads, tokens, dtype, BOARD, 3)
    rows = op_runs.outcome(run, expected, post_conv.counted(runs), post_conv.QUANTITIES)
    assert len(rows) == 15
    assert {row["verdict"] for row in rows} == {"COUNTS_EQUAL"}
    with pytest.raises(BadArgument, match="no GDN heads"):
        post_conv.heads_of(models.get("Qwen3-0.6B"))


def test_chunked_is_held_to_serial_only_where_both_ran():
    rows, runs = post_conv.telling_inputs(["serial", "chunked"], BOARD, 0, 17)
    assert len(runs) == 2 * (3 * 3 * 2 + 2)
    assert {row[post_conv.DIFFER] for row in rows} == {0}
    run = Investigation("test", "?", {}, BOARD)
    post_conv.keep_identity(run, rows)
    assert "COUNTS_EQUAL" in run.summary()
    post_conv.keep_identity(run, [{**rows[0], post_conv.DIFFER: 3}])
    assert run.status is Status.INCORRECT
    alone, _ = post_conv.telling_inputs(["wave"], BOARD, 0, 17)
    other = Investigation("test", "?", {}, BOARD)
    post_conv.keep_identity(other, alone)
    assert other.summary() == ""


def test_a_wrong_byte_makes_the_run_and_its_record_incorrect(monkeypatch):
    x = oracle.make("random", 0, rows=1, k=256, dtype=torch.float32)
    wanted = oracle.reference(x)
    wanted[0, 0, 4] ^= 1
    monkeypatch.setattr(oracle, "reference", lambda values: wanted)
    one = quantizer.run_arm("wave", x, BOARD, "spoiled")
    assert one.correctness.word is CountWord.INCORRECT
    assert "qs[0]" in one.correctness.detail
    run = Investigation("test", "?", {}, BOARD)
    op_runs.keep(run, [one])
    assert run.status is Status.INCORRECT
    other = Investigation("test", "?", {}, BOARD)
    op_runs.keep(other, [replace(one, why="", witness=0x10)])
    assert other.status is Status.INCORRECT  # another arm's witness


def test_a_difference_between_expectation_and_count_is_told():
    run = Investigation("test", "?", {}, BOARD)
    counted = {"wave": {"live lanes": 31}}
    (row,) = op_runs.outcome(run, [{"arm": "wave", "live lanes": 32}], counted, ["live lanes"])
    assert row["verdict"] == "COUNTS_DIFFER"
    assert "predicted COUNTS_EQUAL" in run.summary()


def test_a_board_that_does_not_count_is_told():
    x = oracle.make("random", 0, rows=1, k=256, dtype=torch.float32)
    one = quantizer.run_arm("wave", x, BOARD, "x")
    without = replace(one, dispatch=replace(one.dispatch, counters=None))
    assert isinstance(without.dispatch, Dispatch)
    with pytest.raises(BadArgument, match="does not count"):
        without.live_lanes("x")


def test_tpot_is_predicted_from_notebook_12s_table():
    hoisted, free = tpot.predicted("QuantizeQ8KK", {"hoisted": 281 / 241, "free": float("inf")})
    assert hoisted["TPOT ms now"] == pytest.approx(88.7, abs=0.05)
    assert hoisted["TPOT ms now"] - hoisted["TPOT ms predicted"] == pytest.approx(21.25 * 40 / 281, abs=0.01)
    assert free["kernel ms then"] == 0
    assert free["TPOT ms predicted"] == pytest.approx(88.7 - 21.25, abs=0.05)
    assert post_conv.chunking() == pytest.approx(468.6 / 84.1)
    assert quantizer.cooperative_factor() == pytest.approx(7.8811 / 0.3426)
    for pattern in ("NoSuchKernel", "vt::"):
        with pytest.raises(BadArgument, match="kernels of the table match"):
            tpot.predicted(pattern, {"free": float("inf")})


def test_the_newest_gpu_record_with_figures_of_the_operation_is_shown(tmp_path):
    assert gpu_figures.told("quantize_q8k", tmp_path) == (gpu_figures.NONE, ())
    assert gpu_figures.told("quantize_q8k", tmp_path / "absent") == (gpu_figures.NONE, ())

    def put(board: str, finished: str, subject: str, value: float, **changes: object) -> None:
        fact = Fact(subject=subject, quantity="time of one launch", value=value, unit="us", kind="measured")
        record = a_record(**{"board": {**GPU, "name": board}, "verdicts": [], "facts": [fact], **changes})
        times = record.times.model_copy(update={"finished": finished})
        records.write(
            record.model_copy(update={"times": times}), tmp_path / board / f"{finished[:4]}.record.json"
        )

    put("card-1", "2026-01-02T00:00:00+00:00", "quantize_q8k wave, 1 x 4096", 2.5)
    put("card-2", "2027-01-02T00:00:00+00:00", "quantize_q8k wave, 1 x 4096", 1.5)
    put("card-1", "2028-01-02T00:00:00+00:00", "gdn_post_conv wave", 9.0)
    said, rows = gpu_figures.told("quantize_q8k", tmp_path)
    assert said == "measured on card-2, gfx1200, 2027-01-02"
    assert [(row["subject"], row["value"], row["unit"]) for row in rows] == [
        ("quantize_q8k wave, 1 x 4096", 1.5, "us")
    ]
