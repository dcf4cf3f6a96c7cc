"""The main job (`make run`): check the arms, run the notebooks, write the report, print the summary."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hipbook import paths, records
from hipbook.records import Record, Status
from hipbook.sweep.batch import run_all
from hipbook.sweep.runner import Outcome, declared_in, write_outcome
from hipbook.sweep.telling import begun, ended, exit_code

if TYPE_CHECKING:
    from hipbook.checks import Case

CHECK = "check"  # the folder and the maker's name of the arms' check
OPERATION = "paged_attention"  # whose arms the main job is about
GAP = "10_paged_attention_gap"  # the notebook whose record has each arm's counts
LEAD = (
    "The paged-attention arms of the founding investigation, built, checked against a float64 oracle and "
    "counted on an emulated gfx1200 board."
)


def main_job(board: str = "", at_once: int = 2) -> int:
    """Run everything on `board` (default: the notebooks' own); the exit code."""
    began, out = time.monotonic(), paths.root() / "runs" / "main"
    typer.echo("checking every arm against the oracle")
    checked = check_arms(board, out / CHECK)
    notebooks = sorted(paths.notebooks().glob("*.ipynb"))
    typer.echo(f"running {len(notebooks)} notebooks, {at_once} at once")
    outcomes = run_all(
        notebooks,
        lambda notebook: {"board": board} if board and takes_board(notebook) else {},
        folder_of=lambda notebook: out / notebook.stem,
        at_once=at_once,
        begun=begun,
        ended=ended,
    )
    folders = [*(outcome.folder for outcome in outcomes), out / CHECK]
    rows = summary(_records_in(folders))
    from hipbook.records import claims
    from hipbook.report import site, tables

    index = site.write_site(
        folders, out / "html", title="Paged attention on gfx1200", lead=LEAD, summary=rows,
        claims=claims.read(),
    )  # fmt: skip
    typer.echo("")
    typer.echo(tables.text(rows) if rows else "no arm was counted: see the outcomes above")
    typer.echo("")
    typer.echo(f"executed notebooks  {_shown(out)}/NAME/NAME.ipynb")
    typer.echo(f"records             {_shown(out)}/NAME/*.record.json  (hipbook records list {_shown(out)})")
    typer.echo(f"HTML                {_shown(index)}")
    passed = sum(outcome.passed for outcome in outcomes)
    typer.echo(
        f"{passed} of {len(outcomes)} notebooks PASSED, the check of the arms {checked}, "
        f"t={time.monotonic() - began:.0f} s"
    )
    return exit_code(outcomes) or int(checked is not Status.PASSED)


def takes_board(notebook: Path) -> bool:
    """Whether a notebook runs on a board of the caller's choice."""
    return "board" in {parameter.name for parameter in declared_in(notebook)}


def _shown(path: Path) -> str:
    """A path as one would type it here."""
    return os.path.relpath(path)


def check_arms(board: str, folder: Path) -> Status:
    """`hipbook check` with a record of its own in `folder`, one row of facts an arm."""
    from hipbook import boards, checks
    from hipbook.notebooks.investigation import Investigation

    where = boards.get(board or None)
    run = Investigation(
        CHECK,
        "Does every arm compute the right thing on the inputs that broke real kernels?",
        {"board": where.name, "cases": "one an arm and family, bf16 where there is a choice"},
        where,
    )
    with checks.progress() as told:
        results = checks.run_checks(
            _one_each(checks.select("test", operation=OPERATION)), where.name, on_result=told
        )
    for arm in dict.fromkeys(result.arm for result in results):
        total = checks.summarise([result for result in results if result.arm == arm])
        word = "CORRECT" if total.passed else "INCORRECT"
        run.verdict(arm, word, total.why or f"{total.values_compared:,} values in {total.cases} cases")
        run.fact(arm, "values compared", total.values_compared, "values")
        run.fact(arm, "worst row NMSE", total.worst_row_nmse, "1", bound=(5e-4, "the public gate"))
        run.fact(arm, "worst error over bound", total.worst_error_over_bound, "1", bound=(1, "derived"))
    for stale in folder.glob("*.json"):
        stale.unlink()
    record = run.record()
    file = records.file_name(CHECK, run.parameters)
    records.write(record, folder / file)
    why = "" if record.status is Status.PASSED else "a check failed; see above"
    write_outcome(
        Outcome(CHECK, run.parameters, record.status, why, folder, folder / file, None, record.times.wall_s)
    )
    return record.status


def _one_each(cases: "Sequence[Case]") -> "list[Case]":
    """One case for every arm and family of inputs, in bf16 where there is a choice.

    `make test` and `hipbook check` run the covering design over the other dtypes and sizes.
    """
    chosen: dict[tuple[str, str, str], Case] = {}
    for case in sorted(cases, key=lambda case: "/bf16-bf16-bf16/" not in case.id):
        chosen.setdefault((case.operation, case.arm, case.family), case)
    return list(chosen.values())


def _records_in(folders: Sequence[Path]) -> dict[str, Record]:
    """The records of these runs, by who made them."""
    found = [records.read(path) for folder in folders for path in records.find(folder)]
    return {record.made_by: record for record in found}


def summary(made: Mapping[str, Record]) -> list[dict[str, Any]]:
    """One row an arm: what the check compared, and what notebook 10 counted at its longest context."""
    if GAP not in made:
        return []
    checked = _facts(made[CHECK]) if CHECK in made else {}
    counted = _facts(made[GAP])
    rows = []
    for arm in [subject for subject, quantity in counted if quantity == "barriers per key"]:
        where, keys = _longest(arm, counted)
        moved = counted.get((where, "K and V bytes asked for"))
        rows.append(
            {
                "arm": arm,
                "checked values": _value(checked.get((arm, "values compared"))),
                "worst row NMSE": _value(checked.get((arm, "worst row NMSE"))),
                "barriers per key": _value(counted[arm, "barriers per key"]),
                f"wave instructions, {keys} keys": _value(counted.get((where, "wave instructions"))),
                "K+V bytes": _value(moved),
                "times the floor": moved.value / moved.bound.value if moved and moved.bound else None,
            }
        )
    return rows


def _facts(record: Record) -> dict[tuple[str, str], records.Fact]:
    return {(fact.subject, fact.quantity): fact for fact in record.facts if fact.kind == "exact"}


def _value(fact: records.Fact | None) -> int | float | None:
    return fact.value if fact else None


def _longest(arm: str, facts: Mapping[tuple[str, str], records.Fact]) -> tuple[str, str]:
    """The subject with this arm's longest single context, and that context."""
    found = [re.fullmatch(rf"{re.escape(arm)}, (\d+) keys", subject) for subject, _ in facts]
    keys = max((int(match[1]) for match in found if match), default=0)
    return f"{arm}, {keys} keys", str(keys)
