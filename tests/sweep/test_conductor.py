"""The conductor on an engine that makes records itself: boards, attempts, ends, and what stops it."""

import json
from collections import Counter
from pathlib import Path

import pytest
from sweep_makers import BEGIN, BOARDS, FACTS, PARAMETERS, FakeEngine

from hipbook.errors import HipbookError
from hipbook.records import Status
from hipbook.sweep import conductor, sweeping
from hipbook.sweep.spec import Limits, Sweep

SIZES = [1, 2, 3, 4]


@pytest.fixture
def planned(make_notebook, tmp_path) -> sweeping.Planned:
    make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")
    (tmp_path / "s.yaml").write_text("")
    sweep = Sweep(
        name="s", notebook="tiny.ipynb", boards=list(BOARDS), swept={"product": {"size": SIZES}},
        limits=Limits(retries=2),
    )  # fmt: skip
    return sweeping.plan(tmp_path / "s.yaml", FakeEngine(), sweep, tmp_path / "out")


def go(planned, engine, **options):
    return sweeping.go(planned, engine, failed_again=True, **options)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.json") if p.is_file()}


def test_every_job_runs_once_in_its_boards_order_and_boards_take_turns(planned):
    engine = FakeEngine(at_once=2, takes=3)
    done = go(planned, engine)
    assert done.counted == Counter({Status.PASSED: 4 * (len(SIZES) + 3)})
    for board in BOARDS:
        ran = [task.job for task in engine.begun if task.job.board == board]
        assert ran == [job for job in planned.jobs if job.board == board]
    assert max(len(boards) for boards in engine.together) == 2
    half = engine.begun[: len(engine.begun) // 2]
    assert set(Counter(task.job.board for task in half).values()) <= {3, 4}  # none is left for the end


def test_no_board_runs_two_jobs_at_once_however_many_may_run(planned):
    engine = FakeEngine(at_once=8, takes=3)  # asserts it at every beginning
    done = go(planned, engine)
    assert done.counted.total() == len(planned.jobs)
    assert max(len(boards) for boards in engine.together) == len(BOARDS)


def test_nothing_is_run_twice_and_nothing_written_again(planned):
    go(planned, FakeEngine())
    before = files(planned.folder)
    engine = FakeEngine()
    done = go(planned, engine)
    assert engine.begun == []
    assert len(done.skipped) == len(planned.jobs)
    assert files(planned.folder) == before


def test_only_the_infrastructure_is_tried_again_and_at_most_twice(planned):
    ends = {
        (BOARDS[0], 2): [Status.BOARD_UNAVAILABLE, Status.BOARD_UNAVAILABLE, Status.PASSED],
        (BOARDS[1], 2): [Status.BOARD_UNAVAILABLE],
        (BOARDS[2], 2): [Status.DEAD_KERNEL],
        (BOARDS[3], 2): [Status.INCORRECT],
    }
    engine = FakeEngine(ends=ends)
    done = go(planned, engine)
    attempts = Counter(task.job.board for task in engine.begun if task.job.parameters["size"] == 2)
    assert [attempts[board] for board in BOARDS] == [3, 3, 1, 1]
    assert done.counted == Counter(
        {Status.PASSED: 25, Status.BOARD_UNAVAILABLE: 1, Status.DEAD_KERNEL: 1, Status.INCORRECT: 1}
    )
    state = sweeping.State(planned.folder)
    third = next(t.job for t in engine.begun if t.attempt == 3 and t.job.board == BOARDS[0])
    assert json.loads((state.job_folder(third) / "outcome.json").read_text())["attempt"] == 3
    noted = [line for line in state.journal() if line["event"] == "end" and line["key"] == third.key]
    assert [(line["attempt"], line["status"], line["again"]) for line in noted] == [
        (1, "BOARD_UNAVAILABLE", True),
        (2, "BOARD_UNAVAILABLE", True),
        (3, "PASSED", False),
    ]
    rows = sweeping.standing(planned.folder)
    assert Counter(outcome.status for _, outcome in rows) == done.counted


def test_a_request_to_cancel_ends_what_runs_and_begins_nothing_more(planned):
    engine = FakeEngine(takes=2)
    state = sweeping.State(planned.folder)

    def watching(todo, skipped):
        def begun(job, attempt):
            if len(engine.begun) == 3:
                state.cancel_file.touch()

        return conductor.Watching(begun=begun)

    done = go(planned, engine, watching=watching)
    assert done.cancelled
    assert engine.cancelled
    assert done.counted[Status.CANCELLED] == 2
    assert len(engine.begun) <= 5
    assert not state.cancel_file.exists()
    again = FakeEngine()
    finished = sum(done.counted.values()) - 2
    assert go(planned, again).counted == Counter({Status.PASSED: len(planned.jobs) - finished})


def test_ctrl_c_notes_what_it_ended(planned):
    engine = FakeEngine(at_once=4, takes=4)

    def watching(todo, skipped):
        def begun(job, attempt):
            if len(engine.begun) == 2:
                raise KeyboardInterrupt

        return conductor.Watching(begun=begun)

    with pytest.raises(KeyboardInterrupt):
        go(planned, engine, watching=watching)
    ends = [line for line in sweeping.State(planned.folder).journal() if line["event"] == "end"]
    assert [line["status"] for line in ends] == ["CANCELLED", "CANCELLED"]
    assert engine.cancelled


def test_a_disk_without_room_stops_the_sweep_before_the_next_job(planned, monkeypatch):
    engine, free = FakeEngine(), [10**9, 10**9, 10**6]

    class Usage:
        @property
        def free(self):
            return free.pop(0) if len(free) > 1 else free[0]

    monkeypatch.setattr(conductor.shutil, "disk_usage", lambda folder: Usage())
    with pytest.raises(conductor.DiskFull, match=r"1\.0 MB left on its disk"):
        go(planned, engine)
    assert len(engine.begun) == 2


def test_a_fault_of_the_engine_ends_what_runs_and_is_told(planned):
    class Broken(FakeEngine):
        def ended(self, wait_s):
            if len(self.begun) == 2 and not self.cancelled:
                raise HipbookError("the rack is on fire")
            return super().ended(wait_s)

    engine = Broken(takes=4)
    with pytest.raises(HipbookError, match="on fire"):
        go(planned, engine)
    assert engine.cancelled


def test_plan_writes_nothing(planned):
    assert not planned.folder.exists()
