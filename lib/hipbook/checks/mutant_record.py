"""The last run over all mutants, kept in the tree: data/checks/mutants.json; and why survivors survive.

data/checks/survivors.toml explains generated mutants that no check catches because there is nothing to catch:
the edit computes the same. A survivor that it does not name fails the run.
"""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from hipbook import __version__, paths
from hipbook.checks.mutant_generator import generate
from hipbook.checks.mutants import UNBROKEN, MutantResult, Outcome, cases_for, run_mutants
from hipbook.errors import HipbookError

GENERATED = 50
Told = Callable[[MutantResult, int, int], None]


@dataclass(frozen=True)
class Survivor:
    """Why an edit changes nothing that can be seen. `old` and `new`: the one line that differs; `after`: a
    line among those above it that the edit's text quotes, where `old` alone would name several edits."""

    file: str
    old: str
    new: str
    reason: str
    after: str = ""


def survivors(path: Path | None = None) -> list[Survivor]:
    where = path or paths.data() / "checks" / "survivors.toml"
    return [Survivor(**entry) for entry in tomllib.loads(where.read_text(encoding="utf-8"))["survivor"]]


def explained(result: MutantResult, known: Sequence[Survivor]) -> str:
    """The reason of the entry that names this edit; empty when none does."""
    mutant = result.mutant
    old, new = mutant.old.split("\n")[-1].strip(), mutant.new.split("\n")[-1].strip()
    for one in known:
        if (one.file, one.old, one.new) == (mutant.file, old, new) and one.after in mutant.old:
            return one.reason
    return ""


def run_generated(
    count: int, seed: int, board: str, workers: int, on_result: Told | None = None
) -> list[MutantResult]:
    """The first `count` generated mutants that compile."""
    stream, results = generate(seed), []
    while len(results) < count:
        drawn = list(islice(stream, count - len(results)))
        if not drawn:
            raise HipbookError(f"the generator has {len(results)} mutants that compile, not {count}")
        ran = run_mutants(drawn, board, workers, on_result=on_result)
        results += [result for result in ran if result.outcome is not Outcome.DOES_NOT_BUILD]
    return results


def record(
    made: Sequence[MutantResult], generated: Sequence[MutantResult], seed: int, unbroken: dict, board: str
) -> dict:
    known = survivors()
    return {
        "schema": 1,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "hipbook": __version__,
        "board": board,
        "kernels_sha256": kernels_digest(),
        "unbroken": unbroken,
        "hand_made": {**_figures(made), "mutants": [_row(result, "") for result in made]},
        "generated": {
            "seed": seed,
            **_figures(generated),
            "mutants": [_row(result, explained(result, known)) for result in generated],
        },
    }


def failures(made: Sequence[MutantResult], generated: Sequence[MutantResult]) -> list[str]:
    """What a run must not end with: a hand-made mutant missed, a generated one missed and not explained."""
    known = survivors()
    bad = [f"{r.mutant.name}: {r.outcome} ({r.mutant.why})" for r in made if not r.good]
    for result in generated:
        silent = result.outcome in (Outcome.CAUGHT, Outcome.SAME_CODE) or explained(result, known)
        if not silent:
            bad.append(f"{result.mutant.name}: {result.outcome} ({result.mutant.why})")
    return bad


def unbroken_cases() -> int:
    return len(cases_for(UNBROKEN))


def kernels_digest() -> str:
    """One hash over the kernels' sources, names and contents."""
    total = hashlib.sha256()
    for path in sorted(paths.kernels().rglob("*")):
        if path.suffix in (".h", ".hip"):
            total.update(str(path.relative_to(paths.kernels())).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def write(values: dict, path: Path | None = None) -> Path:
    where = path or paths.data() / "checks" / "mutants.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    temporary = where.with_suffix(".tmp")
    temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    temporary.replace(where)
    return where


def _figures(results: Sequence[MutantResult]) -> dict:
    by = Counter(result.by for result in results if result.outcome is Outcome.CAUGHT)
    outcomes = Counter(str(result.outcome) for result in results)
    return {
        "count": len(results),
        "outcomes": dict(sorted(outcomes.items())),
        "caught_by": dict(sorted(by.items())),
    }


def _row(result: MutantResult, reason: str) -> dict:
    mutant = result.mutant
    row = {
        "name": mutant.name, "operation": mutant.operation, "file": mutant.file, "why": mutant.why,
        "outcome": str(result.outcome), "by": result.by, "case": result.case_id, "detail": result.detail,
        "cases_run": result.cases_run, "arms": list(result.arms_changed),
        "out_of_reach": mutant.out_of_reach, "equivalent": reason,
    }  # fmt: skip
    return {name: value for name, value in row.items() if value not in ("", [])}
