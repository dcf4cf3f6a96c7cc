"""The studies of notebooks 01 to 04 and 10: tables say what the board counted, and notice when it did not."""

from dataclasses import replace

import pytest

from hipbook import boards
from hipbook.errors import BadArgument, BuildError
from hipbook.ops import models
from hipbook.studies import builds, family_runs, gap, profile, worked

ARMS = ["online", "decode", "decode_gqa"]


@pytest.fixture(scope="module")
def board():
    return boards.get("gfx1200-emu")


@pytest.fixture(scope="module")
def shape():
    return models.get("Qwen3-0.6B")


@pytest.fixture(scope="module")
def steps(shape, board):
    return gap.decode_steps(shape, ARMS, [6, 7], board, dtype="bf16", seed=0)


def test_totals_add_the_steps_up(steps):
    rows = {row["arm"]: row for row in gap.totals(steps)}
    floor = 2 * (6 + 7) * 8 * 128 * 2  # K and V, keys, kv heads, D, bytes of bf16
    assert {arm: rows[arm]["K+V bytes"] for arm in ARMS} == {
        "online": 2 * floor,
        "decode": 2 * floor,
        "decode_gqa": floor,
    }
    assert all(row["values"] == 2 * 16 * 128 and row["result"] == "CORRECT" for row in rows.values())
    assert rows["online"]["live lanes"] == "32 of 128"


def test_classes_hold_every_instruction_once(steps):
    for runs in steps.values():
        for run in runs:
            assert sum(profile.classes(run).values()) == run.counters.totals["SQ_INSTS"]


def test_per_token_is_labelled_a_product(steps):
    (row, *_) = gap.per_token(steps, 28)
    assert row["x 28 layers (not counted)"] == 28 * row["K+V bytes a token and layer"]


def test_an_unexpected_count_gets_its_word(shape, board, steps):
    foretold = gap.expectation(shape, ["decode"], 7, "bf16", 32)
    slopes = [{"arm": "decode", "barriers per key": 0}]
    last = {"decode": steps["decode"][-1:]}
    assert {row["verdict"] for row in gap.outcome(foretold, last, slopes)} == {"COUNTS_EQUAL"}
    foretold[0]["K+V bytes"] += 1
    words = {row["quantity"]: row["verdict"] for row in gap.outcome(foretold, last, slopes)}
    assert words == {
        "barriers per key": "COUNTS_EQUAL",
        "live lanes": "COUNTS_EQUAL",
        "K+V bytes": "COUNTS_DIFFER",
    }


def test_reported_times_and_counts_share_no_column(steps):
    for row in gap.beside(gap.reported(), steps):
        assert (row["us per call (reported)"] is None) != (row["wave instructions per call"] is None)


def test_two_runs_give_the_same_rows(shape, board, steps):
    again = gap.decode_steps(shape, ARMS, [6, 7], board, dtype="bf16", seed=0)
    assert gap.instructions(again) == gap.instructions(steps)
    assert gap.totals(again) == gap.totals(steps)


def test_pairs_and_their_verdicts(board):
    ((before, after),) = profile.pairs("Qwen3-0.6B", "online", "decode_gqa", [20], board)
    words = {verdict.quantity: str(verdict) for verdict in profile.compare_counts(before, after)["stable"]}
    assert words["K and V bytes asked for"] == "COUNTS_DIFFER(K and V bytes asked for, 2)"
    same = profile.compare_counts(before, before)
    assert {str(v.word) for group in same.values() for v in group} == {"COUNTS_EQUAL"}


def test_the_oracle_notices_each_kind_of_damage(board):
    rows = family_runs.damage(board, "decode", head_dim=64, ratio=2, dtype="f32", seed=3)
    assert len(rows) == 7
    assert all(row["verdict"] == row["predicted"] for row in rows)


def test_a_failed_case_makes_its_row_incorrect():
    case = family_runs.cases(["decode"], head_dim=128, ratio=2, dtype="bf16", seed=0)[0]
    good = family_runs.CheckResult(
        case.id, "paged_attention", "decode", family_runs.Status.CORRECT, True, values_compared=4
    )
    bad = replace(good, status=family_runs.Status.FAULT, ok=False, reason="a fault")
    nothing = replace(good, values_compared=0)
    for results, word, why in (
        ([good], "CORRECT", "4 values"),
        ([good, bad], "INCORRECT", "a fault"),
        ([nothing], "INCORRECT", "nothing was compared"),
    ):
        (row,) = family_runs.rows([(case, result) for result in results])
        assert row["result"] == word
        assert why in row["why"]


def test_worked_examples_withhold_their_words():
    control, flag, two = worked.examples()
    assert control.verdict.startswith("INCONCLUSIVE(few_runs)")
    assert "repetition 1 (31.14) is a severe outlier" in control.verdict
    assert "ratio 3.634" in flag.verdict
    assert two.verdict.startswith("refused: ")


def test_static_facts_of_the_decode_arms():
    (job,) = builds.jobs("gfx1200", 128, 2, "bf16", ("decode",))
    row = builds.facts(job, builds.build(job.source, job.arch, job.flags))
    assert (row["scratch bytes"], row["wave"], row["D"]) == (0, 32, 128)
    assert 16 < row["VGPRs"] < 256


def test_the_compiler_is_quoted(monkeypatch):
    assert "blokIdx" in builds.compiler_says("gfx1200")
    monkeypatch.setattr(builds, "_MISSPELT", builds._MISSPELT.replace("blokIdx", "blockIdx"))
    with pytest.raises(BuildError, match="compiled without an error"):
        builds.compiler_says("gfx1200")


def test_an_unknown_model_is_named():
    with pytest.raises(BadArgument, match="Qwen9"):
        profile.sweep("Qwen9", ["decode"], [4], boards.get("gfx1200-emu"))


def test_simulated_worlds_earn_their_words():
    words = {
        (row["simulated world"], row["true ratio"]): row["verdict"]
        for row in worked.judged(worked.simulated(0))
    }
    assert words["run-to-run 1 %, within 0.5 %", "1.05"] == "FASTER"
    assert words["run-to-run 1 %, within 0.5 %", "1.00"] == "EQUIVALENT"
    assert words["bimodal clocks, inside runs", "1.05"] == "INCONCLUSIVE(bimodal)"


def test_a_record_without_the_arm_is_said_and_a_missing_file_refused():
    record = "data/measured/10_paged_attention_gap.record.json"
    assert "COUNTS_DIFFER(barriers per key, 11 to 0)" in worked.arms_of_record(record, "online", "decode")
    assert "holds nothing about split_kv" in worked.arms_of_record(record, "online", "split_kv")
    assert "no record was named" in worked.arms_of_record("", "online", "decode")
    with pytest.raises(BadArgument, match="no such file"):
        worked.arms_of_record("data/measured/none.json", "online", "decode")
