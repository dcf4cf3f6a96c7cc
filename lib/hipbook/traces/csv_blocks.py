"""The quick half of the CSV reader: a block of plain lines in one call of polars.

A block is taken only when every line of it certainly became one row with all its fields; what it has to
show for that stands in `parse_block`. Anything less goes line by line through csv_rows.
"""

import re

import polars as pl

from hipbook.traces import schema
from hipbook.traces.csv_rows import Layout, integer
from hipbook.traces.csv_rows import agent as parse_agent

_INNER_QUOTE = re.compile(rb'[^,\n]"[^,\r\n]')  # a quote that neither opens nor closes a field


def sentinel(layout: Layout) -> bytes:
    """The line that stands before every block, with one field more than the header.

    polars takes the number of columns from the first line and drops a field too many without a word;
    with a column for it, such a field shows.
    """
    return b"," * len(layout.fields) + b"0\n"


def parse_block(
    block: bytes, layout: Layout, wanted: list[str], seen: dict[str, set[str]]
) -> pl.DataFrame | None:
    """The rows of a block (sentinel first) where every line is one plain row; None where one is not.

    `seen` holds, by column, texts that were looked at before: a block whose texts are all known needs no
    second look at its quotes.
    """
    # Agent columns are text in some releases, addresses are hexadecimal: read as text, then mapped.
    kinds = {
        f"{position}": schema.TEXT
        if one.is_agent or one.column is None
        else (pl.String if one.column == "Address" else one.kind)
        for position, one in enumerate(layout.fields)
    }
    kinds["beyond"] = pl.String
    place = {one.column: f"{position}" for position, one in enumerate(layout.fields) if one.column}
    last = f"{len(layout.fields) - 1}"
    chosen = list(dict.fromkeys([place[name] for name in wanted] + [last, "beyond"]))
    try:
        frame = pl.scan_csv(block, has_header=False, schema=kinds).select(chosen).collect().slice(1)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None
    # A short line leaves its last field empty, an empty line all of them, a newline inside a text shows
    # in that text: without any of these, every line became one row with all its fields.
    if not frame.height or frame["beyond"].null_count() < frame.height or frame[last].null_count():
        return None
    if any(frame[place[name]].null_count() for name in layout.required):
        return None
    frame = frame.select([pl.col(place[name]).alias(name) for name in wanted])
    new = {
        name: {text or "" for text in frame[name].unique()} - seen.get(name, set())
        for name in wanted
        if frame[name].dtype == schema.TEXT
    }
    for name, texts in new.items():
        if any("\n" in text or "\r" in text for text in texts) or (name in layout.required and "" in texts):
            return None
    if any(new.values()) and not _plain_quotes(block):
        return None
    for name, texts in new.items():
        seen.setdefault(name, set()).update(texts)
    for name in wanted:
        if name.endswith("Agent_Id") or name == "Address":
            mapped = _map_text(frame[name], name)
            if mapped is None:
                return None
            frame = frame.with_columns(mapped)
    return frame


def _plain_quotes(block: bytes) -> bool:
    """Whether no quote stands inside a field; polars would drop such a quote without a word."""
    return _INNER_QUOTE.search(block) is None


def _map_text(series: pl.Series, name: str) -> pl.Series | None:
    text = series.cast(pl.String)
    if name == "Address":
        try:
            values = [integer(value or "") for value in text]
        except ValueError:
            return None
        return pl.Series(name, values, dtype=schema.INT)
    try:
        known = {value: parse_agent(value) for value in text.unique() if value is not None}
    except ValueError:
        return None
    if len(known) == 1 and not text.null_count():
        return pl.repeat(next(iter(known.values())), series.len(), dtype=schema.INT, eager=True).alias(name)
    return text.replace_strict(known, return_dtype=schema.INT, default=None).alias(name)
