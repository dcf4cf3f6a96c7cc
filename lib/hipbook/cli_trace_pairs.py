"""The verbs of `hipbook trace` on several runs, and those that write or check: mounted by cli_trace."""

from pathlib import Path
from typing import Annotated

import typer

from hipbook.cli_trace import AsJson, Plot, Templates, Top, TracePath, app, rows_of, save, say


@app.command()
def diff(
    low: Annotated[Path, typer.Argument(help="The run that generated fewer tokens.")],
    tokens_low: Annotated[int, typer.Argument(min=0)],
    high: Annotated[Path, typer.Argument(help="The run that generated more.")],
    tokens_high: Annotated[int, typer.Argument(min=1)],
    templates: Templates = False,
    top: Top = 20,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """What one token costs: (run at n2 tokens - run at n1 tokens) / (n2 - n1), per kernel."""
    from hipbook.traces.difference import difference
    from hipbook.traces.read import read_trace

    found = difference(read_trace(low), tokens_low, read_trace(high), tokens_high, templates=templates)
    head = (
        f"per token, ({tokens_high} - {tokens_low}): {found.dispatches_per_token:g} dispatches, "
        f"GPU {found.gpu_ns_per_token / 1e6:.3f} ms, wall {found.wall_ns_per_token / 1e6:.3f} ms"
    )
    columns = ["Name", "Calls_Per_Token", "Ns_Per_Token", "Mean_Ns", "Share", "Note"]
    tables = {"kernels": found.kernels, "copies": found.copies, "API calls": found.calls}
    if as_json:
        data = {name: rows_of(table, columns, top, True) for name, table in tables.items()}
        say([], True, notes=found.notes, wall_ns_per_token=found.wall_ns_per_token, **data)
    else:
        typer.echo(head)
        for name, table in tables.items():
            if table.height:
                say(rows_of(table, columns, top, False), False, f"\n{name}:")
        for note in found.notes:
            typer.echo(f"note: {note}")
    if plot:
        from hipbook.report import trace_plots

        save(trace_plots.per_token(found, title="per token"), plot)


@app.command()
def compare(
    base: Annotated[list[Path], typer.Option(help="A run of the base side; give again for more runs.")],
    new: Annotated[list[Path], typer.Option(help="A run of the new side; give again for more runs.")],
    control: Annotated[list[Path] | None, typer.Option(help="Further base runs: the A/A control.")] = None,
    templates: Templates = False,
    top: Top = 20,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Two sets of runs, kernel by kernel: what changed, from calls or from time a call, beyond the noise."""
    from hipbook.traces.compare import compare as judge
    from hipbook.traces.read import read_trace

    sides = [[read_trace(path) for path in paths] for paths in (base, new, control or [])]
    found = judge(sides[0], sides[1], control=sides[2], templates=templates)
    columns = [
        "Name",
        "Change",
        "Change_Ns",
        "From_Calls_Ns",
        "From_Mean_Ns",
        "Calls_Base",
        "Calls_New",
        "Ratio",
        "Low",
        "High",
        "Word",
        "Reason",
    ]
    head = (
        f"{found.runs_base} base and {found.runs_new} new runs, {found.compared} kernels on both sides; "
        f"GPU time a run {found.total_base_ns:,.0f} -> {found.total_new_ns:,.0f} ns"
    )
    shown = found.kernels.filter(found.kernels["Change_Ns"] != 0)
    say(rows_of(shown, columns, top, as_json), as_json, head, notes=found.notes, floor=found.floor)
    if not as_json:
        for note in found.notes:
            typer.echo(f"note: {note}")
        if not found.named().height:
            typer.echo("no kernel changed beyond the noise")
    if plot:
        from hipbook.report import trace_plots

        save(trace_plots.changes(found, title="base against new"), plot)


@app.command("assert")
def assert_(
    path: TracePath,
    kernel: Annotated[
        str | None, typer.Option(help="Regular expression: these kernels must have run.")
    ] = None,
    min_calls: Annotated[int, typer.Option(help="At least this often, together.")] = 1,
    absent: Annotated[
        str | None, typer.Option(help="Regular expression: none of these may have run.")
    ] = None,
) -> None:
    """Did the kernel run? For CI: exit code 1 when it did not, or when the trace holds no dispatch."""
    from hipbook.traces.expect import expect
    from hipbook.traces.names import short
    from hipbook.traces.read import read_trace

    results = expect(read_trace(path), kernel, min_calls=min_calls, absent=absent)
    for one in results:
        typer.echo(f"{'PASSED' if one.passed else 'FAILED'}  {one.text}")
        for name, calls in one.found.items():
            typer.echo(f"        {calls:>8,}  {short(name, 90)}")
    raise typer.Exit(not all(one.passed for one in results))


@app.command()
def export(
    path: TracePath,
    out: Annotated[Path, typer.Argument(help="A .json file for Perfetto, or a folder for rocprofv3 CSV.")],
) -> None:
    """Write the trace for other people's tools: Chrome JSON, or rocprofv3 CSV with 7.0 columns."""
    from hipbook.traces.chrome import write_chrome
    from hipbook.traces.read import read_trace
    from hipbook.traces.write import write_csv

    trace = read_trace(path)
    written = (
        [write_chrome(trace, out)]
        if out.suffix == ".json"
        else write_csv(trace, out, path.stem.split(".")[0])
    )
    for file in written:
        typer.echo(str(file))


@app.command()
def serving(
    results: Annotated[list[Path], typer.Argument(help="Files of `vllm bench serve --save-result`.")],
) -> None:
    """TPOT, TTFT and throughput per repetition, and whether one number may stand for them."""
    from hipbook.report import tables
    from hipbook.traces.serving import read_series

    series = read_series(results)
    typer.echo(tables.text(series.rows()))
    failed = sum(one.failed for one in series.repetitions)
    if failed:
        typer.echo(f"{failed} requests failed: figures are over the others only")
