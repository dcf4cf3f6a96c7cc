"""Every figure carries its bound (R11): bytes over measured bandwidth, operations over measured rate."""

from collections.abc import Mapping
from dataclasses import dataclass

from hipbook.errors import BadArgument, HipbookError
from hipbook.measure.thresholds import BOUND_EXCESS, MIN_READ_KERNELS


class FasterThanBound(HipbookError):
    """A figure better than physics allows: the bytes, the bandwidth or the clock is wrong."""


@dataclass(frozen=True)
class Bandwidth:
    """What this session measured for one level of memory, and which kernel was the best."""

    level: str  # "memory" or "last-level cache"
    gb_s: float  # 1e9 bytes a second
    kernel: str
    candidates: int


@dataclass(frozen=True)
class Bounded:
    """A time beside the least time its bytes need."""

    time_us: float
    floor_us: float
    of: Bandwidth
    bytes_moved: int

    @property
    def fraction(self) -> float:
        """floor / time: 1 is the bound reached."""
        return self.floor_us / self.time_us

    def __str__(self) -> str:
        return (
            f"{self.time_us:.4g} us, {self.fraction:.0%} of the {self.of.level} bound {self.floor_us:.4g} us"
        )


def best_bandwidth(level: str, gb_s_by_kernel: Mapping[str, float]) -> Bandwidth:
    """The best of several read kernels measured in this session; one alone may be slow itself."""
    if len(gb_s_by_kernel) < MIN_READ_KERNELS:
        raise BadArgument(
            "read kernels", list(gb_s_by_kernel), f"at least {MIN_READ_KERNELS}, the best counts"
        )
    kernel = max(gb_s_by_kernel, key=gb_s_by_kernel.__getitem__)
    if not gb_s_by_kernel[kernel] > 0:
        raise BadArgument("bandwidth", gb_s_by_kernel[kernel], "a positive number of GB/s")
    return Bandwidth(level, gb_s_by_kernel[kernel], kernel, len(gb_s_by_kernel))


def bounded(
    time_us: float,
    bytes_moved: int,
    memory: Bandwidth,
    *,
    cache: Bandwidth | None = None,
    cache_bytes: int = 0,
    warm: bool = False,
) -> Bounded:
    """The figure with its bound. Warm bytes that fit in the last-level cache are bounded by the cache.

    FasterThanBound when the time beats the bound by more than 3 %.
    """
    if not time_us > 0 or bytes_moved <= 0:
        raise BadArgument("time_us, bytes_moved", (time_us, bytes_moved), "both positive")
    of = memory
    if warm and bytes_moved <= cache_bytes:
        if cache is None:
            raise BadArgument("cache", None, "warm bytes that fit in the cache need the cache's bandwidth")
        of = cache
    floor_us = bytes_moved / of.gb_s / 1e3
    what = f"{bytes_moved:,} bytes over {of.gb_s:.4g} GB/s of {of.level} ({of.kernel})"
    within_bound(time_us, floor_us, what=what)
    return Bounded(time_us, floor_us, of, bytes_moved)


def within_bound(time: float, floor: float, *, what: str) -> float:
    """floor / time, at most 1.03; FasterThanBound above. Both in one unit."""
    fraction = floor / time
    if fraction > BOUND_EXCESS:
        raise FasterThanBound(
            f"{what}: {time:.4g} is {fraction:.2f} times faster than its bound {floor:.4g}",
            fix="check the byte count, the cache state and the clock, then measure the bandwidth again",
        )
    return fraction
