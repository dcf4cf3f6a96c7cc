"""Times of launches on a GPU by device events: graphs of many launches, caches in a stated state.

A launch of a few microseconds is shorter than what an event pair costs, so `Batch` captures as many of
them as take GRAPH_US in one CUDA (or HIP) graph and times its replays (R8). Warm: every launch reads the
same inputs. Cold: launches rotate through input sets of twice the last-level cache (R7).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch

from hipbook.boards.base import Arg, Board, Dim3, Dispatch
from hipbook.boards.gpu import GpuBoard
from hipbook.build.code_object import CodeObject
from hipbook.errors import BadArgument
from hipbook.measure.thresholds import BATCH_US, WARMUP_WINDOW
from hipbook.measure.warmup import steady_from

Launch = Callable[[], None]
EVENT_STEP_US = 0.5  # resolution of an event's time stamp, as CUDA's documentation gives it
# Even a launch of 20 us and more is timed in a graph of many: an event pair around a replay costs several us.
GRAPH_US = 2 * BATCH_US
MAX_LAUNCHES = 800
TRIAL_LAUNCHES = 4  # enough to learn about how long one takes; launched one by one, it takes the host's time
SAMPLES = 3 * WARMUP_WINDOW
MORE_SAMPLES = 4  # times as many, at most, while a trend lasts


class _Recorder:
    """A GPU board whose `launch` only prepares: what it would have enqueued is kept."""

    def __init__(self, board: GpuBoard) -> None:
        self._board = board
        self.kept: list[Launch] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._board, name)

    def launch(
        self, code_object: CodeObject, kernel: str, grid: Dim3, block: Dim3, args: Sequence[Arg], *,
        lds_bytes: int = 0, **_: object,
    ) -> Dispatch:  # fmt: skip
        self.kept.append(self._board.prepare(code_object, kernel, grid, block, args, lds_bytes=lds_bytes))
        return Dispatch(self._board.name, kernel, grid, block, lds_bytes, code_object)


def prepared(board: GpuBoard, call: Callable[[Board], object]) -> Launch:
    """The one launch that an operation's wrapper makes, without the wrapper: for timing.

    `call(board)` runs the wrapper unchecked on the board it is given, into tensors of the caller's.
    """
    recorder = _Recorder(board)
    call(recorder)
    if len(recorder.kept) != 1:
        raise BadArgument("call", f"{len(recorder.kept)} launches", "exactly one is timed")
    return recorder.kept[0]


class Batch:
    """A captured graph of launches that takes about GRAPH_US; `runs` are one launch for each input set.

    The first launch (module load, just-in-time compilation) is made and waited for here, and is in no time.
    """

    def __init__(self, *runs: Launch) -> None:
        if not runs:
            raise BadArgument("runs", runs, "at least one launch")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._stream = torch.cuda.Stream()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for run in runs:
                run()
        torch.cuda.synchronize()
        self._capture(runs, TRIAL_LAUNCHES)
        self.replay_us()  # a first replay also uploads the graph
        once_us = min(self.replay_us() for _ in range(2))
        self._capture(runs, min(MAX_LAUNCHES, ceil(GRAPH_US / once_us)))
        self.replay_us()

    def _capture(self, runs: Sequence[Launch], launches: int) -> None:
        """A graph of at least `launches`, in whole rotations of the input sets."""
        self.launches = -(-launches // len(runs)) * len(runs)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=self._stream):
            for i in range(self.launches):
                runs[i % len(runs)]()
        torch.cuda.synchronize()

    def _between(self, work: Callable[[], object]) -> float:
        self._events[0].record()
        work()
        self._events[1].record()
        self._events[1].synchronize()
        return self._events[0].elapsed_time(self._events[1]) * 1e3

    def replay_us(self) -> float:
        """Mean time of one launch over one replay."""
        return self._between(self._graph.replay) / self.launches

    @property
    def step_us(self) -> float:
        """The clock's resolution in the time of one launch."""
        return EVENT_STEP_US / self.launches


@dataclass(frozen=True)
class Sampled:
    """One arm's steady samples in one process, in microseconds a launch, and how the board was meanwhile."""

    samples_us: list[float]
    warmup_dropped: int
    settled: bool
    launches_per_sample: int
    step_us: float
    clock_mhz: float | None  # lowest seen; None: nobody to ask
    power_w: float | None  # highest seen


def sample(board: GpuBoard, batch: Batch, samples: int = SAMPLES) -> Sampled:
    """`samples` steady replays of `batch`: leading ones are dropped until no trend is left (R6)."""
    times, states = [], [board.state()]
    while True:
        times += [batch.replay_us() for _ in range(samples)]
        states.append(board.state())
        steady = steady_from(np.array(times))
        enough = len(times) - steady.dropped >= samples
        if (steady.settled and enough) or len(times) >= MORE_SAMPLES * samples:
            break
    return Sampled(
        [round(t, 4) for t in times[steady.dropped :][-samples:]],
        steady.dropped,
        steady.settled,
        batch.launches,
        batch.step_us,
        min((s["clock_mhz"] for s in states if s["clock_mhz"]), default=None),
        max((s["power_w"] for s in states if s["power_w"]), default=None),
    )


def push_out(board: GpuBoard) -> None:
    """Write and read far more than the last-level cache holds, and let what is dirty be written back.

    A cache line that an input generator has just written and the memory does not have yet is slower to
    read (H200: 8 x 1024 keys took 12.7 us so, and 9.5 us afterwards).
    """
    cache = board.identity().get("last_level_cache_bytes") or 64 << 20
    other = torch.zeros(10 * cache, dtype=torch.uint8, device=board.torch_device)
    for _ in range(3):
        other.view(torch.int64).sum()
    torch.cuda.synchronize()
    time.sleep(0.05)


def rotation(runs: Sequence[Launch], wanted: int) -> Sequence[Launch]:
    """`runs`, of which a cold measurement needs `wanted`: BadArgument when there are fewer."""
    if len(runs) < wanted:
        raise BadArgument("input sets", len(runs), f"a cold measurement rotates through {wanted}")
    return runs
