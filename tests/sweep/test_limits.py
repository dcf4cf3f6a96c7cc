"""Impossible limits and parameter files are refused before a run's folder is touched."""

import math

import pytest

from hipbook import paths
from hipbook.errors import BadArgument
from hipbook.notebooks.parameters import BadParameters
from hipbook.sweep.runner import read_parameters, run_notebook


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
