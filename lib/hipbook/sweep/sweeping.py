"""What the verbs of `hipbook sweep` do: plan a file, run what is due, say how it stands."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hipbook.errors import HipbookError
from hipbook.records import Status
from hipbook.sweep import jobs, spec, state
from hipbook.sweep.conductor import Watching, conduct, due
from hipbook.sweep.engine import Engine, LocalEngine
from hipbook.sweep.jobs import Job
from hipbook.sweep.runner import Outcome
from hipbook.sweep.spec import Sweep
from hipbook.sweep.state import State


@dataclass(frozen=True)
class Planned:
    """A sweep file, checked against its notebook and the boards there are."""

    sweep: Sweep
    file: Path
    notebook: Path
    jobs: Sequence[Job]
    folder: Path


@contextmanager
def engine_of(sweep: Sweep, scheduler: str | None = None) -> Iterator[Engine]:
    """The engine a sweep file names; `scheduler` (an address) goes over it. Closed at the end."""
    if scheduler is None and sweep.engine is None:
        engine: Engine = LocalEngine(sweep.limits)
    else:
        from hipbook.sweep.many_hosts import engine_of_hosts

        engine = engine_of_hosts(sweep, scheduler)
    try:
        yield engine
    finally:
        engine.close()


def folder_of(sweep: Sweep, out: Path | None) -> Path:
    return (out or state.default_folder(sweep.name)).absolute()


def plan(file: Path, engine: Engine, sweep: Sweep, out: Path | None = None) -> Planned:
    """Check everything and make the jobs; nothing is written."""
    notebook = spec.notebook_of(sweep, file)
    made = jobs.plan(sweep, notebook, engine.offers(sweep.boards))
    return Planned(sweep, Path(file), notebook, made, folder_of(sweep, out))


@dataclass(frozen=True)
class Done:
    """What a call of `go` did: jobs run by how they ended, jobs that were not run again."""

    counted: Counter[Status]
    skipped: Mapping[str, Outcome]
    wall_s: float
    cancelled: bool


def go(
    planned: Planned,
    engine: Engine,
    *,
    failed_again: bool,
    watching: Callable[[Sequence[Job], Mapping[str, Outcome]], Watching] | None = None,
) -> Done:
    """Run what is due of a plan. `watching` is made from (the jobs to run, the outcomes of the others)."""
    began = time.monotonic()
    with state.open_for_writing(planned.folder, planned.sweep.name, planned.file) as here:
        todo, skipped = due(here, planned.jobs, failed_again=failed_again)
        for job in planned.jobs:
            if job.key in skipped:
                here.adopt(job, skipped[job.key])
        here.write_plan(planned.sweep.name, planned.file, planned.notebook, planned.jobs)
        here.note("start", jobs=len(planned.jobs), due=len(todo))
        told = watching(todo, skipped) if watching else Watching()
        counted = conduct(here, planned.notebook, todo, engine, planned.sweep.limits, told)
        cancelled = here.cancel_file.exists()
        here.note("stop", cancelled=cancelled)
        here.cancel_file.unlink(missing_ok=True)
    return Done(counted, skipped, time.monotonic() - began, cancelled)


def standing(folder: Path) -> list[tuple[Job, Outcome | None]]:
    """Every job of the plan in a folder with how it ended; None for one that has not."""
    here = State(folder)
    return [(job, here.outcome(job)) for job in here.plan()["jobs"]]


def request_cancel(folder: Path, wait_s: float) -> bool:
    """Ask the runner at work on a folder to end; whether it has within `wait_s`. BadState for none."""
    State(folder).plan()
    if not state.is_running(folder):
        raise state.BadState(f"{folder}: no runner is at work on it", fix="nothing is to be cancelled")
    try:
        State(folder).cancel_file.touch()
    except OSError as error:
        raise HipbookError(f"{folder}: {error.strerror}") from None
    deadline = time.monotonic() + wait_s
    while state.is_running(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
