"""How far a run of checks is: a bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hipbook.checks.case import CheckResult

OnResult = Callable[[CheckResult, int, int], None]
SECONDS_BETWEEN_LINES = 20.0


@contextmanager
def progress(console: Console | None = None) -> Iterator[OnResult]:
    """`with progress() as told: run_checks(cases, on_result=told)`. Failures are printed as they come."""
    console = console or Console(stderr=True)
    columns = (TextColumn("check"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("check", total=None)
        said = time.monotonic()
        compared = 0

        def told(result: CheckResult, done: int, total: int) -> None:
            nonlocal said, compared
            compared += result.values_compared
            if not result.ok:
                words = f"{result.status}: {result.case_id}\n  {result.reason}"
                console.print(words, markup=False, highlight=False, soft_wrap=True)
            bar.update(task, completed=done, total=total)
            now = time.monotonic()
            if not console.is_terminal and (now - said > SECONDS_BETWEEN_LINES or done == total):
                console.print(f"checked {done} of {total} cases, {compared:,} values", highlight=False)
                said = now

        yield told
