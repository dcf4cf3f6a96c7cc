"""The engine for many hosts: what is refused before a job runs; boards of several hosts are told apart."""

from dataclasses import asdict, replace

import pytest
from sweep_makers import BOARDS, offer

from hipbook.errors import HipbookError
from hipbook.records import Status

pytest.importorskip("distributed", reason="the extra many-hosts is not installed")

from hipbook.sweep import jobs, many_hosts, worker
from hipbook.sweep.engine import Task
from hipbook.sweep.spec import Limits, Sweep


class Client:
    """Answers `run` as the workers would."""

    status = "running"

    def __init__(self, *said, settings=(0, 60.0)):
        self.said, self.settings = said, settings

    def run(self, function, *args, on_error="raise"):
        assert function is worker.described
        return {f"tcp://{i}": said for i, said in enumerate(self.said)}

    def run_on_scheduler(self, function):
        return self.settings


def said(one, **other):
    return {"offer": asdict(one), **worker.versions(), **other}


def gpu(uuid: str):
    return replace(offer("amd-0"), arch="gfx1200", identity={"name": "amd-0", "kind": "gpu", "uuid": uuid})


def engine(*told, wait_s=0.0):
    return many_hosts.DaskEngine(Client(*told), wait_s)


def test_boards_of_one_name_on_two_hosts_are_told_apart_and_asked_for_by_either_name(make_notebook):
    from sweep_makers import BEGIN, FACTS, PARAMETERS

    offered = engine(said(gpu("GPU-11112222")), said(gpu("GPU-33334444")), said(offer(BOARDS[0]))).offers([])
    assert [(one.board, one.called) for one in offered] == [
        ("amd-0@11112222", "amd-0"),
        ("amd-0@33334444", "amd-0"),
        (BOARDS[0], BOARDS[0]),
    ]
    book = make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")
    made = jobs.plan(Sweep(name="s", notebook="tiny", boards=["amd-0"]), book, offered)
    assert [job.board for job in made] == ["amd-0@11112222"] * 4 + ["amd-0@33334444"] * 4
    assert {job.given["board"] for job in made} == {"amd-0"}
    assert len({job.key for job in made}) == 8
    one = jobs.plan(Sweep(name="s", notebook="tiny", boards=["amd-0@33334444"]), book, offered)
    assert {job.board for job in one} == {"amd-0@33334444"}


def test_all_workers_are_waited_for_though_the_name_is_there(monkeypatch):
    """Two hosts with an `amd-0` each: the first to come up is not the whole of it."""
    client = Client(said(gpu("GPU-11112222")))
    late = said(gpu("GPU-33334444"))

    def comes_up(seconds):
        client.said = (*client.said, late)

    monkeypatch.setattr(many_hosts.time, "sleep", comes_up)

    offered = many_hosts.DaskEngine(client, 60.0, workers=2).offers(["amd-0"])
    assert [one.board for one in offered] == ["amd-0@11112222", "amd-0@33334444"]


def test_an_emulated_board_that_several_offer_is_one_board():
    one = engine(said(offer(BOARDS[0])), said(offer(BOARDS[0])), {})
    assert [o.board for o in one.offers([BOARDS[0]])] == [BOARDS[0]]
    assert one.at_once == 3 - 1  # a worker that is none of ours counts for nothing


@pytest.mark.parametrize("what", ["package", "kernels", "python", "distributed"])
def test_a_worker_of_another_checkout_is_refused(what):
    with pytest.raises(HipbookError, match=f"its {what} is other, here it is "):
        engine(said(offer(BOARDS[0]), **{what: "other"})).offers([BOARDS[0]])


def test_two_workers_on_one_gpu_are_refused():
    with pytest.raises(HipbookError, match="two workers offer one GPU"):
        engine(said(gpu("GPU-1")), said(gpu("GPU-1"))).offers([])


@pytest.mark.parametrize("settings", [(3, 60.0), (0, None)])
def test_a_scheduler_that_would_run_a_job_again_or_wait_without_end_is_refused(settings):
    with pytest.raises(HipbookError, match="allowed-failures"):
        many_hosts._require_settings(Client(settings=settings), "tcp://x")
    many_hosts._require_settings(Client(), "tcp://x")


def test_files_come_back_whole_and_none_leaves_the_jobs_folder(tmp_path):
    [job, *_] = [jobs.Job("k", "b", {}, {"size": 3})]
    task = Task(job, 2, tmp_path / "jobs" / "k", tmp_path / "tiny.ipynb", Limits())
    task.folder.mkdir(parents=True)
    (task.folder / "stale.record.json").write_text("old")
    told = {"status": "PASSED", "why": "", "wall_s": 1.5, "record": "a.record.json", "executed": "tiny.ipynb"}
    files = {"a.record.json": b"{}", "tiny.ipynb": b"[]", "stdout.log": b"x"}
    outcome = many_hosts._unpacked(task, told | {"files": files})
    assert (outcome.status, outcome.attempt, outcome.record) == (
        Status.PASSED,
        2,
        task.folder / "a.record.json",
    )
    assert {path.name: path.read_bytes() for path in task.folder.iterdir()} == files
    for name in ("../evil", "/tmp/evil", "a/b"):
        with pytest.raises(HipbookError, match="a file name with a folder"):
            many_hosts._unpacked(task, told | {"files": {name: b""}})
    assert not (task.folder.parent / "evil").exists()


def test_a_scheduler_that_is_not_there_is_said_so(monkeypatch):
    monkeypatch.setattr(many_hosts, "CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(HipbookError, match=r"(?s)scheduler tcp://127\.0\.0\.1:9.*hipbook sweep scheduler"):
        many_hosts.joined("tcp://127.0.0.1:9", 1.0)
