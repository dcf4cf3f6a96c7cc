"""Sweeps in real processes: a runner that is killed, cancelled, out of disk, or not allowed to write."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
import yaml
from sweep_makers import wait_for

from hipbook import records
from hipbook.errors import HipbookError
from hipbook.sweep import spec, sweeping
from hipbook.sweep.state import BadState, State

SLEEP = "import time; time.sleep(0.2)"


def processes_of(folder: Path) -> list[psutil.Process]:
    """Processes of runs under this folder that still live."""
    alive = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.environ().get("HIPBOOK_RECORDS", ""):
                alive.append(process)
        except (psutil.Error, OSError):
            continue
    return alive


@pytest.fixture
def sweep(make_notebook, tiny_cells, tmp_path):
    """Writes a sweep file of the tiny notebook, which opens no board: the file."""

    def write(cell: str = SLEEP, sizes=(1, 2), name: str = "s", **fields) -> Path:
        cells = tiny_cells
        parameters = (cells["parameters"], "parameters")
        make_notebook(parameters, cells["begin"], cells["fact"], cell, cells["write"])
        file = tmp_path / f"{name}.yaml"
        told = {"name": name, "notebook": "tiny.ipynb", "swept": {"product": {"size": list(sizes)}}}
        file.write_text(yaml.safe_dump(told | fields))
        return file

    return write


def go(file: Path, out: Path, *, failed_again: bool = False) -> sweeping.Done:
    """What `hipbook sweep resume` does, or `run` with `failed_again`."""
    sweep = spec.read(file)
    with sweeping.engine_of(sweep) as engine:
        return sweeping.go(sweeping.plan(file, engine, sweep, out), engine, failed_again=failed_again)


def begin(file: Path, out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "hipbook", "sweep", "run", str(file), "--out", str(out)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(out: Path) -> dict[str, int]:
    """Jobs with a record, and when it was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("jobs/*/*.record.json")}


def ended(out: Path) -> Counter:
    """How often each job ended PASSED, as the journal tells."""
    return Counter(
        line["key"] for line in State(out).journal() if line["event"] == "end" and line["status"] == "PASSED"
    )


def kill_and_resume(file: Path, out: Path, moment: float) -> tuple[int, int]:
    """Kill the runner when a job is `moment` (0 to 1) under way, resume: (finished before, jobs in all)."""
    runner = begin(file, out)
    wait_for(lambda: (out / "journal.jsonl").is_file() and len(finished(out)) >= 1 + int(moment * 2))
    wait_for(lambda: processes_of(out))
    psutil.cpu_percent(moment)  # somewhere in the middle of a job
    runner.kill()
    runner.communicate()
    wait_for(lambda: not processes_of(out))  # nothing of it lives on without its runner
    before = finished(out)
    go(file, out)
    after = finished(out)
    assert {key: after[key] for key in before} == before  # no record was made again
    assert all(outcome.passed for _, outcome in sweeping.standing(out))
    assert max(ended(out).values()) == 1
    for path in out.glob("jobs/*/*.record.json"):
        records.read(path)
    return len(before), len(sweeping.standing(out))


def test_a_killed_runner_leaves_no_process_and_resume_repeats_nothing_finished(sweep, tmp_path):
    file, out = sweep(sizes=(1,)), tmp_path / "out"
    before, jobs = kill_and_resume(file, out, 0.4)
    assert 0 < before < jobs == 4
    assert sum(1 for line in State(out).journal() if line["event"] == "start") == 2


@pytest.mark.long
def test_ten_runners_killed_at_random_moments(sweep, tmp_path):
    moments = random.Random(20261129)
    for number in range(10):
        out = tmp_path / str(number)
        before, jobs = kill_and_resume(sweep(sizes=(1, 2, 3)), out, moments.random())
        assert 0 < before < jobs == 6


@pytest.mark.long
def test_cancel_ends_the_runner_and_a_second_one_is_refused(sweep, tmp_path):
    file, out = sweep("import time; time.sleep(300)", name="endless"), tmp_path / "out"
    with pytest.raises(BadState, match="no sweep was begun here"):
        sweeping.request_cancel(out, 1)
    runner = begin(file, out)
    wait_for(lambda: processes_of(out))
    with pytest.raises(BadState, match="another runner is at work"):
        go(file, out)
    with pytest.raises(BadState, match=f"belongs to the sweep file {file}"):
        go(sweep(SLEEP, name="other"), out)
    assert sweeping.request_cancel(out, 60)
    assert runner.wait(60) == 130
    assert processes_of(out) == []
    assert [line["status"] for line in State(out).journal() if line["event"] == "end"] == ["CANCELLED"]
    with pytest.raises(BadState, match="nothing is to be cancelled"):
        sweeping.request_cancel(out, 1)


REFUSED = [
    ({"name": "../out"}, "it becomes a folder"),
    ({"fixed": {"sise": 3}}, "sise: no such parameter"),
    ({"fixed": {"share": 3.5}}, "share = 3.5: not allowed"),
    ({"boards": ["nope"]}, "no parameter `board`"),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_refused_before_anything_is_written(sweep, tmp_path, fields, said, capsys, monkeypatch):
    from hipbook import cli

    file, out = sweep(), tmp_path / "out"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | fields))
    before = sorted(tmp_path.iterdir())
    for verb in ("plan", "run"):
        monkeypatch.setattr(sys, "argv", ["hipbook", "sweep", verb, str(file), "--out", str(out)])
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as raised:
                cli.main()
        finally:
            signal.signal(signal.SIGTERM, handler)
        assert raised.value.code == 2
        assert said in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small tmpfs and takes it away again; skipped where that is not allowed."""
    where = tmp_path / "disk"
    where.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", where], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
        return where

    yield mount
    subprocess.run(["umount", "-l", where], capture_output=True)


@pytest.mark.long
def test_a_full_disk_stops_the_sweep_with_everything_on_it_whole(sweep, mounted):
    disk = mounted("size=4608k")  # room for the plan and the first job, by the conductor's reckoning
    file, out = sweep(f"open({str(disk / 'ballast')!r}, 'wb').write(bytes(4500000))"), disk / "out"
    with pytest.raises(HipbookError, match=f"{out}.*(No space left on device|MB left on its disk)"):
        go(file, out)
    whole = list(out.rglob("*.json")) + list(out.rglob("*.ipynb"))
    assert out / "sweep.json" in whole
    for path in whole:
        json.loads(path.read_text())
    assert list(out.rglob(".*.*.json*")) == []
    assert len(sweeping.standing(out)) == 5


def test_a_read_only_folder_is_named(sweep, mounted):
    disk = mounted("size=1m,ro")
    with pytest.raises(HipbookError, match=f"{disk / 'out'}: Read-only file system"):
        go(sweep(), disk / "out")
    assert os.listdir(disk) == []
