"""A stand-in rocprofv3 as an executable, a small job, and one run of it whose launches tests can replay."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hipbook.profile import rocprofv3
from hipbook.profile.job import Job
from hipbook.profile.window import Traced

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def job() -> Job:
    """Two arms on one call of five keys: ten launches."""
    return Job(
        board="gfx1200-emu", arms=["decode", "decode_gqa"], keys=[5], num_q_heads=4, num_kv_heads=2,
        head_dim=128, warmup=1, batches=1, launches=2,
    )  # fmt: skip


@pytest.fixture(scope="session")
def executable(tmp_path_factory):
    """Makes an executable called `name` that runs a Python file of this folder."""
    folder = tmp_path_factory.mktemp("bin")

    def make(name: str, script: str) -> str:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / script}" "$@"\n')
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture(scope="session")
def tool(executable) -> rocprofv3.Tool:
    return rocprofv3.find(executable("rocprofv3", "stand_in_rocprofv3.py"))


@dataclass(frozen=True, eq=False)
class FirstRun:
    """The child was really run once behind the stand-in, with markers; its folder can be replayed."""

    folder: Path
    traced: Traced


@pytest.fixture(scope="session")
def first_run(job, tool, tmp_path_factory) -> FirstRun:
    folder = tmp_path_factory.mktemp("first") / "run"
    return FirstRun(folder, rocprofv3.kernel_trace(job, folder, tool, markers=True))


@pytest.fixture
def replayed(first_run, monkeypatch):
    """The stand-in writes what it would of the first run's launches, with these faults, and runs nothing."""

    def replay(*faults: str, limit: int = 8) -> None:
        monkeypatch.setenv("STAND_IN_REPLAY", str(first_run.folder))
        monkeypatch.setenv("STAND_IN", ",".join(faults))
        monkeypatch.setenv("STAND_IN_LIMIT", str(limit))

    return replay
