"""The device's view of memory: where each buffer lies and what of it may be touched.

Addresses are virtual and deterministic: each torch storage gets a range of its own in argument order, at
256-byte alignment with a gap between, and a tensor's address is its storage's plus its offset, so that odd
alignments stay. A tensor is a strided view: an access into a gap between its rows, or between the keys of an
interleaved key-value cache, belongs to no view and is a fault.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch

FIRST = 0x10_0000_0000
GAP = 1 << 16
MAX_LEVELS = 4
READ, WRITE = 1, 2
ACCESS = {"r": READ, "w": WRITE | READ, "rw": READ | WRITE}


class CView(ctypes.Structure):
    """runtime/wave.h: View"""

    _fields_ = (
        ("va", ctypes.c_uint64), ("span", ctypes.c_uint64), ("stride", ctypes.c_uint64 * MAX_LEVELS),
        ("count", ctypes.c_uint64 * MAX_LEVELS), ("inner", ctypes.c_uint64), ("levels", ctypes.c_uint32),
        ("access", ctypes.c_uint32), ("host", ctypes.c_void_p), ("written", ctypes.c_void_p),
        ("track", ctypes.c_uint32), ("pad", ctypes.c_uint32),
    )  # fmt: skip


class CTrack(ctypes.Structure):
    """runtime/wave.h: Track"""

    _fields_ = (
        ("va", ctypes.c_uint64), ("span", ctypes.c_uint64), ("shift", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )  # fmt: skip


@dataclass(frozen=True)
class Region:
    """A view of device memory. `levels`: (stride, count) of the outer dimensions, bytes, largest first."""

    name: str
    va: int
    span: int  # from the first byte to the last
    levels: tuple[tuple[int, int], ...]
    inner: int
    access: int
    host: int  # address of the first byte
    write_only: bool = False  # starts as never written
    itemsize: int = 1  # bytes of an element

    @property
    def end(self) -> int:
        return self.va + self.span

    def distance(self, address: int) -> int:
        """Bytes from `address` to this region's span: 0 inside, negative before it, positive after."""
        if address < self.va:
            return address - self.va
        return max(0, address - (self.va + self.span) + 1)

    def to_c(self, written: int | None, track: int = 0) -> CView:
        view = CView(
            va=self.va,
            span=self.span,
            inner=self.inner,
            levels=len(self.levels),
            access=self.access,
            track=track,
        )
        view.host, view.written = self.host, written
        for n, (stride, count) in enumerate(self.levels):
            view.stride[n], view.count[n] = stride, count
        return view


def shape_of(
    shape: Sequence[int], strides: Sequence[int], itemsize: int
) -> tuple[tuple[tuple[int, int], ...], int, int]:
    """(levels, inner, span) in bytes of a strided tensor. Dimensions that overlap become one gapless span."""
    if any(n == 0 for n in shape):
        return (), 0, 0
    dims = sorted(
        (stride * itemsize, n) for stride, n in zip(strides, shape, strict=True) if n > 1 and stride
    )
    span = itemsize + sum(stride * (n - 1) for stride, n in dims)
    inner, levels = itemsize, []
    for stride, n in dims:
        reach = levels[-1][0] * levels[-1][1] if levels else inner
        extent = (levels[-1][0] * (levels[-1][1] - 1) if levels else 0) + inner
        if len(levels) > 1:
            extent = inner + sum(s * (c - 1) for s, c in levels)
        if not levels and stride <= inner:
            inner = stride * (n - 1) + inner  # gapless, or overlapping: one run
        elif levels and stride == reach:
            levels[-1] = (levels[-1][0], levels[-1][1] * n)
        elif stride >= extent:
            levels.append((stride, n))
        else:
            return (), span, span
    while len(levels) > MAX_LEVELS:  # give up the innermost gaps
        stride, n = levels.pop(0)
        inner += stride * (n - 1)
    return tuple(reversed(levels)), inner, span


class MemoryMap:
    """Hands out addresses for the storages of one launch."""

    def __init__(self) -> None:
        self._next = FIRST
        self._storages: dict[int, int] = {}
        self.regions: list[Region] = []

    def _place(self, size: int) -> int:
        va = self._next
        self._next = (va + size + GAP + 255) & ~255
        return va

    def add_tensor(self, name: str, tensor: torch.Tensor, access: str) -> int:
        """Registers a tensor argument; returns its device address."""
        storage, itemsize = tensor.untyped_storage(), tensor.element_size()
        levels, inner, span = shape_of(tensor.shape, tensor.stride(), itemsize)
        start = tensor.storage_offset() * itemsize
        key = storage.data_ptr()
        if storage.nbytes() == 0:  # empty, or freed: every access to what the tensor had is a fault
            va = self._place(start + span) + start
            if span:
                self.regions.append(Region(name, va, span, levels, inner, 0, 0))
            return va
        if key not in self._storages:
            self._storages[key] = self._place(storage.nbytes())
        va = self._storages[key] + start
        if span:
            self.regions.append(
                Region(
                    name,
                    va,
                    span,
                    levels,
                    inner,
                    ACCESS[access],
                    key + start,
                    access == "w",
                    itemsize,
                )
            )
        return va

    def add_bytes(self, name: str, host: int, size: int, access: int, va: int | None = None) -> int:
        """Registers plain bytes (kernel arguments, code); returns their device address."""
        if va is None:
            va = self._place(size)
        if size:
            self.regions.append(Region(name, va, size, (), size, access, host))
        return va

    def tracks(self) -> tuple[list[CTrack], list[int]]:
        """(tracks, track of each region + 1, 0 for none): the bytes whose users are remembered, since some
        region lets them be written. Regions that overlap share a track; a granule is an element, at most 4
        bytes."""
        tracks, of = [], [0] * len(self.regions)
        order = sorted(range(len(self.regions)), key=lambda n: self.regions[n].va)
        while order:
            group = [order.pop(0)]
            end = self.regions[group[0]].end
            while order and self.regions[order[0]].va < end:
                group.append(order.pop(0))
                end = max(end, self.regions[group[-1]].end)
            if not any(self.regions[n].access & WRITE for n in group):
                continue
            start = self.regions[group[0]].va
            size = min([4, *(self.regions[n].itemsize for n in group)])
            tracks.append(CTrack(va=start, span=end - start, shift=(size & -size).bit_length() - 1))
            for n in group:
                of[n] = len(tracks)
        return tracks, of

    def save(self, at_most: int) -> list[tuple[Region, bytes]] | None:
        """What the regions that may be written hold now; None if that is more than `at_most` bytes. Regions
        that start as never written have nothing to keep."""
        held = [region for region in self.regions if region.access & WRITE and not region.write_only]
        if sum(region.span for region in held) > at_most:
            return None
        return [(region, ctypes.string_at(region.host, region.span)) for region in held]

    @staticmethod
    def restore(saved: list[tuple[Region, bytes]]) -> None:
        """Puts back what `save` kept."""
        for region, content in saved:
            ctypes.memmove(region.host, content, len(content))

    def nearest(self, address: int) -> tuple[Region, int] | None:
        """The region closest to `address`, and the distance from its span (negative: before it)."""
        if not self.regions:
            return None
        best = min(self.regions, key=lambda region: abs(region.distance(address)))
        return best, best.distance(address)
