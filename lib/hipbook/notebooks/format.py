"""The format gate: a committed notebook is one exact sequence of bytes, was executed, and hides nothing.

`canonical` is what a notebook must look like, `faults` lists everything wrong with one, in words. The gate
reads files and executes nothing; whether outputs are *right* is nbval's business.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

from hipbook.notebooks.parameters import BadParameters, declared

IGNORE, TOOLCHAIN, PARAMETERS = "nbval-ignore-output", "toolchain", "parameters"
ALLOWED_TAGS = frozenset({IGNORE, TOOLCHAIN, PARAMETERS})
MAX_LINES = 15  # of a code cell
MAX_OUTPUT_BYTES = 400_000  # of one cell: a figure at the resolution of the house style is about 60,000
MAX_NOTEBOOK_BYTES = 2_000_000
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}

# Two parts or more after a slash that starts a word: /home/a, /usr/lib/x, C:\Users. Not a/b, </td>, x://y.
_ABSOLUTE_PATH = re.compile(r"(?<![\w.:/<>)\]*-])/(?:[\w.+-]+/)+[\w.+-]+|\b[A-Z]:\\\w+")
_MAGIC = re.compile(r"^\s*(?:%|!|\?)|^\s*\w+\s*=\s*[!%]|\bget_ipython\(\)", re.MULTILINE)
_DOUBLED = re.compile(r"\$[^$\n]*?(\\\\[a-zA-Z]+)")
_NBVAL_COMMENT = re.compile(r"^\s*#\s*(?:NBVAL_|PYTEST_VALIDATE)", re.MULTILINE)
_REFUSED_MIME = ("image/svg+xml", "application/vnd.jupyter.widget-view+json", "application/javascript")


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def dumps(notebook: nbformat.NotebookNode) -> bytes:
    """The one text of a notebook: nbformat's own writer, one trailing newline."""
    return (nbformat.writes(notebook, version=4).rstrip("\n") + "\n").encode()


def sources_sha256(notebook: nbformat.NotebookNode) -> str:
    """A hash of the code: kept in the notebook when it is executed, so that a later edit shows."""
    sources = [[cell["id"], cell.source] for cell in code_cells(notebook)]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:16]


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def canonical(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same notebook without anything that differs between two machines or two editors."""
    made = nbformat.from_dict(json.loads(json.dumps(notebook)))
    made["nbformat"], made["nbformat_minor"] = 4, 5
    kept = {"hipbook": made.metadata["hipbook"]} if "hipbook" in made.metadata else {}
    made["metadata"] = {**kept, "kernelspec": dict(KERNELSPEC), "language_info": {"name": "python"}}
    made["cells"] = [cell for cell in made.cells if "injected-parameters" not in tags(cell)]
    for number, cell in enumerate(made.cells):
        cell["metadata"] = {"tags": tags(cell)} if tags(cell) else {}
        cell.setdefault("id", f"cell-{number}")
        cell["source"] = "\n".join(line.rstrip() for line in cell.source.strip("\n").splitlines())
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output["metadata"] = {}
            _strip_transient(output)
    return nbformat.from_dict(made)


def _strip_transient(output: dict[str, Any]) -> None:
    output.pop("transient", None)
    data = output.get("data", {})
    if "image/png" in data and isinstance(data["image/png"], str):
        data["image/png"] = data["image/png"].replace("\n", "")  # some writers wrap base64


def compared(notebook: nbformat.NotebookNode, *, toolchain: bool = False) -> int:
    """The number of cells whose text nbval compares; with `toolchain`, of those tagged so instead."""
    return sum(
        1
        for cell in code_cells(notebook)
        if IGNORE not in tags(cell)
        and (TOOLCHAIN in tags(cell)) is toolchain
        and any(_text_of(output) for output in cell.outputs)
    )


def _text_of(output: dict[str, Any]) -> str:
    """An output's text as nbval sees it; pictures are not compared."""
    if output["output_type"] == "stream":
        return output["text"]
    data = output.get("data", {})
    return "".join(str(text) for mime, text in data.items() if not mime.startswith("image/"))


def faults(path: Path) -> list[str]:
    """Everything wrong with the notebook in a file, as `where: what`; empty when it passes."""
    name, raw = path.name, path.read_bytes()
    try:
        ids = [cell.get("id") for cell in json.loads(raw)["cells"]]  # nbformat mends them as it reads
        notebook = read(path)
        nbformat.validate(notebook)
    except Exception as error:  # nbformat raises many kinds
        return [f"{name}: not a notebook: {str(error).strip().splitlines()[0]}"]
    found = [*_notebook_faults(path.stem, notebook)]
    if None in ids or len(set(ids)) != len(ids):
        found.append("cells without an id, or with the same one")
    if len(raw) > MAX_NOTEBOOK_BYTES:
        found.append(f"{len(raw):,} bytes; at most {MAX_NOTEBOOK_BYTES:,}")
    for number, cell in enumerate(notebook.cells):
        found += [f"cell {number}: {fault}" for fault in _cell_faults(cell)]
    if not found and raw != dumps(canonical(notebook)):
        found.append("not in canonical form: run `hipbook notebooks format`")
    return [f"{name}: {fault}" for fault in found]


def _notebook_faults(stem: str, notebook: nbformat.NotebookNode) -> Iterator[str]:
    cells, code = notebook.cells, code_cells(notebook)
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its kernelspec is not python3"
    if extra := set(notebook.metadata) - {"kernelspec", "language_info", "hipbook"}:
        yield f"metadata of other tools: {', '.join(sorted(extra))}"
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith("# "):
        yield "does not begin with a heading"
    tagged = [cell for cell in code if PARAMETERS in tags(cell)]
    if len(tagged) != 1 or tagged[0] is not code[0]:
        yield "the first code cell, and only that, is tagged `parameters`"
    else:
        try:
            declared(tagged[0].source)
        except BadParameters as error:
            yield error.what
    if len(code) < 3 or not re.search(rf'begin\(globals\(\), "{re.escape(stem)}"', code[1].source):
        yield f'the second code cell does not call begin(globals(), "{stem}", ...)'
    if not code or not re.search(r"\.write\(\)$", code[-1].source.strip()):
        yield "the last code cell does not end by writing the record"
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        yield f"execution counts are {counts}, not 1..{len(code)}: run `hipbook notebooks execute`"
    elif notebook.metadata.get("hipbook", {}).get("sources_sha256") != sources_sha256(notebook):
        yield "code edited since the outputs were made: run `hipbook notebooks execute`"
    if compared(notebook) == 0:
        yield "no output that nbval would compare: a stripped notebook passes for nothing"


def _cell_faults(cell: nbformat.NotebookNode) -> Iterator[str]:
    if extra := set(cell.metadata) - {"tags"}:
        yield f"metadata of other tools: {', '.join(sorted(extra))}"
    if unknown := set(tags(cell)) - ALLOWED_TAGS:
        yield f"tag {sorted(unknown)[0]!r}; allowed are {', '.join(sorted(ALLOWED_TAGS))}"
    if cell.cell_type == "markdown" and (found := _DOUBLED.search(cell.source)):
        yield f"a doubled backslash in a formula: {found.group()}"
    if cell.cell_type == "raw":
        yield "a raw cell"
    if found := _ABSOLUTE_PATH.search(cell.source):
        yield f"an absolute path: {found.group()}"
    if cell.cell_type == "code":
        yield from _code_faults(cell)


def _code_faults(cell: nbformat.NotebookNode) -> Iterator[str]:
    source = cell.source
    if source.count("\n") >= MAX_LINES:
        yield f"{source.count(chr(10)) + 1} lines; at most {MAX_LINES}: the work belongs in the package"
    if not source.strip():
        yield "an empty code cell"
    if found := _MAGIC.search(source):
        yield f"a magic or shell escape ({found.group().strip()}) can fail silently"
    if source.rstrip().endswith(";"):
        yield "a trailing `;`: nbval prints the value anyway"
    if re.search(r"\bOut\[", source):
        yield "uses Out[...]"
    if _NBVAL_COMMENT.search(source):
        yield "an nbval comment; use tags"
    size = 0
    for output in cell.outputs:
        size += len(json.dumps(output))
        if output["output_type"] == "error":
            yield f"an error output ({output.ename}); use `expect`"
        if output.get("name") == "stderr":
            yield "output on stderr"
        for mime in _REFUSED_MIME:
            if mime in output.get("data", {}):
                yield f"an output of type {mime}"
        if found := _ABSOLUTE_PATH.search(_text_of(output)):
            yield f"an absolute path in its output: {found.group()}"
    if size > MAX_OUTPUT_BYTES:
        yield f"{size:,} bytes of output; at most {MAX_OUTPUT_BYTES:,}"
