"""`hipbook sweep` and `hipbook report` as commands: what they print, and the exit codes."""

from contextlib import contextmanager

import pytest
import yaml
from sweep_makers import BEGIN, BOARDS, FACTS, PARAMETERS, FakeEngine
from typer.testing import CliRunner

from hipbook.cli import app
from hipbook.records import Status
from hipbook.sweep import sweeping


@pytest.fixture
def hipbook(make_notebook, tmp_path, monkeypatch):
    """Runs a verb on a sweep file over two boards; the engine makes its records itself: (code, output)."""
    make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")
    file = tmp_path / "s.yaml"
    told = {"name": "s", "notebook": "tiny.ipynb", "boards": list(BOARDS[:2])}
    file.write_text(yaml.safe_dump(told | {"swept": {"product": {"size": [1, 2]}}}))
    ends: dict = {}

    @contextmanager
    def engine_of(sweep, scheduler=None):
        yield FakeEngine(ends=ends)

    monkeypatch.setattr(sweeping, "engine_of", engine_of)

    def run(verb: str, **changed) -> tuple[int, str]:
        ends.clear()
        ends.update(changed.get("ends", {}))
        done = CliRunner().invoke(app, ["sweep", verb, str(file), "--out", str(tmp_path / "out")])
        return done.exit_code, done.output

    run.out = tmp_path / "out"
    return run


def test_plan_run_status_collect_and_report(hipbook):
    code, said = hipbook("plan")
    assert code == 0
    assert "10 jobs on 2 boards, 0 skipped" in said
    assert said.count("A/A") == 6
    code, said = hipbook("run", ends={(BOARDS[1], 2): [Status.DEAD_KERNEL]})
    assert code == 1
    assert "10 jobs: 1 DEAD_KERNEL, 9 PASSED; 10 run now" in said
    assert f"DEAD_KERNEL {BOARDS[1]}  size=2" in said
    code, said = hipbook("plan")
    assert "10 jobs on 2 boards, 9 skipped" in said
    code, said = hipbook("status")
    assert code == 0
    assert f"DEAD_KERNEL {BOARDS[1]}  size=2: it was made to end as DEAD_KERNEL" in said
    assert "no runner is at work" in said
    code, said = hipbook("resume")
    assert code == 1  # nothing is run again, and one job did fail
    assert "0 run now" in said
    code, said = hipbook("run")
    assert code == 0
    assert "9 jobs have a valid record" in said
    assert "1 run now" in said
    code, said = hipbook("collect")
    assert code == 0
    assert said.index("outcomes of the failed") < said.index("records.parquet")
    done = CliRunner().invoke(app, ["report", str(hipbook.out)])
    assert done.exit_code == 0, done.output
    assert (hipbook.out / "html" / "index.html").is_file()


@pytest.mark.parametrize("verb", ["resume", "status", "cancel", "collect"])
def test_a_sweep_that_was_never_begun_is_said_so(hipbook, verb):
    file = hipbook.out.parent / "s.yaml"
    done = CliRunner().invoke(app, ["sweep", verb, str(file), "--out", str(hipbook.out)])
    assert "no sweep was begun here" in str(done.exception)
    assert not hipbook.out.exists()
