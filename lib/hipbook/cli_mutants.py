"""`hipbook check --mutants`: broken variants of the kernels, and which checks catch them."""

import time
from dataclasses import replace

import typer


def run(names: list[str], operation: str, generated: int, seed: int, board: str, workers: int) -> None:
    """Hand-made mutants, then generated ones; exit code 1 when one that should be caught is not.

    A run over all of them writes data/checks/mutants.json.
    """
    from hipbook import boards, checks
    from hipbook.checks import mutant_record, mutants
    from hipbook.errors import BadArgument

    where = boards.get(board or None)
    if where.kind != "emulated":
        raise BadArgument(
            "--board", where.name, "mutants run where a fault costs nothing: on an emulated board"
        )
    made = mutants.find(names) if names else list(mutants.hand_made())
    if operation:
        checks.select(operation=operation)  # refuses an unknown one
        made = [mutant for mutant in made if mutant.operation == operation]
    whole = not names and not operation
    began = time.monotonic()

    def told(result: mutants.MutantResult, done: int, total: int) -> None:
        by = f" by {result.by}" if result.by else ""
        typer.echo(f"{done:>3} of {total} {result.mutant.name}: {result.outcome}{by}")
        if not by and result.outcome is mutants.Outcome.MISSED:
            typer.echo(f"        {result.mutant.why}")

    results = mutants.run_mutants(made, where.name, workers, on_result=told)
    more = []
    if whole and generated:
        typer.echo(f"{generated} generated, seed {seed}")
        more = mutant_record.run_generated(generated, seed, where.name, workers, told)
    bad = mutant_record.failures(results, more)
    unbroken = _unbroken({m.operation for m in made}, where.name, workers) if whole else {}
    bad += [f"unbroken kernels accused: {case}" for case in unbroken.get("accused", [])]
    for kind, ran in (("hand-made", results), ("generated", more)):
        caught = sum(result.outcome is mutants.Outcome.CAUGHT for result in ran)
        typer.echo(f"{kind}: {caught} of {len(ran)} caught")
    for line in bad:
        typer.echo(f"NOT CAUGHT {line}", err=True)
    if whole and generated == mutant_record.GENERATED:
        values = mutant_record.record(results, more, seed, unbroken, where.name)
        typer.echo(f"recorded: {mutant_record.write(values)}")
    typer.echo(f"on {where.name}, t={time.monotonic() - began:.0f} s")
    raise typer.Exit(bool(bad) or not results)


def _unbroken(operations: set[str], board: str, workers: int) -> dict:
    """The same cases on the sources as they are, built from a copy like a mutant's."""
    from hipbook.checks import mutants

    empty = [replace(mutants.UNBROKEN, name=name, operation=name) for name in sorted(operations)]
    ran = mutants.run_mutants(empty, board, workers)
    return {
        "cases": {result.mutant.name: result.cases_run for result in ran},
        "accused": [f"{r.case_id}: {r.detail}" for r in ran if r.outcome is mutants.Outcome.CAUGHT],
    }
