"""Broken kernels: the table's edits fit the sources, a sample is caught, and nothing good is accused."""

import dataclasses

import pytest

from hipbook import paths
from hipbook.checks import mutants
from hipbook.checks.case import CheckResult, Status
from hipbook.checks.mutants import Mutant, MutantResult, Outcome, run_mutant
from hipbook.checks.runner import find_operation
from hipbook.errors import BadArgument

TABLE = mutants.hand_made()
SAMPLE = {  # one for each kind of check
    "online-no-barrier-before-the-update": "sanitizer: lds-race",
    "decode-32-bit-offset": "sanitizer: out-of-bounds",
    "decode-sum-is-not-rescaled": "oracle",
    "decode-bears-another-arms-witness": "witness",
}


def test_every_edit_fits_the_sources_and_says_what_it_breaks():
    assert len([m for m in TABLE if m.operation == "paged_attention" and not m.out_of_reach]) >= 24
    assert len({m.name for m in TABLE}) == len(TABLE)
    for mutant in TABLE:
        text = (paths.kernels() / mutant.file).read_text()
        assert mutants.edited(text, mutant) != text
        assert mutant.why
        assert set(mutant.arms) <= set(find_operation(mutant.operation).arms)


@pytest.mark.parametrize(("name", "by"), SAMPLE.items())
def test_a_sample_is_caught(name, by):
    result = run_mutant(*mutants.find([name]))
    assert (result.outcome, result.by) == (Outcome.CAUGHT, by)
    assert result.good
    assert result.case_id.startswith("paged_attention/")
    assert result.detail.startswith("launch ") or by == "witness"


def test_the_unbroken_kernels_are_not_accused():
    """The same machinery, without an edit: nothing fails, so what fails above fails for the edit."""
    result = run_mutant(mutants.UNBROKEN, cases=14)
    assert (result.outcome, result.cases_run) == (Outcome.MISSED, 14)


def test_an_edit_of_a_comment_is_the_same_code():
    text = "the baseline, one key at a time"
    mutant = Mutant("comment", "paged_attention", "paged_attention/online.h", text, "x", "", ("online",))
    result = run_mutant(mutant, cases=3)
    assert result.outcome is Outcome.SAME_CODE
    assert not result.good


def test_an_edit_that_does_not_compile_is_said_to():
    old, new = "key <= keys.last", "key <= key.last"
    mutant = Mutant("typo", "paged_attention", "paged_attention/online.h", old, new, "", ("online",))
    result = run_mutant(mutant)
    assert result.outcome is Outcome.DOES_NOT_BUILD
    assert "member reference" in result.detail


def test_edits_that_do_not_fit_are_refused():
    mutant = TABLE[0]
    for text in ("nothing of it", 2 * mutant.old):
        with pytest.raises(BadArgument, match="exactly once"):
            mutants.edited(text, mutant)
    with pytest.raises(BadArgument, match="exactly once"):
        mutants.edited("a", dataclasses.replace(mutant, old="a", new="a"))
    with (
        pytest.raises(BadArgument, match="no kernels/none"),
        mutants.edited_copy(dataclasses.replace(mutant, file="none.h")),
    ):
        pass
    with pytest.raises(BadArgument, match="fast"):
        mutants.cases_for(dataclasses.replace(mutant, arms=("fast",)))
    with pytest.raises(BadArgument, match="one of"):
        mutants.find(["none"])


def test_what_caught_it_is_told_from_the_reason():
    def failed(status: Status, reason: str) -> CheckResult:
        return CheckResult("id", "paged_attention", "online", status, False, reason)

    kinds = {
        "launch 3: lds-race: store of 4 bytes": "sanitizer: lds-race",
        "launch 0: arm decode: workgroup 0 wrote witness 0x30": "witness",
        "launch 0: k: 2 of 8 values of output row 0 were never written": "output bytes",
        "TypeError: none": "FAULT",
    }
    assert {mutants.caught_by(failed(Status.FAULT, why)) for why in kinds} == set(kinds.values())
    assert mutants.caught_by(failed(Status.INCORRECT, "launch 0: lds-race: no")) == "oracle"


def test_a_mutant_out_of_reach_is_no_failure():
    missed = MutantResult(dataclasses.replace(TABLE[0], out_of_reach="why"), Outcome.MISSED)
    assert missed.good
    assert not MutantResult(TABLE[0], Outcome.MISSED).good
