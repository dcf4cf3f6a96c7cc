"""The ledger: every way a claim can fail to stand, and the founding claims as they are in the tree."""

import re
import shutil
import tomllib

import pytest
from measured_records import BINARY, GPU, a_record, a_session

from hipbook import paths
from hipbook.measure.session import judge_session
from hipbook.records import claims, claims_check, store
from hipbook.records.claims import BadLedger, Claim, ClaimStatus, Relation
from hipbook.records.recheck import recheck, subject_of, verdict_of
from hipbook.records.schema import Status, Verdict


@pytest.fixture
def tree(tmp_path):
    """A checkout with one record of a FASTER session."""
    session = a_session()
    store.write(a_record(session), tmp_path / "data" / "measured" / "one.record.json")
    return tmp_path


def cite(**changes):
    fields = {
        "path": "data/measured/one.record.json",
        "binary": BINARY,
        "subject": "decode against online, 1x1024, warm",
        "word": "FASTER",
    }
    return {**fields, **changes}


def claim(**changes):
    fields = {
        "id": "ours",
        "sentence": "decode is 1.1 times faster on card-1",
        "status": "measured",
        "date": "2026-09-01",
        "source": "notebook 11",
        "not_claimed": ["the architecture"],
        "records": [cite()],
    }
    return Claim.model_validate({**fields, **changes})


def faults(tree, *ledger):
    return [str(fault) for fault in claims_check.check(list(ledger), tree).faults]


def test_a_claim_on_a_record_that_supports_it_stands(tree):
    checked = claims_check.check([claim()], tree)
    assert checked.passed
    assert (checked.claims, checked.citations) == (1, 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"path": "data/measured/two.record.json"}, "no such record in the tree"),
        ({"binary": "cd" * 32}, "of another binary: cites cdcdcdcdcdcd, it ran abababababab"),
        ({"word": "EQUIVALENT"}, "does not support EQUIVALENT .*; it says FASTER"),
        ({"subject": "decode against online, 8x1024, warm"}, "it says nothing"),
        ({"path": "../one.record.json"}, "not under data/"),
        ({"path": "runs/one.record.json"}, "not under data/"),
    ],
)
def test_a_citation_that_does_not_hold(tree, change, says):
    shutil.copy(tree / "data/measured/one.record.json", tree.parent / "one.record.json")
    (found,) = faults(tree, claim(records=[cite(**change)]))
    assert found.startswith("ours: ")
    assert re.search(says, found)


def test_a_word_without_a_session_supports_nothing(tree):
    lone = Verdict(word="FASTER", subject="decode against online", reason="I saw it")
    store.write(a_record(board=dict(GPU), verdicts=[lone]), tree / "data/measured/lone.record.json")
    cited = cite(path="data/measured/lone.record.json", subject="decode against online")
    (found,) = faults(tree, claim(records=[cited]))
    assert "no measuring session behind it" in found


def test_citations_are_printed_ready_to_paste(tree):
    path = tree / "data/measured/one.record.json"
    told = claims.citations(store.read(path), "data/measured/one.record.json")
    (table,) = tomllib.loads(told)["claim"]["records"]
    assert table == cite()
    assert faults(tree, claim(records=[table])) == []
    two = a_record(
        a_session(),
        code_objects=[
            *a_record().code_objects,
            a_record().code_objects[0].model_copy(update={"sha256": "cd" * 32}),
        ],
    )
    assert 'binary = "?"' in claims.citations(two, "x")  # which of two ran is for the reader to say


def test_an_edited_record_supports_nothing(tree):
    path = tree / "data/measured/one.record.json"
    path.write_text(path.read_text().replace('"wall_s": 1.0', '"wall_s": 2.0'))
    (found,) = faults(tree, claim())
    assert "edited after it was written" in found


def test_a_record_that_did_not_pass_supports_nothing(tree):
    failed = a_record(
        status=Status.INCORRECT, verdicts=[Verdict(word="INCORRECT", subject="decode", reason="no")]
    )
    store.write(failed, tree / "data/measured/two.record.json")
    cited = cite(path="data/measured/two.record.json", subject="decode", word="INCORRECT")
    found = faults(tree, claim(records=[cited]))
    assert "only PASSED supports a claim" in found[0]
    assert "measured by a record that says INCONCLUSIVE" not in found[0]
    assert "measured by a record that says INCORRECT" in found[1]


def test_an_undecided_record_measures_nothing_but_may_be_directional(tree):
    short = a_session(runs=2)
    store.write(a_record(short), tree / "data/measured/two.record.json")
    cited = cite(path="data/measured/two.record.json", word="INCONCLUSIVE")
    assert "measured by a record that says INCONCLUSIVE" in faults(tree, claim(records=[cited]))[0]
    assert faults(tree, claim(records=[cited], status="directional")) == []


def test_r14_an_architecture_takes_three_boards(tree):
    (found,) = faults(tree, claim(about="architecture"))
    assert "on 1 boards; it takes 3" in found
    cited = [cite()]
    for number in (2, 3):
        name = f"data/measured/{number}.record.json"
        store.write(a_record(a_session(board={**GPU, "name": f"card-{number}"})), tree / name)
        cited.append(cite(path=name))
    assert faults(tree, claim(about="architecture", records=cited)) == []


def test_reported_figures_are_cited_as_they_stand(tree):
    where = {"source": "mudler/vllm.cpp#767", "workload": "1024 in / 128 out, 2 prompts"}
    good = claim(status="directional", records=[], reported=[{"where": where, "values": [6.96, 13.45]}])
    assert faults(tree, good) == []
    drifted = claim(status="directional", records=[], reported=[{"where": where, "values": [6.96, 6.98]}])
    assert "cites [6.96, 6.98], reported.csv has [6.96, 13.45]" in faults(tree, drifted)[0]
    gone = claim(status="directional", records=[], reported=[{"where": {"source": "x"}, "values": [1]}])
    assert "no such row" in faults(tree, gone)[0]


def test_t10_a_series_without_a_unit_is_no_figure_and_scales_as_it_does(tree):
    where = {"source": "mudler/vllm.cpp#382", "arm": "EPL=4 arm"}
    series = {"where": where, "growth": "scales as throughput"}
    figures = {"where": where, "values": [131.023, 258.953, 508.139, 936.048]}
    assert faults(tree, claim(status="directional", records=[], scaling=[series])) == []
    wrong = claim(status="directional", records=[], scaling=[{**series, "growth": "scales as latency"}])
    assert "it scales as throughput" in faults(tree, wrong)[0]
    assert "prints no unit" in faults(tree, claim(status="directional", records=[], reported=[figures]))[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"records": []}, "measured without a record of ours"),
        ({"records": [], "status": "directional"}, "directional without"),
        ({"not_claimed": []}, "at least 1"),
        (
            {"prediction": {"made": "2026-09-02", "text": "it wins", "outcome": "held"}},
            "a prediction of 2026-09-02",
        ),
        ({"colour": "red"}, "Extra inputs"),
        ({"status": "true"}, "Input should be"),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        claim(**change)


def an_open(name, **changes):
    return claim(**{"id": name, "status": "open", "records": [], **changes})


def test_t11_a_retraction_names_what_it_retracts_and_what_is_retracted_is_named(tree):
    false = an_open("blocker", status="retracted", date="2026-08-01")
    assert faults(tree, false) == ["blocker: retracted, but no claim retracts it by name"]
    unnamed = an_open("mend", corrects=[{"how": "questions", "claim": "blocker"}])
    assert "mend: questions blocker, whose status is retracted" in faults(tree, false, unnamed)
    named = an_open("mend", corrects=[{"how": "retracts", "claim": "blocker"}])
    assert faults(tree, false, named) == []
    still_on_record = false.model_copy(update={"status": ClaimStatus.OPEN})
    assert faults(tree, still_on_record, named) == ["mend: retracts blocker, whose status is open"]
    assert faults(tree, named) == ["mend: retracts blocker, which is not in the ledger"]
    younger = false.model_copy(update={"date": named.date.replace(year=2027)})
    assert "mend: retracts blocker, which is younger" in faults(tree, younger, named)
    refuted = an_open("wrong", status="refuted")
    assert faults(tree, refuted) == ["wrong: refuted, but no claim refutes it by name"]


def test_two_claims_of_one_name_and_no_claim_at_all(tree):
    assert faults(tree, an_open("a"), an_open("a")) == ["a: two claims have this id"]
    nothing = claims_check.check([], tree)
    assert not nothing.passed
    assert "no claim" in str(nothing.faults[0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not toml", "bad.toml"),
        ("[claims]\n", "tables"),
        ("[[claim]]\nid = 'x'\n", "claim 1: sentence: Field required"),
        ("[[claim]]\nid = 'Not An Id'\n", "claim 1: id"),
    ],
)
def test_a_ledger_file_that_cannot_be_read_is_named(tmp_path, text, says):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(BadLedger, match=says):
        claims.read(tmp_path)


# --- records computed again ------------------------------------------------------------------------


def test_a_record_whose_verdict_is_not_its_sessions_is_refused(tree):
    session = a_session()
    (judgement,) = recheck(a_record(session))
    assert str(judgement.verdict) == "FASTER"
    slower = verdict_of(session, judgement).model_copy(update={"word": "SLOWER"})
    with pytest.raises(store.BadRecord, match="its session gives FASTER, the record says SLOWER"):
        recheck(a_record(session, verdicts=[slower]))
    with pytest.raises(store.BadRecord, match="the record says nothing"):
        recheck(a_record(session, verdicts=[]))
    lone = Verdict(word="FASTER", subject="a against b", reason="I saw it")
    with pytest.raises(store.BadRecord, match="no measuring session behind it"):
        recheck(a_record(board=dict(GPU), verdicts=[lone]))


def test_t14_the_prediction_stands_beside_the_outcome():
    session = a_session(ratio=1.0, prediction="FASTER")
    verdict = verdict_of(session, judge_session(session))
    assert (verdict.word, verdict.expected) == ("EQUIVALENT", "FASTER")
    assert subject_of(session) == "decode against online, 1x1024, warm"


def test_a_session_belongs_to_a_passed_record_of_its_own_board():
    session = a_session()
    with pytest.raises(ValueError, match="identities differ"):
        a_record(session, board={**GPU, "name": "card-2"})
    with pytest.raises(ValueError, match="only PASSED"):
        a_record(session, status=Status.INCORRECT)
    with pytest.raises(ValueError, match="emulated board"):
        a_record(sessions=[session])


def test_records_without_sessions_are_written_as_before(tmp_path):
    path = store.write(a_record(), tmp_path / "a.record.json")
    assert "sessions" not in path.read_text()
    assert store.read(path).sessions == []


# --- the ledger in the tree ------------------------------------------------------------------------

LEDGER = claims.read()


def test_the_founding_claims_stand():
    checked = claims_check.check(LEDGER)
    assert checked.faults == ()
    assert checked.claims >= 20
    assert checked.citations >= 30
    sources = " ".join(claim.source for claim in LEDGER)
    assert all(report in sources for report in ("#488", "#767", "#1294"))


@pytest.mark.parametrize(
    ("earlier", "how", "later"),
    [
        ("382-slower-on-sm110", Relation.QUESTIONS, "382-no-unit"),
        ("767-default-off", Relation.SUPERSEDES, "1589-default-on"),
        ("767-container-blocker", Relation.RETRACTS, "767-container-inert"),
        ("767-win-shrinks-with-concurrency", Relation.REFUTES, "767-win-grows-with-concurrency"),
        ("1294-transfers-dominate", Relation.REFUTES, "1294-kernel-bound"),
    ],
)
def test_the_later_corrections_are_entered(earlier, how, later):
    assert [(one.id, relation) for one, relation in claims.corrected_by(LEDGER, earlier)] == [(later, how)]


def test_the_refuted_prediction_is_kept_beside_its_outcome():
    (refuted,) = [one for one in LEDGER if one.id == "767-win-shrinks-with-concurrency"]
    assert refuted.status is ClaimStatus.REFUTED
    assert refuted.prediction.outcome == "refuted"


def test_no_founding_claim_is_measured_by_somebody_elses_figures():
    measured = [one for one in LEDGER if one.status is ClaimStatus.MEASURED]
    assert all(one.records for one in measured)
    assert (paths.data() / "claims").is_dir()
