"""The quantizer under the check engine, for real; and that the engine sees a wrong byte."""

from dataclasses import replace

import pytest
import torch

from hipbook import boards
from hipbook.checks.built_once import BuiltOnce
from hipbook.checks.case import Status
from hipbook.checks.quantize_q8k import KS, ROWS, QuantizeCase, QuantizeChecks, first_difference
from hipbook.ops.quantize_q8k import ARMS, DTYPES
from hipbook.oracle.quantize_q8k import edge_blocks, non_finite_blocks, reference

CHECKS = QuantizeChecks()
CASES = [case for case in CHECKS.test_cases() if case not in CHECKS.many_rows()]


def _inputs_first(case):
    """As the engine runs them: cases with the same inputs one after another."""
    return repr(case.inputs_key), case.id


@pytest.fixture(scope="module")
def results():
    board = BuiltOnce(boards.get(boards.DEFAULT))
    return {case: CHECKS.evaluate(case, board, threads=1) for case in sorted(CASES, key=_inputs_first)}


def test_every_arm_is_byte_exact(results, capsys):
    blocks = {}
    for case, result in results.items():
        assert result.status is Status.CORRECT, (case.id, result.reason)
        assert result.values_compared == case.rows * case.k // 256 * 292
        assert case.arm == "auto" or result.arms_run == (case.arm,)
        key = case.arm, case.family
        blocks[key] = blocks.get(key, 0) + result.values_compared // 292
    with capsys.disabled():
        print(f"\nQ8_K blocks compared, all bytes equal: {blocks}")
    assert min(blocks[arm, "random"] for arm in ARMS) >= 3 * 300


def test_the_test_level_holds_what_it_promises():
    many = [(case.arm, case.x) for case in CHECKS.test_cases() if case.rows == 70_000]
    assert sorted(many) == sorted((arm, x) for arm in ARMS for x in DTYPES)
    for arm in ARMS:
        shapes = {(c.x, c.k, c.rows) for c in CASES if (c.arm, c.family) == (arm, "random")}
        assert shapes == {(x, k, rows) for x in DTYPES for k in KS for rows in ROWS}
    for dtype in DTYPES.values():  # 64 blocks a case
        assert max(len(list(edge_blocks(dtype))), len(list(non_finite_blocks(dtype)))) <= 64
    assert len({case.id for case in CASES}) == len(CASES)
    assert {c.layout for c in CASES if c.family == "edges"} == {"contiguous", "padded", "odd"}


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_more_rows_than_grid_y_or_z_could_have(arm):
    """In bf16; `hipbook check` runs every dtype."""
    (case,) = [case for case in CHECKS.many_rows() if (case.arm, case.x) == (arm, "bf16")]
    assert (case.rows, case.k) == (70_000, 256)
    result = CHECKS.evaluate(case, boards.get(boards.DEFAULT))
    assert (result.status, result.values_compared) == (Status.CORRECT, 70_000 * 292), result.reason


@pytest.mark.parametrize("byte", [0, 3, 4, 259, 260, 291])
def test_one_wrong_byte_is_incorrect_and_named(byte, monkeypatch):
    from hipbook.checks import quantize_q8k as module

    case = QuantizeCase("wave", "random", rows=2, k=512)

    def spoiled(x, **options):
        result = run(x, **options)
        wrong = result.out.clone()
        wrong[1, 1, byte] ^= 1
        return replace(result, out=wrong)

    run = module.quantize_q8k
    monkeypatch.setattr(module, "quantize_q8k", spoiled)
    result = CHECKS.evaluate(case, boards.get(boards.DEFAULT))
    assert (result.status, result.ok) == (Status.INCORRECT, False)
    field = "d" if byte < 4 else "qs" if byte < 260 else "bsums"
    assert f"row 1 block 1 {field}" in result.reason


def test_a_difference_of_shape_is_one():
    wanted = reference(torch.ones(2, 512))
    assert first_difference(wanted, wanted) == ""
    assert "the oracle's" in first_difference(wanted[:1], wanted)
