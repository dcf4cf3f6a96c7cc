"""What went wrong in a kernel, in words: instruction, source line, place, address, nearest buffer."""

from dataclasses import dataclass, replace

from hipbook.emulator.disassemble import render
from hipbook.emulator.image import Image
from hipbook.emulator.inlined import call_sites
from hipbook.emulator.kernel import Kernel
from hipbook.emulator.memory_map import MemoryMap, Region
from hipbook.emulator.structures import CFault
from hipbook.errors import KernelFault

NO_LANE = 0xFFFFFFFF
FIRST_PAGE = 1 << 16  # an address below is a null pointer and an offset
# (short name, sentence) in the order of runtime/wave.h; `address` is a byte of global memory, LDS or scratch,
# for barriers a count or a lane mask
KINDS = (
    ("none", ""),
    ("out-of-bounds", "{access} of {size} bytes at {address:#x} outside every buffer"),
    ("read-only", "store of {size} bytes at {address:#x} into a buffer the launch declared read-only"),
    ("unwritten", "load of {size} bytes at {address:#x} that were never written"),
    ("misaligned", "{access} of {size} bytes at {address:#x}, which the ISA wants aligned"),
    ("lds-out-of-bounds", "{access} of {size} bytes at LDS byte {address}, past the workgroup's LDS"),
    ("lds-unwritten", "load of LDS byte {address}, which was never written"),
    (
        "lds-race",
        "{access} of {size} bytes at LDS byte {address}, which {other} touched since the last barrier",
    ),
    ("scratch-out-of-bounds", "{access} of {size} bytes at scratch byte {address}, past the lane's memory"),
    ("scratch-unwritten", "load of {size} bytes at scratch byte {address}, which were never written"),
    ("barrier-ended", "barrier, but {address} wave(s) of the workgroup have ended without reaching it"),
    ("barrier-divergent", "barrier reached by lanes {address:#010x} of {other:#010x} only"),
    ("deadlock", "{address} wave(s) wait for ever at a barrier"),
    ("endless", "the budget of {other:,} instructions a wave is spent: an endless loop?"),
    ("trap", "trap {address:#x}"),
    ("bad-jump", "jump to {address:#x}, which is no instruction of this code object"),
    (
        "global-race",
        "{access} of {size} bytes at {address:#x}, which {other} in this launch, and nothing orders the two",
    ),
    ("freed", "{access} of {size} bytes at {address:#x}, in a buffer that was freed before the launch"),
)
_GLOBAL = ("out-of-bounds", "read-only", "unwritten", "misaligned", "global-race", "freed")
_ACCESS = ("load", "store", "atomic")  # CFault.store


@dataclass(frozen=True)
class Report:
    """A fault's parts. `offset`: of the instruction in `function`, the kernel itself or what it called (None:
    in no function that has a name; then from the start of the code); `distance`: bytes from the nearest
    buffer's span, 0 inside."""

    kind: str
    kernel: str
    instruction: str
    offset: int
    source: tuple[str, int] | None  # file name, line
    workgroup: tuple[int, int, int]
    wave: int
    lane: int | None
    address: int
    size: int
    store: bool
    buffer: str | None = None
    distance: int | None = None
    function: str | None = None
    called_from: tuple[tuple[str, int], ...] = ()  # where inlined code came from, innermost first
    arm: str | None = None  # of a kernel of ours
    again: str = ""  # what was launched, and how


class EmulatedFault(KernelFault):
    """A kernel fault of an emulated board; `report` has its parts."""

    def __init__(self, what: str, report: Report | None = None) -> None:
        super().__init__(what)
        self.report = report

    def launched(self, arm: str | None, again: str) -> "EmulatedFault":
        """This fault, told with the arm that ran and how to run it again."""
        lines = [self.what, *([f"arm {arm}"] if arm else []), f"again: {again}"]
        report = self.report and replace(self.report, arm=arm, again=again)
        return EmulatedFault("\n  ".join(lines), report)

    def __reduce__(self) -> tuple:
        return type(self), (self.what, self.report)


def to_exception(
    kernel: Kernel, loaded: Image, grid: tuple[int, int, int], fault: CFault, memory: MemoryMap
) -> EmulatedFault:
    """The exception that tells of `fault`."""
    kind, sentence = KINDS[fault.kind]
    inst = kernel.instructions[kernel.instruction_of[fault.record]]
    address = loaded.text_address + inst.at
    x, rest = fault.workgroup % grid[0], fault.workgroup // grid[0]
    nearest = memory.nearest(fault.address) if kind in _GLOBAL else None
    function, start = loaded.function_at(address) or (None, loaded.text_address)
    report = Report(
        kind, kernel.name, render(inst), address - start,
        loaded.lines.at(address) if loaded.lines else None, (x, rest % grid[1], rest // grid[1]), fault.wave,
        None if fault.lane == NO_LANE else fault.lane, fault.address, fault.size, bool(fault.store),
        *((nearest[0].name, nearest[1]) if nearest else (None, None)), function,
        call_sites(loaded.data, address),
    )  # fmt: skip
    other = fault.other
    if kind == "lds-race":
        other = _wave_of_tag(other)
    elif kind == "global-race":
        other = _group_of(other, grid)
    what = sentence.format(
        access=_ACCESS[min(fault.store, 2)], size=fault.size, address=fault.address, other=other
    )
    place = "" if function == kernel.name else f", {f'function {function}' if function else 'code'}"
    lines = [f"{kind}: {what}"]
    lines.append(f"in kernel {report.kernel}{place}, at +{report.offset:#x}: {report.instruction}")
    if report.source:
        places = (report.source, *report.called_from)
        lines.append("source " + ", inlined at ".join(f"{file}:{line}" for file, line in places))
    lane = "" if report.lane is None else f", lane {report.lane}"
    lines.append(f"workgroup {report.workgroup}, wave {report.wave}{lane}")
    if nearest:
        lines.append(_nearest(*nearest, fault.address))
    return EmulatedFault("\n  ".join(lines), report)


def _nearest(region: Region, distance: int, address: int) -> str:
    if address < FIRST_PAGE:
        return "a null pointer" + (f" plus {address}" if address else "")
    if distance == 0:
        return f"in {region.name}: byte {address - region.va} of its {region.span}"
    where = "before its first byte" if distance < 0 else "past its last byte"
    size = f"{region.span} bytes at {region.va:#x}"
    return f"nearest buffer: {region.name} ({size}), {abs(distance)} byte(s) {where}"


def _group_of(other: int, grid: tuple[int, int, int]) -> str:
    """Who touched the bytes first, and how (runtime/wave.h: RACE_*)."""
    group, did = other & (1 << 62) - 1, "read" if other >> 63 else "updated" if other >> 62 & 1 else "wrote"
    if group == 0xFFFFFFFF:
        return f"several other workgroups {did}"
    rest = group // grid[0]
    return f"workgroup {(group % grid[0], rest % grid[1], rest // grid[1])} {did}"


def _wave_of_tag(tag: int) -> str:
    return "another wave" if tag & 0x40 else f"wave {tag & 31}"
