"""`hipbook trace assert`: did the kernel run? For other people's CI.

A test that registers for the new arm and never reaches it passes. A trace does not lie about which
kernel ran; an assertion over no dispatches at all fails.
"""

import re
from dataclasses import dataclass

import polars as pl

from hipbook.errors import BadArgument
from hipbook.traces.trace import Trace


@dataclass(frozen=True)
class Expectation:
    """What was asked and what was found. `found` maps each matching kernel name to its calls."""

    passed: bool
    text: str
    found: dict[str, int]


def expect(
    trace: Trace, kernel: str | None = None, *, min_calls: int = 1, absent: str | None = None
) -> list[Expectation]:
    """Check that kernels matching the regular expression `kernel` ran at least `min_calls` times together,
    and that none matching `absent` did. At least one of the two is given; a trace without
    dispatches fails both. Rows without usable times still count: the kernel ran.
    """
    if kernel is None and absent is None:
        raise BadArgument("kernel", kernel, "a regular expression here, for `absent`, or for both")
    if min_calls < 1:
        raise BadArgument("min_calls", min_calls, "1 or more: at least 0 calls is true of everything")
    counts = dict(
        trace.dispatches.group_by(pl.col("Kernel_Name").cast(pl.String))
        .agg(pl.len())
        .sort("Kernel_Name")
        .rows()
    )
    if not counts:
        return [Expectation(False, "the trace has no dispatches: nothing was compared", {})]
    results = []
    if kernel is not None:
        found = _matching(counts, kernel, "kernel")
        calls = sum(found.values())
        text = f"{kernel!r}: {calls} calls in {len(found)} kernels, at least {min_calls} expected"
        results.append(Expectation(calls >= min_calls, text, found))
    if absent is not None:
        found = _matching(counts, absent, "absent")
        text = f"{absent!r}: {sum(found.values())} calls in {len(found)} kernels, none expected"
        results.append(Expectation(not found, text, found))
    return results


def _matching(counts: dict[str, int], pattern: str, argument: str) -> dict[str, int]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadArgument(argument, pattern, f"a regular expression: {error}") from None
    return {name: calls for name, calls in counts.items() if compiled.search(name)}
