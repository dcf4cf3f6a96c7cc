"""Notebook 12: what a decode token costs, kernel by kernel, from two runs of different token counts.

By default the two runs are the reconstruction of a public report (hipbook.traces.reconstruction); with
paths they are anybody's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hipbook import paths
from hipbook.errors import BadArgument
from hipbook.notebooks.investigation import Investigation
from hipbook.records import reported
from hipbook.traces import stats, windows
from hipbook.traces.attribute import amdahl, attribute
from hipbook.traces.classes import Rules, load_rules
from hipbook.traces.difference import Difference, difference
from hipbook.traces.health import health
from hipbook.traces.launches import graph_launches
from hipbook.traces.read import read_trace
from hipbook.traces.reconstruction import LABEL, MS, SOURCE, WORKLOAD, reconstruct
from hipbook.traces.trace import Trace, TraceError

FACTORS = (2.0, 4.0, 10.0, float("inf"))
CLASS_ARMS = {"own kernels": "vt kernels", "GEMM library": "hipBLASLt GEMM", "copy and fill": "copy/fill"}
Row = dict[str, object]


@dataclass(frozen=True)
class Pair:
    """Two runs and what they are: `reconstructed` says that nobody measured them."""

    low: Trace
    high: Trace
    tokens_low: int
    tokens_high: int
    reconstructed: bool

    @property
    def label(self) -> str:
        return LABEL if self.reconstructed else f"{self.low.path.name} and {self.high.path.name}"

    @property
    def short_label(self) -> str:
        """For titles: a reconstruction is never drawn without the word."""
        return "a reconstruction, not measured" if self.reconstructed else self.high.path.name


def pair(low: str, high: str, tokens_low: int, tokens_high: int, seed: int) -> Pair:
    """The runs at two paths, or the reconstruction when both are empty."""
    if bool(low) != bool(high):
        raise BadArgument("low, high", (low, high), "two paths, or two empty texts for the reconstruction")
    if low:
        return Pair(read_trace(low), read_trace(high), tokens_low, tokens_high, reconstructed=False)
    made = [reconstruct(tokens, seed=seed) for tokens in (tokens_low, tokens_high)]
    return Pair(*made, tokens_low, tokens_high, reconstructed=True)


def subtract(runs: Pair) -> Difference:
    return difference(runs.low, runs.tokens_low, runs.high, runs.tokens_high)


def rules(name: str) -> Rules:
    """`by_origin` (who wrote the kernel, as the report has it) or `by_kind` (what it computes)."""
    file = {"by_origin": "kernel_classes_by_origin.toml", "by_kind": "kernel_classes.toml"}[name]
    return load_rules(paths.data() / file)


def run_rows(runs: Pair) -> list[Row]:
    """What is in the two runs, as a whole: nothing here is per token yet."""
    rows = []
    for trace, tokens in ((runs.low, runs.tokens_low), (runs.high, runs.tokens_high)):
        totals = stats.totals(trace.dispatches)
        rows.append(
            {
                "run": f"{tokens} tokens",
                "dispatches": totals.rows,
                "sum ms": totals.sum_ns / MS,
                "busy union ms": totals.busy_union_ns / MS,
                "span ms": totals.span_ns / MS,
                "copies": trace.copies.height,
                "API calls": trace.api_calls.height,
                "problems": len(health(trace).problems),
            }
        )
    return rows


def one_token(found: Difference) -> str:
    return (
        f"a token: {found.dispatches_per_token:g} dispatches, GPU {found.gpu_ns_per_token / MS:.2f} ms, "
        f"wall {found.wall_ns_per_token / MS:.1f} ms"
    )


def keep_differences(run: Investigation, found: Difference) -> None:
    """Counts of the difference, which are exact whatever the times are."""
    odd = found.kernels.filter(pl.col("Note") != "").height
    run.fact("kernels", "kernels whose calls do not divide evenly, or fell", odd, "1")
    run.fact("a token", "dispatches", found.dispatches_per_token, "1")


def keep_report(run: Investigation, report: Sequence[Row]) -> None:
    """The reported figures, as reported, and whether differencing gave each of them back."""
    equal = sum(bool(row["equal"]) for row in report)
    word = "COUNTS_EQUAL" if equal == len(report) else "COUNTS_DIFFER"
    reason = f"{equal} of {len(report)} figures to the last digit given"
    run.verdict("differencing against the report", word, reason, expected="COUNTS_EQUAL")
    for row in report:
        value, unit = float(str(row["reported"])), str(row["unit"])
        run.fact(str(row["of"]), str(row["quantity"]), value, unit, kind="reported", source=SOURCE)


def kernel_rows(found: Difference, most: int = 12) -> list[Row]:
    """Per token: calls, time, time a call and share of GPU time of each kernel, largest first."""
    return [
        {
            "kernel": row["Name"],
            "calls": row["Calls_Per_Token"],
            "ms": row["Ns_Per_Token"] / MS,
            "us a call": None if row["Mean_Ns"] is None else row["Mean_Ns"] / 1e3,
            "% of GPU time": 100 * row["Share"],
            "note": row["Note"],
        }
        for row in found.kernels.head(most).to_dicts()
    ]


def class_rows(found: Difference, rules: Rules) -> list[Row]:
    """The same by kernel class, and the total: the classes account for all of it."""
    classed = found.kernels.with_columns(rules.column(found.kernels["Name"]))
    grouped = classed.group_by("Class").agg(
        pl.col("Calls_Per_Token").sum(), pl.col("Ns_Per_Token").sum(), pl.col("Share").sum()
    )
    rows = [
        {"class": row["Class"], "calls": row["Calls_Per_Token"], "ms": row["Ns_Per_Token"] / MS,
         "% of GPU time": 100 * row["Share"]}
        for row in grouped.sort("Ns_Per_Token", descending=True).to_dicts()
    ]  # fmt: skip
    total = {
        "class": "total", "calls": found.dispatches_per_token, "ms": found.gpu_ns_per_token / MS,
        "% of GPU time": sum(row["% of GPU time"] for row in rows),
    }  # fmt: skip
    return [*rows, total]


def recovered(found: Difference) -> dict[tuple[str, str], float]:
    """Our figure for every (arm, quantity) that the report gives per token."""
    ours: dict[tuple[str, str], float] = {
        ("total", "wall"): found.wall_ns_per_token / MS,
        ("total", "gpu_kernel_time"): found.gpu_ns_per_token / MS,
        ("total", "dispatches"): found.dispatches_per_token,
        ("total", "real_h2d_d2h_time"): found.copies["Ns_Per_Token"].sum() / MS,
        ("total", "copies"): found.copies["Calls_Per_Token"].sum(),
    }
    memcpy = found.calls.filter(pl.col("Name") == "hipMemcpyAsync")
    ours["total", "hipMemcpyAsync_api_time"] = memcpy["Ns_Per_Token"].sum() / MS
    ours["total", "hipMemcpyAsync_api_calls"] = memcpy["Calls_Per_Token"].sum()
    for row in class_rows(found, rules("by_origin")):
        arm = CLASS_ARMS.get(str(row["class"]))
        if arm:
            ours[arm, "dispatches"] = row["calls"]
            ours[arm, "gpu_time"] = row["ms"]
            ours[arm, "share_of_gpu_time"] = row["% of GPU time"]
    for row in kernel_rows(found):
        arm = str(row["kernel"]).removeprefix("vt::")
        ours[arm, "calls"], ours[arm, "gpu_time"] = row["calls"], row["ms"]
        ours[arm, "mean_per_call"], ours[arm, "share_of_gpu_time"] = row["us a call"], row["% of GPU time"]
    return ours


def against_report(runs: Pair, found: Difference) -> list[Row]:
    """Every per-token figure of the report beside what differencing gives, to the report's own last digit.

    Empty for runs that are not the reconstruction: there is nothing reported to hold them against.
    """
    if not runs.reconstructed:
        return []
    ours, rows = recovered(found), []
    for figure in reported.find(source=SOURCE, workload=WORKLOAD):
        text = f"{figure.value:g}"
        decimals = len(text.split(".")[1]) if "." in text else 0
        value = f"{ours[figure.arm, figure.quantity]:.{decimals}f}"
        rows.append(
            {
                "of": figure.arm,
                "quantity": figure.quantity,
                "unit": figure.unit,
                "reported": text,
                "differenced": value,
                "equal": value == text,
            }
        )
    return rows


def method_rows(runs: Pair, found: Difference, marker: str, occurrence: int) -> list[Row]:
    """GPU time and dispatches a token by four methods, three of which people use and are wrong."""
    whole = stats.totals(runs.high.dispatches)
    rows = [
        _method("difference of two runs", found.dispatches_per_token, found.gpu_ns_per_token, "the answer"),
        _method(
            "one run divided by its tokens", whole.usable_rows / runs.tokens_high,
            whole.sum_ns / runs.tokens_high, "load, warm-up and prefill are in it",
        ),
    ]  # fmt: skip
    try:
        by_time = windows.by_marker(runs.high, marker, occurrence, follow="time")
        by_launch = windows.by_marker(runs.high, marker, occurrence)
    except (TraceError, BadArgument) as error:
        return [*rows, _method("a marker's time window", None, None, error.what)]
    for name, window, why in (
        ("a marker's time window", by_time, "the CPU runs ahead of the GPU"),
        ("a marker's launches", by_launch, "one token, its jitter and all"),
    ):
        totals = stats.totals(window.dispatches)
        rows.append(_method(name, totals.usable_rows, totals.sum_ns, why))
    return rows


def _method(name: str, dispatches: float | None, ns: float | None, why: str) -> Row:
    return {
        "method": name,
        "dispatches a token": dispatches,
        "GPU ms a token": None if ns is None else ns / MS,
        "why": why,
    }


def call_rows(found: Difference, most: int = 6) -> list[Row]:
    """CPU time in API calls a token: a different thing from device time, and never added to it."""
    return [
        {
            "API function": row["Name"],
            "calls": row["Calls_Per_Token"],
            "CPU ms in calls": row["Ns_Per_Token"] / MS,
        }
        for row in found.calls.filter(pl.col("Calls_Difference") != 0).head(most).to_dicts()
    ]


def copy_row(found: Difference) -> Row:
    """Copying a token: by the device, and as it looks when API time is read as copying."""
    memcpy = found.calls.filter(pl.col("Name").str.contains("(?i)memcpy"))
    device, api = found.copies["Ns_Per_Token"].sum() / MS, memcpy["Ns_Per_Token"].sum() / MS
    wall = found.wall_ns_per_token / MS
    return {
        "copies": found.copies["Calls_Per_Token"].sum(),
        "device ms": device,
        "% of wall": 100 * device / wall,
        "CPU ms in memcpy calls": api,
        "% of wall, misread": 100 * api / wall,
    }


def amdahl_rows(found: Difference, kernels: Sequence[str]) -> list[Row]:
    """Wall a token (ms) when one kernel becomes 2, 4, 10 times faster, or free."""
    rows = []
    for name in kernels:
        match = found.kernels.filter(pl.col("Name").str.contains(name))
        if not match.height:
            raise BadArgument(
                "kernels", name, f"a pattern of one of {', '.join(found.kernels['Name'].head(8))}"
            )
        part = match["Ns_Per_Token"].sum()
        walls = amdahl(found.wall_ns_per_token, part, FACTORS)["Wall_Ns"].to_list()
        row: Row = {"kernel": name, "ms now": part / MS, "wall now": found.wall_ns_per_token / MS}
        for factor, wall in zip(FACTORS, walls, strict=True):
            row["wall, free" if factor == float("inf") else f"wall, {factor:g}x"] = wall / MS
        rows.append(row)
    return rows


def other_folder(given: str) -> Path | None:
    """A folder with real traces to look at beside the pair; None when none was named."""
    return Path(given) if given else None


def looked_at(folder: Path) -> list[str]:
    """A real folder in a few lines: what it holds, its graphs, and what not to believe of it."""
    trace = read_trace(folder)
    report = health(trace)
    lines = [str(report).split("\n")[0]]
    for (process,), rows in trace.dispatches.group_by("Process", maintain_order=True):
        totals = stats.totals(rows)
        lines.append(
            f"{process}: {totals.usable_rows} kernels, busy {totals.busy_union_ns / MS:.3f} ms of a span of "
            f"{totals.span_ns / MS:.1f} ms"
        )
    graphs = graph_launches(trace)["Kernels"].to_list()
    if graphs:
        lines.append(f"graph launches own {', '.join(map(str, graphs))} kernels")
    lines += [f"{one.level}: {one.kind}: {one.text}" for one in report.findings if one.level != "note"]
    return lines


def step_wall(trace: Trace, marker: str, occurrence: int) -> tuple[int, int]:
    """[start of the n-th marker, start of the next one) in ns: one step as the CPU paces it."""
    first = windows.marker(trace, marker, occurrence)
    after = windows.marker(trace, marker, occurrence + 1)
    return int(str(first["Start_Timestamp"])), int(str(after["Start_Timestamp"]))


def wall_rows(trace: Trace, rules: Rules, wall: tuple[int, int]) -> list[Row]:
    """Each nanosecond of the wall in one part; they add up to it exactly."""
    found = attribute(trace, rules, wall=wall)
    assert found.parts["Wall_Ns"].sum() == found.wall_ns
    rows = [
        {"part": row["Part"], "wall ms": row["Wall_Ns"] / MS, "% of wall": 100 * row["Share_Of_Wall"]}
        for row in found.parts.filter(pl.col("Wall_Ns") > 0).to_dicts()
    ]
    return [
        *rows,
        {"part": "total", "wall ms": found.wall_ns / MS, "% of wall": sum(row["% of wall"] for row in rows)},
    ]
