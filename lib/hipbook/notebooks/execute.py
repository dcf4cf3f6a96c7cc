"""Committed outputs: made by one command, on the default parameters, in canonical bytes.

Executing a notebook twice changes nothing in git: outputs of `nbval-ignore-output` cells (figures, timings)
stay as they are unless code or a checked output changed, and the committed record is replaced only by one
with another content.
"""

import shutil
import tempfile
from pathlib import Path

import nbformat

from hipbook import paths, records
from hipbook.notebooks import format as gate
from hipbook.records.store import write_atomically
from hipbook.sweep.runner import Outcome, run_notebook


def committed_record(notebook: Path) -> Path:
    """Where the record behind a notebook's committed outputs is kept."""
    return paths.data() / "measured" / f"{notebook.stem}{records.store.SUFFIX}"


def execute(notebook: Path, *, fresh: bool = False, slots: int = 1) -> tuple[Outcome, bool]:
    """Run `notebook` on its defaults and write its outputs back: (outcome, whether a file changed).

    Nothing is written unless the run PASSED. `fresh` takes new figures and timings as well.
    """
    folder = Path(tempfile.mkdtemp(prefix="hipbook-execute-"))
    try:
        outcome = run_notebook(notebook, out=folder, slots=slots)
        if not outcome.passed:
            return outcome, False
        old = gate.read(notebook)
        new = gate.canonical(gate.read(outcome.executed))
        new.metadata["hipbook"] = {"sources_sha256": gate.sources_sha256(new)}
        if not fresh and _same_evidence(old, new):
            _keep_unchecked(old, new)
        changed = _replace(notebook, gate.dumps(new))
        record, target = outcome.record, committed_record(notebook)
        if not _same_content(record, target):
            changed |= _replace(target, record.read_bytes())
        return outcome, changed
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _same_evidence(old: nbformat.NotebookNode, new: nbformat.NotebookNode) -> bool:
    """Whether code and checked outputs are as they were when the old outputs were made."""
    if old.metadata.get("hipbook", {}).get("sources_sha256") != new.metadata["hipbook"]["sources_sha256"]:
        return False
    pairs = zip(gate.code_cells(gate.canonical(old)), gate.code_cells(new), strict=True)
    return all(gate.IGNORE in gate.tags(b) or a.outputs == b.outputs for a, b in pairs)


def _keep_unchecked(old: nbformat.NotebookNode, new: nbformat.NotebookNode) -> None:
    for before, after in zip(gate.code_cells(gate.canonical(old)), gate.code_cells(new), strict=True):
        if gate.IGNORE in gate.tags(after):
            after["outputs"] = before.outputs


def _same_content(new: Path, committed: Path) -> bool:
    try:
        return records.read(new).content_sha256 == records.read(committed).content_sha256
    except records.BadRecord:
        return False


def _replace(path: Path, data: bytes) -> bool:
    if path.is_file() and path.read_bytes() == data:
        return False
    write_atomically(path, data)
    return True


def format_file(path: Path) -> bool:
    """Rewrite a notebook in canonical form; whether it changed. Outputs and counts stay."""
    return _replace(path, gate.dumps(gate.canonical(gate.read(path))))
