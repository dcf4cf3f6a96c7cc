"""Runs a few instructions on one wave with given registers: for tests of opcodes, and for trying one out.

state = State()
state.v[1] = np.arange(32)
run(bytes_of("v_add_nc_u32 v0, v1, v1"), state)
state.v[0]
"""

import ctypes
from dataclasses import dataclass, field

import numpy as np

from hipbook.emulator import image, kernel, launch, native
from hipbook.emulator.faults import KINDS
from hipbook.emulator.image import Descriptor, Image
from hipbook.emulator.memory_map import READ, WRITE, CView, MemoryMap
from hipbook.emulator.operands import PRIVATE_BASE, SHARED_BASE
from hipbook.emulator.structures import CLaunch
from hipbook.errors import KernelFault

VCC, M0, EXEC, SCC = 106, 125, 126, 253
_ENDPGM = bytes.fromhex("0000b0bf")


@dataclass
class State:
    """A wave's registers: `v` uint32 [256, 32], `s` uint32 [256] by operand number (VCC 106, M0 125,
    EXEC 126, SCC 253), and its LDS. All lanes are active unless s[EXEC] says otherwise."""

    v: np.ndarray = field(default_factory=lambda: np.zeros((256, 32), np.uint32))
    s: np.ndarray = field(default_factory=lambda: np.zeros(256, np.uint32))
    lds: np.ndarray = field(default_factory=lambda: np.zeros(4096, np.uint8))

    def __post_init__(self) -> None:
        self.s[EXEC] = 0xFFFFFFFF

    def set_u64(self, register: int, values: np.ndarray) -> None:
        """Puts 64-bit lane values into v[register] and v[register + 1]."""
        bits = np.asarray(values).view(np.uint64)
        self.v[register], self.v[register + 1] = bits & 0xFFFFFFFF, bits >> np.uint64(32)

    def u64(self, register: int) -> np.ndarray:
        return self.v[register].astype(np.uint64) | self.v[register + 1].astype(np.uint64) << np.uint64(32)


def run(
    code: bytes,
    state: State,
    *,
    family: str = "rdna4",
    rsrc1: int = 0,
    memory: np.ndarray | None = None,
    scratch_bytes: int = 0,
    checks: bool = True,
    budget: int = 1_000_000,
) -> int:
    """Executes `code` (machine code without its s_endpgm), changing `state` and `memory`.

    `memory` (uint8) lies at device address MEMORY; `rsrc1`: modes of the kernel descriptor. Returns that
    address. Raises KernelFault with the kind (CFault.kind) in its text, EmulatorError for what is not
    covered.
    """
    text = code + _ENDPGM
    loaded = Image(
        text, 0, (), {"code": Descriptor(0, 0, 0, 0, rsrc1, 0, 0, 1 << 10)}, {"code": (0, len(text))}
    )
    ready = kernel.prepare(loaded, "code", family)
    lib, places = native.library(), MemoryMap()
    address = 0
    if memory is not None:
        address = places.add_bytes("memory", memory.ctypes.data, memory.nbytes, READ | WRITE)
    views = (CView * max(1, len(places.regions)))(*(region.to_c(None) for region in places.regions))
    counts = np.zeros((len(ready.records), 2), np.uint64)
    view_counts = np.zeros((len(views), 5), np.uint64)
    job = CLaunch(
        records=ready.records.ctypes.data, n_records=len(ready.records), pool=ready.pool.ctypes.data,
        jump=ready.jump.ctypes.data, code_va=image.CODE_BASE, code_bytes=len(text), entry=ready.entry,
        checks=int(checks), n_vgprs=256, lds_bytes=state.lds.nbytes, scratch_bytes=scratch_bytes,
        n_slots=ready.slots, gfx=launch.GFX[family], n_views=len(places.regions),
        views=ctypes.addressof(views), max_wave_instructions=budget, threads=1,
        shared_base=SHARED_BASE, private_base=PRIVATE_BASE, counts=counts.ctypes.data,
        view_counts=view_counts.ctypes.data,
    )  # fmt: skip
    job.grid[:], job.block[:] = (1, 1, 1), (32, 1, 1)
    kind = lib.emu_run_wave(
        ctypes.addressof(job), state.v.ctypes.data, state.s.ctypes.data, state.lds.ctypes.data
    )
    if kind:
        raise KernelFault(f"{KINDS[kind][0]}: lane {job.fault.lane}, address {job.fault.address:#x}")
    return address


MEMORY = 0x10_0000_0000  # where `memory` lies
