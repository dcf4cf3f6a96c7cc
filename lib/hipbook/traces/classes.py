"""Kernel classes by rule file: which kernels are a GEMM library's, which are copies, which are their own."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl

from hipbook import paths
from hipbook.errors import BadArgument
from hipbook.traces.names import demangle

OTHER = "other kernels"


@dataclass(frozen=True)
class Rules:
    """Classes in order; the first class with a pattern found in the name decides, else OTHER."""

    source: str
    classes: tuple[tuple[str, re.Pattern[str]], ...]

    def of(self, name: str) -> str:
        plain = demangle(name)
        return next((label for label, pattern in self.classes if pattern.search(plain)), OTHER)

    @property
    def labels(self) -> list[str]:
        """Every class in order of precedence, OTHER before the last one, which yields to all."""
        named = [label for label, _ in self.classes]
        return [*named[:-1], OTHER, *named[-1:]]

    def column(self, names: pl.Series) -> pl.Series:
        """The class of each kernel name, worked out once per distinct name."""
        known = {name: self.of(name) for name in names.unique().cast(pl.String) if name is not None}
        text = names.cast(pl.String)
        if not known:
            return pl.Series("Class", [], dtype=pl.String)
        return text.replace_strict(known, default=OTHER, return_dtype=pl.String).alias("Class")


@cache
def load_rules(path: Path | None = None) -> Rules:
    """Rules of a TOML file (default: data/kernel_classes.toml): `[[class]]` with `name` and `patterns`.

    BadArgument names the class and pattern that cannot be used.
    """
    path = path or paths.data() / "kernel_classes.toml"
    try:
        with path.open("rb") as handle:
            entries = tomllib.load(handle).get("class")
    except FileNotFoundError:
        raise BadArgument("rules", path, "a file that exists") from None
    except tomllib.TOMLDecodeError as error:
        raise BadArgument("rules", path, f"TOML: {error}") from None
    return parse_rules(entries, path.name)


def parse_rules(entries: object, source: str) -> Rules:
    """Rules from the parsed list of classes; `source` is named in errors and in results."""
    if not isinstance(entries, list) or not entries:
        raise BadArgument("rules", source, "at least one [[class]] with `name` and `patterns`")
    classes = []
    for entry in entries:
        name, patterns = entry.get("name"), entry.get("patterns")
        if not isinstance(name, str) or not name or not _texts(patterns):
            raise BadArgument("rules", entry, f"{source}: a class needs a `name` and a list of `patterns`")
        if name == OTHER or name in dict(classes):
            raise BadArgument("rules", name, f"{source}: a class name is used once, and {OTHER!r} never")
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise BadArgument("rules", pattern, f"{source}, class {name!r}: {error}") from None
        classes.append((name, re.compile("|".join(f"(?:{one})" for one in patterns))))
    return Rules(source, tuple(classes))


def _texts(patterns: object) -> bool:
    return isinstance(patterns, list) and bool(patterns) and all(isinstance(one, str) for one in patterns)


def classed(rows: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """A dispatch table with the column Class."""
    return rows.with_columns(rules.column(rows["Kernel_Name"]))


def unmatched(names: Iterable[str], rules: Rules) -> list[str]:
    """Names that no rule knows: what a rule file of one's own should cover next."""
    return sorted({name for name in names if rules.of(name) == OTHER})
