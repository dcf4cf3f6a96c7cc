"""The runner's outcomes, each from a real papermill run of a tiny notebook that provokes it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from hipbook import paths, records
from hipbook.errors import HipbookError
from hipbook.records import Status
from hipbook.sweep import runner
from hipbook.sweep.batch import run_all
from hipbook.sweep.runner import run_notebook


@pytest.fixture
def provoke(make_notebook, tiny_cells, tmp_path):
    """Runs the tiny notebook with one more cell before its record is written."""

    def run(*extra: str, values=None, **options) -> runner.Outcome:
        cells = tiny_cells
        notebook = make_notebook(
            (cells["parameters"], "parameters"), cells["begin"], cells["fact"], *extra, cells["write"]
        )
        return run_notebook(notebook, values, out=tmp_path / "run", **options)

    return run


def left_over(folder: Path) -> list[psutil.Process]:
    """Processes of the run in this folder that still live."""
    alive = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HIPBOOK_RECORDS") == str(folder):
                alive.append(process)
        except (psutil.Error, OSError):
            continue
    return alive


def test_passed(provoke):
    outcome = provoke(values={"size": 21})
    assert (outcome.status, outcome.why) == (Status.PASSED, "")
    record = records.read(outcome.record)
    assert record.parameters["size"] == 21
    assert record.facts[0].value == 42
    told = json.loads((outcome.folder / "outcome.json").read_text())
    assert told["status"] == "PASSED"
    assert told["record"] == outcome.record.name
    executed = json.loads(outcome.executed.read_text())
    assert "duration" not in json.dumps(executed["cells"][0]["metadata"].get("execution", {}))
    assert sorted(p.name for p in outcome.folder.iterdir() if not p.name.startswith(".")) == sorted(
        [outcome.record.name, "outcome.json", "parameters.yaml", "stderr.log", "stdout.log", "tiny.ipynb"]
    )


RAISE = "from hipbook.errors import {0}\nraise {0}({1!r})"
# a cell before the record is written -> the outcome and words of its reason
OUTCOMES = {
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (Status.DEAD_KERNEL, "the kernel died"),
    "import ctypes; ctypes.string_at(0)": (Status.DEAD_KERNEL, "the kernel died"),
    "1 / 0": (Status.RUNTIME_ERROR, "ZeroDivisionError: division by zero"),
    "import sys; sys.exit(0)": (Status.RUNTIME_ERROR, "no record"),
    "raise KeyboardInterrupt": (Status.CANCELLED, "KeyboardInterrupt"),
    RAISE.format("BuildError", "no compiler"): (Status.COMPILE_ERROR, "no compiler"),
    RAISE.format("BoardUnavailable", "no board"): (Status.BOARD_UNAVAILABLE, "no board"),
    "run.verdict('a', 'INCORRECT', '1 of 9 failed')": (Status.INCORRECT, "1 of 9 failed"),
    "run.name = 'other'": (Status.RUNTIME_ERROR, "no record"),
    "run.parameters['size'] = 9": (Status.RUNTIME_ERROR, "no record"),
    "import time; time.sleep(60)": (Status.CELL_TIMEOUT, "timed out"),
}


@pytest.fixture(scope="module")
def outcomes(write_notebook, tiny_cells, tmp_path_factory) -> dict[str, runner.Outcome]:
    """All of OUTCOMES provoked in one batch, two at once."""
    folder, cells = tmp_path_factory.mktemp("outcomes"), tiny_cells
    parameters = (cells["parameters"], "parameters")
    notebooks = [
        write_notebook(folder / str(number), parameters, cells["begin"], cells["fact"], cell, cells["write"])
        for number, cell in enumerate(OUTCOMES)
    ]
    told = run_all(notebooks, folder_of=lambda n: n.parent / "run", at_once=2, cell_timeout_s=10)
    return dict(zip(OUTCOMES, told, strict=True))


@pytest.mark.parametrize("cell", OUTCOMES)
def test_outcomes(outcomes, cell):
    status, why = OUTCOMES[cell]
    assert outcomes[cell].status is status
    assert why in outcomes[cell].why
    assert not outcomes[cell].passed
    assert json.loads((outcomes[cell].folder / "outcome.json").read_text())["status"] == status
    assert left_over(outcomes[cell].folder) == []


def test_the_kernel_is_reached_over_sockets_of_the_run(provoke, tmp_path):
    before = set(paths.root().iterdir())
    told = tmp_path / "told"
    assert provoke(
        f"from ipykernel import get_connection_info\nopen({str(told)!r}, 'w').write(get_connection_info())"
    ).passed
    info = json.loads(told.read_text())
    assert info["transport"] == "ipc"
    assert not Path(info["ip"]).parent.exists()  # it was the run's own folder, and went with it
    assert set(paths.root().iterdir()) == before


def test_incorrect_keeps_its_record_without_times(provoke):
    outcome = provoke("run.fact('a', 'time', 3.0, 'us', kind='measured')\nrun.verdict('a', 'INCORRECT', 'x')")
    record = records.read(outcome.record)
    assert record.status is Status.INCORRECT
    assert [f.quantity for f in record.facts] == ["double"]


HANG = """\
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
time.sleep(300)"""


def test_watchdog_ends_every_process_of_the_run(provoke):
    outcome = provoke(HANG, timeout_s=7)
    assert outcome.status is Status.WATCHDOG_KILLED
    assert "after 7 s" in outcome.why
    assert left_over(outcome.folder) == []


def test_a_killed_run_says_so_and_leaves_no_kernel(provoke, tmp_path):
    def kill():
        while not (tmp_path / "started").exists():
            time.sleep(0.1)
        [child] = [p for p in left_over(tmp_path / "run") if "hipbook.sweep.child" in p.cmdline()]
        child.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    outcome = provoke(f"open({str(tmp_path / 'started')!r}, 'w'); import time; time.sleep(60)")
    thread.join()
    assert outcome.status is Status.RUNTIME_ERROR
    assert "SIGKILL" in outcome.why
    assert left_over(outcome.folder) == []


@pytest.mark.parametrize("values", [{"sise": 8}, {"size": 0}, {"name": 6.10}])
def test_bad_parameters_never_start(provoke, tmp_path, values):
    outcome = provoke(values=values)
    assert outcome.status is Status.BAD_PARAMETERS
    assert "size: int = 8  # keys, 1..100" in outcome.why
    assert not (tmp_path / "run").exists()


def test_a_stale_record_does_not_make_a_run_pass(provoke):
    assert provoke().passed
    assert provoke("import sys; sys.exit(0)").status is Status.RUNTIME_ERROR


def test_an_edited_record_is_not_believed(provoke):
    outcome = provoke("write = run.write\nrun.write = lambda: (write(), edit())", EDIT)
    assert outcome.status is Status.RUNTIME_ERROR
    assert "edited" in outcome.why


EDIT = """\
def edit():
    import os, pathlib
    [file] = pathlib.Path(os.environ["HIPBOOK_RECORDS"]).glob("*.record.json")
    file.write_text(file.read_text().replace('"value": 16', '"value": 17'))"""


def test_two_runs_in_one_folder_are_refused(provoke, tmp_path):
    with runner._only_writer(tmp_path / "run"), pytest.raises(HipbookError, match="another run is writing"):
        provoke()


def test_a_folder_that_cannot_be_made_is_named(make_notebook, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HipbookError, match="Not a directory"):
        run_notebook(make_notebook(), out=tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("text", "why"),
    [("a: [", "not YAML"), ("- 1\n", "not a mapping"), (None, "No such file")],
)
def test_a_parameter_file_that_cannot_be_read_is_named(tmp_path, text, why):
    file = tmp_path / "p.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(HipbookError, match=why):
        runner.read_parameters(file)


def test_the_board_is_locked_by_the_child_and_its_kernel(tmp_path, monkeypatch):
    """A second holder waits; the lock outlives the child while the kernel it was handed to lives."""
    monkeypatch.setenv("HIPBOOK_CACHE", str(tmp_path))
    from hipbook.errors import BoardUnavailable
    from hipbook.sweep.child import hold_board

    lock = hold_board("board", slots=1, wait_s=0)
    with pytest.raises(BoardUnavailable, match="in use by another run"):
        hold_board("board", slots=1, wait_s=0.2)
    os.close(hold_board("board", slots=2, wait_s=0))  # a second slot is another matter
    kernel = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
    os.close(lock)
    with pytest.raises(BoardUnavailable):
        hold_board("board", slots=1, wait_s=0.2)
    kernel.communicate(b"\n")
    os.close(hold_board("board", slots=1, wait_s=0))


def test_board_names_stay_in_the_lock_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HIPBOOK_CACHE", str(tmp_path))
    from hipbook.sweep.child import hold_board

    os.close(hold_board("../../evil", slots=1, wait_s=0))
    assert [p.relative_to(tmp_path) for p in tmp_path.rglob("*.lock")] == [Path("locks/______evil.0.lock")]


def test_ctrl_c_leaves_a_cancelled_outcome_and_no_process(make_notebook, tiny_cells, tmp_path):
    cells = tiny_cells
    started = tmp_path / "started"
    notebook = make_notebook(
        (cells["parameters"], "parameters"),
        cells["begin"],
        f"open({str(started)!r}, 'w'); import time; time.sleep(60)",
        cells["write"],
    )
    code = (
        "from pathlib import Path\nfrom hipbook.sweep.batch import run_all\n"
        f"run_all([Path({str(notebook)!r})], folder_of=lambda n: Path({str(tmp_path / 'run')!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in words
    assert json.loads((tmp_path / "run" / "outcome.json").read_text())["status"] == "CANCELLED"
    assert left_over(tmp_path / "run") == []


def test_several_at_once_in_order(outcomes):
    assert [outcome.folder.parent.name for outcome in outcomes.values()] == [
        str(n) for n in range(len(OUTCOMES))
    ]
