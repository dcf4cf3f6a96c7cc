"""The captured environment: complete enough to repeat a run, silent about who and where."""

import getpass
import json
import socket
import subprocess

from hipbook import paths
from hipbook.records import environment


def test_names_no_host_user_or_path(monkeypatch):
    monkeypatch.setenv("VT_ATTN_DECODE_D128", "1")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    text = json.dumps(environment.capture().model_dump())
    assert '"VT_ATTN_DECODE_D128": "1"' in text
    assert "hunter2" not in text
    assert socket.gethostname() not in text
    assert f'"{getpass.getuser()}"' not in text
    assert str(paths.root()) not in text


def test_knows_the_packages_pyproject_asks_for():
    captured = environment.capture()
    assert {"torch", "papermill", "tinygrad"} <= set(captured.packages)
    assert "missing" not in captured.packages.values()


def test_git_state_tells_clean_from_dirty(tmp_path, monkeypatch):
    (tmp_path / "kernels").mkdir()
    monkeypatch.setenv("HIPBOOK_ROOT", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert environment.git_state() == (None, None)

    def git(*args):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    commit, dirty = environment.git_state()
    assert len(commit) == 40
    assert dirty is False
    (tmp_path / "untracked").write_text("x")
    assert environment.git_state() == (commit, False)
    (tmp_path / "file").write_text("two")
    assert environment.git_state() == (commit, True)
