"""A GPU board's measured rates: reading and copying memory, reading the last-level cache, an empty launch.

The best of several kernels and grids counts (R11): one alone may be slow itself and make the bound easy.
"""

import statistics

import numpy as np
import torch

from hipbook.boards.base import Buffer
from hipbook.boards.gpu import GpuBoard
from hipbook.measure.bound import Bandwidth, best_bandwidth
from hipbook.measure.device_times import Batch, push_out

READ_BYTES = 4 << 30  # many times any cache
COPY_BYTES = 1 << 30
CACHE_SHARE = 0.5  # of the last-level cache, so that all of it stays there
GRIDS = [(threads, per_unit) for threads in (256, 512) for per_unit in (4, 16, 64)]
REPLAYS = 5


def read_memory(board: GpuBoard) -> Bandwidth:
    return _read(board, "memory", READ_BYTES)


def read_cache(board: GpuBoard) -> Bandwidth:
    """Of the last-level cache, on data that stays there."""
    size = board.identity()["last_level_cache_bytes"]
    return _read(board, "last-level cache", int(size * CACHE_SHARE) // 4096 * 4096)


def copy_memory(board: GpuBoard) -> Bandwidth:
    """Bytes read and written, together, a second."""
    source = torch.empty(COPY_BYTES // 4, dtype=torch.int32, device=board.torch_device).fill_(1)
    target = torch.empty_like(source)
    args = [Buffer("from", source), Buffer("to", target, "w"), np.int64(COPY_BYTES // 16)]
    code = board.build("bandwidth/copy.hip")
    kernels = [name for name in code.kernels if name != "nothing"]
    return _best(board, "copy of memory", code, kernels, args, 2 * COPY_BYTES)


def empty_launch_us(board: GpuBoard) -> float:
    """Time of a launch that does nothing, under graph replay."""
    code = board.build("bandwidth/copy.hip")
    batch = Batch(board.prepare(code, "nothing", (1, 1, 1), (board.wave_size, 1, 1), []))
    return statistics.median(batch.replay_us() for _ in range(4 * REPLAYS))


def _read(board: GpuBoard, level: str, size: int) -> Bandwidth:
    data = torch.empty(size // 4, dtype=torch.int32, device=board.torch_device).fill_(1)
    sink = torch.zeros(1, dtype=torch.int32, device=board.torch_device)
    args = [Buffer("data", data), np.int64(size // 16), Buffer("sink", sink, "rw")]
    code = board.build("bandwidth/read.hip")
    found = _best(board, level, code, list(code.kernels), args, size)
    if int(sink):
        raise AssertionError("the read kernels' data came out as the one value that it is not")
    return found


def _best(board: GpuBoard, level: str, code, kernels: list[str], args: list, moved: int) -> Bandwidth:
    if level != "last-level cache":
        push_out(board)
    gb_s = {}
    for kernel in kernels:
        for threads, per_unit in GRIDS:
            grid = (board.compute_units * per_unit, 1, 1)
            batch = Batch(board.prepare(code, kernel, grid, (threads, 1, 1), args))
            us = statistics.median(batch.replay_us() for _ in range(REPLAYS))
            gb_s[f"{kernel}, {threads} threads, {per_unit} workgroups a unit"] = moved / us / 1e3
    return best_bandwidth(level, gb_s)
