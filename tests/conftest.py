"""Fixtures several parts share."""

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import nbformat
import pytest

PARAMETERS = """\
name: str = "plain"  # any text
size: int = 8  # keys, 1..100
share: float = 0.5  # 0.0..1.0
arms: list[str] = ["online"]  # each one of online | decode
"""
BEGIN = """\
from hipbook.notebooks import begin

run = begin(globals(), "tiny", "Does a tiny notebook run?")"""
FACT = """\
run.fact("tiny", "double", 2 * size, "keys")
print("double", 2 * size)"""

# A shell makes what it starts in the background ignore Ctrl-C, and its children too; tests of it need the
# default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def write_notebook() -> Callable[..., Path]:
    """Writes FOLDER/NAME.ipynb of code cells, sources or (source, tag); by default a tiny complete one."""

    def write(folder: Path, *cells: str | tuple[str, str], name: str = "tiny") -> Path:
        sources = cells or ((PARAMETERS.rstrip(), "parameters"), BEGIN, FACT, "run.write()")
        notebook = nbformat.v4.new_notebook(
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        )
        for i, item in enumerate(sources):
            source, *tags = (item,) if isinstance(item, str) else item
            cell = nbformat.v4.new_code_cell(source, metadata={"tags": tags} if tags else {})
            cell["id"] = f"cell-{i}"
            notebook.cells.append(cell)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.ipynb"
        nbformat.write(notebook, path)
        return path

    return write


@pytest.fixture
def make_notebook(tmp_path: Path, write_notebook) -> Callable[..., Path]:
    """`write_notebook` into this test's folder."""
    return partial(write_notebook, tmp_path)


@pytest.fixture(scope="session")
def tiny_cells() -> dict[str, str]:
    """The sources of the tiny notebook, for tests that change one of them."""
    return {"parameters": PARAMETERS.rstrip(), "begin": BEGIN, "fact": FACT, "write": "run.write()"}
