"""Coverage of a sweep: jobs by board, done, failed and missing. Said before any figure."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hipbook.records import Status
from hipbook.sweep.jobs import Job
from hipbook.sweep.progress import title
from hipbook.sweep.runner import Outcome

STATES = ("done", "failed", "missing")
Standing = Sequence[tuple[Job, Outcome | None]]


def state_of(outcome: Outcome | None) -> str:
    """done (it PASSED), failed, or missing (it has not ended, or was cancelled before it did)."""
    if outcome is None or outcome.status is Status.CANCELLED:
        return "missing"
    return "done" if outcome.status is Status.PASSED else "failed"


def by_board(standing: Standing) -> list[dict[str, Any]]:
    """A row a board: jobs, done, failed, missing, and the outcomes of what failed; a last row of all."""
    rows = []
    for board in [*dict.fromkeys(job.board for job, _ in standing), None]:
        here = [(job, outcome) for job, outcome in standing if board is None or job.board == board]
        states = Counter(state_of(outcome) for _, outcome in here)
        failed = Counter(o.status for _, o in here if state_of(o) == "failed")
        rows.append(
            {
                "board": "all" if board is None else title(board),
                "jobs": len(here),
                "done": states["done"],
                "failed": states["failed"],
                "missing": states["missing"],
                "outcomes of the failed": ", ".join(f"{n} {status}" for status, n in sorted(failed.items())),
            }
        )
    return rows
