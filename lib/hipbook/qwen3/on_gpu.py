"""The decode step's processes on a GPU board: steps captured as graphs, timed by two clocks, traced.

python -m hipbook.qwen3.on_gpu replicate JOB.json RESULT.json
python -m hipbook.qwen3.on_gpu trace JOB.json FOLDER
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from hipbook import boards
from hipbook.boards.gpu import GpuBoard
from hipbook.errors import BadArgument
from hipbook.measure.bandwidth import read_memory
from hipbook.qwen3.process import Job, replicate
from hipbook.qwen3.tracing import write_traces


class GpuClock:
    """The clock of `case.OpenCase` on a GPU board."""

    def __init__(self, board: GpuBoard) -> None:
        self._device = board.torch_device
        self._stream = torch.cuda.Stream(self._device)
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """A graph of one step. The step is made twice before: libraries choose and load what they launch."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            for _ in range(2):
                step()
            self._stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._stream):
                step()
        torch.cuda.current_stream(self._device).wait_stream(self._stream)

        def replay(_kept: Callable[[], None] = step) -> None:
            graph.replay()  # reads tensors that only the step holds

        return replay

    def time_us(self, replay: Callable[[], None], count: int) -> tuple[float, float]:
        """(device events, host wall) of one of `count` replays in a row; the board is idle before."""
        began = time.perf_counter()
        self._events[0].record()
        for _ in range(count):
            replay()
        self._events[1].record()
        self._events[1].synchronize()
        wall_us = (time.perf_counter() - began) * 1e6
        return self._events[0].elapsed_time(self._events[1]) * 1e3 / count, wall_us / count

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)


def save_profiled(run: Callable[[], None], path: Path) -> None:
    """`run` under torch.profiler, its Chrome JSON at `path`."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        run()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))


def main(arguments: Sequence[str]) -> int:
    what, given, out = arguments[0], Path(arguments[1]), Path(arguments[2])
    said = json.loads(given.read_text(encoding="utf-8"))
    job = Job(**said["job"])
    board = boards.get(job.board)
    if not isinstance(board, GpuBoard):
        raise BadArgument("board", job.board, "has no clock: times need a GPU board")
    if what == "trace":
        save_profiled(lambda: torch.zeros(1, device=board.torch_device).add_(1), out / ".first.json")
        (out / ".first.json").unlink()  # the profiler's first start is slow, and is in no run
        write_traces(job, said["arms"], board, GpuClock(board), out, save_profiled)
        return 0
    result = replicate(job, board, GpuClock(board), read_memory(board))
    temporary = out.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(result)), encoding="utf-8")
    temporary.replace(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
