"""The `hipbook` command: verbs of a few lines over the package.

Heavy imports are inside the verbs, so that `hipbook --help` answers at once. An error raised on purpose
is its text on stderr and exit code 2; a run or check that came out badly is exit code 1.
"""

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from hipbook import cli_annotate, cli_check, cli_decode, cli_emulator, cli_measure, cli_sweep, cli_trace_pairs
from hipbook.errors import HipbookError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Reproducible investigations of HIP kernels in LLM decode.",
)  # fmt: skip
records_app = typer.Typer(no_args_is_help=True, help="Results on disk.")
notebooks_app = typer.Typer(no_args_is_help=True, help="Format, check and execute the notebooks themselves.")
app.add_typer(records_app, name="records")
app.add_typer(notebooks_app, name="notebooks")
app.add_typer(cli_trace_pairs.app, name="trace")
app.add_typer(cli_sweep.app, name="sweep")
app.add_typer(cli_decode.app, name="decode-step")
app.add_typer(cli_emulator.app, name="emulator")
cli_check.mount(app)
cli_annotate.mount(app)
cli_measure.mount(app)

Files = Annotated[list[Path] | None, typer.Argument(help="Files or folders; default: all there are.")]


def main() -> None:
    """The entry point: errors raised on purpose become messages, not tracebacks."""
    # a run that is told to end takes its processes with it, as it does on Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except HipbookError as error:
        print(f"hipbook: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@app.command()
def doctor() -> None:
    """What this machine can build and run, with the fix for what it cannot."""
    from hipbook.doctor import examine

    missing = 0
    for finding in examine():
        missing += finding.needed and not finding.ok
        mark = "ok" if finding.ok else "MISSING" if finding.needed else "absent"
        typer.echo(f"{mark:8} {finding.what}: {finding.detail}")
        if not finding.ok and finding.fix:
            typer.echo(f"         fix: {finding.fix}")
    if missing:
        typer.echo(f"{missing} things the default board needs are missing", err=True)
        raise typer.Exit(1)
    typer.echo("the default board works: `make run`, or open a notebook with `make lab`")


@app.command()
def boards() -> None:
    """The boards there are, and why some are not available."""
    from hipbook import boards as inventory
    from hipbook.report import tables

    rows = [
        {
            "board": b.name,
            "arch": b.arch,
            "kind": b.kind,
            "available": b.available,
            "why not": b.why_not or "",
        }
        for b in inventory.inventory()
    ]
    typer.echo(tables.text(rows))


@app.command()
def run(
    notebooks: Annotated[list[Path], typer.Argument(help="Notebooks to run.")],
    file: Annotated[Path | None, typer.Option("-f", "--file", help="Parameters, YAML or JSON.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/NAME/KEY.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Notebooks at once.")] = 1,
    cell_timeout: Annotated[float, typer.Option(help="Seconds a cell may take.")] = 300,
    timeout: Annotated[float, typer.Option(help="Seconds a whole run may take.")] = 1800,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a board in use.")] = 900,
) -> None:
    """Run notebooks headless; each leaves an executed notebook, a record and logs."""
    from hipbook.sweep.batch import run_all
    from hipbook.sweep.runner import read_parameters
    from hipbook.sweep.telling import begun, ended, exit_code

    values = read_parameters(file) if file else {}
    outcomes = run_all(
        notebooks,
        lambda notebook: values,
        folder_of=lambda notebook: out / notebook.stem if out and len(notebooks) > 1 else out,
        at_once=jobs,
        begun=begun,
        ended=ended,
        cell_timeout_s=cell_timeout,
        timeout_s=timeout,
        wait_s=wait,
    )
    raise typer.Exit(exit_code(outcomes))


@app.command()
def reproduce(
    board: Annotated[str, typer.Option(help="A name from `hipbook boards`.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Notebooks at once.")] = 2,
) -> None:
    """The main job: check the arms, run every notebook, write the report, print the summary."""
    from hipbook.sweep.reproduce import main_job

    raise typer.Exit(main_job(board, jobs))


@app.command()
def report(
    runs: Annotated[Path, typer.Argument(help="Folder with runs of `hipbook run` or `hipbook sweep`.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the report; default: RUNS/html.")] = None,
    claims: Annotated[bool, typer.Option(help="Show the ledger of claims as well.")] = True,
    all_notebooks: Annotated[
        bool, typer.Option("--all-notebooks", help="Render every executed notebook, however many.")
    ] = False,
) -> None:
    """Records, claims and executed notebooks as pages that open from a file path."""
    from hipbook.records import claims as ledger
    from hipbook.report import gather, site

    found = gather.runs_under(runs)
    index = site.write_site(
        found, out or runs / "html", title="hipbook runs", lead=f"{len(found)} runs",
        claims=ledger.read() if claims else (), all_notebooks=all_notebooks,
    )  # fmt: skip
    typer.echo(index)


@app.command()
def build(
    source: Annotated[str, typer.Argument(help="A source under kernels/, or a path.")],
    flags: Annotated[list[str] | None, typer.Argument(help="Compiler flags, after `--`.")] = None,
    arch: Annotated[list[str], typer.Option(help="Architectures; may be given again.")] = ["gfx1200"],  # noqa: B006
) -> None:
    """Build a kernel source and print the static facts of what came out."""
    from hipbook.build import build_many
    from hipbook.report import tables

    for built in build_many([(source, name, tuple(flags or ())) for name in arch]):
        typer.echo(f"{built.arch}: {built.path}")
        rows = [
            {"kernel": k.name, "VGPRs": k.vgprs, "SGPRs": k.sgprs, "LDS bytes": k.lds_bytes,
             "scratch bytes": k.scratch_bytes, "code bytes": k.code_bytes, "waves": k.occupancy_waves}
            for k in built.kernels.values()
        ]  # fmt: skip
        typer.echo(tables.text(rows))


@app.command()
def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is.")] = False,
) -> None:
    """Empty the caches: built kernels and the emulator's compiled parts; says where and how big they were."""
    from hipbook import caches

    total = 0
    for part in caches.parts():
        total += part.size_bytes
        cap = f", at most {part.cap_bytes / 1e6:.0f} MB" if part.cap_bytes else ""
        typer.echo(f"{part.size_bytes / 1e6:8.1f} MB  {part.path}{cap}")
        if not dry_run:
            caches.empty(part)
    typer.echo(f"{total / 1e6:8.1f} MB  {'in all' if dry_run else 'removed'}")


@records_app.command("list")
def records_list(where: Files = None) -> None:
    """A line for each record."""
    from hipbook.records.tell import line
    from hipbook.report import tables

    typer.echo(tables.text([line(path) for path in _record_files(where)]))


@records_app.command("show")
def records_show(record: Annotated[Path, typer.Argument()]) -> None:
    """One record in full."""
    from hipbook import records
    from hipbook.records.tell import in_full

    typer.echo(in_full(records.read(record)))


@records_app.command("check")
def records_check(
    where: Files = None,
    current: Annotated[
        bool, typer.Option("--current", help="Also refuse records of kernels the tree no longer has.")
    ] = False,
) -> None:
    """Read every record, and recompute what can be recomputed; name those that cannot be believed."""
    from hipbook import records
    from hipbook.records.recheck import recheck, require_current

    bad, files = 0, _record_files(where)
    for path in files:
        try:
            record = records.read(path)
            recheck(record, path)
            for unknown in require_current(record, path) if current else ():
                typer.echo(f"{path.name}: not compared: {unknown}")
        except records.BadRecord as error:
            bad += 1
            typer.echo(str(error), err=True)
    typer.echo(f"{len(files)} records, {bad} refused")
    raise typer.Exit(bool(bad))


@records_app.command("diff")
def records_diff(first: Annotated[Path, typer.Argument()], second: Annotated[Path, typer.Argument()]) -> None:
    """What differs between two records, times and environment aside; exit code 1 when something does."""
    from hipbook import records
    from hipbook.records.tell import differences
    from hipbook.report import tables

    rows = differences(records.read(first), records.read(second))
    typer.echo(tables.text(rows) if rows else "the same, times and environment aside")
    raise typer.Exit(bool(rows))


def _record_files(where: list[Path] | None) -> list[Path]:
    from hipbook import paths, records

    for path in where or ():
        if not path.exists():
            raise HipbookError(f"{path}: no such file or folder")
    places = where or [paths.root() / "runs", paths.data() / "measured"]
    files = [file for place in places if place.exists() for file in records.find(place)]
    if not files:
        raise HipbookError("no record found", fix="`make run` or `hipbook run NOTEBOOK` makes some")
    return files


def _notebook_files(where: list[Path] | None) -> list[Path]:
    from hipbook import paths

    files = []
    for place in where or [paths.notebooks()]:
        files += sorted(place.glob("*.ipynb")) if place.is_dir() else [place]
    for file in files:
        if not file.is_file():
            raise HipbookError(f"{file}: no such notebook")
    if not files:
        raise HipbookError("no notebook found")
    return files


@notebooks_app.command("format")
def notebooks_format(where: Files = None) -> None:
    """Rewrite notebooks in canonical form; outputs stay."""
    from hipbook.notebooks.execute import format_file

    for path in _notebook_files(where):
        if format_file(path):
            typer.echo(f"formatted {path.name}")


@notebooks_app.command("check")
def notebooks_check(where: Files = None) -> None:
    """The format gate: canonical bytes, executed, outputs present, nothing hidden."""
    from hipbook.notebooks.format import faults

    files = _notebook_files(where)
    found = [fault for path in files for fault in faults(path)]
    for fault in found:
        typer.echo(fault, err=True)
    typer.echo(f"{len(files)} notebooks, {len(found)} faults")
    raise typer.Exit(bool(found))


@notebooks_app.command("execute")
def notebooks_execute(
    where: Files = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Take new figures and timings as well.")] = False,
) -> None:
    """Run notebooks on their defaults and write their outputs and records back into the tree."""
    from hipbook.notebooks.execute import execute
    from hipbook.sweep.telling import begun, ended

    failed = 0
    for path in _notebook_files(where):
        begun(path)
        outcome, changed = execute(path, fresh=fresh)
        failed += not outcome.passed
        ended(outcome, note="outputs written" if changed else "as committed")
    raise typer.Exit(bool(failed))
