"""What a profiler costs: the same child with and without it, interleaved, with an A/A control.

A run is a process. The figures are the child's own clocks (host wall and device events per launch) and the
wall of the whole process; the ratio over runs has its interval, its noise floor and its word from `measure`.
The profiled runs are at the same time the runs behind a kernel's time: its interval is over processes, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hipbook.measure.clocks import Clock
from hipbook.measure.comparable import same_board
from hipbook.measure.intervals import student
from hipbook.measure.judge import Judgement, Runs, judge
from hipbook.measure.schedule import interleave, with_control
from hipbook.measure.thresholds import MIN_RUNS_A_SIDE
from hipbook.measure.warmup import steady_from
from hipbook.profile.job import Job, Subject
from hipbook.profile.process import Ran, run_child
from hipbook.profile.window import Traced

PLAIN, PROFILED = "unprofiled", "profiled"
DEFAULT_RUNS = MIN_RUNS_A_SIDE  # a side: the fewest that carry a word
ARMS = with_control(PLAIN, PROFILED)
PROCESS = "the whole process"

Profile = Callable[[Job, Path], Traced]
Plain = Callable[[Job, Path], Ran]


@dataclass(frozen=True)
class Cost:
    """One figure of the child with the profiler against without it."""

    subject: str
    figure: str
    clock: Clock
    unit: str
    unprofiled: float  # median over runs
    profiled: float
    judgement: Judgement  # ratio unprofiled / profiled: below 1 is what the profiler costs

    @property
    def factor(self) -> float:
        """profiled / unprofiled."""
        return 1 / self.judgement.ratio

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of `factor`."""
        low, high = self.judgement.interval
        return 1 / high, 1 / low


@dataclass(frozen=True)
class KernelTime:
    """A subject's kernel by the profiler's clock: median over processes of each one's median launch."""

    subject: str
    us: float
    interval: tuple[float, float]  # 95 %, over processes (Student on logarithms)
    runs: int
    launches: int  # in a run


@dataclass(frozen=True, eq=False)
class Session:
    """One interleaved session on one board: `runs[i]` is a child of arm `order[i]`."""

    job: Job
    order: tuple[str, ...]
    runs: tuple[Ran, ...]
    traced: tuple[Traced, ...]  # of the profiled runs

    def costs(self) -> list[Cost]:
        """Every figure the child has of itself, subject by subject, then its whole process."""
        found = []
        for place, subject in enumerate(self.job.subjects):
            found.append(self._cost(place, subject, "wall per launch", Clock.HOST_WALL, _host_us))
            if all(_event_us(ran.done.subjects[place]) for ran in self.runs):
                found.append(self._cost(place, subject, "events per launch", Clock.DEVICE_EVENTS, _event_us))
        walls = [ran.wall_s for ran in self.runs]
        found.append(self._judged(PROCESS, "start to end", Clock.HOST_WALL, "s", walls, 0.0))
        return found

    def kernel_times(self) -> list[KernelTime]:
        found = []
        for subject in self.job.subjects:
            medians = np.array([one.median_us(subject) for one in self.traced])
            over = student(np.log(medians))
            interval = (float(np.exp(over.low)), float(np.exp(over.high)))
            found.append(
                KernelTime(subject, float(np.median(medians)), interval, len(medians), self.job.launches_each)
            )
        return found

    def _cost(
        self, place: int, subject: str, figure: str, clock: Clock, samples: Callable[[Subject], list[float]]
    ) -> Cost:
        """A figure with samples: a run's level is the median of its batches once they are steady."""
        levels, unsettled = [], 0
        for ran in self.runs:
            values = np.array(samples(ran.done.subjects[place]))
            steady = steady_from(values)
            levels.append(float(np.median(values[steady.dropped :])))
            unsettled += not steady.settled
        return self._judged(subject, figure, clock, "us", levels, unsettled / len(self.runs))

    def _judged(
        self, subject: str, figure: str, clock: Clock, unit: str, levels: list[float], unsettled: float
    ) -> Cost:
        sides = []
        for arm in ARMS:
            places = [at for at, name in enumerate(self.order) if name == arm]
            sides.append(Runs(np.array([levels[at] for at in places]), np.array(places, dtype=float)))
        found = judge(*sides, unsettled_share=unsettled, block_mhz=self._block_mhz())
        plain, profiled = (float(np.median(side.levels)) for side in sides[:2])
        return Cost(subject, figure, clock, unit, plain, profiled, found)

    def _block_mhz(self) -> np.ndarray | None:
        """The lowest clock of each block, read right after each subject's batches; None where unknown."""
        clocks = [[one.state.get("clock_mhz") for one in ran.done.subjects] for ran in self.runs]
        if not all(mhz for run in clocks for mhz in run):
            return None
        return np.array([min(run) for run in clocks], dtype=float).reshape(-1, len(ARMS)).min(axis=1)


def _host_us(subject: Subject) -> list[float]:
    return subject.host_us


def _event_us(subject: Subject) -> list[float]:
    return subject.event_us


def session(
    job: Job,
    folder: Path,
    profile: Profile,
    *,
    runs: int = DEFAULT_RUNS,
    seed: int = 0,
    plain: Plain = run_child,
    progress: Callable[[str], None] = lambda line: None,
) -> Session:
    """Run `job` `runs` times each with `profile`, without it and without it again, in a seeded order.

    Every run gets a folder of its own in `folder`. Whatever a run raises ends the session, as does a board
    that is another one than at its start (T13).
    """
    slots = interleave(ARMS, runs, seed)
    made: list[Ran] = []
    traced: list[Traced] = []
    for slot in slots:
        where = folder / f"run_{slot.order:02d}"
        if slot.arm == PROFILED:
            traced.append(profile(job, where))
            made.append(traced[-1].ran)
        else:
            made.append(plain(job, where))
        same_board(made[0].done.board, made[-1].done.board)
        progress(f"run {slot.order + 1} of {len(slots)}, {slot.arm}: {made[-1].wall_s:.1f} s")
    return Session(job, tuple(slot.arm for slot in slots), tuple(made), tuple(traced))
