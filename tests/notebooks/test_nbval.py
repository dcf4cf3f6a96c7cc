"""nbval as this checkout sets it up, and the command that makes committed outputs, on a tiny notebook."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from hipbook import records
from hipbook.notebooks import format as gate
from hipbook.notebooks.execute import committed_record, execute


@pytest.fixture(scope="module")
def executed(write_notebook, tiny_cells, tmp_path_factory) -> Path:
    """A small checkout with one executed notebook: figures ignored, one cell for the toolchain."""
    root, cells = tmp_path_factory.mktemp("executed") / "checkout", tiny_cells
    (root / "kernels").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    path = write_notebook(
        root / "notebooks",
        (cells["parameters"], "parameters"),
        cells["begin"],
        cells["fact"],
        ("import time\nprint(time.time())", "nbval-ignore-output"),
        ("vgprs = 24\nprint(vgprs)", "toolchain"),
        "print('vgprs', vgprs > 0)",
        "run.write()",
    )
    notebook = gate.read(path)
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("# Tiny", id="title"))
    path.write_bytes(gate.dumps(notebook))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPBOOK_ROOT", str(root))
        outcome, changed = execute(path)
    assert outcome.passed, outcome.why
    assert changed
    return root


@pytest.fixture
def checkout(executed, tmp_path, monkeypatch) -> Path:
    """The notebook in a copy of that checkout, which the test may spoil."""
    root = tmp_path / "checkout"
    shutil.copytree(executed, root)
    monkeypatch.setenv("HIPBOOK_ROOT", str(root))
    return root / "notebooks" / "tiny.ipynb"


def nbval(path: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--nbval", "-p", "hipbook.notebooks.nbval_plugin", "-ra"),
            *("-c", os.devnull, "--rootdir", path.parent, path),
        ],
        capture_output=True,
        text=True,
        cwd=path.parent,
    )


def edit_output(path: Path, old: str, new: str) -> None:
    raw = path.read_text()
    assert raw.count(old) == 1
    path.write_text(raw.replace(old, new))


def test_executed_notebook_passes_the_gate_and_executing_again_changes_nothing(checkout):
    assert gate.faults(checkout) == []
    before = checkout.read_bytes(), committed_record(checkout).read_bytes()
    outcome, changed = execute(checkout)
    assert (outcome.passed, changed) == (True, False)
    assert (checkout.read_bytes(), committed_record(checkout).read_bytes()) == before
    execute(checkout, fresh=True)
    assert checkout.read_bytes() != before[0]  # the ignored cell prints the time of day


def test_an_edit_takes_new_figures_as_well(checkout):
    before = checkout.read_text()
    edit_output(checkout, "print('vgprs', vgprs > 0)", "print('vgprs', vgprs > 1)")
    outcome, changed = execute(checkout)
    assert (outcome.passed, changed) == (True, True)
    kept = [cell.outputs for cell in gate.read(checkout).cells if "nbval-ignore-output" in gate.tags(cell)]
    assert json.dumps(kept[0][0]["text"])[1:-1] not in before


def test_a_failing_notebook_is_left_as_it_was(checkout):
    edit_output(checkout, "print('vgprs', vgprs > 0)", "raise ValueError")
    before = checkout.read_bytes(), committed_record(checkout).read_bytes()
    outcome, changed = execute(checkout)
    assert (outcome.passed, changed) == (False, False)
    assert (checkout.read_bytes(), committed_record(checkout).read_bytes()) == before


def test_nbval_skips_the_toolchain_cell_visibly_and_keeps_records_out_of_the_tree(checkout):
    done = nbval(checkout)
    assert done.returncode == 0, done.stdout
    assert "6 passed, 1 skipped" in done.stdout
    assert "5 cells compared, 1 run without comparing, 1 toolchain cells not compared" in done.stdout
    assert not (checkout.parents[1] / "runs").exists()


def test_nbval_fails_when_a_committed_number_is_changed(checkout):
    edit_output(checkout, "double 16", "double 17")
    done = nbval(checkout)
    assert done.returncode == 1
    assert "double 17" in done.stdout


def test_toolchain_cell_is_compared_where_the_toolchain_is_the_same(checkout, monkeypatch):
    """With a record that names the compiler at hand, a changed register count fails."""
    from hipbook.build import toolchain_identity

    target = committed_record(checkout)
    record = records.read(target)
    board = {"name": "gfx1200-emu", "arch": "gfx1200", "kind": "emulated"}
    same = record.model_copy(update={"board": board, "toolchain": toolchain_identity("gfx1200")})
    records.write(same, target)
    assert "7 passed" in nbval(checkout).stdout
    edit_output(checkout, '"24\\n"', '"25\\n"')
    assert "1 failed" in nbval(checkout).stdout
    records.write(same.model_copy(update={"toolchain": "clang 21"}), target)
    done = nbval(checkout)
    assert done.returncode == 0
    assert "made with clang 21" in done.stdout
