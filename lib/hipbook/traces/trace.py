"""What reading a trace gives: the tables, and everything the reader tolerated on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from hipbook.errors import HipbookError
from hipbook.traces import schema


class TraceError(HipbookError):
    """Something that cannot be read as a trace: names the file, the rule and what was found."""


@dataclass(frozen=True)
class Rejected:
    """One row that was dropped. `line` counts from 1 and includes the header."""

    source: str
    line: int
    reason: str
    text: str = ""  # its first 80 characters


@dataclass(frozen=True)
class Note:
    """Something tolerated: what it is (`kind`, a fixed word), how often, and where."""

    source: str
    kind: str
    text: str
    count: int = 1
    lines: tuple[int, ...] = ()  # the first few


@dataclass(frozen=True)
class SourceFile:
    """One file that was read. `dialect` is the release whose columns it has, as far as they tell."""

    path: str
    format: str
    dialect: str
    table: str
    rows: int


@dataclass
class Trace:
    """Tables of one run (see schema.py), with their origin and the reader's log.

    `facts` holds what the format says of the run as a whole: rank, device names, host, command.
    Environment variables are never kept: traces in the wild carry access tokens in them.
    """

    path: Path
    dispatches: pl.DataFrame = field(default_factory=schema.DISPATCHES.empty)
    api_calls: pl.DataFrame = field(default_factory=schema.API_CALLS.empty)
    markers: pl.DataFrame = field(default_factory=schema.MARKERS.empty)
    copies: pl.DataFrame = field(default_factory=schema.COPIES.empty)
    allocations: pl.DataFrame = field(default_factory=schema.ALLOCATIONS.empty)
    counters: pl.DataFrame = field(default_factory=schema.COUNTERS.empty)
    agents: pl.DataFrame = field(default_factory=schema.AGENTS.empty)
    reported_stats: pl.DataFrame = field(default_factory=schema.REPORTED.empty)
    sources: list[SourceFile] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    def tables(self) -> dict[str, pl.DataFrame]:
        return {name: getattr(self, name) for name in schema.TABLES}

    def note(self, source: str, kind: str, text: str, count: int = 1, lines: Sequence[int] = ()) -> None:
        self.notes.append(Note(source, kind, text, count, tuple(lines)[:10]))

    @property
    def formats(self) -> list[str]:
        return sorted({source.format for source in self.sources})

    def replace_tables(self, **tables: pl.DataFrame) -> "Trace":
        """The same trace with some tables replaced (a window of it, say); log and facts stay."""
        unknown = set(tables) - set(schema.TABLES)
        if unknown:
            raise KeyError(f"no such table: {sorted(unknown)}")
        return Trace(
            path=self.path,
            sources=self.sources,
            rejected=self.rejected,
            notes=self.notes,
            facts=self.facts,
            **{**self.tables(), **tables},
        )


def merge(path: Path, parts: Sequence[Trace]) -> Trace:
    """One trace from the files of a folder, rows in the order of `parts`."""
    merged = Trace(path=path)
    for name in schema.TABLES:
        filled = [part.tables()[name] for part in parts if part.tables()[name].height]
        if filled:
            setattr(merged, name, filled[0] if len(filled) == 1 else pl.concat(filled, how="vertical"))
    for part in parts:
        merged.sources += part.sources
        merged.rejected += part.rejected
        merged.notes += part.notes
        for key, value in part.facts.items():
            merged.facts.setdefault(key, value)
    return merged
