"""The same function by every arm; what vLLM's arithmetic changes, each change switched off."""

import pytest

from hipbook import boards
from hipbook.ops import models
from hipbook.studies import equivalence

BOARD = boards.get(boards.DEFAULT)


@pytest.fixture(scope="module")
def call():
    return equivalence.batch(models.get("Qwen3-0.6B"), [6, 36, 0], dtype="bf16", seed=1)


def test_every_arm_computes_the_same_function(call):
    outcomes = equivalence.run_all(call, BOARD, out_dtype="f32")
    rows = equivalence.table(outcomes)
    assert [row["arm"] for row in rows] == list(equivalence.ARMS)
    for row in rows:
        assert row["result"] == "CORRECT"
        assert row["values"] == 3 * 16 * 128
        assert row["held to equality"] == 16 * 128  # the request without keys
        assert row["within its derived bound"]
        assert row["within 0.005 of the row's largest"]
    pairs = {row["arms"]: row for row in equivalence.apart(outcomes)}
    assert len(pairs) == 6
    assert all(row["within both bounds"] for row in pairs.values())
    assert pairs["decode, decode_gqa"]["equal bits"] == 3 * 16 * 128
    assert (
        pairs["online, decode"]["largest difference"]
        < 1e-5
        < pairs["online, tiled_ref"]["largest difference"]
    )


def test_each_difference_is_switched_off(call):
    outcomes = equivalence.variants(call, BOARD)
    rows = {row["tiled_ref"]: row for row in equivalence.variant_table(outcomes, call)}
    error = {name: row["error of the row's largest"] for name, row in rows.items()}
    assert error["as in vLLM"] > 1e-4 > 1e-5 > error["probabilities not rounded"]
    assert rows["no 1e-10"]["values that differ"] == 0
    assert rows["maximum over all keys"]["values that differ"] > 0
    empty = {name: row["row without keys"] for name, row in rows.items()}
    assert empty == {"as in vLLM": "0", "probabilities not rounded": "0", "maximum over all keys": "0",
                     "no 1e-10": "NaN", "all three off": "NaN"}  # fmt: skip


def test_a_wrong_arm_is_not_equivalent(call, monkeypatch):
    right = equivalence.run_call

    def wrong(call, *, arm, board):
        result = right(call, arm=arm, board=board)
        result.out[1, 3, 5] += 0.1 if arm == "decode" else 0
        return result

    monkeypatch.setattr(equivalence, "run_call", wrong)
    outcomes = equivalence.run_all(call, BOARD, out_dtype="f32")
    assert [row["result"] for row in equivalence.table(outcomes)].count("INCORRECT") == 1
    assert not all(row["within both bounds"] for row in equivalence.apart(outcomes))
