"""The eighteen traps of docs/traps.md, each sprung, each guard seen to catch it.

One test a trap, named test_tNN_...; docs/traps.md lists trap, guard and test, and the last tests here
hold the two together. A trap whose guard lives in another package is sprung against that package.
"""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from measured_records import BINARY, GPU, a_record, a_session

from hipbook import paths
from hipbook.checks import summarise
from hipbook.checks.case import CheckResult, Status
from hipbook.errors import BadArgument, HipbookError, KernelFault, Refused
from hipbook.measure import comparable, counts, near_ties
from hipbook.measure.clocks import Clock, add_times
from hipbook.measure.counts import CountWord
from hipbook.measure.judge import Runs, judge
from hipbook.measure.scaling import Growth, require_unit, scaling
from hipbook.measure.session import judge_session
from hipbook.measure.stability import figure
from hipbook.measure.verdict import Reason, Verdict, Word
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.attention_dispatch import FLAG
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.ops.paged_attention import run_call
from hipbook.oracle.paged_attention import FAMILIES, compare, coverage, make, reference
from hipbook.records import claims, claims_check, reported, store
from hipbook.records.recheck import recheck, require_current, subject_of
from hipbook.records.schema import CodeObjectIdentity
from hipbook.records.schema import Status as RecordStatus
from hipbook.studies.tie_study import study
from hipbook.traces import counters as trace_counters
from hipbook.traces import serving
from hipbook.traces.attribute import attribute
from hipbook.traces.difference import difference
from hipbook.traces.health import health
from hipbook.traces.reconstruction import pair
from hipbook.traces.schema import COUNTERS
from hipbook.traces.trace import Trace

MS = 1e6  # ns
STEP = 0.01  # the reports print milliseconds with two decimals


@pytest.fixture(autouse=True)
def _one_thread():
    """Small tensors: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_calls(family="nan_slots", row_kind="decode", **changes):
    bf16 = torch.bfloat16
    shape = {"head_dim": 128, "num_q_heads": 4, "num_kv_heads": 2, "row_kind": row_kind, **changes}
    return make(family, 1, q_dtype=bf16, kv_dtype=bf16, out_dtype=bf16, **shape)


def test_t01_a_check_that_compares_nothing_fails():
    """The flag-on test made 0 assertions on a CPU-only runner and exited 0."""
    assert counts.correctness(0, 0).word is CountWord.INCORRECT
    assert counts.all_good([]).word is CountWord.INCORRECT
    (empty,) = small_calls()[:1]
    nothing = replace(empty, q=empty.q[:0], query_start_loc=torch.zeros_like(empty.query_start_loc))
    compared = compare(nothing.q, reference(nothing))
    assert compared.values_compared == 0
    assert not compared.passed
    assert not summarise([]).passed
    vacuous = CheckResult("a", "paged_attention", "decode", Status.CORRECT, ok=True, values_compared=0)
    assert not summarise([vacuous]).passed
    assert summarise([replace(vacuous, values_compared=1)]).passed


def test_t02_a_run_that_never_reached_the_new_kernel_is_found_out(monkeypatch):
    """Nothing proved the flag-on run reached the new kernel: here the wrapper launches another arm's."""
    online = ARMS["online"]
    impostor = replace(online, witness=ARMS["decode"].witness)
    monkeypatch.setitem(ALL_ARMS, "decode", impostor)
    with pytest.raises(KernelFault, match="wrote witness 0x10, expected 0x20"):
        run_call(small_calls()[0], arm="decode")
    monkeypatch.undo()
    honest = run_call(small_calls()[0], arm="decode")
    assert honest.witness == 0x20
    assert honest.dispatch.kernel == "paged_attention_decode"
    assert counts.reached([0x10, 0x10], 0x20).word is CountWord.NOT_REACHED
    assert counts.reached([0x20, counts.WITNESS_POISON], 0x20).word is CountWord.NOT_REACHED


def test_t03_a_flag_kept_for_the_process_would_compare_an_arm_with_itself(monkeypatch):
    call = small_calls()[0]
    sides = []
    for value in ("0", "1"):  # one process, two settings
        monkeypatch.setenv(FLAG, value)
        sides.append(run_call(call, arm="auto"))
    assert [side.arm for side in sides] == ["online", "decode_gqa"]
    assert counts.distinct_arms(*([side.witness] for side in sides)).word is CountWord.REACHED
    kept = [sides[0], sides[0]]  # what a cached flag gives
    assert counts.distinct_arms(*([side.witness] for side in kept)).word is CountWord.NOT_REACHED
    session = a_session()
    same = [run.model_copy(update={"kernel": "one", "witness": 0x10}) for run in session.runs]
    with pytest.raises(Refused, match="an arm against itself"):
        judge_session(session.model_copy(update={"runs": same}))


def test_t04_a_first_repetition_33_percent_off_claims_nothing():
    off = reported.values(source="mudler/vllm.cpp#767", model="Qwen3.5-0.8B", arm="d128 off")
    on = reported.values(source="mudler/vllm.cpp#767", model="Qwen3.5-0.8B", arm="d128 on")
    assert np.mean(off[:2]) / np.mean(on) > 1.16  # the trap: a two-repetition average reads 1.2
    found = judge(Runs(off), Runs(on), resolution=STEP)
    assert str(found.verdict) == "INCONCLUSIVE(few_runs)"
    assert found.outliers[0].startswith("base: repetition 1 (31.14) is a severe outlier")
    with pytest.raises(Refused):
        figure(off[:2], what="TPOT", unit="ms", resolution=STEP)
    # and with enough runs, a control that moves takes the verdict with it (R12)
    session = a_session(1.1, negative_case="head_dim 256")
    assert judge_session(session).verdict.word is Word.FASTER
    moved = [
        run.model_copy(update={"samples": [0.8 * value for value in run.samples]})
        if (run.case, run.arm) == ("head_dim 256", "decode")
        else run
        for run in session.runs
    ]
    assert judge_session(session.model_copy(update={"runs": moved})).verdict.reason is Reason.CONTROL_MOVED


def test_t05_repetitions_that_disagree_are_no_figure(tmp_path):
    def result(name, tpot, prompts):
        data = {"completed": prompts, "num_prompts": prompts, "mean_tpot_ms": tpot, "model_id": "Qwen3-0.6B"}
        path = tmp_path / name
        path.write_text(json.dumps(data))
        return path

    two = reported.values(source="mudler/vllm.cpp#767", workload="1024 in / 128 out, 2 prompts")
    unstable = serving.read_series([result(f"two{i}.json", value, 2) for i, value in enumerate(two)])
    with pytest.raises(Refused, match=r"6\.96, 13\.45 ms is unstable"):
        unstable.figure("tpot")
    eight = serving.read_series([result(f"eight{i}.json", v, 8) for i, v in enumerate((6.57, 6.9, 6.58))])
    assert eight.figure("tpot") == 6.58


LOW, HIGH = pair()


def test_t06_a_capture_of_load_prefill_and_decode_is_no_decode_figure():
    """One run divided by its tokens counts load, warm-up and prefill; the difference of two does not."""
    naive = (
        HIGH.dispatches.select((pl.col("End_Timestamp") - pl.col("Start_Timestamp")).sum()).item() / 36 / MS
    )
    honest = difference(LOW, 4, HIGH, 36).gpu_ns_per_token / MS
    assert round(honest, 2) == 59.99
    assert naive > 1.1 * honest


def test_t07_time_in_a_call_is_not_time_of_a_copy():
    found = difference(LOW, 4, HIGH, 36)
    (call,) = found.calls.filter(pl.col("Name") == "hipMemcpyAsync").to_dicts()
    copied = found.copies["Ns_Difference"].sum() / found.tokens / MS
    assert round(call["Ns_Per_Token"] / MS, 2) == 59.31
    assert round(copied, 3) == 0.885
    with pytest.raises(BadArgument, match="only times of one clock add up"):
        add_times({"hipMemcpyAsync": (59.31, Clock.API), "kernels": (59.99, Clock.PROFILER)})
    parts = attribute(HIGH)
    assert parts.parts["Wall_Ns"].sum() == parts.wall_ns  # waits stand beside the device, never on top of it
    assert "hipMemcpyAsync" not in parts.parts["Part"].to_list()


def test_t08_two_harnesses_are_compared_on_what_both_pay():
    assert serving.require_shared("tpot", serving.IN_PROCESS, serving.VLLM_SERVE) == "tpot"
    with pytest.raises(comparable.NotComparable, match="http"):
        serving.require_shared("ttft", serving.IN_PROCESS, serving.VLLM_SERVE)
    with pytest.raises(comparable.NotComparable, match="paid by new alone"):
        comparable.require_axis("ttft", {"tpot"}, {"tpot", "ttft"})


def test_t09_a_substitution_is_an_ab_of_its_own_first():
    native, container = {"runtime": "native", "arm": "off"}, {"runtime": "container", "arm": "on"}
    with pytest.raises(comparable.NotComparable, match="measure this substitution as an A/B first"):
        comparable.require_comparable(native, container, factor="arm")
    off = [
        reported.values(source="mudler/vllm.cpp#767", workload=f"1024 in / 128 out, {place}", arm="d128 off")
        for place in ("native", "in container")
    ]
    proof = judge(Runs(off[0]), Runs(off[1]), resolution=STEP).verdict  # the report's: one figure a side
    with pytest.raises(comparable.NotComparable, match="few_runs"):
        comparable.require_comparable(native, container, factor="arm", inert={"runtime": proof})
    equivalent = {"runtime": Verdict(Word.EQUIVALENT, None, "")}
    assert comparable.require_comparable(native, container, factor="arm", inert=equivalent)


def test_t10_a_table_without_a_unit_carries_no_verdict():
    rows = reported.find(source="mudler/vllm.cpp#382", arm="block kernel")
    seen = scaling([float(row.concurrency) for row in rows], [row.value for row in rows])
    assert seen.growth is Growth.THROUGHPUT
    with pytest.raises(Refused, match="prints no unit"):
        reported.values(source="mudler/vllm.cpp#382", arm="block kernel")
    with pytest.raises(Refused):
        require_unit(rows[0].quantity, rows[0].unit)
    with pytest.raises(Refused, match="no unit"):
        a_session(unit="unknown")


def test_t11_a_false_blocker_does_not_stay_on_record():
    ledger = claims.read()
    (blocker,) = [one for one in ledger if one.id == "767-container-blocker"]
    assert blocker.status is claims.ClaimStatus.RETRACTED
    without = [one for one in ledger if one.id != "767-container-inert"]
    faults = [str(fault) for fault in claims_check.check(without).faults]
    assert faults == ["767-container-blocker: retracted, but no claim retracts it by name"]


TINY = 'extern "C" __global__ void tiny(int* out) {{ out[0] = {value}; }}\n'


def test_t12_a_record_of_a_stale_binary_is_refused_by_name(tmp_path, monkeypatch):
    from hipbook.build import build

    monkeypatch.setenv("HIPBOOK_ROOT", str(tmp_path))
    source = tmp_path / "kernels" / "tiny.hip"
    source.parent.mkdir()
    source.write_text("#include <hip/hip_runtime.h>\n" + TINY.format(value=1))
    built = build("tiny.hip", "gfx1200")
    record = a_record(code_objects=[CodeObjectIdentity(**built.identity)])
    path = store.write(record, tmp_path / "a.record.json")
    assert require_current(store.read(path), path) == []
    source.write_text(source.read_text().replace("= 1;", "= 2;"))
    with pytest.raises(
        store.BadRecord, match=r"a\.record\.json: from an older binary: tiny\.hip for gfx1200"
    ):
        require_current(store.read(path), path)
    foreign = a_record()  # its binary names no source: said, not passed over
    assert len(require_current(foreign)) == 1


def test_t13_another_card_at_the_end_takes_the_result(monkeypatch):
    from hipbook import boards
    from hipbook.notebooks.investigation import BoardMismatch, Investigation

    session = a_session()
    with pytest.raises(comparable.BoardChanged):
        judge_session(session.model_copy(update={"board_end": {**GPU, "name": "card-2"}}))
    board = boards.get("gfx1200-emu")
    run = Investigation("t13", "Is it the same card?", {}, board)
    run.fact("a", "b", 1, "1")
    monkeypatch.setattr(type(board), "identity", lambda self: {"name": "another", "kind": "gpu"})
    with pytest.raises(BoardMismatch, match="identity changed"):
        run.write()


def test_t14_a_refuted_prediction_stands_beside_the_outcome(tmp_path):
    session = a_session(ratio=1.0, prediction="FASTER")
    record = a_record(session)
    kept = store.read(store.write(record, tmp_path / "a.record.json"))
    assert [(one.word, one.expected) for one in kept.verdicts] == [("EQUIVALENT", "FASTER")]
    rewritten = session.plan.model_copy(update={"prediction": Word.EQUIVALENT})  # after the fact
    assert rewritten.plan_id != session.plan_id
    with pytest.raises(ValueError, match="it was changed"):
        type(session).model_validate({**session.model_dump(), "plan": rewritten.model_dump()})
    softened = kept.verdicts[0].model_copy(update={"expected": None})
    with pytest.raises(store.BadRecord):
        recheck(kept.model_copy(update={"verdicts": [softened]}))


@pytest.fixture(scope="module")
def found():
    """Two arms on the emulated board over 60 tokens of the small decode."""
    return study("online", "decode_gqa", tokens=60)


def test_t15_a_token_that_moves_at_a_tie_is_explained_or_refused(found):
    assert found.choices.tokens == 60
    assert found.choices.exact_ties > 10
    assert found.choices.verdict().word is CountWord.CORRECT
    assert 0 < found.choices.worst_distance < 1  # the arms differ in their bits, within their errors
    assert found.flag_off.word is CountWord.CORRECT
    assert found.flag_off.compared == 60 * 4 * 128 * 2
    assert not found.gate.may_flip  # 60 tokens are too few, whatever they say
    known = near_ties.meets_golden(
        {"online": found.goldens["online"]}, "decode_gqa", found.goldens["decode_gqa"]
    )
    assert known.word is CountWord.INCORRECT  # another arm's golden is none


def test_t15_goldens_hold_on_the_emulated_board(found):
    if found.golden.compared == 0:
        pytest.skip(f"{found.golden.detail}: this compiler is not the goldens'")
    assert found.golden.word is CountWord.CORRECT


def test_t16_a_figure_outside_the_tree_supports_nothing(tmp_path):
    session = a_session()
    record = store.write(a_record(session), tmp_path / "runs" / "a.record.json")
    lost = {
        "id": "lost",
        "sentence": "it is faster",
        "status": "measured",
        "date": "2026-09-01",
        "source": "a comment",
        "not_claimed": ["anything"],
    }
    with pytest.raises(ValueError, match="measured without a record of ours"):
        claims.Claim.model_validate(lost)
    cited = {
        "path": "runs/a.record.json",
        "binary": BINARY,
        "subject": subject_of(session),
        "word": "FASTER",
    }
    claim = claims.Claim.model_validate({**lost, "records": [cited]})
    (fault,) = claims_check.check([claim], tmp_path).faults
    assert "not under data/" in str(fault)
    kept = tmp_path / "data" / "a.record.json"
    kept.parent.mkdir()
    record.rename(kept)
    moved = claims.Claim.model_validate({**lost, "records": [{**cited, "path": "data/a.record.json"}]})
    assert claims_check.check([moved], tmp_path).passed


def in_order(call: AttentionCall) -> torch.Tensor:
    """The identity block table of a call: live blocks 0, 1, 2, ... as the sequences come."""
    table, used = torch.zeros_like(call.block_table), 0
    for row, length in enumerate(call.seq_lens.tolist()):
        blocks = -(-length // call.block_size)
        table[row, :blocks] = torch.arange(used, used + blocks)
        used += blocks
    return table


def ignores_the_table(call: AttentionCall) -> torch.Tensor:
    """An arm with the bug: it takes blocks in order and never reads the table."""
    return reference(replace(call, block_table=in_order(call))).out.to(call.result_dtype)


def test_t17_inputs_find_an_addressing_bug_and_their_coverage_is_told():
    (call,) = [one for one in small_calls("gqa_contexts") if int(one.seq_lens.max()) > 16][:1]
    assert not compare(ignores_the_table(call), reference(call)).passed
    tame = replace(call, block_table=in_order(call))  # the trap: here the bug computes the right thing
    tame = replace(tame, k_cache=torch.nan_to_num(tame.k_cache), v_cache=torch.nan_to_num(tame.v_cache))
    assert compare(ignores_the_table(tame), reference(tame)).passed
    assert coverage([tame])["block table"] == ["identity"]
    for family in FAMILIES:
        seen = coverage(small_calls(family))
        assert "identity" not in seen["block table"], family
        assert "decode" in seen["row kind"], f"{family}: a decode test without a decode row"


def test_t18_a_counter_that_is_zero_everywhere_is_no_value():
    frame = COUNTERS.empty()
    rows = pl.DataFrame(
        [
            {
                "Dispatch_Id": dispatch,
                "Kernel_Name": "k",
                "Counter_Name": name,
                "Counter_Value": value,
                "Pass": "1",
            }
            for dispatch in (1, 2)
            for name, value in (("SQ_WAVES", 4.0 * dispatch), ("GRBM_GUI_ACTIVE", 0.0))
        ]
    )
    table = pl.concat([frame, rows], how="diagonal_relaxed")
    assert trace_counters.unsupported(table) == ["GRBM_GUI_ACTIVE"]
    assert trace_counters.per_kernel(table)["Counter_Name"].to_list() == ["SQ_WAVES"]
    trace = Trace(path=paths.root(), counters=table)
    assert any("GRBM_GUI_ACTIVE" in finding.text for finding in health(trace).findings)


# --- records that are refused by name ----------------------------------------------------------------


def test_a_record_with_a_time_but_incorrect_is_refused(tmp_path):
    path = store.write(a_record(a_session()), tmp_path / "timed.record.json")
    path.write_text(path.read_text().replace('"status": "PASSED"', '"status": "INCORRECT"'))
    with pytest.raises(store.BadRecord, match=r"timed\.record\.json: .*only PASSED may carry one"):
        store.read(path)
    with pytest.raises(ValueError, match="only PASSED"):
        a_record(a_session(), status=RecordStatus.INCORRECT)


def test_a_record_edited_by_hand_is_refused(tmp_path):
    path = store.write(a_record(a_session()), tmp_path / "edited.record.json")
    path.write_text(path.read_text().replace('"word": "FASTER"', '"word": "SLOWER"'))
    with pytest.raises(store.BadRecord, match=r"edited\.record\.json: edited after it was written"):
        store.read(path)


# --- the table in the docs ---------------------------------------------------------------------------


def test_every_trap_has_its_test_and_its_row():
    rows = re.findall(
        r"^\| T(\d+) \|.*`test_(t\d+_\w+)`.*\|$", (paths.root() / "docs/traps.md").read_text(), re.M
    )
    assert [int(number) for number, _ in rows] == list(range(1, 19))
    for number, test in rows:
        assert int(test[1:3]) == int(number)
        assert callable(globals()[f"test_{test}"]), test


def test_an_error_on_purpose_is_a_hipbook_error():
    assert all(
        issubclass(one, HipbookError) for one in (Refused, KernelFault, BadArgument, comparable.BoardChanged)
    )
