"""Which clock a time came from, how short kernels are timed, and whether the board held its clock."""

from enum import StrEnum
from math import ceil

import numpy as np

from hipbook.errors import BadArgument
from hipbook.measure.thresholds import BATCH_US, CLOCK_FLAG_SHARE, COLD_CACHE_MULTIPLE, SHORT_KERNEL_US


class Clock(StrEnum):
    """Named in every column of times (R8); figures of different clocks are never added or compared (T7)."""

    DEVICE_EVENTS = "device_events"  # between two events in the stream: launch gaps included
    PROFILER = "profiler"  # the kernel's own begin and end
    HOST_WALL = "host_wall"  # what the caller waited
    API = "api"  # inside a runtime call: the CPU may only have been waiting (T7)


class Cache(StrEnum):
    """State of the caches before each timed launch (R7); a parameter, printed."""

    WARM = "warm"
    COLD = "cold"


def add_times(parts: dict[str, tuple[float, Clock]]) -> tuple[float, Clock]:
    """Sum of named times of one clock. API time and device time are never added (T7): BadArgument."""
    clocks = {clock for _, clock in parts.values()}
    if len(clocks) != 1:
        told = ", ".join(f"{name} by {clock}" for name, (_, clock) in parts.items()) or "nothing"
        raise BadArgument("times", told, "only times of one clock add up", fix="keep one column per clock")
    return sum(value for value, _ in parts.values()), clocks.pop()


def launches_per_batch(estimate_us: float) -> int:
    """Launches between two events: 1 for kernels of SHORT_KERNEL_US and more, else enough for BATCH_US."""
    if not estimate_us > 0:
        raise BadArgument("estimate_us", estimate_us, "a positive time")
    return 1 if estimate_us >= SHORT_KERNEL_US else ceil(BATCH_US / estimate_us)


def cold_input_sets(bytes_per_set: int, last_level_cache_bytes: int) -> int:
    """Input sets to rotate through so that each launch finds its inputs cold: 2 x the cache, at least 2."""
    if bytes_per_set <= 0 or last_level_cache_bytes <= 0:
        raise BadArgument("bytes", (bytes_per_set, last_level_cache_bytes), "positive sizes")
    return max(2, ceil(COLD_CACHE_MULTIPLE * last_level_cache_bytes / bytes_per_set))


def flagged_blocks(block_mhz: np.ndarray) -> np.ndarray:
    """True where a block's clock (MHz, last axis) is under 95 % of the session's median."""
    block_mhz = np.asarray(block_mhz, dtype=float)
    return block_mhz < CLOCK_FLAG_SHARE * np.median(block_mhz, axis=-1, keepdims=True)


def flagged_share(block_mhz: np.ndarray) -> np.ndarray:
    return flagged_blocks(block_mhz).mean(axis=-1)
