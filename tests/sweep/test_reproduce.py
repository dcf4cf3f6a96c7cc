"""The main job's own parts: the check leaves a run like any other, and a board goes where one is taken."""

import pytest

from hipbook import paths
from hipbook.records import Status
from hipbook.report import gather
from hipbook.sweep import reproduce
from hipbook.sweep.runner import read_outcome


@pytest.mark.long
def test_the_check_leaves_a_record_and_an_outcome_the_report_reads(tmp_path, monkeypatch):
    one_each = reproduce._one_each
    monkeypatch.setattr(reproduce, "_one_each", lambda cases: one_each(cases)[:1])
    (tmp_path / "stale.record.json").write_text("{}")
    assert reproduce.check_arms("gfx1200-emu", tmp_path) is Status.PASSED
    outcome = read_outcome(tmp_path)
    assert (outcome.notebook, outcome.status, outcome.why) == (reproduce.CHECK, Status.PASSED, "")
    run = gather.run_in(tmp_path)
    assert run.record.status is Status.PASSED
    assert run.record.facts[0].quantity == "values compared"
    assert not (tmp_path / "stale.record.json").exists()


def test_only_notebooks_that_take_a_board_are_given_one():
    taken = {path.stem: reproduce.takes_board(path) for path in paths.notebooks().glob("*.ipynb")}
    assert taken["10_paged_attention_gap"]
    assert not taken["12_decode_attribution"]
    assert not taken["20_board_sweep"]
