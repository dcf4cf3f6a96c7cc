"""The careful half of the CSV reader: one line at a time, one bad row costing one row.

rocprofv3 writes strings in quotes and never escapes what is inside them, so a kernel name or a marker
may hold quotes, commas and newlines. What makes such a line readable is that every other field is a
number or a plain word: the fields before the free text are counted from the left, those behind it from
the right, and what remains between is the text.
"""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import polars as pl

from hipbook.traces import schema
from hipbook.traces.trace import Rejected

MAX_LINES_OF_ONE_ROW = 32  # a marker message with more newlines than this is taken for damage
_INTEGER = re.compile(r"[+-]?\d+")
_INTEGRAL = re.compile(r"[+-]?\d+\.0*")  # a spreadsheet or pandas was here
_AGENT = re.compile(r"(?:(Agent|GPU|CPU)\s+)?(\d+)")


def signed64(value: int) -> int:
    """The same 64 bits as a signed number: 2^64-1 becomes -1. More than 64 bits is a ValueError."""
    if -(1 << 63) <= value < 1 << 63:
        return value
    if value < 1 << 64:
        return value - (1 << 64)
    raise ValueError("more than 64 bits")


def integer(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if _INTEGER.fullmatch(text):
        return signed64(int(text))
    if text[:2].lower() == "0x":
        return signed64(int(text, 16))
    if _INTEGRAL.fullmatch(text):
        return signed64(int(text.split(".")[0]))
    raise ValueError("not an integer")


def agent(text: str) -> int | None:
    """`Agent 4`, `GPU 0` or `4` as a number; an empty field (a FREE has no agent) as null."""
    if not text.strip():
        return None
    match = _AGENT.fullmatch(text.strip())
    if not match:
        raise ValueError("not an agent")
    return int(match[2])


def real(text: str) -> float | None:
    return float(text) if text.strip() else None


@dataclass(frozen=True)
class Field:
    """One column of a file: its header, our column for it (None: ignored) and how a value is read."""

    header: str
    column: str | None
    kind: object

    @property
    def is_agent(self) -> bool:
        return self.column is not None and self.column.endswith("Agent_Id")

    @property
    def read(self) -> Callable[[str], object]:
        if self.is_agent:
            return agent
        if self.kind == schema.INT:
            return integer
        return real if self.kind == schema.FLOAT else str


@dataclass(frozen=True)
class Layout:
    """A file's header, understood. `text_at` is the position of the free-text field, if any."""

    header_line: str
    fields: tuple[Field, ...]
    text_at: int | None
    required: tuple[str, ...]

    def split(self, line: str) -> list[str] | None:
        """The line's fields with their outer quotes taken off, or None when the count is wrong."""
        count = len(self.fields)
        if self.text_at is None:
            values = fields_of(line)
            return values if len(values) == count else None
        left = line.split(",", self.text_at)
        if len(left) != self.text_at + 1:
            return None
        right = left[-1].rsplit(",", count - self.text_at - 1)
        if len(right) != count - self.text_at or not _whole_text(right[0]):
            return None
        values = [unquote(value) for value in left[:-1] + right]
        values[self.text_at] = unescape(right[0])
        return values


def fields_of(line: str) -> list[str]:
    """The line by the ordinary rules of CSV; a line that breaks them is split at its commas."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return line.split(",")


def _whole_text(raw: str) -> bool:
    """Whether the free text is quoted at both ends, or not at all and then without a comma: anything else
    is a line with a field too many or too few, whose values stand in the wrong places."""
    if raw.startswith('"') or raw.endswith('"'):
        return len(raw) >= 2 and raw[0] == raw[-1] == '"'
    return "," not in raw


def unquote(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value


def unescape(value: str) -> str:
    """Free text without its outer quotes. Doubled quotes are halved only where every quote inside is
    doubled: another program rewrote the file by the book; the profiler itself never doubles one."""
    inner = unquote(value)
    return inner.replace('""', '"') if '"' not in inner.replace('""', "") else inner


@dataclass
class Parsed:
    """Rows of one stretch of lines; `leftover` is where an unfinished last row begins, if one does."""

    lines: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    repeated_headers: list[int] = field(default_factory=list)
    blank_lines: list[int] = field(default_factory=list)
    multi_line_rows: list[int] = field(default_factory=list)
    leftover: int | None = None

    def frame(self, columns: Sequence[str], types: dict[str, object]) -> pl.DataFrame:
        data = {
            name: pl.Series(name, [row.get(name) for row in self.rows], dtype=types[name], strict=True)
            for name in columns
        }
        data["Row"] = pl.Series("Row", self.lines, dtype=schema.INT)
        data["Segment"] = pl.Series("Segment", self.segments, dtype=schema.INT)
        return pl.DataFrame(data)


def read_row(values: Sequence[str], layout: Layout) -> tuple[dict[str, object], str]:
    """Values as our columns, and a reason when the row must be rejected (then "")."""
    row: dict[str, object] = {}
    for one, text in zip(layout.fields, values, strict=True):
        if one.column is None:
            continue
        try:
            row[one.column] = one.read(text)
        except ValueError as error:
            return row, f"{one.header} is {error}: {text[:40]!r}"
    for column in layout.required:
        if row.get(column) is None or row[column] == "":
            return row, f"no value in {column}"
    return row, ""


def parse_lines(
    lines: Sequence[str], first_line: int, layout: Layout, source: str, segment: int, at_end: bool
) -> Parsed:
    """Read `lines` (numbered from `first_line`). `segment` counts the headers met before them.

    With `at_end` False, a last row that may go on in the next stretch is left over instead of judged.
    """
    out = Parsed()
    position = 0
    while position < len(lines):
        line, number = lines[position], first_line + position
        if not line.strip():
            out.blank_lines.append(number)
        elif line.strip().casefold() == layout.header_line.casefold():
            out.repeated_headers.append(number)
            segment += 1
        else:
            used, row, reason = _row_at(lines, position, layout, at_end)
            if used == 0:
                out.leftover = position
                break
            if reason:
                out.rejected.append(Rejected(source, number, reason, line[:80]))
            else:
                out.rows.append(row)
                out.lines.append(number)
                out.segments.append(segment)
            if used > 1:
                out.multi_line_rows.append(number)
            position += used - 1
        position += 1
    return out


def _row_at(
    lines: Sequence[str], start: int, layout: Layout, at_end: bool
) -> tuple[int, dict[str, object], str]:
    """(lines used, row, reason); 0 lines used means the row may go on beyond `lines`."""
    line = lines[start]
    values = layout.split(line)
    row, reason = read_row(values, layout) if values else ({}, "")
    if values and not reason:
        return 1, row, ""
    if _may_continue(line, layout):
        for end in range(start + 1, min(start + MAX_LINES_OF_ONE_ROW, len(lines))):
            alone = layout.split(lines[end])
            if (alone and not read_row(alone, layout)[1]) or lines[end].strip() == layout.header_line:
                break  # the next row is whole: this one was cut
            joined = layout.split("\n".join(lines[start : end + 1]))
            if joined and not (result := read_row(joined, layout))[1]:
                return end - start + 1, result[0], ""
        else:
            if not at_end and len(lines) - start < MAX_LINES_OF_ONE_ROW:
                return 0, {}, ""
    if values:
        return 1, {}, reason
    found = len(fields_of(line))
    last = at_end and start == len(lines) - 1
    if found < len(layout.fields) or last:
        return 1, {}, f"cut {'last ' if last else ''}line (fewer fields than the header)"
    return 1, {}, f"{found} fields where the header has {len(layout.fields)}"


def _may_continue(line: str, layout: Layout) -> bool:
    """Whether the line ends inside its free text: all fields before it are there and its quote is open."""
    if layout.text_at is None:
        return False
    left = line.split(",", layout.text_at)
    if len(left) != layout.text_at + 1 or not left[-1].startswith('"'):
        return False
    for one, text in zip(layout.fields, left[:-1], strict=False):
        try:
            one.read(unquote(text))
        except ValueError:
            return False
    return True
