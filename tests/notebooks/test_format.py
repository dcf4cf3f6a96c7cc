"""The format gate: one fault at a time, each found and named."""

import json
from pathlib import Path

import nbformat
import pytest

from hipbook.notebooks import format as gate


@pytest.fixture
def good(make_notebook, tiny_cells) -> nbformat.NotebookNode:
    """An executed, canonical notebook, made by hand so that these tests run nothing."""
    notebook = gate.read(make_notebook())
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("# Does it run?", id="title"))
    for number, cell in enumerate(gate.code_cells(notebook), start=1):
        cell["execution_count"] = number
    fact = gate.code_cells(notebook)[2]
    fact["outputs"] = [nbformat.v4.new_output("stream", name="stdout", text="double 16\n")]
    notebook.metadata["hipbook"] = {"sources_sha256": gate.sources_sha256(notebook)}
    return gate.canonical(notebook)


def gate_says(notebook: nbformat.NotebookNode, tmp_path: Path) -> list[str]:
    notebook.metadata["hipbook"] = {"sources_sha256": gate.sources_sha256(notebook)}
    path = tmp_path / "tiny.ipynb"
    path.write_bytes(gate.dumps(notebook))
    return gate.faults(path)


def test_a_good_notebook_passes(good, tmp_path):
    assert gate_says(good, tmp_path) == []
    assert gate.compared(good) == 1


def code(number):
    """Edits the source of a code cell."""
    return lambda notebook, text: gate.code_cells(notebook)[number].__setitem__("source", text)


def output(text, mime="text/plain"):
    return nbformat.v4.new_output("display_data", data={mime: text})


FACT = 2  # the code cell with an output
EDITS = {
    "a code cell of 16 lines": (lambda n: code(FACT)(n, "\n".join(["x = 1"] * 16)), "16 lines; at most 15"),
    "an empty code cell": (lambda n: code(FACT)(n, ""), "an empty code cell"),
    "a magic": (lambda n: code(FACT)(n, "%matplotlib inline"), "magic or shell escape"),
    "a shell escape": (lambda n: code(FACT)(n, "files = !ls"), "magic or shell escape"),
    "a semicolon": (lambda n: code(FACT)(n, "size;"), "trailing `;`"),
    "Out": (lambda n: code(FACT)(n, "Out[3]"), "uses Out"),
    "nbval comment": (lambda n: code(FACT)(n, "# NBVAL_SKIP\nx = 1"), "an nbval comment"),
    "path in code": (lambda n: code(FACT)(n, "x = '/home/me/data'"), "an absolute path: /home/me/data"),
    "path in prose": (
        lambda n: n.cells[0].update(source="# A\n see /opt/rocm/bin"),
        "an absolute path: /opt/rocm",
    ),
    "doubled backslash": (
        lambda n: n.cells[0].update(source="# A\n $4 + \\\\log_2 t$"),
        "a doubled backslash",
    ),
    "no heading": (lambda n: n.cells.pop(0), "does not begin with a heading"),
    "two parameters cells": (
        lambda n: n.cells[3].metadata.update(tags=["parameters"]),
        "the first code cell, and only that",
    ),
    "a parameter without a rule": (
        lambda n: code(0)(n, "x: int = 1"),
        "no comment that says what is allowed",
    ),
    "another name": (lambda n: code(1)(n, 'begin(globals(), "other", "?")'), 'begin(globals(), "tiny"'),
    "no record": (lambda n: code(3)(n, "print(1)"), "does not end by writing the record"),
    "counts": (lambda n: n.cells[2].update(execution_count=7), "execution counts are [1, 7, 3, 4]"),
    "unknown tag": (
        lambda n: n.cells[3].metadata.update(tags=["raises-exception"]),
        "tag 'raises-exception'",
    ),
    "cell metadata": (
        lambda n: n.cells[3].metadata.update(papermill={}),
        "metadata of other tools: papermill",
    ),
    "notebook metadata": (lambda n: n.metadata.update(papermill={}), "metadata of other tools: papermill"),
    "kernelspec": (lambda n: n.metadata.kernelspec.update(name="venv"), "its kernelspec is not python3"),
    "raw": (lambda n: n.cells.insert(1, nbformat.v4.new_raw_cell("x", id="raw")), "a raw cell"),
    "error": (
        lambda n: n.cells[3].outputs.append(
            nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[])
        ),
        "an error output (ValueError)",
    ),
    "stderr": (
        lambda n: n.cells[3].outputs.append(nbformat.v4.new_output("stream", name="stderr", text="warning")),
        "output on stderr",
    ),
    "svg": (
        lambda n: n.cells[3].outputs.append(output("<svg/>", "image/svg+xml")),
        "output of type image/svg",
    ),
    "path in output": (
        lambda n: n.cells[3].outputs.append(output("built /tmp/x/y.hsaco")),
        "an absolute path in its output: /tmp/x/y.hsaco",
    ),
    "big output": (lambda n: n.cells[3].outputs.append(output("x" * 500_000)), "bytes of output; at most"),
    "stripped": (
        lambda n: [cell.update(outputs=[], execution_count=None) for cell in gate.code_cells(n)],
        "no output that nbval would compare",
    ),
    "all ignored": (
        lambda n: n.cells[3].metadata.update(tags=["nbval-ignore-output"]),
        "no output that nbval would compare",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_finds(good, tmp_path, name):
    edit, fault = EDITS[name]
    edit(good)
    said = gate_says(good, tmp_path)
    assert any(fault in line for line in said), said


def test_finds_code_edited_after_execution(good, tmp_path):
    path = tmp_path / "tiny.ipynb"
    code(FACT)(good, "print('double', 16)")
    path.write_bytes(gate.dumps(good))
    assert gate.faults(path) == [
        "tiny.ipynb: code edited since the outputs were made: run `hipbook notebooks execute`"
    ]


@pytest.mark.filterwarnings("ignore:Non-unique cell id")
def test_finds_cells_with_the_same_id(good, tmp_path):
    path = tmp_path / "tiny.ipynb"
    path.write_bytes(gate.dumps(good).replace(b'"id": "cell-1"', b'"id": "cell-0"'))
    assert any("with the same one" in line for line in gate.faults(path))


@pytest.mark.parametrize("change", [lambda raw: raw + b"\n", lambda raw: raw.replace(b" ", b"  ", 1)])
def test_finds_other_bytes(good, tmp_path, change):
    path = tmp_path / "tiny.ipynb"
    path.write_bytes(change(gate.dumps(good)))
    assert gate.faults(path) == ["tiny.ipynb: not in canonical form: run `hipbook notebooks format`"]


@pytest.mark.parametrize("text", ["", "{}", "no json", json.dumps({"cells": [], "nbformat": 4})])
def test_a_file_that_is_no_notebook(tmp_path, text):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert len(gate.faults(path)) >= 1


@pytest.mark.parametrize(
    "text", ["a/b/c", "</td></tr>", "bytes/key/layer", "1/2/3", "https://example.org/a/b", "runs/records/a"]
)
def test_what_is_no_absolute_path(good, tmp_path, text):
    code(FACT)(good, f"x = {text!r}")
    assert gate_says(good, tmp_path) == []


def test_canonical_form_drops_what_papermill_and_jupyterlab_add(good):
    dirty = nbformat.from_dict(json.loads(json.dumps(good)))
    dirty.metadata["papermill"] = {"duration": 1.0}
    dirty.metadata["language_info"]["version"] = "3.11.2"
    dirty.cells[1].metadata["papermill"] = {"status": "completed"}
    dirty.cells[3].source += "\n"
    injected = nbformat.v4.new_code_cell("# Parameters\nx = 1", metadata={"tags": ["injected-parameters"]})
    dirty.cells.insert(2, injected)
    assert gate.dumps(gate.canonical(dirty)) == gate.dumps(good)
