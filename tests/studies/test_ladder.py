"""The ladder on the emulated board: what follows from shapes is what is counted, rung by rung."""

import pytest

from hipbook import boards
from hipbook.errors import BadArgument
from hipbook.ops import models
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_ladder import ALL_ARMS, LADDER, RUNGS
from hipbook.studies import ladder
from hipbook.studies.arms import run_arms
from hipbook.studies.profile import step_call

MODEL = models.get("Qwen3-0.6B")


@pytest.fixture(scope="module")
def runs():
    return ladder.climb(MODEL, 37, boards.get(boards.DEFAULT), dtype="bf16", seed=1)


def test_rungs_stand_beside_the_arms_that_auto_knows():
    assert not set(RUNGS) & set(ARMS)
    assert LADDER[0] == "online"
    assert LADDER[-1] == "decode"
    assert set(LADDER[1:-1]) == set(RUNGS)
    assert len({arm.witness for arm in ALL_ARMS.values()}) == len(ALL_ARMS)


def test_counts_are_those_foretold(runs):
    for run, row in zip(runs, ladder.table(runs), strict=True):
        assert row["barriers per wave"] == row["foretold"]
        assert run.kv_bytes == run.expected.kv_bytes
        assert run.counters.buffers["k_cache"].live_lanes == run.expected.k_live_lanes
        assert run.result.witness == ALL_ARMS[run.arm].witness
    barriers = {row["arm"]: row["barriers per wave"] for row in ladder.table(runs)}
    assert barriers == {"online": 408, "online_shuffle": 149, "online_wide": 149, "online_tile": 10,
                        "decode": 1, "decode_gqa": 1}  # fmt: skip


def test_another_head_size_holds_too():
    """Head size 256: a row takes all 256 threads one element each."""
    for run in run_arms(
        step_call(models.get("Qwen3.5-4B"), [19], seed=2), LADDER, boards.get(boards.DEFAULT)
    ):
        assert run.comparison.passed
        assert run.counters.buffers["k_cache"].live_lanes == run.expected.k_live_lanes


def test_shares_add_up_and_the_answer_names_the_change(runs):
    rows = ladder.shares(runs)
    assert [row["arm"] for row in rows] == list(ladder.ARMS[1:])
    for name in ladder.QUANTITIES:
        assert sum(row[f"{name}, %"] for row in rows) == pytest.approx(100, abs=0.3)
    by_arm = {row["arm"]: row for row in rows}
    assert by_arm["online_wide"]["idle lanes, %"] == by_arm["decode_gqa"]["K+V bytes, %"] == 100
    told = " ".join(ladder.answer(runs))
    assert "idle lanes: most go with online_wide" in told
    assert "1,536 to 0, 100 %" in told
    assert len(ladder.answer(runs)) == len(ladder.QUANTITIES)


def test_instructions_add_up(runs):
    for run, row in zip(runs, ladder.instructions(runs), strict=True):
        parts = sum(
            value for name, value in row.items() if name not in ("arm", "instructions", "active lanes")
        )
        assert parts == pytest.approx(row["instructions"], abs=0.5)
        assert row["active lanes"] <= 32
        assert run.counters.totals["SQ_INSTS"] > 0


def test_nothing_is_counted_for_a_wrong_result(monkeypatch):
    class Wrong:
        passed, why = False, "row 3 is off"

    class Run:
        arm, comparison = "online_tile", Wrong()

    monkeypatch.setattr(ladder, "run_arms", lambda *_, **__: [Run()])
    with pytest.raises(BadArgument, match="online_tile: row 3 is off"):
        ladder.climb(MODEL, 5, boards.get(boards.DEFAULT), dtype="bf16", seed=0)
