"""`hipbook check`: every arm held to its oracle, for people and for CI."""

import time
from pathlib import Path
from typing import Annotated

import typer

from hipbook.errors import BadArgument


def mount(app: typer.Typer) -> None:
    """Add this verb to the command line."""
    app.command()(check)


def check(
    board: Annotated[str, typer.Option(help="A name from `hipbook boards`.")] = "",
    full: Annotated[
        bool, typer.Option("--full", help="The whole product instead of the covering design.")
    ] = False,
    operation: Annotated[str, typer.Option(help="Only this operation.")] = "",
    arm: Annotated[list[str] | None, typer.Option(help="Only this arm; may be given again.")] = None,
    family: Annotated[
        list[str] | None, typer.Option(help="Only this family of inputs; may be given again.")
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, help="Seeds 0 .. N - 1; alone: all attention arms on every family, recorded."),
    ] = 1,
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case, by its id; may be given again.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes; default one a core.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the results as JUnit XML.")] = None,
    mutants: Annotated[
        bool,
        typer.Option(
            "--mutants", help="Broken variants of the kernels instead: which are caught, and by what."
        ),
    ] = False,
    mutant: Annotated[list[str] | None, typer.Option(help="Only this mutant; may be given again.")] = None,
    generated: Annotated[
        int, typer.Option(min=0, help="Mutants made by the generator, beside the table's.")
    ] = 50,
    mutant_seed: Annotated[int, typer.Option(min=0, help="Of the generator.")] = 0,
) -> None:
    """Run arms on adversarial inputs and compare with the float64 oracle; exit code 1 when one is wrong.

    A run that compares nothing fails. `--full` also writes data/checks/full.json, arm by arm, unless it is
    narrowed to families or cases or widened to more seeds.
    """
    from hipbook import boards, checks
    from hipbook.build import toolchain_identity

    filters = (operation, arm, family, case)
    if mutants or mutant:
        from hipbook import cli_mutants

        if arm or family or case or full or junit or seeds != 1:
            raise BadArgument(
                "--mutants", "", "goes with --operation, --mutant, --generated, --board and --workers"
            )
        cli_mutants.run(list(mutant or ()), operation, generated, mutant_seed, board, workers or 2)
    if case and any(filters[:3]):
        raise BadArgument("--case", case[0], "names a case fully; leave the other filters out")
    where = boards.get(board or None)
    if case:
        cases = [checks.parse_case(one).with_seed(seed) for one in case for seed in _seeds(one, seeds)]
    elif seeds > 1 and not any(filters) and not full:
        from hipbook.checks import seeds as many

        cases = many.cases(seeds)
    else:
        level = "full" if full else "test"
        cases = checks.select(
            level, operation=operation or None, arms=arm or (), families=family or (), seeds=seeds
        )
    began = time.monotonic()
    with checks.progress() as told:
        results = checks.run_checks(cases, where.name, workers, on_result=told)
    summary = checks.summarise(results)
    typer.echo(str(summary))
    typer.echo(f"on {where.name}, t={time.monotonic() - began:.0f} s")
    if junit:
        junit.parent.mkdir(parents=True, exist_ok=True)
        checks.write_junit(results, junit)
        typer.echo(f"JUnit: {junit}")
    if full and not (family or case) and seeds == 1:
        record = checks.full_record(results, where, toolchain_identity(where.arch), time.monotonic() - began)
        typer.echo(f"recorded: {checks.write_full_record(record)}")
    if seeds > 1 and not any(filters) and not full:
        typer.echo(f"recorded: {many.write(many.record(results, where, seeds))}")
    for failed in summary.failed:
        typer.echo(f"again: hipbook check --case {failed.case_id}", err=True)
    raise typer.Exit(not summary.passed)


def _seeds(case_id: str, seeds: int) -> range:
    """The seed a case id names, or the first `seeds` when more than one is asked for."""
    own = int(case_id.rsplit("/s", 1)[-1]) if case_id.rsplit("/s", 1)[-1].isdecimal() else 0
    return range(own, own + 1) if seeds == 1 else range(seeds)
