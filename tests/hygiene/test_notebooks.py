"""Every committed notebook passes the format gate, compares enough, and has its record beside it."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from hipbook import paths, records
from hipbook.notebooks import format as gate
from hipbook.notebooks.execute import committed_record
from hipbook.notebooks.parameters import declared

NOTEBOOKS = sorted(paths.notebooks().glob("*.ipynb"))
LEAST = tomllib.loads((Path(__file__).parent / "compared_cells.toml").read_text())

by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks_and_each_has_a_least_number():
    assert len(NOTEBOOKS) >= 7
    assert sorted(LEAST) == [path.stem for path in NOTEBOOKS]


@by_name
def test_passes_the_gate(path):
    assert gate.faults(path) == []


@by_name
def test_compares_enough(path):
    notebook = gate.read(path)
    always, toolchain = LEAST[path.stem]
    assert gate.compared(notebook) >= always > 0
    assert gate.compared(notebook, toolchain=True) >= toolchain


@by_name
def test_the_committed_record_is_of_these_outputs(path):
    """Made by this notebook on its default parameters, and it passed."""
    record = records.read(committed_record(path))
    [cell] = [c for c in gate.code_cells(gate.read(path)) if gate.PARAMETERS in gate.tags(c)]
    assert record.made_by == path.stem
    assert record.status is records.Status.PASSED
    assert record.parameters == {p.name: p.default for p in declared(cell.source)}
    assert record.toolchain is not None or "board" not in record.parameters  # traces need no compiler


def test_a_stripped_notebook_is_found(tmp_path):
    """What a habit of clearing outputs before committing would do."""
    notebook = json.loads(NOTEBOOKS[0].read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    path = tmp_path / NOTEBOOKS[0].name
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    said = " ".join(gate.faults(path))
    assert "no output that nbval would compare" in said
    assert "execution counts" in said
    assert gate.compared(gate.read(path)) == 0 < LEAST[path.stem][0]


def test_no_notebook_names_this_machine():
    import getpass
    import socket

    host = socket.gethostname()
    words = [re.escape(word) for word in (host, str(Path.home()), str(paths.root())) if len(word) > 5]
    if len(getpass.getuser()) > 5:
        words.append(re.escape(getpass.getuser()))
    for path in [*NOTEBOOKS, *(paths.data() / "measured").glob("*.json")]:
        assert not re.search("|".join(words), path.read_text()), path.name
