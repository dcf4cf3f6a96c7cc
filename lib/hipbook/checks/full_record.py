"""The last result of the whole product, kept in the tree: data/checks/full.json.

It says when, on which board, on which sources and binaries, how many cases and values, and every
case that failed. Times are of the run, never of a kernel.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hipbook import __version__, paths
from hipbook.boards.base import Board
from hipbook.checks.case import CheckResult
from hipbook.checks.runner import OPERATIONS, summarise
from hipbook.errors import HipbookError

SCHEMA = 1
KEPT_FAILURES = 200


def full_record(results: Sequence[CheckResult], board: Board, compiler: str, seconds: float) -> dict:
    """A dictionary of plain values, in a fixed order."""
    total = summarise(results)
    by_arm: dict[str, list[CheckResult]] = defaultdict(list)
    for result in results:
        by_arm[f"{result.operation}/{result.arm}"].append(result)
    objects = sorted({sha for result in results for sha in result.code_objects})
    return {
        "schema": SCHEMA,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "hipbook": __version__,
        "board": board.identity(),
        "compiler": compiler,
        "sources": sorted({result.source_sha256 for result in results if result.source_sha256}),
        "code_objects": {"count": len(objects), "sha256_of_all": _digest(objects)},
        "cases": total.cases,
        "case_ids_sha256": _digest(sorted(result.case_id for result in results)),
        "passed": total.passed,
        "totals": _figures(results),
        "arms": {name: _figures(members) for name, members in sorted(by_arm.items())},
        "failed": [[r.case_id, str(r.status), r.reason] for r in total.failed[:KEPT_FAILURES]],
        "run_seconds": round(seconds),
    }


def _figures(results: Sequence[CheckResult]) -> dict:
    total = summarise(results)
    return {
        "cases": total.cases,
        "statuses": total.by_status,
        "launches": sum(result.launches for result in results),
        "launches_refused": total.refused_launches,
        "values_compared": total.values_compared,
        "held_to_equality": total.exact_compared,
        "worst_nmse": float(f"{total.worst_nmse:.4g}"),
        "worst_row_nmse": float(f"{total.worst_row_nmse:.4g}"),
        "worst_error_over_bound": float(f"{total.worst_error_over_bound:.4g}"),
    }


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def write_full_record(record: dict, path: Path | None = None) -> Path:
    """Write it under a temporary name and rename; the default place is data/checks/full.json."""
    where = path or paths.data() / "checks" / "full.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    temporary = where.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    temporary.replace(where)
    return where


def read_full_record(path: Path | None = None) -> dict:
    where = path or paths.data() / "checks" / "full.json"
    try:
        record = json.loads(where.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HipbookError(f"no {where}", fix="hipbook check --full writes it") from None
    if record.get("schema") != SCHEMA:
        raise HipbookError(f"{where} has schema {record.get('schema')}, this version reads {SCHEMA}")
    return record


def stale_arms(record: dict, board: Board) -> list[str]:
    """Arms whose kernel sources are not those the record was made of; empty: the record is current.

    Builds one code object an arm for `board` (cached).
    """
    first = {}
    for operation in OPERATIONS.values():
        for case in operation.test_cases():
            for source, flags in operation.build_jobs(case):
                first.setdefault(f"{operation.name}/{case.arm}", (source, flags))
    known = set(record["sources"])
    return sorted(arm for arm, job in first.items() if board.build(*job).source_sha256 not in known)
