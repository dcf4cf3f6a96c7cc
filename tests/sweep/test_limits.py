"""Impossible limits and parameter files are refused before a run's folder is touched."""

import json
import math

import pytest

from hipbook import boards, paths
from hipbook.errors import BadArgument
from hipbook.notebooks import BoardMismatch, begin
from hipbook.notebooks.parameters import BadParameters
from hipbook.records import Status
from hipbook.sweep.runner import BadOutcome, read_outcome, read_parameters, run_notebook


@pytest.mark.parametrize("limit", ["timeout_s", "cell_timeout_s", "wait_s"])
@pytest.mark.parametrize("seconds", [-5.0, math.nan, math.inf])
def test_a_limit_that_is_none_leaves_the_earlier_run_alone(tmp_path, limit, seconds):
    earlier = tmp_path / "outcome.json"
    earlier.write_text("{}")
    with pytest.raises(BadArgument, match=limit):
        run_notebook(paths.notebooks() / "00_board.ipynb", out=tmp_path, **{limit: seconds})
    assert earlier.read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["outcome.json"]


def test_a_parameter_file_that_nests_without_end_is_no_yaml(tmp_path):
    file = tmp_path / "deep.yaml"
    file.write_text("[" * 20000)
    with pytest.raises(BadParameters, match=r"deep\.yaml: not YAML"):
        read_parameters(file)


def test_a_missing_parameter_file_is_named_once(tmp_path):
    with pytest.raises(BadParameters) as raised:
        read_parameters(tmp_path / "none.yaml")
    assert str(raised.value).count("none.yaml") == 1


@pytest.mark.parametrize("board", ["nope", "gfx1200-emu\0", "../gfx1200-emu"])
def test_a_board_that_nothing_has_is_refused_before_anything_runs(tmp_path, board):
    outcome = run_notebook(paths.notebooks() / "00_board.ipynb", {"board": board}, out=tmp_path / "run")
    assert outcome.status is Status.BAD_PARAMETERS
    assert "board = " in outcome.why
    assert not (tmp_path / "run").exists()


def test_a_board_that_other_machines_have_is_refused_before_anything_runs(tmp_path):
    absent = [entry for entry in boards.inventory() if not entry.available]
    if not absent:
        pytest.skip("this machine has every board there is")
    values = {"board": absent[0].name}
    outcome = run_notebook(paths.notebooks() / "00_board.ipynb", values, out=tmp_path / "run")
    assert outcome.status is Status.BOARD_UNAVAILABLE
    assert absent[0].why_not in outcome.why
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("identity", "fits"), [({"arch": "gfx1200"}, True), ({"arch": "gfx1100"}, False)])
def test_the_board_that_is_opened_is_held_to_the_identity_given(monkeypatch, identity, fits):
    cell = 'board: str = "gfx1200-emu"  # any text: a name from `hipbook boards`'
    namespace = {"In": [cell], "board": "gfx1200-emu"}
    monkeypatch.setenv("HIPBOOK_EXPECT_IDENTITY", json.dumps(identity))
    if fits:
        assert begin(namespace, "tiny", "Which board?").board.name == "gfx1200-emu"
    else:
        with pytest.raises(
            BoardMismatch, match="its arch is 'gfx1200', this run was given a board with 'gfx1100'"
        ):
            begin(namespace, "tiny", "Which board?")


WHOLE = {"notebook": "a", "parameters": {}, "why": "", "wall_s": 1, "status": "PASSED"}
WHOLE |= {"record": None, "executed": None}
DAMAGED = [
    "",
    "[]",
    "{}",
    json.dumps(WHOLE | {"notebook": 3}),
    json.dumps(WHOLE | {"status": "FINE"}),
    json.dumps(WHOLE | {"record": "../../x"}),
    json.dumps(WHOLE)[:-9],
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_outcome_is_named(tmp_path, text):
    (tmp_path / "outcome.json").write_text(text)
    with pytest.raises(BadOutcome, match=r"outcome\.json: not the outcome of a run"):
        read_outcome(tmp_path)
