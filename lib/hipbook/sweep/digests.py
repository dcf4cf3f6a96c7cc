"""Hashes of what a job's result depends on besides its parameters and board: notebook, package, kernels."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import hipbook
from hipbook import paths

_LEFT_OUT = {"__pycache__"}


def of_files(root: Path, files: Iterable[Path]) -> str:
    """A hash of names and contents, sixteen hexadecimal digits."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if not _LEFT_OUT & set(path.parts))
    return [path for path in found if path.is_file()]


@cache
def package() -> str:
    """Of hipbook itself, and of the board and model tables it reads."""
    here = Path(hipbook.__file__).parent
    tables = [path for part in ("boards", "models") for path in _files(paths.data() / part)]
    return of_files(here, _files(here)) + "-" + of_files(paths.data(), tables)[:8]


@cache
def kernels() -> str:
    return of_files(paths.kernels(), _files(paths.kernels()))


def notebook(path: Path) -> str:
    """Of a notebook's code; prose and outputs change no result."""
    from hipbook.notebooks import format as gate  # nbformat takes most of a second to import

    return gate.sources_sha256(gate.read(path))
