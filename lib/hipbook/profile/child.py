"""The process a profiler watches: `python -m hipbook.profile.child JOB.json`.

It checks each arm against the oracle, launches it many times, checks it again and leaves `done.json` beside
the job, or the reason why it could not. It knows nothing of the profiler around it, so that the same process
without one is the control.
"""

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from hipbook import boards
from hipbook.boards.base import Board
from hipbook.errors import HipbookError
from hipbook.ops.attention_call import DTYPES, AttentionCall
from hipbook.ops.paged_attention import AttentionResult, prepare, run_call
from hipbook.ops.placement import placed
from hipbook.oracle.compare import compare
from hipbook.oracle.decode_step import decode_call
from hipbook.oracle.paged_attention import Reference, reference
from hipbook.profile.job import DONE_FILE, MARKER, Done, Failed, Job, Role, Step, Subject, read, subject
from hipbook.records.store import write_atomically

TORCH_TRACE = "torch_trace.json"  # in the job's folder


class Child:
    """One run of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.board = boards.get(job.board)
        self.steps: list[Step] = []
        self.marked = False

    def run(self) -> Done:
        identity = dict(self.board.identity())
        subjects = [one for keys in self.job.keys for one in self._at(keys)]
        return Done(
            board=identity, torch=torch.__version__, process=os.getpid(), subjects=subjects,
            steps=self.steps, marked=self.marked,
        )  # fmt: skip

    def _at(self, keys: int) -> Iterator[Subject]:
        """Every arm on one call."""
        job = self.job
        call = decode_call(
            [keys], num_q_heads=job.num_q_heads, num_kv_heads=job.num_kv_heads, head_dim=job.head_dim,
            dtype=DTYPES[job.dtype], seed=job.seed,
        )  # fmt: skip
        want, there = reference(call), placed(call, self.board.torch_device)
        for arm in job.arms:
            yield self._subject(subject(arm, keys), arm, there, want)

    def _subject(self, name: str, arm: str, call: AttentionCall, want: Reference) -> Subject:
        before = run_call(call, arm=arm, board=self.board)
        self._launched(name, "check", before)
        launch = launchable(replace(call, out=torch.empty_like(call.q)), arm, self.board)
        for _ in range(self.job.warmup):
            launch()
        self._launched(name, "warm-up", before, self.job.warmup)
        wait(self.board)
        with self._marker(MARKER + name):
            host_us, event_us = self._timed(launch)
        state = self.board.state() if self.board.kind == "gpu" else {}
        self._launched(name, "profiled", before, self.job.launches_each)
        after = run_call(call, arm=arm, board=self.board)
        self._launched(name, "check", after)
        seen = [compare(result.out.cpu(), want) for result in (before, after)]
        return Subject(
            name=name, arm=arm, witness=before.witness, host_us=host_us, event_us=event_us,
            values_compared=sum(one.values_compared for one in seen),
            objection=next((one.why for one in seen if not one.passed), ""),
            code_object=dict(before.dispatch.code_object.identity), state=state,
        )  # fmt: skip

    def _launched(self, name: str, role: Role, like: AttentionResult, count: int = 1) -> None:
        """Keep launches of the same arm and call as `like`: geometry follows from both."""
        dispatch = like.dispatch
        if count:
            self.steps.append(
                Step(
                    subject=name, role=role, kernel=dispatch.kernel, grid=dispatch.grid, block=dispatch.block,
                    count=count,
                )
            )  # fmt: skip

    def _timed(self, launch: Callable[[], None]) -> tuple[list[float], list[float]]:
        """(host wall, device events) in us per launch, one value a batch."""
        on_device = self.board.torch_device.type == "cuda"
        host_us, event_us = [], []
        for _ in range(self.job.batches):
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if on_device else []
            began = time.perf_counter_ns()
            for event in events[:1]:
                event.record()
            for _ in range(self.job.launches):
                launch()
            for event in events[1:]:
                event.record()
            wait(self.board)
            host_us.append((time.perf_counter_ns() - began) / 1e3 / self.job.launches)
            if events:
                event_us.append(events[0].elapsed_time(events[1]) * 1e3 / self.job.launches)
        return host_us, event_us

    @contextmanager
    def _marker(self, text: str) -> Iterator[None]:
        """A range in torch's profile, and in NVTX or ROCTX where this torch has it."""
        with ExitStack() as stack:
            try:
                torch.cuda.nvtx.range_push(text)
                stack.callback(torch.cuda.nvtx.range_pop)
                self.marked = True
            except RuntimeError:  # a torch without a GPU has neither
                pass
            stack.enter_context(torch.profiler.record_function(text))
            yield


def launchable(call: AttentionCall, arm: str, board: Board) -> Callable[[], None]:
    """One unchecked launch into call.out as a function; on a GPU with nothing but the launch in it."""
    if board.kind == "gpu":
        return prepare(call, arm=arm, board=board)
    return lambda: run_call(call, arm=arm, board=board, checked=False)


def wait(board: Board) -> None:
    if board.torch_device.type == "cuda":
        torch.cuda.synchronize(board.torch_device)


@contextmanager
def watched_by_torch(path: Path, job: Job) -> Iterator[None]:
    """torch.profiler around the whole of the child's work, its trace left in `path`; nothing without it."""
    if not job.torch_trace:
        yield
        return
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU] + ([kinds.CUDA] if torch.cuda.is_available() else [])
    with torch.profiler.profile(activities=activities) as profiler:
        yield
    profiler.export_chrome_trace(str(path))


def main(job_file: str) -> int:
    folder = Path(job_file).parent
    try:
        job = read(Path(job_file), Job)
        child = Child(job)
        with watched_by_torch(folder / TORCH_TRACE, job):
            done = child.run()
    except HipbookError as error:
        done = Failed(error=str(error))
    except Exception:  # a fault of ours or of a library: the parent shows it
        done = Failed(error=traceback.format_exc().strip())
    write_atomically(folder / DONE_FILE, done.model_dump_json(indent=1).encode())
    return int(isinstance(done, Failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
