"""Mutants by seed, why survivors survive, and the record of a run."""

import json
from dataclasses import replace
from itertools import islice

import pytest

from hipbook import paths
from hipbook.checks import mutant_record, mutants
from hipbook.checks.mutant_generator import KINDS, OPERATIONS, candidates, generate
from hipbook.checks.mutants import Mutant, MutantResult, Outcome

FIFTY = list(islice(generate(0), 50))
SURVIVES = next(m for m in generate(0) if m.file == "quantize_q8k/block.h" and m.name.startswith("barrier")
                and "sums[thread + half];" in m.old)  # fmt: skip


def test_the_same_seed_gives_the_same_mutants():
    assert list(islice(generate(0), 50)) == FIFTY
    assert list(islice(generate(1), 50)) != FIFTY
    assert len({mutant.name for mutant in FIFTY}) == 50


def test_every_kind_of_every_operation_takes_its_turn():
    assert {mutant.operation for mutant in FIFTY} == set(OPERATIONS)
    assert {mutant.name.partition("-")[0] for mutant in FIFTY} == set(KINDS)
    assert len(candidates()) > 500


def test_a_generated_edit_fits_the_sources():
    for mutant in FIFTY:
        text = (paths.kernels() / mutant.file).read_text()
        changed = mutants.edited(text, mutant)
        assert sum(a != b for a, b in zip(text.split("\n"), changed.split("\n"), strict=True)) == 1


def test_no_edit_touches_a_comment_or_another_vendors_code():
    for candidate in candidates():
        assert candidate.new.endswith(candidate.old.partition("//")[2])
        assert not candidate.old.strip().startswith(("//", "#", "static_assert", "asm"))
        assert "__shfl_sync" not in candidate.old


def test_each_explained_survivor_is_a_candidate_of_the_sources():
    known = mutant_record.survivors()
    assert known
    lines = {(c.file, c.old.strip(), c.new.strip()) for c in candidates()}
    for one in known:
        assert (one.file, one.old, one.new) in lines
        assert one.after in (paths.kernels() / one.file).read_text()
        assert len(one.reason) > 30


def test_a_survivor_is_a_failure_unless_it_is_explained():
    missed = MutantResult(SURVIVES, Outcome.MISSED)
    assert mutant_record.failures([], [missed]) == []
    assert "one wave" in mutant_record.explained(missed, mutant_record.survivors())
    other = replace(missed, mutant=replace(SURVIVES, file="quantize_q8k/wave.h"))
    assert len(mutant_record.failures([], [other])) == 1
    hand = MutantResult(Mutant("m", "paged_attention", "f", "a", "b", "why"), Outcome.MISSED)
    assert len(mutant_record.failures([hand], [])) == 1
    assert mutant_record.failures([replace(hand, outcome=Outcome.CAUGHT)], []) == []


def test_the_record_says_what_caught_what(tmp_path):
    caught = MutantResult(FIFTY[0], Outcome.CAUGHT, "oracle", "case", "detail", 3, ("online",), 1.0)
    missed = MutantResult(SURVIVES, Outcome.MISSED)
    values = mutant_record.record([caught], [missed], 0, {"cases": {}, "accused": []}, "gfx1200-emu")
    assert values["hand_made"]["caught_by"] == {"oracle": 1}
    assert values["generated"]["outcomes"] == {"MISSED": 1}
    assert "one wave" in values["generated"]["mutants"][0]["equivalent"]
    path = mutant_record.write(values, tmp_path / "deep" / "mutants.json")
    assert json.loads(path.read_text()) == json.loads(json.dumps(values))
    assert len(values["kernels_sha256"]) == 64


def test_the_last_run_is_in_the_tree():
    path = paths.data() / "checks" / "mutants.json"
    if not path.is_file():
        pytest.skip("no run is recorded: hipbook check --mutants")
    values = json.loads(path.read_text())
    rows = values["hand_made"]["mutants"]
    attention = [row for row in rows if row["operation"] == "paged_attention"]
    assert sum(row["outcome"] == "CAUGHT" for row in attention) >= 24
    for row in rows:
        assert row["outcome"] == "CAUGHT" or row.get("out_of_reach")
