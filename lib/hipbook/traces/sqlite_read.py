"""A database from a stranger, read and nothing else.

The file is opened read-only; triggers cannot fire because nothing is written, views are never asked
(only plain tables are), and an authorizer refuses every operation but reading. Integer tables come over
as JSON that SQLite builds block by block and polars parses: several times faster than a tuple a row.
"""

import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl

from hipbook.traces.csv_rows import integer
from hipbook.traces.trace import Rejected, Trace, TraceError

MAGIC = b"SQLite format 3\0"
BLOCK_ROWS = 1 << 16
WORKERS = 2
MAX_BLOCKS = 1 << 16
_FUNCTIONS = {"json_array", "json_group_array", "min", "max", "count", "like"}


def is_sqlite(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(16) == MAGIC


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Database:
    """One file. `tables` maps the name of every plain table to its columns."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.source = path, source
        self.immutable = self._safe_as_immutable()
        self.connection = self._open(authorized=False)
        try:
            found = self.connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            plain = [name for name, sql in found if sql and "virtual" not in sql.split("(")[0].lower()]
            self.tables = {
                name: [row[1] for row in self.connection.execute(f"PRAGMA table_info({quoted(name)})")]
                for name in plain
            }
        except sqlite3.Error as error:
            self.connection.close()
            raise self._refusal(error) from error
        self.connection.set_authorizer(_authorize)

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def _safe_as_immutable(self) -> bool:
        """A database in WAL mode would make SQLite create files beside it; without a log to read there
        is no need, so it is opened as unchanging. Every other file is opened with its locks respected."""
        with self.path.open("rb") as handle:
            head = handle.read(20)
        log = self.path.with_name(self.path.name + "-wal")
        return head[18:20] == b"\x02\x02" and not (log.exists() and log.stat().st_size)

    def _open(self, authorized: bool = True) -> sqlite3.Connection:
        uri = f"{self.path.resolve().as_uri()}?mode=ro" + ("&immutable=1" if self.immutable else "")
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=0.2, isolation_level=None)
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA mmap_size = 0")  # a page cache counts less than a mapped file
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        if authorized:
            connection.set_authorizer(_authorize)
        return connection

    def _refusal(self, error: sqlite3.Error) -> TraceError:
        text = str(error)
        if "locked" in text or "busy" in text:
            return TraceError(
                f"{self.source}: the database is locked: another process is writing it",
                fix="wait until the profiled program has ended",
            )
        if "malformed" in text or "not a database" in text or "disk I/O" in text:
            return TraceError(
                f"{self.source}: the database is cut or damaged: {text}",
                fix="copy it again, or profile again",
            )
        if "readonly" in text:
            return TraceError(
                f"{self.source}: its writer was interrupted: a rollback journal lies beside the database",
                fix="profile again; or let `sqlite3` roll it back in a copy of both files",
            )
        return TraceError(f"{self.source}: cannot read the database: {text}")

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple]:
        """All rows of a query over plain tables; any error of SQLite is a `TraceError`."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def integers(
        self, table: str, columns: Sequence[str], required: Sequence[str], trace: Trace
    ) -> pl.DataFrame:
        """Integer columns of a table as a frame, with `rowid` first.

        A column the table lacks is null. A row with something else than an integer, or nothing in a
        `required` column, is rejected with its rowid.
        """
        have = {name.lower() for name in self.tables[table]}
        present = [name for name in columns if name.lower() in have]
        missing = [name for name in required if name not in present]
        if missing:
            raise TraceError(
                f"{self.source}: table {table} without the column {', '.join(missing)}; "
                f"it has {', '.join(self.tables[table])}"
            )
        low, high, count = self.rows(f"SELECT min(rowid), max(rowid), count(*) FROM {quoted(table)}")[0]
        frames = [pl.DataFrame(schema=dict.fromkeys(("rowid", *present), pl.Int64))]
        if count:
            # ids are dense in what the profiler writes; where they are not, blocks span more of them
            step = BLOCK_ROWS * max(1, (high - low + 1) // count)
            blocks = [(after, min(after + step, high)) for after in range(low - 1, high, step)]
            if len(blocks) > MAX_BLOCKS:
                raise TraceError(f"{self.source}: table {table} has row ids from {low} to {high}")
            read = partial(self._blocks, table, present, required)
            with ThreadPoolExecutor(WORKERS) as pool:
                for found, rejected in pool.map(read, _shares(blocks)):
                    frames += found
                    trace.rejected += rejected
        frame = pl.concat(frames, how="vertical")
        absent = [pl.lit(None, dtype=pl.Int64).alias(name) for name in columns if name not in present]
        return frame.with_columns(absent).select("rowid", *columns)

    def _blocks(
        self, table: str, columns: Sequence[str], required: Sequence[str], blocks: Sequence[tuple[int, int]]
    ) -> tuple[list[pl.DataFrame], list[Rejected]]:
        """Blocks of rows (after < rowid <= last); runs in a thread of its own with its own connection."""
        names = ["rowid", *columns]
        values = ", ".join(name if name == "rowid" else quoted(name) for name in names)
        text_of = (
            f"SELECT json_group_array(json_array({values})), count(*) FROM {quoted(table)} "
            "WHERE rowid > ? AND rowid <= ?"
        )
        types = dict.fromkeys(names, pl.Int64)
        frames: list[pl.DataFrame] = []
        rejected: list[Rejected] = []
        connection = self._open()
        try:
            for block in blocks:
                text, count = connection.execute(text_of, block).fetchone()
                if not count:
                    continue
                frame = _parse(text, types, count, required)
                if frame is None:
                    frame, bad = self._row_by_row(connection, table, columns, required, *block)
                    rejected += bad
                frames.append(frame)
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        finally:
            connection.close()
        return frames, rejected

    def _row_by_row(
        self, connection: sqlite3.Connection, table: str, columns: Sequence[str],
        required: Sequence[str], after: int, last: int,
    ) -> tuple[pl.DataFrame, list[Rejected]]:  # fmt: skip
        names = ["rowid", *columns]
        wanted = ", ".join(name if name == "rowid" else quoted(name) for name in names)
        sql = f"SELECT {wanted} FROM {quoted(table)} WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
        good: list[list[int | None]] = []
        rejected = []
        for row in connection.execute(sql, (after, last)):
            values: list[int | None] = []
            reason = ""
            for name, value in zip(names, row, strict=True):
                try:
                    values.append(value if value is None or isinstance(value, int) else integer(str(value)))
                except ValueError as error:
                    reason = f"{name} is {error}: {str(value)[:40]!r}"
                    break
                if value is None and name in required:
                    reason = f"no value in {name}"
                    break
            if reason:
                rejected.append(Rejected(self.source, row[0], f"{table}: {reason}", str(row)[:80]))
            else:
                good.append(values)
        return pl.DataFrame(good, schema=dict.fromkeys(names, pl.Int64), orient="row"), rejected


def _shares(blocks: Sequence[tuple[int, int]]) -> list[Sequence[tuple[int, int]]]:
    """The blocks in one run of neighbours for each worker, so that order is kept."""
    half = -(-len(blocks) // WORKERS)
    return [blocks[start : start + half] for start in range(0, len(blocks), half)]


def _parse(
    text: str, types: dict[str, pl.DataType], count: int, required: Sequence[str]
) -> pl.DataFrame | None:
    """`[[1,2],[3,null]]` as integers, or None when some value in it is none."""
    lines = text[2:-2].encode().replace(b"],[", b"\n")
    try:
        frame = pl.scan_csv(
            lines, has_header=False, schema=types, quote_char=None, null_values="null"
        ).collect()
    except pl.exceptions.PolarsError:
        return None
    if frame.height != count or any(frame[name].null_count() for name in ("rowid", *required)):
        return None
    return frame.sort("rowid") if not frame["rowid"].is_sorted() else frame
