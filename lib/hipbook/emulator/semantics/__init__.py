"""What each opcode computes, as tables: name, types, and one C expression.

A row is `NAME  result  sources  expression`, columns apart by two spaces or more. The sources are called
a, b, c in the expression; a row either is an expression or assigns `d` (the result) and, where it has one,
`k` (the second result, a lane mask) itself. Opcode names are those of the RDNA4 ISA document without the
encoding suffix (_E32, _E64) and without V_DUAL_; `aliases` gives the names of other generations.

Vector types: u32 i32 f32 b32 (32 bits; b32 takes abs/neg but is not rounded), u64 i64 f64, u16 i16 f16 (a
half register), mask (one bit a lane, in an SGPR), vcc (the same, always VCC), `=` after a type: the old
destination. Functions are those of runtime/alu.h.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One opcode: result types (of d and, for a carry, k), source types, and what is computed."""

    name: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    code: str


def parse(table: str) -> dict[str, Row]:
    """The rows of a table by name. Raises ValueError for a malformed or repeated row."""
    rows: dict[str, Row] = {}
    for line in table.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        columns = re.split(r"\s{2,}", line, maxsplit=3)
        if len(columns) != 4 or columns[0] in rows:
            raise ValueError(f"bad row in a semantics table: {line}")
        name, results, sources, code = columns
        rows[name] = Row(
            name,
            () if results == "-" else tuple(results.split("+")),
            () if sources == "-" else tuple(sources.split()),
            code,
        )
    return rows
