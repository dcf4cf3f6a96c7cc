"""A kernel made ready to run: its reachable instructions as linked records.

Instructions without effect (waits, delays, clauses: a third of a kernel) are not executed; each is counted
with a neighbour of its basic block, which runs exactly as often. So counts stay exact and cost nothing.
"""

import ctypes
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from hipbook.emulator import fields, generate, image, isa, native
from hipbook.emulator.image import Descriptor, Image
from hipbook.emulator.isa import Inst
from hipbook.emulator.lower import lower, row_name
from hipbook.emulator.operands import Context, Record, Uncovered
from hipbook.emulator.semantics import memory
from hipbook.emulator.semantics.native import BRANCHES
from hipbook.errors import EmulatorError

_OPERAND = np.dtype([("kind", "u1"), ("flags", "u1"), ("index", "<u2")])
RECORD = np.dtype(
    {
        "names": ["fn", "src", "dst", "dst2", "flags", "target", "slot", "offset", "extra"],
        "formats": ["<u8", (_OPERAND, 4), "<u2", "<u2", "<u4", "<u4", "<u4", "<i8", "<u8"],
        "offsets": [0, 8, 24, 26, 28, 32, 36, 40, 48],
        "itemsize": 64,
    }
)
_ENDS = frozenset({"S_BRANCH", "S_ENDPGM", "S_ENDPGM_SAVED", "S_SETPC_B64", "S_TRAP"})  # a trap is a fault
_INDIRECT = frozenset({"S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64"})


@dataclass(eq=False)
class Kernel:
    """Ready to run. `counted_at[i]` is the record whose executions are those of instruction i."""

    name: str
    descriptor: Descriptor
    instructions: list[Inst]
    records: np.ndarray = field(repr=False)
    pool: np.ndarray = field(repr=False)
    jump: np.ndarray = field(repr=False)
    counted_at: np.ndarray = field(repr=False)
    instruction_of: list[int] = field(repr=False)  # record -> instruction
    entry: int
    slots: int
    vgprs: int
    ordered: bool  # workgroups can tell their order: they must run one after the other
    opcodes: Counter = field(repr=False, default_factory=Counter)  # static


def reachable(text: bytes, entries: list[int], family: str, what: str) -> list[Inst]:
    """The instructions that execution can reach from `entries` (offsets), in address order."""
    found: dict[int, Inst] = {}
    todo = list(entries)
    while todo:
        at = todo.pop()
        while at not in found:
            try:
                inst = isa.decode(text, at, family)
            except isa.Undecodable as error:
                raise EmulatorError(f"{what}: {error}, at offset {at:#x} of its code") from error
            found[at] = inst
            if inst.name in BRANCHES or inst.name == "S_CALL_B64":
                simm = inst.bits(15, 0)
                target = at + 4 + 4 * (simm - (simm >> 15 << 16))
                if not 0 <= target < len(text):
                    raise EmulatorError(f"{what}: {inst.name} at {at:#x} leaves the code")
                todo.append(target)
            if inst.name in _ENDS:
                break
            at += inst.size
    instructions = [found[at] for at in sorted(found)]
    for inst, after in pairwise(instructions):
        if inst.at + inst.size > after.at:
            raise EmulatorError(f"{what} jumps into the middle of {inst.name} at {inst.at:#x}")
    return instructions


def _entries(image_: Image, entry: int, family: str, what: str) -> tuple[list[int], bool]:
    """Where execution may start. A kernel that jumps through registers (calls, jump tables) may get anywhere
    in its own code and in that of any function that is no kernel."""
    instructions = reachable(image_.text, [entry], family, what)
    if not any(inst.name in _INDIRECT for inst in instructions):
        return [entry], False
    others = {d.entry - image_.text_address for d in image_.descriptors.values()} - {entry}
    entries = [entry]
    for address, size in image_.functions.values():
        start = address - image_.text_address
        if start in others:
            continue
        at, end = max(0, start), min(start + size, len(image_.text))
        while at < end:
            try:
                inst = isa.decode(image_.text, at, family)
            except isa.Undecodable:
                break
            entries.append(at)
            at += inst.size
    return entries, True


def _leaders(instructions: list[Inst], entries: list[int]) -> set[int]:
    leaders = set(entries)
    for inst in instructions:
        if inst.name in BRANCHES or inst.name == "S_CALL_B64":
            simm = inst.bits(15, 0)
            leaders |= {inst.at + 4 + 4 * (simm - (simm >> 15 << 16)), inst.at + inst.size}
        elif inst.name in _ENDS or inst.name == "S_SWAPPC_B64":
            leaders.add(inst.at + inst.size)
    return leaders


def prepare(image_: Image, name: str, family: str) -> Kernel:
    """Decodes, lowers and links kernel `name`. Raises EmulatorError for what cannot be run."""
    descriptor = image_.descriptors[name]
    entry = descriptor.entry - image_.text_address
    what = f"kernel {name!r}"
    if not 0 <= entry < len(image_.text):
        raise EmulatorError(f"{what} starts outside the code")
    entries, indirect = _entries(image_, entry, family, what)
    instructions = reachable(image_.text, entries, family, what)
    leaders = _leaders(instructions, entries)
    context = Context(image.CODE_BASE + image_.text_address, family, descriptor.rsrc1)
    records: list[Record] = []
    instruction_of: list[int] = []
    counted_at = np.zeros(len(instructions), dtype=np.int64)
    start_of: dict[int, int] = {}  # code offset -> record
    uncovered: list[str] = []
    pending: list[int] = []  # effectless instructions at the head of a block, before its first record
    in_block = False  # a record of this block exists, and falls through to what follows
    for n, inst in enumerate(instructions):
        if inst.at in leaders or indirect:
            if pending:  # a block of nothing else: it needs a record to count
                _emit(records, instruction_of, [Record("NOP")], pending[0])
                counted_at[pending] = len(records) - 1
                pending = []
            in_block = False
            start_of[inst.at] = len(records)
        try:
            lowered = lower(context, inst)
        except Uncovered as error:
            uncovered.append(f"{inst.name} at {inst.at:#x} ({error})")
            continue
        if len(lowered) == 1 and lowered[0].handler == "NOP":
            if in_block:
                counted_at[n] = len(records) - 1
            else:
                pending.append(n)
            continue
        counted_at[n] = len(records)
        if pending:
            counted_at[pending] = len(records)
            pending = []
        _emit(records, instruction_of, lowered, n)
        in_block = True
        if inst.name in BRANCHES or inst.name in _ENDS:
            in_block = False
    if uncovered:
        more = f" and {len(uncovered) - 5} more" if len(uncovered) > 5 else ""
        raise EmulatorError(
            f"{what} uses what the emulated board does not cover: {'; '.join(uncovered[:5])}{more}",
            fix='see docs/emulator.md, "how to add an opcode"',
        )
    if pending:
        _emit(records, instruction_of, [Record("NOP")], pending[0])
        counted_at[pending] = len(records) - 1
    _emit(
        records, instruction_of, [Record("S_TRAP", offset=0xFFFF)], len(instructions) - 1
    )  # ran off the end
    return _link(
        image_, name, descriptor, instructions, records, instruction_of, counted_at, start_of, context, entry
    )


def _emit(records: list[Record], instruction_of: list[int], new: list[Record], n: int) -> None:
    records.extend(new)
    instruction_of.extend([n] * len(new))


def _link(
    image_: Image,
    name: str,
    descriptor: Descriptor,
    instructions: list[Inst],
    records: list[Record],
    instruction_of: list[int],
    counted_at: np.ndarray,
    start_of: dict[int, int],
    context: Context,
    entry: int,
) -> Kernel:
    packed = np.zeros(len(records), RECORD)
    # the runtime wants its records on 64-byte lines
    raw = np.zeros(packed.nbytes + 64, np.uint8)
    shift = -raw.ctypes.data % 64
    packed = raw[shift : shift + packed.nbytes].view(RECORD)
    slots = 0
    for n, record in enumerate(records):
        row = packed[n]
        row["fn"] = generate.number_of(record.handler)
        for k, operand in enumerate(record.src):
            row["src"][k] = (operand.kind, operand.flags, operand.index)
        row["dst"], row["dst2"], row["flags"] = record.dst, record.dst2, record.flags
        if record.target is not None:
            row["target"] = start_of[record.target]
        if record.slot:
            row["slot"] = slots
            slots += 1
        row["offset"], row["extra"] = record.offset, record.extra
    jump = np.zeros(len(image_.text) // 4 + 1, np.uint32)
    for at, record in start_of.items():
        jump[at // 4] = record + 1
    library = native.library()
    bad = library.emu_link(packed.ctypes.data_as(ctypes.c_void_p), len(packed))
    if bad:
        raise EmulatorError(f"kernel {name!r}: record {bad - 1} has no handler")
    pool = np.repeat(np.array(context.pool.values or [0], np.uint32)[:, None], 32, axis=1)
    aligned = np.zeros(pool.nbytes + 64, np.uint8)
    shift = -aligned.ctypes.data % 64
    constants = aligned[shift : shift + pool.nbytes].view(np.uint32).reshape(pool.shape)
    constants[:] = pool
    return Kernel(
        name=name,
        descriptor=descriptor,
        instructions=instructions,
        records=packed,
        pool=constants,
        jump=jump,
        counted_at=counted_at,
        instruction_of=instruction_of,
        entry=start_of[entry],
        slots=slots,
        vgprs=_vgprs(descriptor),
        ordered=_ordered(instructions),
        opcodes=Counter(inst.name for inst in instructions),
    )


def _vgprs(descriptor: Descriptor) -> int:
    """VGPRs allotted: what the descriptor's granules of 8 (wave32) say, at most 256."""
    return min(256, ((descriptor.rsrc1 & 0x3F) + 1) * 8)


def _ordered(instructions: list[Inst]) -> bool:
    """Whether workgroups can tell in which order they run: by what an atomic returns or leaves, or by a load
    that other workgroups' stores reach."""
    for inst in instructions:
        op = memory.MEMORY.get(row_name(inst))
        if op is None or op.space not in ("global", "flat", "buffer"):
            continue
        at = (fields.buffer if op.space == "buffer" else fields.vector)(inst)
        if (op.kind == "atomic" and (op.ordered or at.returns)) or (op.kind == "load" and at.coherent):
            return True
    return False
