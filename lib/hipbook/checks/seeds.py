"""Many seeds of every adversarial family: arms, ladder and tiled_ref, with the result in the tree.

A covering design takes each case at one seed. Here each (arm, family) at bf16 takes N of them; what came of
it is kept in data/checks/seeds.json. An arm's refusals are those of its contract (checks/attention.py).
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hipbook import __version__, paths
from hipbook.boards.base import Board
from hipbook.checks.attention import TILED_FAMILIES, AttentionCase
from hipbook.checks.case import CheckResult
from hipbook.checks.mutant_record import kernels_digest
from hipbook.checks.runner import summarise
from hipbook.ops import tiled_ref
from hipbook.ops.attention_ladder import LADDER
from hipbook.oracle.paged_attention import FAMILIES

ARMS = (*LADDER, "decode_gqa", "split_kv", tiled_ref.NAME)


def cases(seeds: int, arms: Sequence[str] = ARMS) -> list[AttentionCase]:
    """Every family an arm serves, at seeds 0 .. seeds - 1."""
    return [
        AttentionCase(arm, family, seed=seed)
        for seed in range(seeds)
        for family in FAMILIES
        for arm in arms
        if arm != tiled_ref.NAME or family in TILED_FAMILIES
    ]


def record(results: Sequence[CheckResult], board: Board, seeds: int) -> dict:
    """Figures of the whole and of each arm; the ids of what failed."""
    by_arm: dict[str, list[CheckResult]] = defaultdict(list)
    for result in results:
        by_arm[result.arm].append(result)
    whole = summarise(results)
    return {
        "schema": 1,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "hipbook": __version__,
        "board": board.name,
        "kernels_sha256": kernels_digest(),
        "seeds": seeds,
        "families": list(FAMILIES),
        "passed": whole.passed,
        **_figures(results),
        "arms": {arm: _figures(members) for arm, members in by_arm.items()},
        "failed": [[result.case_id, str(result.status), result.reason[:300]] for result in whole.failed],
    }


def _figures(results: Sequence[CheckResult]) -> dict:
    total = summarise(results)
    return {
        "cases": total.cases,
        "statuses": total.by_status,
        "values_compared": total.values_compared,
        "held_to_equality": total.exact_compared,
        "launches_refused": total.refused_launches,
        "worst_nmse": float(f"{total.worst_nmse:.4g}"),
        "worst_row_nmse": float(f"{total.worst_row_nmse:.4g}"),
        "worst_error_over_bound": float(f"{total.worst_error_over_bound:.4g}"),
    }


def write(values: dict, path: Path | None = None) -> Path:
    where = path or paths.data() / "checks" / "seeds.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    temporary = where.with_suffix(".tmp")
    temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    temporary.replace(where)
    return where
