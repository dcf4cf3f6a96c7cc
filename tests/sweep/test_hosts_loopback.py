"""Sweeps over real schedulers and workers in processes of their own on loopback, and over real SSH to it."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
import yaml
from sweep_makers import BOARDS, FACTS, PARAMETERS, wait_for

from hipbook import paths, records
from hipbook.sweep import spec, sweeping
from hipbook.sweep.state import State

pytest.importorskip("distributed", reason="the extra many-hosts is not installed")
pytest.importorskip("asyncssh", reason="the extra many-hosts is not installed")
pytestmark = pytest.mark.long

# What a job's own cell does before it opens its board: on each board something else goes wrong.
FAULTS = dict(zip(BOARDS, ("kill", "hang", "crash", "identity"), strict=True))
FAULT = f"""\
import os, psutil, signal, time
does = {FAULTS}[board] if fault == "planted" else fault
if does == "hang":
    time.sleep(600)
if does == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
if does == "kill":  # of kernel, job's process and worker the last
    psutil.Process().parent().parent().kill()
    time.sleep(600)
if does == "identity":  # another card answers to the board's name
    import sys, hipbook.boards
    inventory = sys.modules["hipbook.boards.inventory"]
    inventory._KINDS[board] = inventory._emulated(board, "gfx1200")
time.sleep(0.3)"""
BEGIN = """\
from hipbook.notebooks import begin

run = begin(globals(), "tiny", "Does a tiny notebook run on a board?")"""


def hipbook(*words: str, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "hipbook", "sweep", *words],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options,
    )  # fmt: skip


@pytest.fixture
def cluster(tmp_path):
    """Starts a scheduler and a worker a board, each in a process of its own; ends them afterwards."""
    started: list[subprocess.Popen] = []

    def start(boards) -> str:
        scheduler = hipbook("scheduler", "--port", "0")
        started.append(scheduler)
        address = scheduler.stdout.readline().strip()
        assert address.startswith("tcp://127.0.0.1:"), address
        started.extend(hipbook("worker", address, "--board", board) for board in boards)
        return address

    yield start
    for process in reversed(started):
        process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def sweep(make_notebook, tmp_path):
    """Writes a sweep file of a notebook that can go wrong in every way: the file."""

    def write(**fields) -> Path:
        make_notebook((PARAMETERS, "parameters"), FAULT, BEGIN, FACTS, "run.write()")
        file = tmp_path / "s.yaml"
        file.write_text(yaml.safe_dump({"name": "s", "notebook": "tiny.ipynb", **fields}))
        return file

    return write


def go(file: Path, out: Path, scheduler: str | None = None) -> sweeping.Done:
    sweep = spec.read(file)
    with sweeping.engine_of(sweep, scheduler) as engine:
        return sweeping.go(sweeping.plan(file, engine, sweep, out), engine, failed_again=True)


def job_processes() -> list[psutil.Process]:
    """Processes of jobs that run on this machine's workers now."""
    found = []
    for process in psutil.process_iter():
        try:
            if "/hipbook-job-" in process.environ().get("HIPBOOK_RECORDS", ""):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def spans(out: Path) -> dict[str, list[tuple[datetime, datetime]]]:
    """When each board's records say it was at work."""
    found: dict[str, list[tuple[datetime, datetime]]] = {}
    for path in out.glob("jobs/*/*.record.json"):
        record = records.read(path)
        times = (record.times.started, record.times.finished)
        found.setdefault(record.board["name"], []).append(tuple(map(datetime.fromisoformat, times)))
    return {board: sorted(here) for board, here in found.items()}


def test_a_killed_worker_a_hang_a_crash_and_a_wrong_identity(cluster, sweep, tmp_path):
    address = cluster(BOARDS)
    swept = {"product": {"fault": ["none", "planted"], "size": [1, 2]}}
    swept["exclude"] = [{"fault": "planted", "size": 2}]
    out = tmp_path / "out"
    done = go(sweep(boards=list(BOARDS), swept=swept, limits={"timeout_s": 120.0}), out, address)
    standing = sweeping.standing(out)
    assert len(standing) == done.counted.total() == 4 * (3 + 3)
    planted = {FAULTS[job.board]: o for job, o in standing if job.parameters["fault"] == "planted"}
    assert {fault: (str(o.status), o.attempt) for fault, o in planted.items()} == {
        "kill": ("BOARD_UNAVAILABLE", 3),  # tried again on the worker that its nanny started anew
        "hang": ("WATCHDOG_KILLED", 1),
        "crash": ("DEAD_KERNEL", 1),
        "identity": ("BOARD_MISMATCH", 1),
    }
    assert "died while it ran" in planted["kill"].why
    assert "still running after 120 s" in planted["hang"].why
    assert "the kernel died" in planted["crash"].why
    assert "'gfx1200', this run was given a board with 'gfx1151'" in planted["identity"].why
    others = Counter(str(o.status) for job, o in standing if job.parameters["fault"] == "none")
    assert others == Counter({"PASSED": 4 * 5})
    for board, here in spans(out).items():
        assert len(here) == 5
        assert all(first[1] <= then[0] for first, then in pairwise(here)), board
    assert job_processes() == []


def test_cancel_ends_what_runs_on_the_workers(cluster, sweep, tmp_path):
    address = cluster(BOARDS[:2])
    out = tmp_path / "out"
    file = sweep(boards=list(BOARDS[:2]), fixed={"fault": "hang"})
    runner = hipbook("run", str(file), "--out", str(out), "--scheduler", address)
    wait_for(lambda: len(job_processes()) >= 4, 180)
    assert sweeping.request_cancel(out, 60)
    assert runner.wait(60) == 130
    assert job_processes() == []
    ends = [line for line in State(out).journal() if line["event"] == "end"]
    assert [line["status"] for line in ends] == ["CANCELLED", "CANCELLED"]


def test_a_scheduler_that_dies_ends_the_sweep_with_an_error(cluster, sweep, tmp_path):
    address = cluster(BOARDS[:1])
    out = tmp_path / "out"
    file = sweep(boards=list(BOARDS[:1]), fixed={"fault": "hang"})
    runner = hipbook("run", str(file), "--out", str(out), "--scheduler", address)
    wait_for(lambda: len(job_processes()) >= 2, 180)
    [scheduler] = [p for p in psutil.process_iter(["cmdline"]) if "scheduler" in (p.info["cmdline"] or [])
                   and p.ppid() == os.getpid()]  # fmt: skip
    scheduler.kill()
    assert runner.wait(120) == 2
    assert not out.joinpath("cancel").exists()
    assert [outcome for _, outcome in sweeping.standing(out) if outcome] == []  # all of it is left to resume


def test_a_board_that_nobody_offers_is_refused_before_anything_runs(cluster, sweep, tmp_path):
    address = cluster(BOARDS[:1])
    file = sweep(boards=[BOARDS[1]], engine={"scheduler": address, "workers_wait_s": 15.0})
    with pytest.raises(spec.BadSweep, match=f"no board or architecture '{BOARDS[1]}'"):
        go(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def sshd(tmp_path):
    """An SSH server on a port of its own with keys of its own: (port, client key, known_hosts)."""
    server = shutil.which("sshd") or next((p for p in ("/usr/sbin/sshd",) if os.path.exists(p)), None)
    if server is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd here: apt-get install openssh-server")
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "authorized").write_text((tmp_path / "client.pub").read_text())
    (tmp_path / "authorized").chmod(0o600)
    host_key = " ".join((tmp_path / "host.pub").read_text().split()[:2])
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it separates its privileges
    options = {
        "ListenAddress": "127.0.0.1", "Port": port, "HostKey": tmp_path / "host", "PidFile": "none",
        "AuthorizedKeysFile": tmp_path / "authorized", "StrictModes": "no", "UsePAM": "no",
        "PasswordAuthentication": "no", "PermitRootLogin": "yes",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    process = subprocess.Popen([server, "-D", "-e", "-f", "/dev/null", *words], stderr=subprocess.DEVNULL)
    wait_for(lambda: process.poll() is not None or not _refused(port))
    if process.poll() is not None:
        pytest.skip("sshd does not start here")
    yield port, tmp_path / "client", tmp_path / "known"
    process.terminate()
    process.wait()


def _refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def workers() -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if "--stdin" in (p.info["cmdline"] or [])]


def test_workers_started_over_ssh_run_the_jobs_and_end_with_the_sweep(sshd, sweep, tmp_path):
    port, key, known = sshd
    host = {
        "address": "127.0.0.1", "port": port, "user": getpass.getuser(), "key": str(key),
        "known_hosts": str(known), "boards": list(BOARDS[:2]), "python": sys.executable,
        "root": str(paths.root()),
        "environment": {"PYTHONPATH": str(paths.root() / "lib"),
                        "PATH": os.environ["PATH"]},
    }  # fmt: skip
    file = sweep(boards=list(BOARDS[:2]), swept={"product": {"size": [1, 2]}}, engine={"hosts": [host]})
    done = go(file, tmp_path / "out")
    assert done.counted == Counter({"PASSED": 10})
    assert {board: len(here) for board, here in spans(tmp_path / "out").items()} == dict.fromkeys(
        BOARDS[:2], 5
    )
    wait_for(lambda: workers() == [])
    assert job_processes() == []
    (tmp_path / "nobody").write_text("")
    bad = {**host, "known_hosts": str(tmp_path / "nobody")}
    with pytest.raises(sweeping.HipbookError, match=r"127\.0\.0\.1: no connection over SSH"):
        go(sweep(boards=list(BOARDS[:2]), engine={"hosts": [bad]}), tmp_path / "other")
    broken = {**host, "python": str(tmp_path / "no-python")}
    with pytest.raises(sweeping.HipbookError, match=r"did not come up: 127\.0\.0\.1, gfx1200.*no-python"):
        go(sweep(boards=list(BOARDS[:2]), engine={"hosts": [broken]}), tmp_path / "other")
    assert not (tmp_path / "other").exists()
