"""Launching a kernel: hidden state, user SGPRs, and the call into the runtime."""

import ctypes
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hipbook.build.code_object import KernelFacts
from hipbook.emulator import image, native
from hipbook.emulator.arguments import Value, check_arguments, pack_arguments
from hipbook.emulator.image import Image
from hipbook.emulator.kernel import Kernel
from hipbook.emulator.memory_map import READ, WRITE, CTrack, CView, MemoryMap
from hipbook.emulator.operands import PRIVATE_BASE, SHARED_BASE
from hipbook.emulator.structures import EVENT, MOVED, TOTALS, CFault, CLaunch, CProfile
from hipbook.errors import BadArgument, EmulatorError

MAX_VIEWS = 64
MAX_LDS = 64 << 10  # bytes a workgroup may have
DYNAMIC_STACK = 16 << 10
POLL_MS = 100
GFX = {"rdna3": 11, "rdna4": 12}  # how a wave learns its place in the grid
MAX_TRACKED_GROUPS = 1 << 30  # races are looked for among so many workgroups
MAX_SAVED = 1 << 30  # bytes of buffers kept to run again in order when workgroups race
MAX_EVENTS = 1 << 20  # of the workgroup that a profile follows
GLOBAL_RACE = 16  # CFault.kind


@dataclass
class Outcome:
    """What a run left behind: raw counts by record and by view, and the fault, if any."""

    counts: np.ndarray  # [records, 2]: executions, active lanes
    view_counts: np.ndarray  # [regions, 5]: bytes read, written, loads, stores, live lanes
    totals: dict[str, int]
    fault: CFault | None
    memory: MemoryMap
    unwritten: dict[str, int]
    arguments: int  # the first so many regions are arguments
    raced: bool  # workgroups touched the same bytes with nothing to order them
    moved: np.ndarray | None = None  # [records, MOVED] of a profiled run
    events: np.ndarray | None = None  # EVENT: what the waves of one workgroup executed, in order


def _check_geometry(
    facts: KernelFacts, kernel: Kernel, grid: Sequence[int], block: Sequence[int], lds_bytes: int
) -> None:
    for name, dims in (("grid", grid), ("block", block)):
        if len(dims) != 3 or any(not 0 <= int(n) < 1 << 31 for n in dims):
            raise BadArgument(name, tuple(dims), "three counts from 0 to 2^31 - 1")
    size = block[0] * block[1] * block[2]
    if not 1 <= size <= min(1024, facts.max_workgroup_size or 1024):
        raise BadArgument(
            "block",
            tuple(block),
            f"1 to {min(1024, facts.max_workgroup_size or 1024)} work-items a workgroup",
        )
    if grid[1] > 65535 or grid[2] > 65535:
        raise BadArgument("grid", tuple(grid), "at most 65,535 workgroups in y and z")
    if lds_bytes < 0 or kernel.descriptor.lds_bytes + lds_bytes > MAX_LDS:
        raise BadArgument(
            "lds_bytes",
            lds_bytes,
            f"with {kernel.descriptor.lds_bytes} static bytes at most {MAX_LDS} a workgroup",
        )


def _user_sgprs(kernel: Kernel, kernarg: int, packet: int, scratch: int) -> list[int]:
    """User SGPRs in the order of kernel_code_properties."""
    properties, out = kernel.descriptor.properties, []
    for bit, words in (
        (0, [0, 0, 0, 0]), (1, [packet, packet >> 32]), (2, [0, 0]), (3, [kernarg, kernarg >> 32]),
        (4, [0, 0]), (5, [0, 0]), (6, [scratch]),
    ):  # fmt: skip
        if properties >> bit & 1:
            out += [word & 0xFFFFFFFF for word in words]
    return out


def _packet(grid: Sequence[int], block: Sequence[int], lds: int, scratch: int, kernarg: int) -> bytes:
    """The AQL dispatch packet, for kernels that read it."""
    return struct.pack(
        "<6H5I4Q", 2, 3, *block, 0, *(g * b & 0xFFFFFFFF for g, b in zip(grid, block, strict=True)),
        scratch, lds, 0, kernarg, 0, 0,
    )  # fmt: skip


def _place_all(
    memory: MemoryMap,
    kernel: Kernel,
    loaded: Image,
    segment: bytes,
    geometry: tuple[Sequence[int], Sequence[int], int, int],
) -> tuple[list[int], list[object]]:
    """Puts argument segment, dispatch packet and code object in `memory`; the user SGPRs, and what must live
    as long as the run. geometry: grid, block, bytes of LDS, bytes of scratch a lane."""
    keep: list[object] = []

    def place(name: str, content: bytes, access: int, va: int | None = None, size: int | None = None) -> int:
        buffer = ctypes.create_string_buffer(content, size or max(1, len(content)))
        keep.append(buffer)
        return memory.add_bytes(name, ctypes.addressof(buffer), size or len(content), access, va)

    grid, block, lds, scratch = geometry
    kernarg = place("the kernel arguments", segment, READ)
    packet = place("the dispatch packet", _packet(grid, block, lds, scratch, kernarg), READ)
    for address, content, size, writable in loaded.segments:
        access = READ | (WRITE if writable else 0)
        place("the code object", content, access, image.CODE_BASE + address, size)
    if len(memory.regions) > MAX_VIEWS:
        raise EmulatorError(f"{len(memory.regions)} buffers in one launch, more than {MAX_VIEWS}")
    return _user_sgprs(kernel, kernarg, packet, scratch), keep


def run(
    kernel: Kernel,
    facts: KernelFacts,
    loaded: Image,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Value],
    *,
    gfx: int,
    lds_bytes: int = 0,
    checks: bool = True,
    wave_order_seed: int = 0,
    threads: int | None = None,
    max_wave_instructions: int = 1 << 40,
    profile: bool = False,
    followed: int = 0,
) -> Outcome:
    """Runs one dispatch to its end. Raises BadArgument before anything runs; faults are in the outcome.

    When workgroups of different threads raced, which is seen first is chance: buffers are put back and the
    dispatch runs once more in order, so that its report is always the same. `profile` also keeps what each
    record moved and what the waves of workgroup `followed` executed; it runs on one thread.
    """
    check_arguments(facts, args)
    _check_geometry(facts, kernel, grid, block, lds_bytes)
    if threads is not None and threads < 1:
        raise BadArgument("threads", threads, "at least 1")
    if max_wave_instructions < 1:
        raise BadArgument("max_wave_instructions", max_wave_instructions, "at least 1")
    memory, descriptor = MemoryMap(), kernel.descriptor
    scratch = descriptor.scratch_bytes + (DYNAMIC_STACK if descriptor.properties >> 11 & 1 else 0)
    lds = descriptor.lds_bytes + lds_bytes
    segment = pack_arguments(facts, args, memory, grid, block, lds_bytes)
    arguments = len(memory.regions)
    sgprs, _keep = _place_all(memory, kernel, loaded, segment, (grid, block, lds, scratch))
    groups = grid[0] * grid[1] * grid[2]
    tracks, track_of = memory.tracks() if checks and 1 < groups < MAX_TRACKED_GROUPS else ([], [])
    workers = 1 if kernel.ordered or profile else min(threads or os.cpu_count() or 1, max(1, groups))
    saved = memory.save(MAX_SAVED) if tracks and workers > 1 else None
    if tracks and saved is None:
        workers = 1
    c_tracks = (CTrack * max(1, len(tracks)))(*tracks)
    launch = CLaunch(
        records=kernel.records.ctypes.data, n_records=len(kernel.records), pool=kernel.pool.ctypes.data,
        jump=kernel.jump.ctypes.data, code_va=image.CODE_BASE + loaded.text_address,
        code_bytes=len(loaded.text) & ~3, entry=kernel.entry, checks=int(checks), n_vgprs=kernel.vgprs,
        lds_bytes=lds, scratch_bytes=scratch, n_slots=kernel.slots, gfx=gfx, rsrc2=descriptor.rsrc2,
        wave_order_seed=wave_order_seed & (1 << 64) - 1, max_wave_instructions=max_wave_instructions,
        ordered=int(kernel.ordered), n_tracks=len(tracks), tracks=ctypes.addressof(c_tracks),
        shared_base=SHARED_BASE, private_base=PRIVATE_BASE,
    )  # fmt: skip
    launch.grid[:], launch.block[:] = [int(n) for n in grid], [int(n) for n in block]
    launch.sgprs[: len(sgprs)] = sgprs
    moved = np.zeros((len(kernel.records), len(MOVED)), np.uint64)
    events = np.zeros(MAX_EVENTS if profile else 0, EVENT)
    wanted = CProfile(
        moved=moved.ctypes.data, group=followed, views=arguments, events=events.ctypes.data, room=len(events)
    )
    if profile:
        launch.profile = ctypes.addressof(wanted)
    outcome = _execute(launch, kernel, memory, track_of, arguments, workers)
    if profile:
        return replace(outcome, moved=moved, events=events[: wanted.n_events])
    if outcome.raced and workers > 1:
        memory.restore(saved)
        outcome = _execute(launch, kernel, memory, track_of, arguments, 1)
    return outcome


def _execute(
    launch: CLaunch, kernel: Kernel, memory: MemoryMap, track_of: list[int], arguments: int, workers: int
) -> Outcome:
    """One run of a prepared launch on `workers` threads."""
    lib, regions = native.library(), memory.regions
    written = [lib.emu_reserve(region.span) if region.write_only else None for region in regions]
    try:
        if any(region.write_only and not place for region, place in zip(regions, written, strict=True)):
            raise EmulatorError("no address space for the shadow of a buffer")
        views = (CView * len(regions))(
            *(r.to_c(w, t) for r, w, t in zip(regions, written, track_of or [0] * len(regions), strict=True))
        )
        counts = np.zeros((len(kernel.records), 2), np.uint64)
        view_counts = np.zeros((len(views), 5), np.uint64)
        launch.n_views, launch.views = len(views), ctypes.addressof(views)
        launch.counts, launch.view_counts = counts.ctypes.data, view_counts.ctypes.data
        launch.threads, launch.raced = workers, 0
        launch.totals, launch.fault = type(launch.totals)(), CFault()
        _drive(lib, launch)
        unwritten = {
            region.name: int(lib.emu_unwritten(ctypes.byref(view)))
            for region, view in zip(regions[:arguments], views, strict=False)
            if region.write_only
        }
    finally:
        for region, place in zip(regions, written, strict=True):
            if place:
                lib.emu_release(place, region.span)
    totals = {name: getattr(launch.totals, name) for name in TOTALS}
    fault = launch.fault if launch.fault.kind else None
    raced = bool(launch.raced) or launch.fault.kind == GLOBAL_RACE
    return Outcome(counts, view_counts, totals, fault, memory, unwritten, arguments, raced)


def _drive(lib: ctypes.CDLL, launch: CLaunch) -> None:
    """Starts the run and waits for it in short steps, so that Ctrl-C stops it."""
    handle = lib.emu_start(ctypes.addressof(launch))
    if not handle:
        raise EmulatorError("no memory to start the emulated board")
    finished = False
    try:
        while lib.emu_wait(handle, POLL_MS):
            pass
        finished = True
    finally:
        failed = lib.emu_finish(handle, 0 if finished else 1)
    if failed:
        raise EmulatorError("the emulated board ran out of memory or threads")
