"""What a person sees of runs as they go: a line when one begins, a line when it ends."""

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from hipbook.records import Status
from hipbook.sweep.runner import Outcome


def begun(notebook: Path) -> None:
    typer.echo(f"  running   {notebook.stem}")


def ended(outcome: Outcome, note: str = "") -> None:
    where = os.path.relpath(outcome.folder) if outcome.executed and not note else ""
    typer.echo(f"  {outcome.status:9} {outcome.notebook}  {outcome.wall_s:.1f} s  {note}{where}".rstrip())
    if outcome.why:
        typer.echo(f"            {outcome.why}", err=True)
        if outcome.status is not Status.BAD_PARAMETERS:
            typer.echo(f"            logs: {os.path.relpath(outcome.folder)}", err=True)


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 when all PASSED, 130 when one was cancelled, 2 for bad parameters, else 1."""
    seen = {outcome.status for outcome in outcomes}
    if seen <= {Status.PASSED}:
        return 0
    if Status.CANCELLED in seen:
        return 130
    return 2 if seen <= {Status.PASSED, Status.BAD_PARAMETERS} else 1
