"""What a sweep's folder is believed about: records and outcomes, not the journal; one runner at a time."""

import json

import pytest
from sweep_makers import BEGIN, BOARDS, FACTS, PARAMETERS, FakeEngine, offer, write_record

from hipbook.records import Status
from hipbook.sweep import jobs, state
from hipbook.sweep.conductor import due
from hipbook.sweep.engine import Task
from hipbook.sweep.runner import Outcome, write_outcome
from hipbook.sweep.spec import Limits, Sweep
from hipbook.sweep.state import BadState, State


@pytest.fixture
def notebook(make_notebook):
    return make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")


@pytest.fixture
def made(notebook):
    sweep = Sweep(name="s", notebook="tiny", boards=["gfx1200-emu"], swept={"product": {"size": [1, 2, 3]}})
    return jobs.plan(sweep, notebook, [offer(board) for board in BOARDS])


@pytest.fixture
def here(tmp_path, made, notebook):
    file = tmp_path / "s.yaml"
    with state.open_for_writing(tmp_path / "out", "s", file) as opened:
        opened.write_plan("s", file, notebook, made)
        yield opened


def task(here: State, job, notebook) -> Task:
    return Task(job, 1, here.job_folder(job), notebook, Limits())


def test_the_plan_comes_back(here, made):
    assert State(here.folder).plan()["jobs"] == made


def test_a_record_without_an_outcome_is_a_run_whose_runner_was_killed(here, made, notebook):
    assert here.finished(made[0]) is None
    write_record(task(here, made[0], notebook))
    outcome = here.finished(made[0])
    assert outcome.status is Status.PASSED
    here.adopt(made[0], outcome)
    assert json.loads((outcome.folder / "outcome.json").read_text())["status"] == "PASSED"
    assert here.finished(made[0]) == outcome
    todo, skipped = due(here, made, failed_again=True)
    assert list(skipped) == [made[0].key]
    assert todo == made[1:]


def test_an_edited_record_or_one_of_other_parameters_is_no_result(here, made, notebook):
    record = write_record(task(here, made[0], notebook))
    whole = record.read_text()
    record.write_text(whole.replace('"value": 2', '"value": 3'))
    assert here.finished(made[0]) is None
    record.write_text(whole)
    assert here.finished(made[0]) is not None
    other = next(job for job in made if job.parameters["size"] != made[0].parameters["size"])
    folder = here.job_folder(other)
    folder.mkdir(parents=True)
    (folder / record.name).write_text(whole)
    assert here.finished(other) is None


@pytest.mark.parametrize(
    ("status", "resumed", "run_again"),
    [
        (Status.DEAD_KERNEL, False, True),  # `resume` repeats nothing that ended, `run` tries it again
        (Status.CANCELLED, True, True),
        (Status.BOARD_UNAVAILABLE, True, True),
    ],
)
def test_what_is_run_again(here, made, status, resumed, run_again):
    folder = here.job_folder(made[0])
    write_outcome(Outcome("tiny", {}, status, "so", folder, None, None, 0.0))
    assert (made[0] in due(here, made, failed_again=False)[0]) is resumed
    assert (made[0] in due(here, made, failed_again=True)[0]) is run_again


def test_a_run_ended_after_it_wrote_its_record_is_no_result(here, made, notebook):
    record = write_record(task(here, made[0], notebook))
    write_outcome(Outcome("tiny", {}, Status.WATCHDOG_KILLED, "late", record.parent, record, None, 0.0))
    outcome = here.finished(made[0])
    assert (outcome.status, outcome.record) == (Status.WATCHDOG_KILLED, None)
    assert made[0] in due(here, made, failed_again=True)[0]


def test_passed_without_a_valid_record_is_no_end(here, made):
    folder = here.job_folder(made[0])
    write_outcome(Outcome("tiny", {}, Status.PASSED, "", folder, None, None, 0.0))
    assert here.outcome(made[0]) is None


def test_a_damaged_outcome_is_none(here, made):
    folder = here.job_folder(made[0])
    folder.mkdir(parents=True)
    (folder / "outcome.json").write_text('{"status": "PASS')
    assert here.outcome(made[0]) is None


def test_one_runner_at_a_time(here, tmp_path):
    assert state.is_running(here.folder)
    with (
        pytest.raises(BadState, match="another runner is at work"),
        state.open_for_writing(here.folder, "s", tmp_path / "s.yaml"),
    ):
        pass


def test_the_folder_of_another_sweep_file_is_refused_and_left_alone(here, tmp_path):
    before = here.plan_file.read_bytes()
    with (
        pytest.raises(BadState, match=r"belongs to the sweep file .*s\.yaml"),
        state.open_for_writing(here.folder, "s", tmp_path / "t.yaml"),
    ):
        pass
    assert here.plan_file.read_bytes() == before


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    for folder, said in ((tmp_path, "holds other things"), (tmp_path / "thesis.txt", "not a folder")):
        with pytest.raises(BadState, match=said), state.open_for_writing(folder, "s", tmp_path / "s.yaml"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_line_of_the_journal_cut_off_by_a_crash_is_left_out(here, made):
    here.note("begin", made[0], attempt=1)
    with open(here.folder / "journal.jsonl", "a") as file:
        file.write('{"at": "2026-')
    assert [line["event"] for line in here.journal()] == ["begin"]


@pytest.mark.parametrize("text", ["", "{}", '{"jobs": [{"nope": 1}]}', '{"version": 2, "jobs": []}'])
def test_a_damaged_plan_is_named(here, text):
    here.plan_file.write_text(text)
    with pytest.raises(BadState, match=r"sweep\.json: not a sweep's plan"):
        here.plan()


def test_no_sweep_is_said_so(tmp_path):
    with pytest.raises(BadState, match="no sweep was begun here"):
        State(tmp_path).plan()


def test_the_fake_engine_is_one(tmp_path):
    assert FakeEngine().offers([])[0].board == BOARDS[0]
