"""The parameters cell: what it may say, what is refused, and what a real papermill run makes of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hipbook.notebooks.parameters import BadParameters, check, declared, from_kernel, injected_names

CELL = """\
name: str = "plain"  # any text
size: int = 8  # keys, 1..100
share: float = 0.5  # 0.0..1.0
arms: list[str] = ["online"]  # each one of online | decode
causal: bool = True  # true or false
"""


def test_reads_every_kind_of_line():
    parameters = declared(CELL)
    assert [p.name for p in parameters] == ["name", "size", "share", "arms", "causal"]
    assert parameters[3].options == ("online", "decode")
    assert check(parameters, {}) == {
        "name": "plain",
        "size": 8,
        "share": 0.5,
        "arms": ["online"],
        "causal": True,
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("size: int = 8", "no comment"),
        ("size = 8  # 1..9", "not of the form"),
        ("size: int = 8  # some keys", "no rule for int"),
        ("size: int = 80  # 1..9", "breaks its own rule"),
        ("size: int = 8  # a = b, 1..9", "second `=`"),
        ("size: dict = {}  # any text", "type dict"),
        ("size: int = len('x')  # 1..9", "not a literal"),
        ("size: list[int] = [1]  # 1..9", "`each` goes with a list"),
        ("size: int = 1  # each 1..9", "`each` goes with a list"),
        ("size: int = 1  # any text", "`any text` is for str"),
        ("size: list[int] = [\n  1]  # each 1..9", "several lines"),
        ("size: int = 8  # 1..9\nsize: int = 8  # 1..9", "declared twice"),
    ],
)
def test_refuses_a_line_that_is_not_of_the_form(line, why):
    with pytest.raises(BadParameters, match=why):
        declared(line)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"sise": 8}, "sise: no such parameter"),
        ({"size": 101}, r"size = 101: not allowed \(keys, 1..100\)"),
        ({"size": 0}, "not allowed"),
        ({"size": 8.0}, "a float where int is declared"),
        ({"size": True}, "a bool where int is declared"),
        ({"name": 6.10}, "a float where str is declared .quote it: YAML reads 6.10"),
        ({"name": None}, "a NoneType where str is declared"),
        ({"arms": ["onlin"]}, "not allowed"),
        ({"arms": "online"}, r"a str where list\[str\] is declared"),
        ({"arms": []}, "an empty list"),
        ({"share": float("nan")}, "not allowed"),
        ({"causal": 1}, "an int where bool is declared"),
    ],
)
def test_refuses_a_value_and_says_what_is_allowed(values, why):
    with pytest.raises(BadParameters, match=why) as raised:
        check(declared(CELL), values)
    assert "size: int = 8  # keys, 1..100" in str(raised.value)  # the list of what is allowed


def test_names_every_fault_at_once():
    with pytest.raises(BadParameters) as raised:
        check(declared(CELL), {"sise": 8, "size": 101, "share": 2.0})
    assert all(name in str(raised.value) for name in ("sise:", "size = 101", "share = 2.0"))


def test_a_whole_number_becomes_a_float_where_one_is_declared():
    assert repr(check(declared(CELL), {"share": 1})["share"]) == "1.0"


def test_kernel_history_the_last_parameters_cell_declares():
    old, new = "size: int = 8  # 1..9", "size: int = 20  # 1..99"
    parameters, values = from_kernel({"In": ["", old, new], "size": 50, "other": 3})
    assert values == {"size": 50}
    assert parameters[0].default == 20


def test_kernel_history_an_injected_name_must_be_declared():
    with pytest.raises(BadParameters, match="sise: no such parameter"):
        from_kernel({"In": ["", CELL, "# Parameters\nsise = 9\n"], "sise": 9})


def test_kernel_history_without_a_parameters_cell():
    with pytest.raises(BadParameters, match="no parameters cell was executed"):
        from_kernel({"In": ["", "x = 1"]})


def test_injected_names_reads_papermills_cell_only():
    assert injected_names("# Parameters\nsize = 9\nname = 'x'\n") == {"size", "name"}
    assert injected_names("size = 9\n") == set()


def papermill(notebook: Path, out: Path, parameters: str, records: Path) -> subprocess.CompletedProcess:
    file = out.with_suffix(".yaml")
    file.write_text(parameters)
    return subprocess.run(
        [sys.executable, "-m", "papermill", notebook, out, "-f", file, "--no-progress-bar"],
        capture_output=True,
        text=True,
        env={**os.environ, "HIPBOOK_RECORDS": str(records)},
    )


def test_papermill_with_good_parameters_leaves_a_record(make_notebook, tmp_path):
    done = papermill(make_notebook(), tmp_path / "out.ipynb", "size: 21\nshare: 1\n", tmp_path / "records")
    assert done.returncode == 0, done.stderr
    [record] = (tmp_path / "records").glob("tiny-*.record.json")
    record = json.loads(record.read_text())
    assert record["parameters"] == {"name": "plain", "size": 21, "share": 1.0, "arms": ["online"]}
    assert record["facts"][0]["value"] == 42
    assert record["status"] == "PASSED"


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ("sise: 21\n", "sise: no such parameter"),
        ("name: 6.10\n", "name = 6.1: a float where str is declared"),
        ("size: 1000\n", "size = 1000: not allowed"),
    ],
)
def test_papermill_with_bad_parameters_fails_and_leaves_no_record(make_notebook, tmp_path, parameters, why):
    done = papermill(make_notebook(), tmp_path / "out.ipynb", parameters, tmp_path / "records")
    assert done.returncode != 0
    assert why in done.stderr
    assert "allowed are" in done.stderr
    assert not list((tmp_path / "records").glob("*"))
