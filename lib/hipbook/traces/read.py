"""`read_trace`: one call for a file, a folder as the profiler left it, or a gzip of either's files."""

import os
from collections.abc import Callable
from pathlib import Path

from hipbook.traces import csv_layout
from hipbook.traces.bytes_in import open_bytes, read_some
from hipbook.traces.csv_reader import read_csv
from hipbook.traces.kineto import read_kineto
from hipbook.traces.rocpd import is_sqlite, read_rocpd
from hipbook.traces.sdk_json import json_kind, read_sdk_json
from hipbook.traces.trace import Trace, TraceError, merge

MAX_FILES = 10_000  # more than that is somebody's home directory, not a profiler's output
TIMES: tuple[str, ...] = ()  # beyond the required columns: name, start and end are enough for statistics


def read_trace(path: str | os.PathLike[str], *, times_only: bool = False) -> Trace:
    """Read a trace of any known format (see docs/traces.md) into the tables of schema.py.

    `path` is a file or a folder; in a folder every file of a known format is read, several processes
    and counter passes included, and the rest is left alone and named in the notes. `times_only` leaves
    out what statistics do not need (registers, sizes, ids), for files of a million rows.
    Raises `TraceError`: nothing there, nothing recognised, or a file that claims a format and breaks it.
    """
    path = Path(path)
    if not path.exists():
        raise TraceError(f"{path}: no such file or folder")
    if not (path.is_dir() or path.is_file()):
        raise TraceError(f"{path}: neither a file nor a folder")
    try:
        return _read_folder(path, times_only) if path.is_dir() else _read_file(path, times_only)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_file(path: Path, times_only: bool) -> Trace:
    reader = _reader_of(path, path.name)
    if reader is None:
        raise TraceError(
            f"{path}: not a trace: {_what_it_is(path)}",
            fix="known: rocprofv3 CSV and JSON, rocpd databases, torch.profiler JSON, rocprof v1 CSV",
        )
    trace = reader(path, path.name, times_only)
    trace.path = path
    return trace


def _read_folder(folder: Path, times_only: bool) -> Trace:
    parts: list[Trace] = []
    skipped: list[str] = []
    files = _files(folder)
    for file in files:
        source = file.relative_to(folder).as_posix()
        reader = _reader_of(file, source)
        if reader is None:
            skipped.append(source)
            continue
        parts.append(reader(file, source, times_only))
    if not parts:
        found = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        raise TraceError(
            f"{folder}: no trace in this folder; " + (f"it holds {found}" if found else "it is empty"),
            fix="a domain without data writes no file: was the program run under the profiler at all?",
        )
    trace = merge(folder, parts)
    if skipped:
        trace.note("", "skipped_files", f"not traces: {', '.join(skipped[:5])}", len(skipped))
    _note_mixture(trace)
    return trace


def _files(folder: Path) -> list[Path]:
    """Every file below, in a fixed order, without following links out of the folder."""
    files: list[Path] = []
    for where, below, names in os.walk(folder, followlinks=False):
        below.sort()
        files += [Path(where) / name for name in sorted(names) if not name.startswith(".")]
        if len(files) > MAX_FILES:
            raise TraceError(
                f"{folder}: more than {MAX_FILES} files", fix="name the profiler's output folder"
            )
    return [file for file in files if file.is_file()]


def _note_mixture(trace: Trace) -> None:
    """A folder may hold the same run twice (CSV and database of one process): say so."""
    formats = {source.format for source in trace.sources if source.rows and source.table == "dispatches"}
    if len(formats) > 1:
        trace.note(
            "",
            "mixed_formats",
            f"dispatches in {len(formats)} formats ({', '.join(sorted(formats))}): "
            "the same run may be counted more than once; read one of them",
        )


Reader = Callable[[Path, str, bool], Trace]


def _reader_of(path: Path, source: str) -> Reader | None:
    """Who reads this file, told by its content; None when it is none of ours."""
    if is_sqlite(path):
        return lambda file, name, times: read_rocpd(file, name, times_only=times)
    if path.stat().st_size == 0:
        return None
    with open_bytes(path) as handle:
        head = read_some(handle, 1 << 16)[0]
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if lines[:1] in (b"{", b"["):
        kind = json_kind(path, head)
        readers = {"sdk": read_sdk_json, "kineto": read_kineto}
        return _of_known_form(readers[kind]) if kind else None
    first = lines.split(b"\n")[0]
    if b"\0" in first and head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return None
    names = csv_layout.header_fields(first.decode("utf-8", "replace").strip())
    named = csv_layout.domain_of(source) in csv_layout.OWN_DOMAINS
    if csv_layout.table_of(source, names) is None and not named:
        return None
    return lambda file, name, times: read_csv(file, name, TIMES if times else None)


def _of_known_form(reader: Callable[[Path, str], Trace]) -> Reader:
    """A JSON reader whose surprise at a value of another kind (a list where an object belongs) is an error
    that names the file. Surprises in single records are met in the readers, and cost the record."""

    def read(path: Path, source: str, times_only: bool) -> Trace:
        try:
            return reader(path, source)
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
            raise TraceError(
                f"{source}: JSON, but not of the known form: {type(error).__name__}: {error}",
                fix="if its profiler wrote it so, the format has changed: report it",
            ) from error

    return read


def _what_it_is(path: Path) -> str:
    size = path.stat().st_size
    if not size:
        return "the file is empty"
    with path.open("rb") as handle:
        return f"{size} bytes that begin with {handle.read(40)!r}"
