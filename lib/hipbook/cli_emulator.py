"""`hipbook emulator`: what the emulated boards can execute."""

from typing import Annotated

import typer

from hipbook.errors import BadArgument

app = typer.Typer(no_args_is_help=True, help="The emulated boards' machine.")


@app.callback()
def _group() -> None:
    """Keeps the verb below a verb, though it is the only one."""


@app.command()
def opcodes(
    arch: Annotated[
        list[str] | None, typer.Option(help="Only this architecture; may be given again.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Only this encoding: SOP1, VOP3, VGLOBAL, ...")] = "",
    uncovered: Annotated[bool, typer.Option("--uncovered", help="List only what cannot run.")] = False,
) -> None:
    """Which opcodes run, architecture by architecture: a table of counts, then the names.

    Every covered opcode has a test of its own (tests/emulator); a kernel with an uncovered one is refused
    before it runs.
    """
    from hipbook.emulator import coverage, isa
    from hipbook.report import tables

    known = list(isa.FAMILIES)
    for name in arch or ():
        if name not in known:
            raise BadArgument("--arch", name, f"must be one of: {', '.join(known)}")
    for family, archs in _by_family(arch or known, isa.FAMILIES).items():
        table = coverage.opcodes(family)
        if encoding:
            if encoding not in table:
                raise BadArgument("--encoding", encoding, f"must be one of: {', '.join(table)}")
            table = {encoding: table[encoding]}
        rows = [
            {"encoding": name, "opcodes": len(ops), "covered": sum(ops.values()),
             "uncovered": len(ops) - sum(ops.values())}
            for name, ops in table.items()
        ]  # fmt: skip
        total = sum(row["covered"] for row in rows)
        typer.echo(f"{', '.join(archs)} ({family}): {total} of {sum(r['opcodes'] for r in rows)} opcodes run")
        typer.echo(tables.text(rows))
        for covered in (False,) if uncovered else (True, False):
            typer.echo("covered:" if covered else "uncovered:")
            for name, ops in table.items():
                names = sorted(op for op, runs in ops.items() if runs is covered)
                if names:
                    typer.echo(f"  {name}: {' '.join(names)}")
        typer.echo("")


def _by_family(archs: list[str], families: dict[str, str]) -> dict[str, list[str]]:
    """{family: its architectures of those asked for}"""
    grouped: dict[str, list[str]] = {}
    for arch in archs:
        grouped.setdefault(families[arch], []).append(arch)
    return grouped
