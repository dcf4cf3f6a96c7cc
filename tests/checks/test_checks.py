"""The engine: statuses, counts, refusals, dead workers, reports; on a board of torch code."""

import json
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace

import dying_check
import pytest
from fake_board import FakeBoard

from hipbook import boards, checks
from hipbook.checks.attention import FACTORS, AttentionCase, PagedAttentionChecks
from hipbook.checks.case import CheckResult, Status
from hipbook.checks.runner import _grouped
from hipbook.checks.workers import run_processes
from hipbook.errors import BadArgument, HipbookError, Refused
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_dispatch import FLAG
from hipbook.oracle.paged_attention import FAMILIES

SMALL = [AttentionCase(arm, f) for arm in ("online", "decode", "decode_gqa") for f in ("few_keys", "strides")]


def run(case: AttentionCase, *faults: str) -> CheckResult:
    (result,) = checks.run_checks([case], FakeBoard(*faults))
    return result


@pytest.mark.parametrize("arm", ["online", "decode", "decode_gqa", "auto"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_board_passes_every_family(family, arm, monkeypatch):
    monkeypatch.setenv(FLAG, "1")
    result = run(AttentionCase(arm, family, head_dim=64 if family == "head_dims" else 128))
    assert result.ok, result.reason
    assert result.status is Status.CORRECT
    assert result.values_compared > 0
    assert result.max_error_over_bound <= 1
    if family == "misaligned":
        assert result.refused == ({"alignment": 6} if arm in ("decode", "decode_gqa") else {})
        if arm == "auto":
            assert set(result.arms_run) == {"online", "decode_gqa"}
    else:
        assert not result.refused


@pytest.mark.parametrize(
    ("fault", "family"),
    [("drops_oldest_key", "windows"), ("identity_table", "table_padding"), ("no_max", "rounding_extremes")],
)
def test_wrong_values_are_incorrect(fault, family):
    result = run(AttentionCase("online", family), fault)
    assert (result.status, result.ok) == (Status.INCORRECT, False)
    assert "launch" in result.reason


@pytest.mark.parametrize("fault", ["wrong_arm", "skips_a_row", "writes_padding"])
def test_misbehaviour_is_a_fault(fault):
    result = run(AttentionCase("decode", "mixed_batch"), fault)
    assert (result.status, result.ok) == (Status.FAULT, False)


def test_an_unexpected_exception_is_a_fault_of_its_case():
    class Broken(FakeBoard):
        def launch(self, *args, **options):
            raise ZeroDivisionError("oops")

    (result,) = checks.run_checks([AttentionCase("online", "few_keys")], Broken())
    assert (result.status, result.reason) == (Status.FAULT, "ZeroDivisionError: oops")


@pytest.mark.parametrize("d", [32, 80, 96, 100, 160, 192])
def test_family_8_is_refused_by_name_and_that_is_allowed(d):
    result = run(AttentionCase("decode", "head_dims", head_dim=d))
    assert (result.status, result.ok, result.refused) == (Status.REFUSED, True, {"head_dim": 2})
    assert str(d) in result.reason
    assert run(AttentionCase("online", "head_dims", head_dim=d)).status is Status.CORRECT


def test_any_other_refusal_fails(monkeypatch):
    result = run(AttentionCase("decode", "few_keys", head_dim=96))
    assert (result.status, result.ok) == (Status.REFUSED, False)
    result = run(AttentionCase("decode_gqa", "few_keys", ratio=17))
    assert (result.status, result.ok, result.refused) == (Status.REFUSED, False, {"ratio": 2})

    def refuse(*args, **options):
        raise Refused("not today")

    monkeypatch.setattr("hipbook.checks.attention.run_call", refuse)
    result = run(AttentionCase("online", "few_keys"))
    assert (result.ok, result.refused) == (False, {"unexplained": 2})


def test_one_disallowed_refusal_among_right_launches_fails(monkeypatch):
    from hipbook.checks import attention

    right, seen = attention.run_call, []

    def sometimes(*args, **options):
        seen.append(1)
        if len(seen) == 2:
            raise Refused("not this one")
        return right(*args, **options)

    monkeypatch.setattr(attention, "run_call", sometimes)
    result = run(AttentionCase("online", "strides"))
    assert (result.status, result.ok) == (Status.REFUSED, False)
    assert result.values_compared > 0


def test_comparing_nothing_fails():
    assert not checks.summarise([]).passed
    assert checks.summarise([]).why == "no case was run"
    skipped = run(AttentionCase("decode", "head_dims", head_dim=96))
    assert skipped.ok
    summary = checks.summarise([skipped])
    assert not summary.passed
    assert "nothing was compared" in str(summary)


def test_a_case_without_owned_rows_is_incorrect(monkeypatch):
    monkeypatch.setattr(AttentionCase, "calls", lambda self: checks_empty_calls())
    result = run(AttentionCase("online", "few_keys", seed=99))
    assert (result.status, result.reason) == (Status.INCORRECT, "nothing was compared")


def checks_empty_calls():
    from hipbook.oracle.paged_attention import make

    return make("empty_rows", 0)[2:]


def test_values_compared_are_what_the_shapes_say():
    """7 + 7 decode rows of few_keys, 4 heads, D 128."""
    assert run(AttentionCase("online", "few_keys")).values_compared == 14 * 4 * 128


def test_two_runs_agree_in_everything_but_time():
    once, again = (checks.run_checks(SMALL, FakeBoard()) for _ in range(2))
    assert [replace(r, seconds=0) for r in once] == [replace(r, seconds=0) for r in again]
    assert [r.case_id for r in once] == [c.id for c in SMALL]


def test_inputs_are_shared_but_out_dtypes_kept_apart():
    cases = [AttentionCase("online", "misaligned", out=out) for out in ("bf16", "f16", "f32")]
    assert len(_grouped(cases)) == 1
    for result in checks.run_checks(cases, FakeBoard()):
        assert result.ok, result.reason
    ties = [AttentionCase("online", "rounding_extremes", out=out) for out in ("bf16", "f16")]
    assert len(_grouped(ties)) == 2


def test_ids_name_cases():
    for case in PagedAttentionChecks().test_cases():
        assert checks.parse_case(case.id) == case
    good = AttentionCase("online", "windows").id
    for bad in (
        good + "x",
        "a/b",
        good.replace("online", "offline"),
        good.replace("bf16", "bf8", 1),
        good + "/",
    ):
        with pytest.raises(BadArgument):
            checks.parse_case(bad)


def test_the_test_level_holds_what_it_promises():
    cases = checks.select("test", operation="paged_attention")
    at_bf16 = {(c.arm, c.family) for c in cases if (c.q, c.kv, c.out) == ("bf16",) * 3}
    assert at_bf16 >= {(arm, family) for arm in (*FACTORS["arm"], "auto") for family in FAMILIES}
    assert {c.ratio for c in cases if c.arm == "decode_gqa"} >= {1, 2, 3, 4, 5, 6, 7, 8, 16}
    assert len({c.id for c in cases}) == len(cases)


def test_select_narrows_and_multiplies():
    cases = checks.select("test", arms=["decode"], families=["windows"], seeds=3)
    assert {(c.arm, c.family) for c in cases} == {("decode", "windows")}
    assert {c.seed for c in cases} == {0, 1, 2}
    with pytest.raises(BadArgument, match="decode_gqa"):
        checks.select("test", arms=["fast"])
    with pytest.raises(BadArgument):
        checks.select("all")
    with pytest.raises(BadArgument):
        checks.select("test", seeds=0)
    with pytest.raises(BadArgument):
        checks.select("test", operation="gemm")


def test_the_whole_product_is_finite_and_stated():
    full = checks.select("full", operation="paged_attention")
    cases = Counter(case.arm for case in full)
    assert cases == {**dict.fromkeys(ARMS, 24_159), "prefill": 13_497}  # of its two head sizes and family 8's
    assert len({job for case in full for job in PagedAttentionChecks().build_jobs(case)}) < 2000


def test_a_worker_that_dies_costs_one_case():
    groups = [[AttentionCase("online", "windows", seed=s) for s in group] for group in ((1, 13, 2), (3,))]
    results = list(run_processes(dying_check.evaluate, groups, dying_check.open_board, 1, {}))
    status = {int(r.case_id.split("/s")[-1]): (r.status, r.reason) for r in results}
    assert set(status) == {1, 2, 3, 13}
    assert status[13] == (Status.FAULT, "the worker process died: signal SIGSEGV")
    assert all(status[s][0] is Status.CORRECT for s in (1, 2, 3))


def results_of_every_kind() -> list[CheckResult]:
    return [
        run(AttentionCase("online", "few_keys")),
        run(AttentionCase("decode", "head_dims", head_dim=96)),
        run(AttentionCase("decode", "few_keys", head_dim=96)),
        run(AttentionCase("online", "few_keys"), "no_rescale"),
        replace(run(AttentionCase("online", "windows"), "wrong_arm", "no_witness"), reason="a\x00<b>\x1b"),
    ]


def test_junit_counts_what_happened():
    results = results_of_every_kind()
    root = ET.fromstring(checks.junit_xml(results))
    assert {k: root.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "2", "errors": "1", "skipped": "1",
    }  # fmt: skip
    case = root.find(".//testcase[failure]")
    assert "hipbook check --case" in case.find("failure").text
    compared = [int(p.get("value")) for p in root.iter("property") if p.get("name") == "values_compared"]
    assert sum(compared) == sum(r.values_compared for r in results) > 0


def test_the_summary_says_what_failed():
    summary = checks.summarise(results_of_every_kind())
    assert not summary.passed
    assert summary.by_status == {"CORRECT": 1, "INCORRECT": 1, "REFUSED": 2, "FAULT": 1}
    assert "3 of 5 cases failed" in str(summary)
    assert checks.summarise(results_of_every_kind()[:2]).passed


def test_the_full_record_is_written_and_read(tmp_path):
    results = results_of_every_kind()
    record = checks.full_record(results, FakeBoard(), "fake 1.0", 12.3)
    path = checks.write_full_record(record, tmp_path / "deep" / "full.json")
    again = checks.read_full_record(path)
    assert again == json.loads(json.dumps(record))
    arms = again["operations"]["paged_attention"]
    assert {arm: len(one["failed"]) for arm, one in arms.items()} == {"online": 2, "decode": 1}
    assert not any(one["passed"] for one in arms.values())
    assert sum(one["values_compared"] for one in arms.values()) == sum(r.values_compared for r in results)
    assert arms["decode"]["launches_refused"] == {"head_dim": 4}
    with pytest.raises(HipbookError, match="hipbook check --full"):
        checks.read_full_record(tmp_path / "none.json")


def test_a_run_of_one_arm_keeps_the_records_of_others(tmp_path):
    path = tmp_path / "full.json"
    kept = {"other": {"its": {"passed": True}}, "paged_attention": {"decode": {"passed": True}}}
    other = {"schema": 3, "operations": kept}
    path.write_text(json.dumps(other))
    record = checks.full_record([run(SMALL[0])], FakeBoard(), "fake 1.0", 1.0)
    checks.write_full_record(record, path)
    now = checks.read_full_record(path)["operations"]
    assert {name: set(arms) for name, arms in now.items()} == {
        "other": {"its"},
        "paged_attention": {"decode", SMALL[0].arm},
    }
    assert now["paged_attention"]["decode"] == {"passed": True}
    assert now["paged_attention"][SMALL[0].arm]["passed"] is True
    path.write_text(json.dumps({**other, "schema": 1}))
    with pytest.raises(HipbookError, match="schema 1"):
        checks.write_full_record(record, path)


def test_a_record_of_other_binaries_is_stale():
    record = checks.full_record(checks.run_checks(SMALL, FakeBoard()), FakeBoard(), "fake 1.0", 1.0)
    assert checks.stale_arms(record, FakeBoard()) == []

    class Rebuilt(FakeBoard):
        def build(self, source, flags=()):
            code = super().build(source, flags)
            return replace(code, sha256="f" * 64) if any("ARM_DECODE=" in flag for flag in flags) else code

    assert checks.stale_arms(record, Rebuilt()) == ["paged_attention/decode"]


def test_progress_is_told():
    seen = []
    checks.run_checks(
        SMALL[:3], FakeBoard(), on_result=lambda result, done, total: seen.append((done, total))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_progress_prints_failures_and_a_last_line(capsys):
    from rich.console import Console

    with checks.progress(Console(force_terminal=False, width=200)) as told:
        cases = [AttentionCase("online", "windows"), AttentionCase("online", "few_keys")]
        checks.run_checks(cases, FakeBoard("ignores_window"), on_result=told)
    text = capsys.readouterr().out
    assert "INCORRECT: paged_attention/online/windows" in text
    assert "checked 2 of 2 cases" in text


def test_a_code_object_is_looked_up_once_a_run():
    class Counts(FakeBoard):
        builds = 0

        def build(self, source, flags=()):
            type(self).builds += 1
            return super().build(source, flags)

    checks.run_checks(SMALL, Counts())
    assert Counts.builds == 3  # one an arm, for 21 launches


def test_a_board_by_name_runs_in_this_process_when_told_to(monkeypatch):
    from hipbook import boards

    monkeypatch.setattr(boards, "get", lambda name=None: FakeBoard())
    results = checks.run_checks(SMALL, "whatever", workers=0)
    assert all(r.ok for r in results)


def test_the_record_in_the_tree_passed_and_is_of_the_present_binaries():
    record = checks.read_full_record()
    arms = record["operations"]["paged_attention"]
    assert {"online", "decode", "decode_gqa"} <= set(arms)
    wanted = Counter(case.arm for case in checks.select("full", operation="paged_attention"))
    for arm, one in arms.items():
        assert one["passed"], f"{arm}: {one['failed'][:3]}"
        assert one["cases"] == wanted[arm]
        assert one["values_compared"] > 10**8
        assert one["board"]["name"] == "gfx1200-emu"
    assert checks.stale_arms(record, boards.get("gfx1200-emu")) == []
