"""Reading JSON that may be compressed, cut, or not ours; numbers keep their text."""

import json
from pathlib import Path

import polars as pl

from hipbook.traces import schema
from hipbook.traces.bytes_in import open_bytes, read_some
from hipbook.traces.csv_rows import signed64
from hipbook.traces.trace import TraceError

_CHUNK = 8 << 20
_SDK_KEY, _KINETO_KEY = b'"rocprofiler-sdk-tool"', b'"traceEvents"'


def json_kind(path: Path, head: bytes) -> str:
    """Which format: `sdk`, `kineto` or nothing. The whole file is searched for the key: megabytes of
    metadata may stand before it."""
    if head.lstrip()[:1] == b"[":
        return "kineto" if b'"ph"' in head else ""
    tail = b""
    with open_bytes(path) as handle:
        while chunk := read_some(handle, _CHUNK)[0]:
            window = tail + chunk
            if _SDK_KEY in window:
                return "sdk"
            if _KINETO_KEY in window:
                return "kineto"
            tail = chunk[-32:]
    return ""


def read_all(path: Path) -> tuple[bytes, bool]:
    """(the file's bytes, decompressed; whether a compressed file ended early)."""
    pieces, broke = [], ""
    with open_bytes(path) as handle:
        while not broke:
            chunk, broke = read_some(handle, _CHUNK)
            if not chunk:
                break
            pieces.append(chunk)
    return b"".join(pieces), bool(broke)


def load(data: bytes, source: str) -> object:
    """The parsed document, decimals as their text (a double cannot hold microseconds to the ns)."""
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_float=str)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TraceError(
            f"{source}: not whole JSON: {error}", fix="the file was cut or is still being written"
        ) from error


def load_cut_events(data: bytes, source: str) -> tuple[object, bool]:
    """Like `load`; a list of events that ends in the middle is closed behind its last whole event.

    Returns (document, whether it had been cut).
    """
    try:
        return load(data, source), False
    except TraceError as error:
        text = data.decode("utf-8", "replace").rstrip()
        end = len(text)
        closing = "}]" if text.startswith("[") else "}]}"
        for _ in range(64):  # nested objects end in }, too: walk back to one that closes an event
            end = text.rfind("},", 0, end)
            if end < 0:
                break
            try:
                return json.loads(text[:end] + closing, parse_float=str), True
            except json.JSONDecodeError:
                continue
        raise error


def nanoseconds(microseconds: list[object]) -> pl.Series:
    """Microseconds as JSON wrote them (integers or decimal text) to integer ns, rounded to the nearest.

    Done in decimals: 6520618853487.683 us is 6520618853487683 ns, whatever a double would make of it.
    What is not a number becomes null.
    """
    text = pl.Series(
        [str(value) if isinstance(value, int | str) else None for value in microseconds], dtype=pl.String
    )
    exact = text.cast(pl.Decimal(38, 3), strict=False)
    return (exact * 1000).cast(pl.Int64, strict=False)


def whole(value: object) -> int | None:
    """A JSON integer in 64 signed bits; null and what is no integer as None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    try:
        return signed64(value)
    except ValueError:
        return None


def frame_of(table: schema.Table, columns: dict[str, object], rows: int) -> pl.DataFrame:
    """Columns (lists, or one value for all rows) as a frame with the table's columns and types."""
    data = {}
    for name, values in columns.items():
        kind = table.types[name]
        if isinstance(values, list | pl.Series):
            data[name] = pl.Series(name, values, dtype=kind, strict=False)
        else:
            data[name] = pl.repeat(values, rows, dtype=pl.String if kind == schema.TEXT else kind, eager=True)
    return table.conform(pl.DataFrame(data)) if rows else table.empty()
