"""What is shown of a sweep: a line a job, or a bar a board on a terminal, with names that are only text."""

from pathlib import Path

import pytest
from sweep_makers import BOARDS

from hipbook.records import Status
from hipbook.sweep import progress
from hipbook.sweep.jobs import Job
from hipbook.sweep.runner import Outcome

NAME = "[red]size[/red]"
JOBS = [Job(str(i), board, {"board": board, NAME: i}, {}) for i, board in enumerate((*BOARDS[:2], BOARDS[0]))]


ENDS = ((Status.PASSED, False), (Status.DEAD_KERNEL, False), (Status.BOARD_UNAVAILABLE, True))


def outcome(status: Status, folder: Path) -> Outcome:
    why = "" if status is Status.PASSED else "why"
    return Outcome("tiny", {}, status, why, folder, None, None, 1.5)


@pytest.mark.parametrize("terminal", [False, True])
def test_every_job_that_went_wrong_is_said(terminal, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(progress.sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    with progress.shown(JOBS, {"x": outcome(Status.PASSED, tmp_path)}) as watching:
        for job, (status, again) in zip(JOBS, ENDS, strict=True):
            watching.begun(job, 1)
            watching.ended(job, outcome(status, tmp_path), again)
    said = capsys.readouterr().out
    assert "1 jobs have a valid record or a final outcome; 3 to run" in said
    assert f"DEAD_KERNEL {BOARDS[1]}  {NAME}=1  1.5 s" in said
    assert "(attempt 1, to be run again)" in said
    if terminal:
        assert "1/2" in said  # the first board: one of two ended, the other is to be run again
    else:
        assert f"[1/3] PASSED    {BOARDS[0]}  {NAME}=0" in said


def test_a_job_is_described_by_what_it_was_given():
    job = Job("k", "b", {"board": "b", "size": 3}, {}, 1, "end")
    assert progress.describe(job) == "size=3, repeat 1, A/A end"
    assert progress.describe(Job("k", "", {}, {})) == "defaults"
    assert progress.title("") == "no board"
