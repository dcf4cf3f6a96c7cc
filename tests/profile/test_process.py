"""Whose fault a bad end was, and that nothing is left running."""

import os
import time
from pathlib import Path

import pytest

from hipbook.profile import process
from hipbook.profile.job import ChildFailed, Done, ProfileError, ToolFailed, read
from hipbook.profile.process import run_child


def test_a_tool_that_hangs_is_stopped_with_all_it_started(job, tmp_path):
    script = f"sleep 300 & echo $! > {tmp_path / 'pid'}; echo waiting for the GPU; wait"
    with pytest.raises(ToolFailed, match=r"sh was stopped after 0.5 s; its last words:\nwaiting for the GPU"):
        run_child(job, tmp_path / "run", prefix=["sh", "-c", script], timeout_s=0.5)
    started = int((tmp_path / "pid").read_text())
    assert is_gone(started)


def test_what_a_dead_tool_leaves_running_is_ended(job, tmp_path):
    script = f"sleep 300 & echo $! > {tmp_path / 'pid'}; kill -SEGV $$"
    with pytest.raises(ToolFailed, match="ended with signal SIGSEGV, and the child left no account; it said"):
        run_child(job, tmp_path / "run", prefix=["sh", "-c", script])
    assert is_gone(int((tmp_path / "pid").read_text()))


def is_gone(pid: int) -> bool:
    """Ended, or ended and not yet collected by the init process."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def test_a_tool_that_cannot_be_run(job, tmp_path):
    with pytest.raises(ToolFailed, match="/nowhere/rocprofv3 cannot be run: No such file"):
        run_child(job, tmp_path / "run", prefix=["/nowhere/rocprofv3"])


def account(first_run, tmp_path, **changed: object) -> list[str]:
    """A command that leaves the first run's account, changed, and runs nothing."""
    done = first_run.traced.ran.done.model_copy(update=changed)
    (tmp_path / "done.json").write_text(done.model_dump_json())
    return ["sh", "-c", f'cp {tmp_path}/done.json "$(dirname "$4")/"; exit ${{CODE:-0}}', "sh"]


def test_a_wrong_result_has_no_times(first_run, job, tmp_path):
    good, bad = first_run.traced.ran.done.subjects
    subjects = [good, bad.model_copy(update={"objection": "row 3 is off by 7 bounds"})]
    with pytest.raises(ChildFailed, match="decode_gqa, 5 keys is wrong: row 3 is off by 7 bounds"):
        run_child(job, tmp_path / "run", prefix=account(first_run, tmp_path, subjects=subjects))
    assert run_child(job, tmp_path / "good", prefix=account(first_run, tmp_path)).done.subjects[0] == good


def test_a_tool_that_fails_after_the_child_has_done_its_work(first_run, job, tmp_path):
    with pytest.raises(ToolFailed, match="sh ended with exit code 3; it said nothing"):
        run_child(job, tmp_path / "run", prefix=account(first_run, tmp_path), environment={"CODE": "3"})


def test_a_used_folder_is_refused_and_a_foreign_account_named(job, tmp_path):
    with pytest.raises(FileExistsError):
        run_child(job, tmp_path)
    (tmp_path / "done.json").write_text('{"board": 3}')
    with pytest.raises(ProfileError, match=r"done\.json: not a Done of this version"):
        read(tmp_path / "done.json", Done)


def test_a_reason_is_one_line_and_names_no_folder():
    told = process.reason("no file /root/a-b/c.d/counters.csv\n  (see https://x.org/a/b and 3/4 of /etc)")
    assert told == "no file counters.csv (see https://x.org/a/b and 3/4 of /etc)"


def test_last_words_are_the_last_lines_that_say_something():
    assert process.last_words("a\nb\n\n  \nc\n", 2) == "b\nc"
