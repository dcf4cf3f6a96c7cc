"""The last result of the whole product, kept in the tree: data/checks/full.json.

For each arm of each operation it says when, on which board, of which sources and binaries, how many
cases and values, and every case that failed. Times are of the run, never of a kernel. Arms are replaced
one by one: a run of one of them leaves the others' records as they are.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hipbook import __version__, paths
from hipbook.boards.base import Board
from hipbook.checks.case import CheckResult, Operation
from hipbook.checks.runner import build_all, find_operation, summarise
from hipbook.errors import HipbookError

SCHEMA = 3
KEPT_FAILURES = 200
PROBES = 12  # cases an arm whose binaries tell whether a record is of the present ones


def full_record(results: Sequence[CheckResult], board: Board, compiler: str, seconds: float) -> dict:
    """{"schema", "operations": {name: {arm: record}}} of plain values in a fixed order."""
    by_arm: dict[tuple[str, str], list[CheckResult]] = defaultdict(list)
    for result in results:
        by_arm[result.operation, result.arm].append(result)
    common = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "hipbook": __version__,
        "board": board.identity(),
        "compiler": compiler,
        "seconds_of_the_whole_run": round(seconds),
    }
    operations: dict[str, dict] = defaultdict(dict)
    for (name, arm), members in sorted(by_arm.items()):
        operations[name][arm] = {**common, **_of_arm(name, arm, members, board)}
    return {"schema": SCHEMA, "operations": dict(operations)}


def _of_arm(name: str, arm: str, results: Sequence[CheckResult], board: Board) -> dict:
    total = summarise(results)
    objects = sorted({sha for result in results for sha in result.code_objects})
    return {
        "passed": total.passed,
        "cases": total.cases,
        "statuses": total.by_status,
        "launches": sum(result.launches for result in results),
        "launches_refused": total.refused_launches,
        "values_compared": total.values_compared,
        "held_to_equality": total.exact_compared,
        "worst_nmse": float(f"{total.worst_nmse:.4g}"),
        "worst_row_nmse": float(f"{total.worst_row_nmse:.4g}"),
        "worst_error_over_bound": float(f"{total.worst_error_over_bound:.4g}"),
        "failed": [[r.case_id, str(r.status), r.reason] for r in total.failed[:KEPT_FAILURES]],
        "case_ids_sha256": _digest(sorted(result.case_id for result in results)),
        "source_sha256": sorted({result.source_sha256 for result in results if result.source_sha256}),
        "code_objects": {"count": len(objects), "sha256_of_all": _digest(objects)},
        "probe": _probe(
            find_operation(name), _spread(sorted(r.case_id for r in results if r.code_objects)), board
        ),
    }


def _spread(case_ids: Sequence[str]) -> list[str]:
    """PROBES of them, evenly spaced."""
    step = max(1, len(case_ids) // PROBES)
    return list(case_ids[::step][:PROBES])


def _probe(operation: Operation, case_ids: Sequence[str], board: Board) -> dict:
    """A few cases, and one hash over their binaries as they are built now."""
    cases = [operation.parse(case_id) for case_id in case_ids]
    build_all(cases, board)
    jobs = sorted({job for case in cases for job in operation.build_jobs(case)})
    return {"cases": list(case_ids), "sha256": _digest([board.build(*job).sha256 for job in jobs])}


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def stale_arms(record: dict, board: Board) -> list[str]:
    """Arms ("operation/arm") whose binaries, as built now for `board`, are not those of the record.

    Empty: the record is current. A change of sources that leaves the binaries as they are does not count.
    """
    return [
        f"{name}/{arm}"
        for name, arms in record["operations"].items()
        for arm, was in arms.items()
        if _probe(find_operation(name), was["probe"]["cases"], board) != was["probe"]
    ]


def default_path() -> Path:
    return paths.data() / "checks" / "full.json"


def write_full_record(record: dict, path: Path | None = None) -> Path:
    """Put the record's arms into the file (data/checks/full.json), whole or not at all."""
    where = path or default_path()
    where.parent.mkdir(parents=True, exist_ok=True)
    kept = read_full_record(where)["operations"] if where.exists() else {}
    names = sorted({*kept, *record["operations"]})
    arms = {name: {**kept.get(name, {}), **record["operations"].get(name, {})} for name in names}
    merged = {"schema": SCHEMA, "operations": {name: dict(sorted(arms[name].items())) for name in names}}
    temporary = where.with_suffix(".tmp")
    temporary.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    temporary.replace(where)
    return where


def read_full_record(path: Path | None = None) -> dict:
    where = path or default_path()
    try:
        record = json.loads(where.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HipbookError(f"no {where}", fix="hipbook check --full writes it") from None
    if record.get("schema") != SCHEMA:
        raise HipbookError(f"{where} has schema {record.get('schema')}, this version reads {SCHEMA}")
    return record
