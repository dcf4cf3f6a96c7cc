"""The quick half of the CSV reader: a block of plain lines in one call of polars.

A block is taken only when every line of it certainly became one row with all its fields; what it has to
show for that stands in `parse_block`. Anything less goes line by line through csv_rows.
"""

import re

import polars as pl

from hipbook.traces import schema
from hipbook.traces.csv_rows import Layout
from hipbook.traces.csv_rows import agent as parse_agent

_INNER_QUOTE = re.compile(rb'[^,\n]"[^,\r\n]')  # a quote that neither opens nor closes a field


def parse_block(block: bytes, layout: Layout, wanted: list[str]) -> pl.DataFrame | None:
    """The block's rows where every line is one plain row of the layout; None where one is not."""
    if not block or b"\r" in block:
        return None
    # Agent columns are text in some releases, addresses are hexadecimal: read as text, then mapped.
    kinds = {
        f"{position}": schema.TEXT
        if one.is_agent or one.column is None
        else (pl.String if one.column == "Address" else one.kind)
        for position, one in enumerate(layout.fields)
    }
    place = {one.column: f"{position}" for position, one in enumerate(layout.fields) if one.column}
    last = f"{len(layout.fields) - 1}"
    chosen = list(dict.fromkeys([place[name] for name in wanted] + [last]))
    try:
        frame = pl.scan_csv(block, has_header=False, schema=kinds).select(chosen).collect()
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None
    # A short line leaves its last field empty, an empty line all of them, a newline inside a text shows
    # in that text: without any of these, every line became one row with all its fields.
    if frame[last].null_count() or any(frame[place[name]].null_count() for name in layout.required):
        return None
    if not _plain_quotes(block, frame.height):
        return None
    frame = frame.select([pl.col(place[name]).alias(name) for name in wanted])
    for name in wanted:
        if frame[name].dtype == schema.TEXT and any("\n" in (text or "") for text in frame[name].unique()):
            return None
        if name.endswith("Agent_Id") or name == "Address":
            mapped = _map_text(frame[name], name)
            if mapped is None:
                return None
            frame = frame.with_columns(mapped)
    return frame


def _plain_quotes(block: bytes, lines: int) -> bool:
    """Whether no quote stands inside a field; polars would drop such a quote without a word.

    The cheap test first: a first line without inner quotes, and as many quotes in every other line.
    """
    first = block[: block.find(b"\n") + 1 or len(block)]
    if block.count(b'"') == first.count(b'"') * lines and not _INNER_QUOTE.search(first):
        return True
    return _INNER_QUOTE.search(block) is None


def _map_text(series: pl.Series, name: str) -> pl.Series | None:
    text = series.cast(pl.String)
    if name == "Address":
        values = [int(value, 16) if value else None for value in text]
        return pl.Series(name, values, dtype=schema.INT)
    try:
        known = {value: parse_agent(value) for value in text.unique() if value is not None}
    except ValueError:
        return None
    if len(known) == 1 and not text.null_count():
        return pl.repeat(next(iter(known.values())), series.len(), dtype=schema.INT, eager=True).alias(name)
    return text.replace_strict(known, return_dtype=schema.INT, default=None).alias(name)
