"""`hipbook sweep`: a notebook over boards and parameters; a few lines each over the package."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, help="A notebook over boards and parameters, from a sweep file (docs/sweeps.md)."
)

File = Annotated[Path, typer.Argument(help="The sweep file, YAML.")]
Out = Annotated[Path | None, typer.Option(help="The sweep's folder; default: runs/sweeps/NAME.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Join this dask scheduler, instead of the file's engine.")
]


@app.command()
def plan(file: File, out: Out = None, scheduler: Scheduler = None) -> None:
    """Check a sweep file against its notebook and print the jobs, and which would be skipped."""
    from hipbook.report import tables
    from hipbook.sweep import spec, sweeping
    from hipbook.sweep.conductor import due
    from hipbook.sweep.progress import describe, title
    from hipbook.sweep.state import State

    sweep = spec.read(file)
    with sweeping.engine_of(sweep, scheduler) as engine:
        made = sweeping.plan(file, engine, sweep, out)
    _, skipped = due(State(made.folder), made.jobs, failed_again=True)
    rows = [
        {
            "job": job.key,
            "board": title(job.board),
            "parameters": describe(job),
            "": f"skipped: {skipped[job.key].status}" if job.key in skipped else "to run",
        }
        for job in made.jobs
    ]
    typer.echo(tables.text(rows))
    boards = len({job.board for job in made.jobs})
    typer.echo(f"{len(rows)} jobs on {boards} boards, {len(skipped)} skipped; folder {made.folder}")


@app.command()
def run(file: File, out: Out = None, scheduler: Scheduler = None) -> None:
    """Run a sweep; jobs with a valid record under their key are not run again, failed ones are."""
    _go(file, out, scheduler, failed_again=True)


@app.command()
def resume(file: File, out: Out = None, scheduler: Scheduler = None) -> None:
    """Go on with a sweep that ended early: runs what has not ended, and nothing that has."""
    from hipbook.sweep import spec, sweeping
    from hipbook.sweep.state import State

    State(sweeping.folder_of(spec.read(file), out)).plan()  # says so when there is none
    _go(file, out, scheduler, failed_again=False)


def _go(file: Path, out: Path | None, scheduler: str | None, *, failed_again: bool) -> None:
    from contextlib import ExitStack

    from hipbook.records import Status
    from hipbook.sweep import spec, sweeping
    from hipbook.sweep.progress import shown

    sweep = spec.read(file)
    with sweeping.engine_of(sweep, scheduler) as engine, ExitStack() as stack:
        made = sweeping.plan(file, engine, sweep, out)
        done = sweeping.go(
            made,
            engine,
            failed_again=failed_again,
            watching=lambda todo, skipped: stack.enter_context(shown(todo, skipped)),
        )
    total = done.counted + Counter(outcome.status for outcome in done.skipped.values())
    told = ", ".join(f"{count} {status}" for status, count in sorted(total.items()))
    missing = len(made.jobs) - total.total()
    typer.echo(
        f"{len(made.jobs)} jobs: {told or 'none ended'}"
        + (f", {missing} missing" if missing else "")
        + f"; {done.counted.total()} run now, t={done.wall_s:.1f} s; {made.folder}"
    )
    if done.cancelled or total[Status.CANCELLED]:
        typer.echo("cancelled; `hipbook sweep resume` goes on", err=True)
        raise typer.Exit(130)
    raise typer.Exit(set(total) != {Status.PASSED} or bool(missing))


@app.command()
def status(file: File, out: Out = None) -> None:
    """How a sweep stands: jobs by board and outcome, and every job that did not pass."""
    from hipbook.report import tables
    from hipbook.sweep import coverage, spec, state, sweeping
    from hipbook.sweep.progress import describe, title

    folder = sweeping.folder_of(spec.read(file), out)
    standing = sweeping.standing(folder)
    typer.echo(tables.text(coverage.by_board(standing)))
    for job, outcome in standing:
        if outcome is not None and not outcome.passed:
            typer.echo(f"{outcome.status} {title(job.board)}  {describe(job)}: {outcome.why}")
    at_work = "a runner is at work" if state.is_running(folder) else "no runner is at work"
    typer.echo(f"{at_work}; {folder}")


@app.command()
def cancel(
    file: File, out: Out = None, wait: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 30
) -> None:
    """End the runner of a sweep and all it runs; `resume` goes on."""
    from hipbook.sweep import spec, sweeping

    if not sweeping.request_cancel(sweeping.folder_of(spec.read(file), out), wait):
        typer.echo(f"asked; the runner has not ended within {wait:g} s", err=True)
        raise typer.Exit(1)
    typer.echo("cancelled")


@app.command()
def collect(file: File, out: Out = None) -> None:
    """Write one tidy table of all records (parquet and CSV), and print the coverage first."""
    from hipbook.report import tables
    from hipbook.sweep import collecting, spec, sweeping

    folder = sweeping.folder_of(spec.read(file), out)
    made = collecting.collect(folder)
    typer.echo(tables.text(made.coverage_rows))
    for line in made.notes:
        typer.echo(line)
    for path in made.files:
        typer.echo(path)


@app.command()
def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, help="0: any free one.")] = 8786,
) -> None:
    """A scheduler for sweeps over many hosts; anybody who can reach it can run code on its workers."""
    from hipbook.sweep.worker import serve_scheduler

    serve_scheduler(host, port)


@app.command()
def worker(
    scheduler: Annotated[str, typer.Argument(help="Address of the scheduler, e.g. tcp://HOST:8786.")],
    board: Annotated[str, typer.Option(help="The board of this machine to offer.")],
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Certificates come on standard input; end when it closes.")
    ] = False,
) -> None:
    """Offer one board of this machine to a scheduler."""
    from hipbook.sweep.worker import serve_worker

    serve_worker(scheduler, board, from_stdin=stdin)
