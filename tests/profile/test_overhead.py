"""What a profiler costs, on children with made-up times: the factor that was put in comes out."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hipbook.measure.comparable import BoardChanged
from hipbook.measure.verdict import Word
from hipbook.profile import overhead
from hipbook.profile.job import ProfileError

SUBJECTS = ["decode, 5 keys", "decode_gqa, 5 keys"]


class World:
    """Children that take 100 us a launch, `factor` times that under the profiler, 1 % from run to run."""

    def __init__(self, first_run, factor: float, *, batches: int = 32, seed: int = 0, events: bool = True):
        self.first, self.factor, self.batches, self.events = first_run, factor, batches, events
        self.random = np.random.default_rng(seed)
        self.folders, self.boards = [], iter(())

    def child(self, folder, factor: float):
        done, run = self.first.traced.ran.done, np.exp(self.random.normal(0, 0.01))
        subjects = [
            one.model_copy(
                update={
                    "host_us": list(100 * factor * run * np.exp(self.random.normal(0, 0.002, self.batches))),
                    "event_us": list(50 * run * np.exp(self.random.normal(0, 0.002, self.batches)))
                    if self.events
                    else [],
                }
            )
            for one in done.subjects
        ]
        done = done.model_copy(update={"subjects": subjects, "board": next(self.boards, None) or done.board})
        self.folders.append(folder.name)
        return replace(self.first.traced.ran, done=done, wall_s=3.0 * factor**0.5 * run)

    def plain(self, job, folder):
        return self.child(folder, 1.0)

    def profile(self, job, folder):
        ran = self.child(folder, self.factor)
        longer = round(1000 * np.exp(self.random.normal(0, 0.01)))
        rows = self.first.traced.rows.with_columns(
            (pl.col("Start_Timestamp") + longer).alias("End_Timestamp")
        )
        return replace(self.first.traced, ran=ran, rows=rows)

    def session(self, job, tmp_path, **options):
        return overhead.session(job, tmp_path, self.profile, plain=self.plain, **options)


def test_a_known_cost_is_found_and_none_where_there_is_none(first_run, job, tmp_path):
    session = World(first_run, 1.25).session(job, tmp_path, runs=10)
    costs = {(one.subject, one.figure): one for one in session.costs()}
    assert set(costs) == {
        *((name, figure) for name in SUBJECTS for figure in ("wall per launch", "events per launch")),
        (overhead.PROCESS, "start to end"),
    }
    for name in SUBJECTS:
        wall, events = costs[name, "wall per launch"], costs[name, "events per launch"]
        assert wall.judgement.verdict.word is Word.SLOWER
        low, high = wall.interval
        assert low < 1.25 < high < 1.3
        assert low < wall.factor < high
        assert (wall.clock, wall.unit) == ("host_wall", "us")
        assert events.clock == "device_events"
        assert events.judgement.verdict.word is not Word.SLOWER
        assert events.interval[0] < 1 < events.interval[1]
        assert wall.judgement.noise_floor > 0  # from the control, which is a child without a profiler
    assert costs[overhead.PROCESS, "start to end"].factor == pytest.approx(1.25**0.5, rel=0.03)


def test_runs_alternate_each_in_a_folder_of_its_own(first_run, job, tmp_path):
    world, told = World(first_run, 1.0, events=False), []
    session = world.session(job, tmp_path, runs=2, seed=5, progress=told.append)
    assert world.folders == [f"run_{n:02d}" for n in range(6)]
    assert sorted(session.order[:3]) == sorted(session.order[3:]) == sorted(overhead.ARMS)
    assert session.order[:3] == session.order[3:][::-1]
    assert len(told) == 6
    assert {one.figure for one in session.costs()} == {"wall per launch", "start to end"}
    assert str(session.costs()[0].judgement.verdict) == "INCONCLUSIVE(few_runs)"


def test_a_kernels_time_has_its_interval_over_processes(first_run, job, tmp_path):
    session = World(first_run, 1.0).session(job, tmp_path, runs=4)
    times = session.kernel_times()
    assert [one.subject for one in times] == SUBJECTS
    for one in times:
        medians = [traced.median_us(one.subject) for traced in session.traced]
        assert one.us == np.median(medians) == pytest.approx(1.0, rel=0.05)
        assert one.interval[0] < min(medians) or one.interval[1] > max(medians)
        assert one.interval[0] < one.us < one.interval[1]
        assert (one.runs, one.launches) == (4, 2)


def test_a_warm_up_that_never_ends_and_a_throttled_board_keep_the_word(first_run, job, tmp_path):
    few = World(first_run, 1.25, batches=3).session(job, tmp_path, runs=10)
    assert str(few.costs()[0].judgement.verdict) == "INCONCLUSIVE(drift)"
    world = World(first_run, 1.25)
    session = world.session(job, tmp_path, runs=10)
    assert np.isnan(session.costs()[0].judgement.signs.throttled_share)  # no clock was read
    slow = [
        replace(
            ran,
            done=ran.done.model_copy(
                update={
                    "subjects": [
                        one.model_copy(update={"state": {"clock_mhz": 1200 if at < 9 else 1900}})
                        for one in ran.done.subjects
                    ]
                }
            ),
        )
        for at, ran in enumerate(session.runs)
    ]
    throttled = replace(session, runs=tuple(slow)).costs()[0].judgement
    assert float(throttled.signs.throttled_share) == pytest.approx(0.3)
    assert str(throttled.verdict) == "INCONCLUSIVE(throttled)"


def test_another_board_on_the_way_ends_the_session(first_run, job, tmp_path):
    world = World(first_run, 1.0)
    board = first_run.traced.ran.done.board
    world.boards = iter([board, board, board | {"uuid": "another"}])
    with pytest.raises(BoardChanged, match="uuid"):
        world.session(job, tmp_path, runs=2)


def test_what_a_run_raises_ends_the_session(first_run, job, tmp_path):
    def broken(job, folder):
        raise ProfileError("nothing written")

    with pytest.raises(ProfileError, match="nothing written"):
        overhead.session(job, tmp_path, broken, plain=World(first_run, 1.0).plain, runs=2)
