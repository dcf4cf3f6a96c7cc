"""Tables as plain text: what a notebook cell prints, a terminal shows and nbval compares."""

from collections.abc import Iterable, Mapping, Sequence

from hipbook.errors import BadArgument

Row = Mapping[str, object]


def cell(value: object) -> str:
    """A value as a reader wants it: counts with thousands apart, floats to four digits, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    return str(value)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def text(rows: Iterable[Row], columns: Sequence[str] | None = None) -> str:
    """`rows` as an aligned table, numbers to the right; `columns` picks and orders.

    Raises BadArgument when there is no row: an empty table is how a check passes without comparing anything.
    """
    rows = list(rows)
    if not rows:
        raise BadArgument("rows", "[]", "a table needs at least one row")
    columns = list(columns or rows[0])
    right = {c: all(_is_number(row[c]) for row in rows) for c in columns}
    lines = [columns] + [[cell(row[c]) for c in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    out = [
        "  ".join(
            part.rjust(width) if right[column] else part.ljust(width)
            for part, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    ]
    out.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(out)


def markdown(rows: Iterable[Row], columns: Sequence[str] | None = None) -> str:
    """The same as a Markdown table, for a pull request."""
    rows = list(rows)
    if not rows:
        raise BadArgument("rows", "[]", "a table needs at least one row")
    columns = list(columns or rows[0])
    lines = [columns, ["--:" if all(_is_number(r[c]) for r in rows) else "---" for c in columns]]
    lines += [[cell(row[c]).replace("|", "\\|") for c in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
