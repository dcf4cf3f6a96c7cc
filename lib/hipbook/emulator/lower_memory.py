"""Lowers memory instructions: scalar, LDS, global, flat, scratch and buffer."""

from hipbook.emulator import fields
from hipbook.emulator.isa import Inst
from hipbook.emulator.operands import (
    COHERENT,
    NO_SADDR,
    NO_VADDR,
    NULL,
    RETURN,
    SGPR,
    SRC_HI,
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
    at = fields.scalar(inst)
    src = [Operand(SGPR, at.base), Operand(SGPR, at.soffset)]
    return [Record(base, src, dst=context.scalar_destination(at.data), offset=at.offset, slot=True)]


def is_device_fence(inst: Inst) -> bool:
    """Whether `inst` makes other workgroups' stores visible (it drops cached lines up to device scope)."""
    if inst.base == "GLOBAL_INV":
        return fields.vector(inst).coherent
    return inst.base == "BUFFER_GL1_INV"


def _flags(op: memory.MemoryOp, at: fields.Vector) -> int:
    if op.kind == "atomic":
        return RETURN if at.returns else 0
    upper = op.kind == "store" and "D16_HI" in op.name
    return (COHERENT if at.coherent else 0) | (SRC_HI if upper else 0)


def vmem(context: Context, inst: Inst, base: str) -> list[Record]:
    op = memory.MEMORY.get(base)
    if op is None:
        raise Uncovered(inst.name)
    at = fields.vector(inst)
    flags = NO_SADDR if at.base == NULL else 0
    flags |= 0 if at.has_vaddr else NO_VADDR
    flags |= _flags(op, at)
    src = [Operand(VGPR, at.address), Operand(SGPR, at.base), Operand(VGPR, at.data)]
    return [Record(base, src, dst=at.vdst, flags=flags, offset=at.offset, slot=True)]


def buffer(context: Context, inst: Inst, base: str) -> list[Record]:
    op = memory.MEMORY.get(base)
    at = fields.buffer(inst)
    if op is None or at.tfe:
        raise Uncovered(inst.name)
    if at.base > 120:
        raise Uncovered(f"{inst.name} with a descriptor at s{at.base}")
    src = [
        Operand(VGPR, at.address),
        Operand(SGPR, at.base),
        Operand(VGPR, at.data),
        context.source(at.soffset, "u32"),
    ]
    extra = at.offen | at.idxen << 1
    return [Record(base, src, dst=at.vdst, flags=_flags(op, at), offset=at.offset, extra=extra, slot=True)]
