"""What one more token costs: two runs that differ in their number of tokens, subtracted.

Loading, warm-up, prefill and the profiler's own start are in both runs and cancel; what is left over is
(run at n2 tokens - run at n1 tokens) / (n2 - n1). Exact: the table keeps the integer differences, and
the division comes last.
"""

from dataclasses import dataclass

import polars as pl

from hipbook.errors import BadArgument
from hipbook.traces import stats
from hipbook.traces.names import normalise
from hipbook.traces.trace import Trace


@dataclass(frozen=True)
class Difference:
    """Per-token tables of a pair of runs.

    `kernels`, `copies` and `calls` (API functions) have: Name, Calls_Low, Calls_High, Calls_Difference,
    Ns_Difference, Calls_Per_Token, Ns_Per_Token, Mean_Ns (of the added calls), Share (of the table's
    time), Note.
    `wall_ns` is the difference of the spans of everything recorded; per token like the rest.
    """

    tokens_low: int
    tokens_high: int
    kernels: pl.DataFrame
    copies: pl.DataFrame
    calls: pl.DataFrame
    wall_ns: int
    notes: tuple[str, ...]

    @property
    def tokens(self) -> int:
        return self.tokens_high - self.tokens_low

    @property
    def wall_ns_per_token(self) -> float:
        return self.wall_ns / self.tokens

    @property
    def gpu_ns_per_token(self) -> float:
        return self.kernels["Ns_Difference"].sum() / self.tokens

    @property
    def dispatches_per_token(self) -> float:
        return self.kernels["Calls_Difference"].sum() / self.tokens


def difference(
    low: Trace,
    tokens_low: int,
    high: Trace,
    tokens_high: int,
    *,
    normalised: bool = True,
    templates: bool = False,
) -> Difference:
    """Subtract the run at `tokens_low` generated tokens from the run at `tokens_high`.

    Kernels are matched by normalised name (see names.py) unless `normalised` is False. A name whose
    added calls are not a multiple of the added tokens, or whose calls or time went down, is noted.
    """
    if tokens_low < 0 or tokens_high <= tokens_low:
        raise BadArgument("tokens_high", tokens_high, f"more than tokens_low = {tokens_low} (0 or more)")
    tokens = tokens_high - tokens_low

    def key(name: str) -> str:
        return normalise(name, templates) if normalised else name

    kernels = _subtract(low.dispatches, high.dispatches, "Kernel_Name", tokens, key)
    copies = _subtract(low.copies, high.copies, "Direction", tokens, str)
    calls = _subtract(low.api_calls, high.api_calls, "Function", tokens, str)
    wall = _wall(high) - _wall(low)
    return Difference(
        tokens_low, tokens_high, kernels, copies, calls, wall, tuple(_notes(low, high, kernels, wall, tokens))
    )


def _subtract(low: pl.DataFrame, high: pl.DataFrame, by: str, tokens: int, key) -> pl.DataFrame:
    sides = []
    for side, rows in (("Low", low), ("High", high)):
        table = stats.per_group(rows, by).select(by, "Calls", "Total_Ns")
        names = pl.Series("Name", [key(name) for name in table[by].to_list()], dtype=pl.String)
        sides.append(
            table.with_columns(names)
            .group_by("Name")
            .agg(pl.col("Calls").sum().alias(f"Calls_{side}"), pl.col("Total_Ns").sum().alias(f"Ns_{side}"))
        )
    both = sides[0].join(sides[1], on="Name", how="full", coalesce=True).fill_null(0)
    calls = (pl.col("Calls_High") - pl.col("Calls_Low")).alias("Calls_Difference")
    time = (pl.col("Ns_High") - pl.col("Ns_Low")).alias("Ns_Difference")
    both = both.with_columns(calls, time)
    whole = both["Ns_Difference"].sum()
    uneven = pl.col("Calls_Difference") % tokens != 0
    note = (
        pl.when((pl.col("Calls_Difference") < 0) | (pl.col("Ns_Difference") < 0))
        .then(pl.lit("less in the longer run"))
        .when((pl.col("Calls_Difference") == 0) & (pl.col("Ns_Difference") != 0))
        .then(pl.lit("same calls, other time: noise"))
        .when(uneven)
        .then(pl.format("{} more calls over {} tokens: not even", "Calls_Difference", pl.lit(tokens)))
        .otherwise(pl.lit(""))
    )
    per = pl.col("Calls_Difference")
    return both.with_columns(
        (per / tokens).alias("Calls_Per_Token"),
        (pl.col("Ns_Difference") / tokens).alias("Ns_Per_Token"),
        pl.when(per > 0).then(pl.col("Ns_Difference") / per).alias("Mean_Ns"),
        (pl.col("Ns_Difference") / whole if whole else pl.lit(0.0)).alias("Share"),
        note.alias("Note"),
    ).sort("Ns_Difference", "Name", descending=[True, False]).select(
        "Name", "Calls_Low", "Calls_High", "Calls_Difference", "Ns_Difference",
        "Calls_Per_Token", "Ns_Per_Token", "Mean_Ns", "Share", "Note",
    )  # fmt: skip


def _wall(trace: Trace) -> int:
    """Span in ns of everything recorded, device and API."""
    spans = [stats.totals(table) for table in (trace.dispatches, trace.copies, trace.api_calls)]
    first = [one.first_ns for one in spans if one.first_ns is not None]
    last = [one.last_ns for one in spans if one.last_ns is not None]
    return max(last) - min(first) if first else 0


def _notes(low: Trace, high: Trace, kernels: pl.DataFrame, wall: int, tokens: int) -> list[str]:
    notes = []
    uneven = kernels.filter(pl.col("Note").str.contains("not even"))
    if uneven.height:
        share = uneven["Ns_Difference"].sum() / max(1, kernels["Ns_Difference"].sum())
        notes.append(
            f"{uneven.height} kernels ({share:.1%} of the time) do not add a whole number of calls a token: "
            "the runs differ in more than tokens, or the work depends on them"
        )
    less = kernels.filter(pl.col("Note") == "less in the longer run")
    if less.height:
        notes.append(f"{less.height} kernels have less calls or time in the run with more tokens")
    fixed = kernels.filter(pl.col("Note") == "same calls, other time: noise")
    if fixed.height:
        noise = fixed["Ns_Difference"].abs().sum() / tokens
        notes.append(
            f"kernels with equal calls in both runs differ by {noise / 1e3:.3f} us a token: the pair's noise"
        )
    for name, trace in (("low", low), ("high", high)):
        if trace.rejected:
            notes.append(f"{len(trace.rejected)} rows of the {name} run were rejected by the reader")
        if not trace.api_calls.height:
            notes.append(f"the {name} run has no API calls: wall is the span of device work only")
    if wall <= 0:
        notes.append("the run with more tokens is not longer: wall per token means nothing here")
    return notes
