"""Runs the child, alone or behind a profiler's command line, and says whose fault a bad end was."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import hipbook
from hipbook.profile.job import DONE_FILE, JOB_FILE, ChildFailed, Done, Failed, Job, ToolFailed, read

TIMEOUT_S = 600.0  # a profiler refused by its hardware may leave the child hanging
POLL_S = 0.02
_TOLD_LINES = 8  # of stderr, in an error


@dataclass(frozen=True)
class Ran:
    """A child that did its job, correctly. `wall_s` is from its start to the end of whatever ran it."""

    folder: Path
    done: Done
    wall_s: float
    words: str  # what it and its profiler printed


def run_child(
    job: Job,
    folder: Path,
    *,
    prefix: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Run `job` in a new folder, behind `prefix` (a profiler's command line up to the program).

    ChildFailed: the child says why, or computed something wrong (then it has no times). ToolFailed: there is
    no such program, it ended with an error, was stopped after `timeout_s`, or the child left no account.
    """
    folder.mkdir(parents=True)
    (folder / JOB_FILE).write_text(job.model_dump_json(), encoding="utf-8")
    command = [*prefix, sys.executable, "-m", "hipbook.profile.child", str(folder / JOB_FILE)]
    began = time.monotonic()
    code = _run(command, folder, timeout_s, environment)
    wall_s = time.monotonic() - began
    words = (folder / "output.log").read_text(encoding="utf-8", errors="replace")
    done_file = folder / DONE_FILE
    program = Path(prefix[0]).name if prefix else "the child"
    if done_file.is_file() and "error" in json.loads(done_file.read_text(encoding="utf-8")):
        raise ChildFailed(f"the child failed: {read(done_file, Failed).error}", fix=f"see {folder}")
    if code is None:
        raise ToolFailed(f"{program} was stopped after {timeout_s:g} s{_said(words)}", fix="fewer launches")
    if code or not done_file.is_file():
        raise ToolFailed(
            f"{program} ended with {how_ended(code)}"
            + ("" if done_file.is_file() else ", and the child left no account")
            + _said(words),
            fix=f"the whole output is {folder / 'output.log'}",
        )
    done = read(done_file, Done)
    for subject in done.subjects:
        if subject.objection:
            raise ChildFailed(
                f"{subject.name} is wrong: {subject.objection}", fix="a failed check removes the times (R1)"
            )
    return Ran(folder, done, wall_s, words)


def _run(
    command: list[str], folder: Path, timeout_s: float, environment: Mapping[str, str] | None
) -> int | None:
    """The exit code (negative: a signal), None after `timeout_s`. Leaves no process of the group behind."""
    package = str(Path(hipbook.__file__).parents[1])
    variables = dict(os.environ) | dict(environment or {})
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (package, variables.get("PYTHONPATH"))))
    with (folder / "output.log").open("wb") as log:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ToolFailed(
                f"{command[0]} cannot be run: {error.strerror}", fix="name the profiler's own executable"
            ) from None
    deadline = time.monotonic() + timeout_s
    ended = None
    try:
        while ended is None and time.monotonic() < deadline:
            # not reaped yet, so that the group's number still belongs to it when the rest is ended
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                time.sleep(POLL_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return None if ended is None else code


def how_ended(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def last_words(text: str, lines: int = _TOLD_LINES) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


def reason(text: str) -> str:
    """A text as one line without the folders of this machine: what a record may keep."""
    return re.sub(r"(?<![\w.:/])/(?:[\w.+-]+/)+", "", " ".join(text.split()))


def _said(text: str) -> str:
    words = last_words(text)
    return f"; its last words:\n{words}" if words else "; it said nothing"
