"""The checks of `make test`, for real: the covering design and every family for every arm on the
default board, with floors under what they must have compared (T1)."""

from dataclasses import replace

import pytest

from hipbook import boards, checks
from hipbook.checks.attention import FACTORS, TILED_FAMILIES, PagedAttentionChecks
from hipbook.checks.case import Status
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_ladder import RUNGS
from hipbook.oracle.paged_attention import FAMILIES

CASES = PagedAttentionChecks().test_cases()


@pytest.fixture(scope="module")
def results():
    with checks.progress() as told:
        return checks.run_checks(CASES, boards.DEFAULT, on_result=told)


def test_design_and_families_hold_on_the_default_board(results, capsys):
    summary = checks.summarise(results)
    with capsys.disabled():
        print(f"\n{PagedAttentionChecks().design()}\n{summary}")
        seen = PagedAttentionChecks().coverage(CASES)
        for name, values in seen.items():
            print(f"  {name}: {', '.join(str(value) for value in values)}")
    assert summary.passed, [(r.case_id, r.status, r.reason) for r in summary.failed]
    assert summary.cases >= 250
    assert summary.values_compared >= 4_500_000
    assert summary.exact_compared >= 100_000
    assert summary.worst_row_nmse <= 5e-4
    assert summary.worst_error_over_bound <= 1
    assert {0, 1, 255, 256, 257} <= set(seen["seq_len"])
    assert {1, 16, 17, 544, 1056, 1568} <= set(seen["block_size"])
    assert {(-1, -1), (5, -1), (3, 2)} <= set(seen["window"])
    assert {"decode", "chunked", "prefill", "no keys", "no tokens"} == set(seen["row kind"])
    assert set(range(1, 17)) == set(seen["ratio"])
    assert seen["block table"] == ["random"]
    assert len(seen["dtypes q/kv/out"]) >= 24  # of 27; the design covers pairs
    assert set(summary.refused_launches) == {"alignment", "head_dim", "block_size"}


def test_every_arm_compared_values_in_every_family(results):
    compared = {(r.arm, r.case_id.split("/")[2]) for r in results if r.values_compared}
    assert compared == {(arm, family) for arm in (*FACTORS["arm"], *RUNGS, "auto") for family in FAMILIES} | {
        ("tiled_ref", family) for family in TILED_FAMILIES
    }
    assert set(PagedAttentionChecks.arms) == {*FACTORS["arm"], *RUNGS, "tiled_ref", "auto"}


def test_only_the_refusals_of_the_contract_happen(results):
    refused = [r for r in results if r.refused]
    picky = {name for name, arm in ARMS.items() if arm.vectors or arm.head_dims}
    assert {r.arm for r in refused} == picky | {"tiled_ref"}
    assert [(r.case_id.split("/")[2], r.refused) for r in refused if r.arm == "tiled_ref"] == [
        ("block_sizes", {"block_size": 1})
    ]
    refused = [r for r in refused if r.arm != "tiled_ref"]
    for r in refused:
        assert r.case_id.split("/")[2] in ("misaligned", "head_dims")
    wholly = [r for r in results if r.status is Status.REFUSED]
    assert len(wholly) == 6 * sum(1 for arm in ARMS.values() if arm.head_dims)  # six head sizes each


def test_witnesses_name_the_arm_that_was_asked_for(results):
    for r in results:
        if r.arm != "auto" and r.status is Status.CORRECT:
            assert r.arms_run == (r.arm,)
    auto = {arm for r in results if r.arm == "auto" for arm in r.arms_run}
    assert auto >= {"online", "decode_gqa"}


def test_results_do_not_depend_on_run_process_or_wave_order(results):
    """Some cases again: in this process, and with the waves of a workgroup in another order."""
    some = CASES[::17]
    first = {r.case_id: r for r in results}
    for options in ({}, {"wave_order_seed": 5}):
        for again in checks.run_checks(some, boards.DEFAULT, workers=0, **options):
            assert replace(again, seconds=0) == replace(first[again.case_id], seconds=0)


def test_one_case_by_its_id():
    case = checks.parse_case("paged_attention/decode_gqa/few_keys/bf16-bf16-bf16/d128/r2/decode/s0")
    (result,) = checks.run_checks([case])
    assert (result.status, result.values_compared) == (Status.CORRECT, 14 * 4 * 128)
