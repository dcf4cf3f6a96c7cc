"""Launching a kernel: arguments, hidden arguments, user SGPRs, and the call into the runtime."""

import ctypes
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hipbook.build.code_object import KernelArg, KernelFacts
from hipbook.emulator import image, native
from hipbook.emulator.image import Image
from hipbook.emulator.kernel import Kernel
from hipbook.emulator.memory_map import READ, WRITE, CView, MemoryMap
from hipbook.emulator.operands import PRIVATE_BASE, SHARED_BASE
from hipbook.errors import BadArgument, EmulatorError

MAX_VIEWS = 64
MAX_LDS = 64 << 10  # bytes a workgroup may have
DYNAMIC_STACK = 16 << 10
POLL_MS = 100
GFX = {"rdna3": 11, "rdna4": 12}  # how a wave learns its place in the grid


class CFault(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32), ("record", ctypes.c_uint32), ("wave", ctypes.c_uint32),
        ("lane", ctypes.c_uint32), ("workgroup", ctypes.c_uint64), ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64), ("other", ctypes.c_uint64), ("store", ctypes.c_uint32),
    )  # fmt: skip


TOTALS = (
    "segments32", "segments64", "segments128", "lds_bytes_read", "lds_bytes_written", "lds_conflicts",
    "barriers", "waves",
)  # fmt: skip


class CTotals(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in TOTALS)


class CLaunch(ctypes.Structure):
    """runtime/wave.h: Launch"""

    _fields_ = (
        ("records", ctypes.c_void_p), ("n_records", ctypes.c_uint64), ("pool", ctypes.c_void_p),
        ("jump", ctypes.c_void_p), ("code_va", ctypes.c_uint64), ("code_bytes", ctypes.c_uint64),
        ("entry", ctypes.c_uint32), ("checks", ctypes.c_uint32), ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3), ("n_vgprs", ctypes.c_uint32), ("lds_bytes", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32), ("n_slots", ctypes.c_uint32),
        ("gfx", ctypes.c_uint32), ("sgprs", ctypes.c_uint32 * 32), ("rsrc2", ctypes.c_uint32),
        ("n_views", ctypes.c_uint32), ("views", ctypes.c_void_p), ("wave_order_seed", ctypes.c_uint64),
        ("max_wave_instructions", ctypes.c_uint64), ("threads", ctypes.c_uint32),
        ("shared_base", ctypes.c_uint64), ("private_base", ctypes.c_uint64), ("counts", ctypes.c_void_p),
        ("view_counts", ctypes.c_void_p), ("totals", CTotals), ("fault", CFault),
    )  # fmt: skip


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


# ---- arguments ----


@dataclass(frozen=True)
class Pointer:
    """A tensor argument; access as in boards.base.Buffer."""

    name: str
    tensor: torch.Tensor
    access: str


Value = Pointer | np.generic | None


def explicit(facts: KernelFacts) -> list[KernelArg]:
    return [arg for arg in facts.args if not arg.kind.startswith("hidden_")]


def check_arguments(facts: KernelFacts, args: Sequence[Value]) -> None:
    """Raises BadArgument unless `args` fit the kernel's layout one by one."""
    wanted = explicit(facts)
    if len(args) != len(wanted):
        raise BadArgument(
            "args", f"{len(args)} arguments", f"kernel {facts.name!r} takes {len(wanted)}",
            fix=", ".join(f"{arg.name or n}: {arg.kind}, {arg.size} bytes" for n, arg in enumerate(wanted)),
        )  # fmt: skip
    for n, (arg, value) in enumerate(zip(wanted, args, strict=True)):
        name = f"args[{n}]" + (f" ({arg.name})" if arg.name else "")
        pointer = arg.kind in ("global_buffer", "dynamic_shared_pointer") and arg.size == 8
        if isinstance(value, Pointer) or value is None:
            if not pointer and not (arg.kind == "by_value" and arg.size == 8):
                raise BadArgument(
                    name, "a buffer" if value else "None", f"the kernel takes {arg.size} bytes by value here"
                )
            if value is not None:
                _check_tensor(name, value)
        elif isinstance(value, np.generic):
            if pointer:
                raise BadArgument(
                    name, repr(value), "the kernel takes a pointer here", fix="hand a Buffer, or None"
                )
            if value.dtype.itemsize != arg.size:
                raise BadArgument(
                    name,
                    repr(value),
                    f"the kernel takes {arg.size} bytes here, {value.dtype} has {value.dtype.itemsize}",
                )
        else:
            raise BadArgument(name, repr(value), "an argument is a Buffer, a numpy scalar or None")


def _check_tensor(name: str, value: Pointer) -> None:
    tensor = value.tensor
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        raise BadArgument(name, type(tensor).__name__, "a buffer holds a strided torch tensor")
    if tensor.device.type != "cpu":
        raise BadArgument(name, str(tensor.device), "the emulated board's tensors live on the CPU")
    if value.access not in ("r", "w", "rw"):
        raise BadArgument(f"{name} access", value.access, "one of r, w, rw")


def _hidden(arg: KernelArg, grid: Sequence[int], block: Sequence[int], lds_bytes: int) -> bytes:
    """The bytes of a hidden argument (LLVM AMDGPUUsage, code object v5). Pointers we have not are null."""
    axis = "xyz".find(arg.kind[-1])
    dims = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
    value = {
        "hidden_block_count": lambda: grid[axis],
        "hidden_group_size": lambda: block[axis],
        "hidden_grid_dims": lambda: dims,
        "hidden_dynamic_lds_size": lambda: lds_bytes,
        "hidden_private_base": lambda: PRIVATE_BASE >> 32,
        "hidden_shared_base": lambda: SHARED_BASE >> 32,
    }.get(arg.kind.rsplit("_", 1)[0] if arg.kind[-2:] in ("_x", "_y", "_z") else arg.kind)
    return (value() if value else 0).to_bytes(arg.size, "little")


def pack_arguments(
    facts: KernelFacts,
    args: Sequence[Value],
    memory: MemoryMap,
    grid: Sequence[int],
    block: Sequence[int],
    lds_bytes: int,
) -> bytes:
    """The kernel argument segment; places the tensors of `args` in `memory`."""
    values = iter(args)
    end = max((arg.offset + arg.size for arg in facts.args), default=0)
    segment = bytearray(max(facts.kernarg_bytes, end))
    for arg in facts.args:
        if arg.kind.startswith("hidden_"):
            content = _hidden(arg, grid, block, lds_bytes)
        else:
            value = next(values)
            if value is None:
                content = bytes(arg.size)
            elif isinstance(value, Pointer):
                content = struct.pack("<Q", memory.add_tensor(value.name, value.tensor, value.access))
            else:
                content = value.tobytes()
        segment[arg.offset : arg.offset + arg.size] = content
    return bytes(segment)


# ---- the run ----


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
) -> Outcome:
    """Runs one dispatch to its end. Raises BadArgument before anything runs; faults are in the outcome."""
    check_arguments(facts, args)
    _check_geometry(facts, kernel, grid, block, lds_bytes)
    if threads is not None and threads < 1:
        raise BadArgument("threads", threads, "at least 1")
    if max_wave_instructions < 1:
        raise BadArgument("max_wave_instructions", max_wave_instructions, "at least 1")
    lib, memory, keep = native.library(), MemoryMap(), []
    descriptor = kernel.descriptor
    scratch = descriptor.scratch_bytes + (DYNAMIC_STACK if descriptor.properties >> 11 & 1 else 0)

    def place(name: str, content: bytes, access: int, va: int | None = None, size: int | None = None) -> int:
        buffer = ctypes.create_string_buffer(content, size or max(1, len(content)))
        keep.append(buffer)
        return memory.add_bytes(name, ctypes.addressof(buffer), size or len(content), access, va)

    segment = pack_arguments(facts, args, memory, grid, block, lds_bytes)
    arguments = len(memory.regions)
    kernarg = place("the kernel arguments", segment, READ)
    packet = place(
        "the dispatch packet", _packet(grid, block, descriptor.lds_bytes + lds_bytes, scratch, kernarg), READ
    )
    for address, content, size, writable in loaded.segments:
        access = READ | (WRITE if writable else 0)
        place("the code object", content, access, image.CODE_BASE + address, size)
    if len(memory.regions) > MAX_VIEWS:
        raise EmulatorError(f"{len(memory.regions)} buffers in one launch, more than {MAX_VIEWS}")
    written = [lib.emu_reserve(region.span) if region.write_only else None for region in memory.regions]
    try:
        if any(
            region.write_only and not place_ for region, place_ in zip(memory.regions, written, strict=True)
        ):
            raise EmulatorError("no address space for the shadow of a buffer")
        views = (CView * len(memory.regions))(
            *(r.to_c(w) for r, w in zip(memory.regions, written, strict=True))
        )
        counts = np.zeros((len(kernel.records), 2), np.uint64)
        view_counts = np.zeros((len(views), 5), np.uint64)
        sgprs = _user_sgprs(kernel, kernarg, packet, scratch)
        launch = CLaunch(
            records=kernel.records.ctypes.data, n_records=len(kernel.records), pool=kernel.pool.ctypes.data,
            jump=kernel.jump.ctypes.data, code_va=image.CODE_BASE + loaded.text_address,
            code_bytes=len(loaded.text) & ~3, entry=kernel.entry, checks=int(checks), n_vgprs=kernel.vgprs,
            lds_bytes=descriptor.lds_bytes + lds_bytes, scratch_bytes=scratch, n_slots=kernel.slots,
            gfx=gfx, rsrc2=descriptor.rsrc2, n_views=len(views),
            views=ctypes.addressof(views), wave_order_seed=wave_order_seed & (1 << 64) - 1,
            max_wave_instructions=max_wave_instructions,
            threads=1 if kernel.ordered else threads or os.cpu_count() or 1,
            shared_base=SHARED_BASE, private_base=PRIVATE_BASE, counts=counts.ctypes.data,
            view_counts=view_counts.ctypes.data,
        )  # fmt: skip
        launch.grid[:], launch.block[:] = [int(n) for n in grid], [int(n) for n in block]
        launch.sgprs[: len(sgprs)] = sgprs
        _drive(lib, launch)
        unwritten = {
            region.name: int(lib.emu_unwritten(ctypes.byref(view)))
            for region, view in zip(memory.regions[:arguments], views, strict=False)
            if region.write_only
        }
    finally:
        for region, place_ in zip(memory.regions, written, strict=True):
            if place_:
                lib.emu_release(place_, region.span)
    totals = {name: getattr(launch.totals, name) for name in TOTALS}
    fault = launch.fault if launch.fault.kind else None
    return Outcome(counts, view_counts, totals, fault, memory, unwritten, arguments)


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


def check_layout() -> None:
    """Raises EmulatorError if Python and the compiled runtime disagree about a structure."""
    lib = native.library()
    for name, ours, theirs in (
        ("Launch", ctypes.sizeof(CLaunch), lib.emu_launch_size()),
        ("View", ctypes.sizeof(CView), lib.emu_view_size()),
    ):
        if ours != theirs:
            raise EmulatorError(f"the runtime's {name} has {theirs} bytes, Python's {ours}")
