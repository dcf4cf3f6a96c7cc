"""A committed notebook under plain papermill, without any command of ours; boards are held and asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

from hipbook import paths, records
from hipbook.records import Status
from hipbook.sweep.runner import run_notebook

NOTEBOOK = "notebooks/00_board.ipynb"


def papermill(out: Path, parameters: str) -> subprocess.CompletedProcess:
    """As a person would call it, from the root of the checkout."""
    out.mkdir()
    (out / "p.yaml").write_text(parameters)
    return subprocess.run(
        [sys.executable, "-m", "papermill", NOTEBOOK, out / "out.ipynb", "-f", out / "p.yaml"],
        cwd=paths.root(),
        env={**os.environ, "HIPBOOK_RECORDS": str(out)},
        capture_output=True,
        text=True,
    )


def test_two_runs_leave_byte_identical_records_but_for_times_and_environment(tmp_path):
    texts = []
    for name in ("a", "b"):
        done = papermill(tmp_path / name, "workgroups: 8\nseed: 7\n")
        assert done.returncode == 0, done.stderr
        [path] = (tmp_path / name).glob("00_board-*.record.json")
        record = records.read(path)
        assert record.parameters == {"board": "gfx1200-emu", "workgroups": 8, "seed": 7}
        assert record.code_objects
        data = json.loads(path.read_text())
        times, environment = data.pop("times"), data.pop("environment")
        assert times["wall_s"] > 0
        assert "torch" in environment["packages"]
        texts.append(json.dumps(data, indent=2))
    assert texts[0] == texts[1]


def test_an_unknown_board_fails_the_run(tmp_path):
    done = papermill(tmp_path / "run", "board: gfx906\n")
    assert done.returncode != 0
    assert "no board is called 'gfx906'" in done.stderr
    assert not list((tmp_path / "run").glob("*.record.json"))


def test_the_kernel_holds_the_lock_of_its_board(tmp_path, make_notebook, monkeypatch):
    """The lock is open in the kernel's process: an orphaned kernel keeps the board to itself."""
    monkeypatch.setenv("HIPBOOK_CACHE", str(tmp_path / "cache"))
    told = tmp_path / "told"
    notebook = make_notebook(
        ('board: str = "gfx1200-emu"  # any text: a board', "parameters"),
        "import os\nfrom hipbook.notebooks import begin\nrun = begin(globals(), 'tiny', '?')",
        "files = [os.path.realpath(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')]\n"
        f"open({str(told)!r}, 'w').write('\\n'.join(files))\nrun.fact('a', 'b', 1, 'c')\nrun.write()",
    )
    outcome = run_notebook(notebook, out=tmp_path / "run", slots=1)
    assert outcome.status is Status.PASSED, outcome.why
    assert str(tmp_path / "cache" / "locks" / "gfx1200-emu.0.lock") in told.read_text()


def test_a_run_given_one_board_and_opening_another_is_a_mismatch(tmp_path, make_notebook):
    notebook = make_notebook(
        ('board: str = "gfx1200-emu"  # any text: a board', "parameters"),
        "import os\nos.environ['HIPBOOK_EXPECT_BOARD'] = 'gfx1201-emu'\n"
        "from hipbook.notebooks import begin\nrun = begin(globals(), 'tiny', '?')",
        "run.write()",
    )
    outcome = run_notebook(notebook, out=tmp_path / "run")
    assert outcome.status is Status.BOARD_MISMATCH
