"""rocprofv3 CSV, every dialect, and rocprof v1, in blocks of whole lines.

A block whose every line is one plain row goes through polars in one call. A block that is not (a cut
line, a quote inside a name, a timestamp of 2^64-1, a second header) is read again line by line by
csv_rows, so damage costs its own row and a little time, and line numbers stay true. Memory is the
tables plus a few blocks, whatever the size of the file.
"""

import csv
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import polars as pl

from hipbook.traces import schema
from hipbook.traces.agents import agent_table
from hipbook.traces.bytes_in import open_bytes, read_some
from hipbook.traces.csv_blocks import parse_block, sentinel
from hipbook.traces.csv_layout import (
    dialect_of,
    domain_of,
    header_fields,
    layout_of,
    prefix_of,
    table_of,
)
from hipbook.traces.csv_rows import Parsed, parse_lines
from hipbook.traces.trace import SourceFile, Trace, TraceError

BLOCK_BYTES = 4 << 20  # big enough to keep polars busy, small enough to bound memory
LONGEST_LINE_BYTES = 64 << 20  # the longest kernel names are a few KiB
WORKERS = 2  # one block is parsed while the next is read
_BOM = b"\xef\xbb\xbf"


def read_csv(path: Path, source: str, columns: tuple[str, ...] | None = None) -> Trace:
    """One CSV file as a trace with one table. `columns` limits the dispatch table's own columns.

    Raises `TraceError` for a file that is not one of ours or lacks a required column; everything less
    than that is read around and noted.
    """
    return _CsvFile(path, source, columns).read()


class _CsvFile:
    """The state of one file being read: layout, line number, header count, and what was found."""

    def __init__(self, path: Path, source: str, columns: tuple[str, ...] | None) -> None:
        self.path, self.source = path, source
        self.trace = Trace(path=path)
        self.line = 1
        self.segment = 0
        self.frames: list[pl.DataFrame] = []
        self.parsed: list[Parsed] = []
        self.only = columns
        self.crlf = False
        self.bad_utf8 = 0
        self.cut_tail = False

    def read(self) -> Trace:
        with open_bytes(self.path) as handle:
            first = handle.readline(1 << 20)
            if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise TraceError(f"{self.source}: UTF-16 text", fix="save it as UTF-8")
            if first.startswith(_BOM):
                self.trace.note(self.source, "bom", "a byte order mark before the header: ignored")
                first = first[len(_BOM) :]
            self.crlf = first.endswith(b"\r\n")
            if self.crlf:
                self.trace.note(self.source, "crlf", "Windows line ends: ignored")
            header = first.decode("utf-8", "replace").strip()
            names = header_fields(header)
            self.kind = table_of(self.source, names)
            if not self.kind:
                return self._not_a_table(header)
            if self.kind == "agents":
                return self._agents(names, handle)
            self.table = schema.TABLES[self.kind]
            self.layout, ignored = layout_of(header, self.table, self.source)
            if ignored:
                self.trace.note(
                    self.source, "ignored_columns", f"columns not read: {', '.join(ignored)}", len(ignored)
                )
            self.line = 2
            self._read_blocks(handle)
        return self._finish(dialect_of(self.kind, names))

    def _not_a_table(self, header: str) -> Trace:
        if self.kind is None:
            raise TraceError(
                f"{self.source}: not a profiler's CSV; its first line is {header[:100]!r}",
                fix="name a file that rocprofv3, rocpd convert or rocprof wrote",
            )
        self.trace.note(self.source, "not_read", "PC sampling or thread trace: recognised, not read")
        self.trace.sources.append(SourceFile(self.source, "rocprofv3 csv", "", "", 0))
        return self.trace

    def _agents(self, names: list[str], handle: BinaryIO) -> Trace:
        """agent_info: a dozen rows of seventy columns, six of them ours, the rest kept as JSON."""
        text = read_some(handle, 1 << 30)[0].decode("utf-8", "replace").splitlines()
        records = [dict(zip(names, row, strict=False)) for row in csv.reader(text) if row]
        self.trace.agents = agent_table(records, self.source, prefix_of(self.source))
        self.trace.sources.append(
            SourceFile(self.source, "rocprofv3 csv", "rocprofv3", "agents", len(records))
        )
        return self.trace

    # --- blocks ---------------------------------------------------------------------------------

    def _blocks(self, handle: BinaryIO) -> Iterator[tuple[bytes, bool]]:
        """(sentinel and whole lines, is it the last block). The last may end without a newline."""
        first = sentinel(self.layout)
        tail = b""
        while True:
            data, broke = read_some(handle, BLOCK_BYTES)
            if broke:
                self.trace.note(self.source, "truncated", f"the compressed file ends early: {broke}")
            if not data:
                break
            if self.crlf:
                tail, data = b"", (tail + data).replace(b"\r\n", b"\n")
            cut = data.rfind(b"\n") + 1
            if cut:
                yield b"".join((first, tail, memoryview(data)[:cut])), False
                tail = data[cut:]
            else:
                tail += data
                if len(tail) > LONGEST_LINE_BYTES:
                    size = f"{LONGEST_LINE_BYTES >> 20} MiB"
                    raise TraceError(
                        f"{self.source}: a line of more than {size}, from line {self.line} on",
                        fix="the header is a profiler's, what follows is not",
                    )
        yield first + tail, True

    def _read_blocks(self, handle: BinaryIO) -> None:
        waiting: deque[tuple[bytes, bool, Future]] = deque()
        leftover, seen = b"", {}
        with ThreadPoolExecutor(WORKERS) as pool:
            for block, last in self._blocks(handle):
                waiting.append((block, last, pool.submit(parse_block, block, self.layout, self.wanted, seen)))
                if len(waiting) > WORKERS:
                    leftover = self._take(*waiting.popleft(), leftover)
            while waiting:
                leftover = self._take(*waiting.popleft(), leftover)

    @property
    def wanted(self) -> list[str]:
        """Our columns this file has, in file order; the limit `only` never drops a required one."""
        have = [one.column for one in self.layout.fields if one.column]
        if self.only is None or self.kind != "dispatches":
            return have
        return [name for name in have if name in self.only or name in self.table.required or name == "Guid"]

    def _take(self, block: bytes, last: bool, future: Future, leftover: bytes) -> bytes:
        """Add one block's rows; returns the bytes of a row that goes on in the next block."""
        frame = future.result()
        block = block[len(sentinel(self.layout)) :] if frame is None or leftover or last else block
        self.cut_tail = last and bool(block)
        if frame is not None and not leftover:
            lines = frame.height
            frame = frame.with_columns(
                pl.int_range(self.line, self.line + lines, dtype=schema.INT).alias("Row"),
                pl.lit(self.segment, dtype=schema.INT).alias("Segment"),
            )
            self.frames.append(frame)
            self.line += lines
            return b""
        text = leftover + block
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError:
            decoded = text.decode("utf-8", "replace")
            self.bad_utf8 += 1
        rows = decoded.split("\n")
        if rows and rows[-1] == "":
            rows.pop()
        rows = [row.rstrip("\r") for row in rows]
        parsed = parse_lines(rows, self.line, self.layout, self.source, self.segment, at_end=last)
        self.segment += len(parsed.repeated_headers)
        self.parsed.append(parsed)
        if parsed.rows:
            types = {one.column: one.kind for one in self.layout.fields if one.column}
            types = {k: schema.INT if k.endswith("Agent_Id") else v for k, v in types.items()}
            self.frames.append(parsed.frame(self.wanted, types))
        if parsed.leftover is None:
            self.line += len(rows)
            return b""
        self.line += parsed.leftover
        return "\n".join(rows[parsed.leftover :]).encode() + b"\n"

    # --- the end --------------------------------------------------------------------------------

    def _finish(self, dialect: str) -> Trace:
        trace, source = self.trace, self.source
        headers = [line for parsed in self.parsed for line in parsed.repeated_headers]
        if headers:
            trace.note(
                source,
                "repeated_header",
                "a second header inside: files of several processes or ranks, one behind the other",
                len(headers),
                headers,
            )
        for kind, text in (
            ("blank_lines", "empty lines"),
            ("multi_line_rows", "rows whose text holds newlines"),
        ):
            lines = [line for parsed in self.parsed for line in getattr(parsed, kind)]
            if lines:
                trace.note(source, kind, text, len(lines), lines)
        trace.rejected += [one for parsed in self.parsed for one in parsed.rejected]
        if self.cut_tail and not any(one.line == self.line - 1 for one in trace.rejected):
            text = "the last line has no newline: its last field may be cut"
            trace.note(source, "no_final_newline", text, lines=(self.line - 1,))
        if self.bad_utf8:
            trace.note(source, "bad_utf8", "bytes that are not UTF-8: replaced", self.bad_utf8)
        # conformed one at a time, and each let go of, so that the peak stays near the result's size
        self.frames.reverse()
        done = []
        while self.frames:
            done.append(self._with_origin(self.frames.pop()))
        frame = pl.concat(done, how="vertical") if done else pl.DataFrame()
        kind = self.kind
        if not frame.height:
            trace.note(source, "no_rows", f"a {kind} file without rows: an empty trace, not an error")
        elif kind == "api_calls":
            marker = frame["Domain"].cast(pl.String).fill_null("").str.starts_with("MARKER")
            trace.markers = schema.MARKERS.conform(frame.filter(marker))
            trace.api_calls = schema.API_CALLS.conform(frame.filter(~marker))
        else:
            setattr(trace, kind, self.table.conform(frame))
            if kind == "dispatches":
                trace.counters = _wide_counters(frame)
        trace.sources.append(SourceFile(source, "rocprofv3 csv", dialect, kind, frame.height))
        return trace

    def _with_origin(self, frame: pl.DataFrame) -> pl.DataFrame:
        process = prefix_of(self.source)
        if "Guid" in frame.columns:
            identity = pl.col("Guid").cast(pl.String)
        elif frame["Segment"].max():
            number = pl.col("Segment") + 1
            identity = pl.when(number > 1).then(
                pl.format("{}#{}", pl.lit(process), number)
            ).otherwise(pl.lit(process))  # fmt: skip
        else:
            identity = pl.lit(process)
        extra = [
            pl.lit(self.source).cast(schema.TEXT).alias("Source"),
            identity.cast(schema.TEXT).alias("Process"),
        ]
        domain = domain_of(self.source)
        if self.kind == "allocations":
            word = "SCRATCH_MEMORY" if "scratch" in domain else "MEMORY_ALLOCATION"
            extra.append(pl.lit(word).cast(schema.TEXT).alias("Kind"))
        elif self.kind == "copies":
            plain = pl.col("Direction").cast(pl.String).str.strip_prefix("MEMORY_COPY_").cast(schema.TEXT)
            extra.append(plain)
        elif self.kind == "counters":
            extra.append(pl.lit(_pass_of(self.source)).cast(schema.TEXT).alias("Pass"))
        elif self.kind == "reported_stats":
            extra.append(pl.lit(domain.removesuffix("_stats")).cast(schema.TEXT).alias("Domain"))
        return frame.with_columns(extra)


def _pass_of(source: str) -> str:
    """`pass_2` where the path has one; else the file's own prefix: every file is a pass of its own."""
    match = re.search(r"(?:^|/)(pass_\d+)(?:/|$)", source)
    return match[1] if match else prefix_of(source).rsplit("/", 1)[-1]


def _wide_counters(frame: pl.DataFrame) -> pl.DataFrame:
    """rocprof v1's counter columns as rows of the counter table."""
    wide = [name for name in frame.columns if name.startswith("counter:")]
    if not wide:
        return schema.COUNTERS.empty()
    kept = [name for name in schema.COUNTERS.columns if name in frame.columns]
    long = frame.unpivot(wide, index=kept, variable_name="Counter_Name", value_name="Counter_Value")
    return schema.COUNTERS.conform(
        long.with_columns(
            pl.col("Counter_Name").str.strip_prefix("counter:"), pl.lit("pass_1").alias("Pass")
        ).filter(pl.col("Counter_Value").is_not_null())
    )
