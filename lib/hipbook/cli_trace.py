"""`hipbook trace ...`: profiler traces of any known format, on the command line.

Each verb reads, calls one function of hipbook.traces and prints its table. `--json` prints the same as
data. Exit codes: 0, 1 when an assertion or a strict check failed, 2 for an error with its fix.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="Profiler traces: rocprofv3, rocpd, torch, from anywhere.")

TracePath = Annotated[Path, typer.Argument(help="A trace file, or a folder as the profiler wrote it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print data instead of a table.")]
Top = Annotated[int, typer.Option(min=1, help="Rows to print.")]
RulesFile = Annotated[
    Path | None, typer.Option("--rules", help="Rule file; default: data/kernel_classes.toml.")
]
Plot = Annotated[Path | None, typer.Option(help="Write the figure to this file (.png, .svg, .pdf).")]
_KERNEL = {"Kernel_Name": "kernel", "Name": "kernel"}
Templates = Annotated[bool, typer.Option("--templates", help="Match kernels without template arguments.")]


def say(rows: list[dict[str, Any]], as_json: bool, head: str = "", **data: Any) -> None:
    """A table with a headline, or the same as one JSON document."""
    from hipbook.report import tables

    if as_json:
        typer.echo(json.dumps({**data, "rows": rows}, indent=1, default=str, allow_nan=False))
        return
    if head:
        typer.echo(head)
    typer.echo(tables.text(rows) if rows else "no rows")


def rows_of(frame, columns: list[str], top: int, as_json: bool) -> list[dict[str, Any]]:
    """A frame's rows with these columns; NaN and infinity as None. For a table: the first `top`, headed by
    the columns' names in small, kernels shortened. For JSON: all, as they are."""
    from math import isfinite

    from hipbook.traces.names import short

    def heading(name: str) -> str:
        return name if as_json else _KERNEL.get(name, name.lower().replace("_", " "))

    headings = {name: heading(name) for name in columns}
    rows = []
    for row in (frame if as_json else frame.head(top)).to_dicts():
        plain = {
            heading: None if isinstance(row[name], float) and not isfinite(row[name]) else row[name]
            for name, heading in headings.items()
        }
        if "kernel" in plain:
            plain["kernel"] = short(str(plain["kernel"]), 64)
        rows.append(plain)
    return rows


def save(figure, path: Path) -> None:
    figure.savefig(path, bbox_inches="tight")
    typer.echo(f"figure: {path}", err=True)


def _rules(path: Path | None):
    from hipbook.traces.classes import load_rules

    return load_rules(path)


@app.command()
def stats(path: TracePath, top: Top = 20, as_json: AsJson = False, plot: Plot = None) -> None:
    """Calls and times per kernel; sum, busy union and span together."""
    from hipbook.traces import stats as S
    from hipbook.traces.read import read_trace

    trace = read_trace(path, times_only=True)
    table, t = S.per_kernel(trace.dispatches), S.totals(trace.dispatches)
    columns = ["Kernel_Name", "Calls", "Total_Ns", "Share", "Mean_Ns", "Min_Ns", "P50_Ns", "P95_Ns", "Max_Ns"]
    head = (
        f"{t.usable_rows:,} dispatches of {table.height} kernels "
        f"({t.rows - t.usable_rows} without usable times, {len(trace.rejected)} rows rejected)\n"
        f"sum {t.sum_ns:,} ns, busy union {t.busy_union_ns:,} ns, span {t.span_ns:,} ns"
    )
    say(rows_of(table, columns, top, as_json), as_json, head, totals=vars(t))
    if plot:
        from hipbook.report import trace_plots

        figure = trace_plots.share_bars(
            table, label="Kernel_Name", value="Total_Ns", title=path.name, axis="GPU time"
        )
        save(figure, plot)


@app.command()
def health(
    path: TracePath,
    as_json: AsJson = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 when there is a problem.")] = False,
) -> None:
    """What was read, what was rejected and why, and what not to believe."""
    from hipbook.traces.health import health as examine
    from hipbook.traces.read import read_trace

    report = examine(read_trace(path))
    if as_json:
        findings = [vars(one) for one in report.findings]
        say(findings, True, rows_read=report.rows, rejected=report.rejected, totals=vars(report.totals))
    else:
        typer.echo(str(report))
    raise typer.Exit(bool(strict and report.problems))


@app.command()
def windows(
    path: TracePath,
    marker: Annotated[str, typer.Option(help="Regular expression over marker messages.")] = "",
    graph: Annotated[int | None, typer.Option(help="The n-th graph launch, from 0.")] = None,
    period: Annotated[str, typer.Option(help="Regular expression: a kernel that runs once a step.")] = "",
    between: Annotated[tuple[int, int] | None, typer.Option(help="Start and end, ns.")] = None,
    occurrence: Annotated[int, typer.Option(help="Which of several, from 0; -1 is the last.")] = 0,
    edge: Annotated[str, typer.Option(help="contained, overlapping or clipped.")] = "contained",
    follow: Annotated[str, typer.Option(help="For a marker: launches or time.")] = "launches",
    top: Top = 20,
    as_json: AsJson = False,
) -> None:
    """Kernels of one window: by marker, graph launch, kernel period or time. Without any: what there is."""
    from hipbook.errors import BadArgument
    from hipbook.traces import stats as S
    from hipbook.traces import windows as W
    from hipbook.traces.read import read_trace

    trace = read_trace(path)
    chosen = [bool(marker), graph is not None, bool(period), between is not None]
    if sum(chosen) > 1:
        raise BadArgument("window", "several", "one of --marker, --graph, --period, --between")
    if not any(chosen):
        say(_windows_there_are(trace), as_json, "windows there are:")
        return
    if marker:
        window = W.by_marker(trace, marker, occurrence, follow=follow, edge=edge)
        if not as_json and follow in ("time", "launches") and trace.api_calls.height:
            typer.echo(W.why_by_time_differs(trace, marker, occurrence))
    elif graph is not None:
        window = W.by_graph(trace, graph)
    elif period:
        window = W.by_period(trace, period, occurrence, edge=edge)
    else:
        window = W.by_time(trace, *between, edge=edge)
    t = S.totals(window.dispatches)
    head = f"{t.rows} kernels; sum {t.sum_ns:,} ns, busy union {t.busy_union_ns:,} ns, span {t.span_ns:,} ns"
    columns = ["Kernel_Name", "Calls", "Total_Ns", "Share", "Mean_Ns"]
    rows = rows_of(S.per_kernel(window.dispatches), columns, top, as_json)
    say(rows, as_json, head, totals=vars(t), window=window.facts.get("window"))


def _windows_there_are(trace) -> list[dict[str, Any]]:
    import polars as pl

    from hipbook.traces.launches import graph_launches

    rows = [
        {"option": "--graph", "what": f"graph launch {number}", "count": kernels, "unit": "kernels"}
        for number, kernels in enumerate(graph_launches(trace)["Kernels"].to_list())
    ]
    named = (
        trace.markers.group_by(pl.col("Function").cast(pl.String))
        .len()
        .sort("len", "Function", descending=[True, False])
    )
    rows += [
        {"option": "--marker", "what": name, "count": count, "unit": "occurrences"}
        for name, count in named.head(20).rows()
    ]
    return rows


@app.command()
def attribute(
    path: TracePath, rules: RulesFile = None, top: Top = 20, as_json: AsJson = False, plot: Plot = None
) -> None:
    """Where the wall went: kernel classes, copies, launches, waits, gaps, the rest; adding up to it."""
    from hipbook.traces.attribute import attribute as account
    from hipbook.traces.read import read_trace

    found = account(read_trace(path), _rules(rules))
    columns = ["Part", "Calls", "Gpu_Ns", "Share_Of_Gpu", "Wall_Ns", "Share_Of_Wall"]
    api = ["Function", "Calls", "Total_Ns", "Mean_Ns"]
    parts, calls = rows_of(found.parts, columns, 99, as_json), rows_of(found.calls, api, top, as_json)
    if as_json:
        say(parts, True, wall_ns=found.wall_ns, notes=found.notes, api=calls)
    else:
        say(parts, False, f"wall {found.wall_ns:,} ns, classes by {found.rules}")
        if calls:
            say(calls, False, "\nAPI calls (CPU time, beside the above and never added to it):")
        for note in found.notes:
            typer.echo(f"note: {note}")
    if plot:
        from hipbook.report import trace_plots

        save(trace_plots.wall(found, title=path.name), plot)


@app.command()
def repeats(path: TracePath, top: Top = 20, as_json: AsJson = False) -> None:
    """Work done twice: the same kernel and grid back to back on one queue. Candidates, not proof."""
    from hipbook.traces.read import read_trace
    from hipbook.traces.repeats import repeated_work

    columns = ["Kernel_Name", "Calls", "Runs", "Usual_Length", "Repeated_Calls", "Repeated_Ns", "Share"]
    found = repeated_work(read_trace(path))
    say(rows_of(found, columns, top, as_json), as_json, "a trace does not show inputs: check them")


@app.command()
def counters(path: TracePath, top: Top = 40, as_json: AsJson = False) -> None:
    """Counters per kernel and pass; all-zero counters are named as unsupported, not as values."""
    from hipbook.traces import counters as C
    from hipbook.traces.read import read_trace

    table = read_trace(path).counters
    C.wide(table)  # says so when there are none
    columns = ["Kernel_Name", "Pass", "Counter_Name", "Dispatches", "Mean", "Min", "Max"]
    zero = C.unsupported(table)
    say(rows_of(C.per_kernel(table), columns, top, as_json), as_json, unsupported=zero)
    if not as_json:
        for name in zero:
            typer.echo(f"unsupported or a power state (zero everywhere): {C.describe(name)}")


@app.command()
def timeline(
    path: TracePath, out: Annotated[Path, typer.Argument(help="Figure to write.")], rules: RulesFile = None
) -> None:
    """Draw queues, copies and API calls over time."""
    from hipbook.report import trace_plots
    from hipbook.traces.read import read_trace

    save(trace_plots.timeline(read_trace(path), _rules(rules), title=path.name), out)
