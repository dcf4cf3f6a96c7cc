"""`hipbook annotate`: HIP source lines with what they executed on the emulated board."""

from typing import Annotated

import typer


def mount(app: typer.Typer) -> None:
    """Add this verb to the command line."""
    app.command()(annotate)


def annotate(
    kernel: Annotated[str, typer.Argument(help="An attention arm, or a case of `hipbook check` by its id.")],
    against: Annotated[str, typer.Option(help="A second one: the lines that differ most.")] = "",
    board: Annotated[str, typer.Option(help="An emulated board, by name.")] = "",
    model: Annotated[str, typer.Option(help="Whose decode step an arm runs.")] = "Qwen3-0.6B",
    keys: Annotated[int, typer.Option(min=1, help="Keys of that step.")] = 256,
    lines: Annotated[int, typer.Option(min=1, help="How many lines to show.")] = 20,
    file: Annotated[str, typer.Option(help="Show this file whole instead, a path under kernels/.")] = "",
) -> None:
    """Executed instructions, bytes, bank conflicts and active lanes by source line, hottest first."""
    from hipbook import boards
    from hipbook.errors import BadArgument
    from hipbook.ops import models
    from hipbook.report import tables
    from hipbook.studies import annotate as study
    from hipbook.studies.profile import step_call

    if against and file:
        raise BadArgument("--file", file, "shows one kernel; leave --against out")
    where = boards.get(board or None)

    def profile(name: str) -> study.Profile:
        if "/" in name:
            return study.of_case(name, where)
        return study.of_arm(name, step_call(models.get(model), [keys]), where)

    first = profile(kernel)
    if file:
        typer.echo(tables.text(study.source(first, file)))
        return
    if against:
        rows = study.difference(first, profile(against), lines)
        typer.echo(tables.text(rows) if rows else "no line executes more in one than in the other")
        return
    shown = study.hottest(first, lines)
    typer.echo(tables.text(shown))
    share = sum(int(row["instructions"]) for row in shown) / first.instructions
    typer.echo(
        f"{first.kernel} on {where.name}: {first.instructions:,} wave instructions in {first.launches} "
        f"launch(es); {len(shown)} of {len(first.lines)} lines hold {100 * share:.0f} %"
    )
