"""Times that a GPU board gave us, for notebooks that count on an emulated one: read from committed records.

`data/measured/<board>/*.record.json` are records of runs on a board with a clock. A notebook shows the newest
one's figures with board and date, and runs without.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from hipbook import paths, records
from hipbook.records import Record

Row = dict[str, object]
NONE = "no record of a GPU board is in data/measured: nothing here was timed by us"


def newest_file(operation: str, folder: Path | None = None) -> tuple[Path, Record] | None:
    """The record of a GPU board that finished last among those with a measured figure of `operation`, and its
    file."""
    return newest_of(lambda record: bool(rows(record, operation)), folder)


def newest_of(wanted: Callable[[Record], bool], folder: Path | None = None) -> tuple[Path, Record] | None:
    """The record of a GPU board that finished last among those wanted, and its file."""
    root = folder or paths.data() / "measured"
    found = [
        (path, record)
        for board in sorted(root.iterdir() if root.is_dir() else ())
        if board.is_dir()
        for path in records.find(board)
        if (record := records.read(path)).board.get("kind") == "gpu" and wanted(record)
    ]
    return max(found, key=lambda one: datetime.fromisoformat(one[1].times.finished), default=None)


def newest(operation: str, folder: Path | None = None) -> Record | None:
    """The record of `newest_file`."""
    found = newest_file(operation, folder)
    return found[1] if found else None


def rows(record: Record, operation: str) -> list[Row]:
    """Measured figures whose subject begins with the operation's name, as the record holds them."""
    return [
        {
            "subject": fact.subject,
            "quantity": fact.quantity,
            "value": fact.value,
            "unit": fact.unit,
            "bound": None if fact.bound is None else fact.bound.value,
        }
        for fact in record.facts
        if fact.kind == "measured" and fact.subject.startswith(f"{operation} ")
    ]


def told(operation: str, folder: Path | None = None) -> tuple[str, Sequence[Row]]:
    """(board and date in words, the figures), or (that there are none, nothing)."""
    record = newest(operation, folder)
    if record is None:
        return NONE, ()
    return words(record), rows(record, operation)


def words(record: Record) -> str:
    """Which board, when, at which commit."""
    board = record.board
    product = f" ({board['product']})" if board.get("product") else ""
    made = record.environment
    commit = f", commit {made.commit[:12]}{' and changes to it' if made.dirty else ''}" if made.commit else ""
    return f"measured on {board['name']}{product}, {board['arch']}, {record.times.finished[:10]}{commit}"
