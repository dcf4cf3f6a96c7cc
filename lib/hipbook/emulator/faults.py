"""What went wrong in a kernel, in words: instruction, source line, place, address, nearest buffer."""

from hipbook.emulator.disassemble import render
from hipbook.emulator.image import Image
from hipbook.emulator.kernel import Kernel
from hipbook.emulator.launch import CFault
from hipbook.emulator.memory_map import MemoryMap
from hipbook.errors import KernelFault

NO_LANE = 0xFFFFFFFF
# in the order of runtime/wave.h: (short name, sentence)
KINDS = (
    ("none", ""),
    ("out-of-bounds", "{access} of {size} bytes at {address:#x} outside every buffer"),
    ("read-only", "store of {size} bytes at {address:#x} into a buffer the launch declared read-only"),
    ("write-only", "load of {size} bytes at {address:#x} from a buffer the launch declared write-only"),
    ("unwritten", "load of {size} bytes at {address:#x} that were never written"),
    ("misaligned", "{access} of {size} bytes at {address:#x}, which the ISA wants aligned"),
    ("lds-out-of-bounds", "{access} of {size} bytes at LDS byte {address}, past the workgroup's LDS"),
    ("lds-unwritten", "load of LDS byte {address}, which was never written"),
    ("lds-race", "{access} of {size} bytes at LDS byte {address}, which wave {other_wave} touched since the last barrier"),
    ("scratch-out-of-bounds", "{access} of {size} bytes at scratch byte {address}, past the lane's private memory"),
    ("scratch-unwritten", "load of {size} bytes at scratch byte {address}, which were never written"),
    ("barrier-ended", "barrier, but {address} wave(s) of the workgroup have ended without reaching it"),
    ("barrier-divergent", "barrier reached by lanes {address:#010x} of {other:#010x} only"),
    ("deadlock", "{address} wave(s) wait for ever at a barrier"),
    ("endless", "the budget of {other:,} instructions a wave is spent: an endless loop?"),
    ("trap", "trap {address:#x}"),
    ("bad-jump", "jump to {address:#x}, which is no instruction of this code object"),
    ("bad-register", "register out of range"),
    ("aperture", "address in no aperture"),
)


def to_exception(kernel: Kernel, loaded: Image, grid: tuple[int, int, int], fault: CFault, memory: MemoryMap) -> KernelFault:
    """The exception that tells of `fault`; its attributes hold the parts of the message."""
    short, sentence = KINDS[fault.kind]
    inst = kernel.instructions[kernel.instruction_of[fault.record]]
    what = sentence.format(
        access="store" if fault.store else "load", size=fault.size, address=fault.address, other=fault.other,
        other_wave=_wave_of_tag(fault.other),
    )  # fmt: skip
    x, rest = fault.workgroup % grid[0], fault.workgroup // grid[0]
    workgroup = (x, rest % grid[1], rest // grid[1])
    line = loaded.lines.at(loaded.text_address + inst.at) if loaded.lines else None
    lane = "" if fault.lane == NO_LANE else f", lane {fault.lane}"
    parts = [
        f"{short}: {what}",
        f"in kernel {kernel.name}, at +{loaded.text_address + inst.at - kernel.descriptor.entry:#x}: {render(inst)}",
        f"workgroup {workgroup}, wave {fault.wave}{lane}",
    ]
    if line:
        parts.insert(2, f"source {line[0]}:{line[1]}")
    nearest = None
    if short in ("out-of-bounds", "read-only", "write-only", "unwritten", "misaligned"):
        nearest = memory.nearest(fault.address)
        if nearest:
            parts.append(_nearest(*nearest, fault.address))
    error = KernelFault("\n  ".join(parts))
    error.kind, error.kernel, error.instruction, error.line = short, kernel.name, inst, line
    error.workgroup, error.wave = workgroup, fault.wave
    error.lane = None if fault.lane == NO_LANE else fault.lane
    error.address, error.nearest = fault.address, nearest
    return error


def _nearest(region, distance: int, address: int) -> str:
    if distance == 0:
        return f"in {region.name}: byte {address - region.va} of its {region.span}"
    where = "before its first byte" if distance < 0 else "past its last byte"
    return f"nearest buffer: {region.name} ({region.span} bytes at {region.va:#x}), {abs(distance)} bytes {where}"


def _wave_of_tag(tag: int) -> str:
    return "another" if tag & 0x40 else str(tag & 31)
