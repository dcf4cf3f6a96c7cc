"""`hipbook claims`, `hipbook compare` and `hipbook calibrate`: a few lines each over the package."""

from pathlib import Path
from typing import Annotated

import typer

from hipbook.errors import BadArgument

claims_app = typer.Typer(help="The ledger of claims: what is said, on what support.", no_args_is_help=True)


def mount(app: typer.Typer) -> None:
    """Add these verbs to the command line."""
    app.add_typer(claims_app, name="claims")
    app.command()(compare)
    app.command()(calibrate)
    app.command("near-ties")(near_ties)


@claims_app.command("list")
def list_claims() -> None:
    """Every claim, its status and its sentence."""
    from hipbook.records import claims
    from hipbook.report import tables

    ledger = claims.read()
    rows = [
        {"claim": one.id, "status": str(one.status), "date": one.date, "sentence": one.sentence}
        for one in ledger
    ]
    typer.echo(tables.text(rows))


@claims_app.command("show")
def show_claim(claim: str) -> None:
    """One claim in full: what it cites, does not claim, predicted, corrects and is corrected by."""
    from hipbook.records import claims

    ledger = claims.read()
    found = next((one for one in ledger if one.id == claim), None)
    if found is None:
        raise BadArgument("claim", claim, "not in the ledger", fix="`hipbook claims list` names them")
    typer.echo(claims.describe(found, ledger))


@claims_app.command("cite")
def cite_record(record: Path) -> None:
    """Print citations of every verdict of a record, to paste under a claim of data/claims."""
    from hipbook import paths
    from hipbook.records import claims, store

    inside = record.resolve()
    root = paths.root().resolve()
    name = inside.relative_to(root).as_posix() if inside.is_relative_to(root) else record.name
    typer.echo(claims.citations(store.read(record), name))


@claims_app.command("check")
def check_claims() -> None:
    """Read everything the claims cite; exits with 1 when one does not stand."""
    from hipbook.records import claims, claims_check

    checked = claims_check.check(claims.read())
    for fault in checked.faults:
        typer.echo(f"FAIL {fault}")
    word = "stand" if checked.passed else "do not all stand"
    typer.echo(f"{checked.claims} claims with {checked.citations} citations {word}")
    if not checked.passed:
        raise typer.Exit(1)


def compare(
    base: Annotated[Path, typer.Argument(help="a record; alone, the arms of its sessions are compared")],
    new: Annotated[Path | None, typer.Argument(help="a second record")] = None,
    arms: Annotated[str | None, typer.Option(help="two arms of the one record: BASE,NEW")] = None,
    factor: Annotated[
        str | None, typer.Option(help="dotted name of what is meant to differ, e.g. parameters.arm")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="for a pull request")] = False,
    figure: Annotated[
        Path | None, typer.Option(help="also draw the ratios into this file (.png, .pdf)")
    ] = None,
) -> None:
    """Compare two arms of one record, or two records: verdicts, bounds, environment, what is not claimed."""
    from hipbook.report import comparison, comparison_text

    pair = tuple(arm.strip() for arm in arms.split(",")) if arms else None
    if pair is not None and (len(pair) != 2 or not all(pair)):
        raise BadArgument("--arms", arms, "BASE,NEW: two names")
    made = comparison.of_files(base, new, arms=pair, factor=factor)
    typer.echo(comparison_text.markdown(made) if markdown else comparison_text.text(made), nl=False)
    if figure is not None:
        from hipbook.report import comparison_figure

        comparison_figure.figure(made).savefig(figure)


def calibrate(
    sessions: Annotated[int, typer.Option(min=20, help="simulated sessions a cell")] = 4000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """What the verdicts are worth, by simulation: false differences, coverage, power. Under a minute."""
    from hipbook.measure.calibration import report

    report(sessions=sessions, seed=seed, say=typer.echo)


def near_ties(
    base: Annotated[str, typer.Option(help="The arm a default has now.")] = "online",
    new: Annotated[str, typer.Option(help="The arm it would flip to.")] = "decode_gqa",
    board: Annotated[str, typer.Option(help="A name from `hipbook boards`.")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to compare; 60 a seeded model.")] = 300,
    write_golden: Annotated[
        bool, typer.Option("--write-golden", help="Keep this run's tokens as both arms' goldens.")
    ] = False,
) -> None:
    """Greedy tokens of two arms: margins, flips, distributions, goldens, and whether a default may flip."""
    from hipbook import boards
    from hipbook.report import tables
    from hipbook.studies import tie_study

    where = boards.get(board or None)
    found = tie_study.study(base, new, where, tokens=tokens)
    if write_golden:
        seeds = range(-(-tokens // tie_study.STEPS))
        typer.echo(f"wrote {tie_study.write_goldens(found, where, seeds)}")
        found = tie_study.study(base, new, where, tokens=tokens)
    typer.echo(tables.text(found.rows()))
    typer.echo(f"a default {found.gate}")
    raise typer.Exit(not found.gate.may_flip)
