"""Lowers memory instructions: scalar, LDS, global, flat, scratch and buffer."""

from hipbook.emulator.isa import Inst
from hipbook.emulator.operands import (
    NO_SADDR,
    NO_VADDR,
    NULL,
    RETURN,
    SGPR,
    VGPR,
    Context,
    Operand,
    Record,
    Uncovered,
)  # fmt: skip
from hipbook.emulator.semantics import memory


def lds(context: Context, inst: Inst, base: str) -> list[Record]:
    address, data0, data1 = (Operand(VGPR, inst.bits(h, h - 7)) for h in (39, 47, 55))
    vdst, offset = inst.bits(63, 56), inst.bits(15, 0)
    if base in ("DS_BPERMUTE_B32", "DS_BPERMUTE_FI_B32", "DS_PERMUTE_B32"):
        return [Record(base, [address, data0], dst=vdst, offset=offset)]
    if base == "DS_SWIZZLE_B32":
        return [Record(base, [address], dst=vdst, offset=offset)]
    op = memory.MEMORY.get(base)
    if op is None or inst.bits(17, 17):
        raise Uncovered(inst.name)
    record = Record(base, [address, data0, data1], dst=vdst, offset=offset)
    if "2ADDR" in base:
        record.offset, record.extra = inst.bits(7, 0), inst.bits(15, 8)
    return [record]


def smem(context: Context, inst: Inst, base: str) -> list[Record]:
    if base not in memory.MEMORY:
        raise Uncovered(inst.name)
    soffset = inst.bits(63, 57)
    offset = inst.bits(55, 32)
    offset -= offset >> 23 << 24
    src = [Operand(SGPR, inst.bits(5, 0) * 2), Operand(SGPR, soffset)]
    return [Record(base, src, dst=context.scalar_destination(inst.bits(12, 6)), offset=offset, slot=True)]


def vmem(context: Context, inst: Inst, base: str) -> list[Record]:
    op = memory.MEMORY.get(base)
    if op is None:
        raise Uncovered(inst.name)
    offset = inst.bits(95, 72)
    offset -= offset >> 23 << 24
    saddr = inst.bits(6, 0)
    flags = NO_SADDR if saddr == NULL else 0
    if inst.encoding == "VSCRATCH" and not inst.bits(49, 49):
        flags |= NO_VADDR
    if op.kind == "atomic" and inst.bits(54, 52) & 1:
        flags |= RETURN
    src = [Operand(VGPR, inst.bits(71, 64)), Operand(SGPR, saddr), Operand(VGPR, inst.bits(62, 55))]
    return [Record(base, src, dst=inst.bits(39, 32), flags=flags, offset=offset, slot=True)]


def buffer(context: Context, inst: Inst, base: str) -> list[Record]:
    op = memory.MEMORY.get(base)
    if op is None or inst.bits(22, 22):
        raise Uncovered(inst.name)
    offset = inst.bits(95, 72)
    offset -= offset >> 23 << 24
    data = inst.bits(39, 32)
    src = [
        Operand(VGPR, inst.bits(71, 64)),
        Operand(SGPR, inst.bits(49, 41)),
        Operand(VGPR, data),
        context.source(inst.bits(6, 0), "u32"),
    ]
    if inst.bits(49, 41) > 120:
        raise Uncovered(f"{inst.name} with a descriptor at s{inst.bits(49, 41)}")
    extra = inst.bits(62, 62) | inst.bits(63, 63) << 1
    return [Record(base, src, dst=data, offset=offset, extra=extra, slot=True)]
