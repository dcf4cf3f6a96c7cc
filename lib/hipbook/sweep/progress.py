"""What a person sees of a sweep: a bar a board on a terminal, a line a job elsewhere; counts at the end."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import typer

from hipbook.records import Status
from hipbook.sweep.conductor import Watching
from hipbook.sweep.jobs import NO_BOARD, Job
from hipbook.sweep.runner import Outcome


def describe(job: Job) -> str:
    """What tells a job from the others of its sweep, in one line."""
    words = [f"{name}={value}" for name, value in job.given.items() if name != "board"]
    words += [f"repeat {job.repeat}"] if job.repeat else []
    words += [f"A/A {job.control}"] if job.control else []
    return ", ".join(words) or "defaults"


def title(board: str) -> str:
    return board if board != NO_BOARD else "no board"


@contextmanager
def shown(jobs: Sequence[Job], skipped: Mapping[str, Outcome]) -> Iterator[Watching]:
    """A `Watching` that shows it."""
    if skipped:
        typer.echo(f"{len(skipped)} jobs have a valid record or a final outcome; {len(jobs)} to run")
    if sys.stdout.isatty():
        with _bars(jobs) as watching:
            yield watching
    else:
        yield _lines(jobs)


def _said(job: Job, outcome: Outcome, again: bool) -> str:
    note = f"  (attempt {outcome.attempt}, to be run again)" if again else ""
    why = f"\n    {outcome.why.splitlines()[0]}" if outcome.why else ""
    return f"{outcome.status:9} {title(job.board)}  {describe(job)}  {outcome.wall_s:.1f} s{note}{why}"


def _lines(jobs: Sequence[Job]) -> Watching:
    done = Counter()

    def ended(job: Job, outcome: Outcome, again: bool) -> None:
        done["ended"] += not again
        typer.echo(f"[{done['ended']}/{len(jobs)}] {_said(job, outcome, again)}")

    return Watching(ended=ended)


@contextmanager
def _bars(jobs: Sequence[Job]) -> Iterator[Watching]:
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    totals = Counter(job.board for job in jobs)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
    ) as progress:  # fmt: skip
        bars = {
            board: progress.add_task(escape(title(board)), total=n, now="") for board, n in totals.items()
        }

        def begun(job: Job, attempt: int) -> None:
            progress.update(bars[job.board], now=escape(describe(job)))

        def ended(job: Job, outcome: Outcome, again: bool) -> None:
            progress.update(bars[job.board], advance=not again, now="")
            if outcome.status is not Status.PASSED:
                progress.console.print(escape(_said(job, outcome, again)), highlight=False)

        yield Watching(begun, ended)
