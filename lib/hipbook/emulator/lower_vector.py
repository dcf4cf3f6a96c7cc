"""Lowers vector ALU instructions: VOP1, VOP2, VOPC, VOP3, VOP3P and VOPD, with DPP.

VOPD becomes two records (three when each half reads what the other writes). An instruction with DPP is put
between two helpers: the first permutes its source into a temporary and narrows EXEC, the last restores it.
"""

from hipbook.emulator import isa
from hipbook.emulator.isa import Inst
from hipbook.emulator.operands import (
    ABS,
    CLAMP,
    DPP_TEMP,
    DST_HI,
    EXEC,
    HALF,
    HI,
    HI2,
    NEG,
    NEG2,
    OMOD_SHIFT,
    SGPR,
    VCC,
    VGPR,
    VOPD_TEMP,
    Context,
    Operand,
    Record,
    Uncovered,
)  # fmt: skip
from hipbook.emulator.semantics import Row, native, packed, vector

_MATRIX_C = {"F16": "f16", "BF16": "bf16"}  # of constants in a matrix of halves
ALIASES = {**vector.ALIASES, **packed.ALIASES}


def vector_alu(context: Context, inst: Inst, base: str) -> list[Record]:
    row = vector.VECTOR.get(base) or native.NATIVE.get(base) or packed.PACKED.get(base)
    if row is None:
        raise Uncovered(inst.name)
    clamp = 0
    if inst.encoding in ("VOP3", "VOP3SD"):
        record = _vop3(context, inst, base, row)
        clamp = record.flags & CLAMP
    else:
        record = _vop12c(context, inst, base, row)
    if clamp and row.results[0] in ("u32", "i32", "u16", "i16", "u64", "i64") and base != "V_MOV_B32":
        if base not in vector.CLAMPED:
            raise Uncovered(f"{inst.name} with clamp")
        record.handler = f"{base}_CLAMPED"
    return _with_dpp(context, inst, base, row, record)


def _vop12c(context: Context, inst: Inst, base: str, row: Row) -> Record:
    record, literal = Record(base), inst.literal
    codes = [inst.bits(8, 0), 256 + inst.bits(16, 9)]
    if inst.dpp is not None:
        codes[0] = 256 + (inst.dpp & 0xFF)
    operands = []
    for kind in row.sources:
        if kind.endswith("=") or kind in ("mask", "vcc"):
            continue
        if not codes:
            break
        operands.append(_half_or_whole(context, codes.pop(0), kind, literal))
    if base in ("V_FMAMK_F32", "V_FMAMK_F16"):
        operands = [operands[0], context.immediate(literal or 0), operands[1]]
    elif base in ("V_FMAAK_F32", "V_FMAAK_F16"):
        operands = [*operands[:2], context.immediate(literal or 0)]
    if inst.encoding == "VOPC":
        record.dst = EXEC if row.results == ("exec",) else VCC
    elif row.results and row.results[0] in ("s32", "s64"):
        record.dst = context.scalar_destination(inst.bits(24, 17))
    else:
        record.dst = inst.bits(24, 17)
        if row.results and row.results[0] in HALF:
            record.flags |= DST_HI if record.dst & 0x80 else 0
            record.dst &= 0x7F
    record.dst2 = VCC
    if "mask" in row.sources:
        operands.insert(row.sources.index("mask"), Operand(SGPR, VCC))
    if row.sources and row.sources[-1].endswith("="):
        operands.append(Operand(VGPR, record.dst, HI if record.flags & DST_HI else 0))
        if base in packed.PACKED:
            operands[-1].flags = HI2
    if base in packed.PACKED:  # V_PK_FMAC_F16: both halves, in order
        for operand in operands:
            operand.flags |= HI2
    record.src = operands
    return record


def _half_or_whole(context: Context, code: int, kind: str, literal: int | None) -> Operand:
    """A source of VOP1, VOP2 and VOPC, where 16-bit operands name a half of v0 .. v127 in bit 7."""
    if kind in HALF and code >= 256:
        return Operand(VGPR, (code - 256) & 0x7F, HI if code & 0x80 else 0)
    return _any(context, code, kind, literal)


def _any(context: Context, code: int, kind: str, literal: int | None, flags: int = 0) -> Operand:
    if kind == "v" and code < 256:
        raise Uncovered("a scalar where a VGPR is wanted")
    if kind in ("s32", "s32lane") and code >= 256:
        raise Uncovered("a VGPR where a scalar is wanted")
    return context.source(code, {"any": "u32", "v": "u32", "s32": "u32"}.get(kind, kind), literal, flags)


def _vop3(context: Context, inst: Inst, base: str, row: Row) -> Record:
    record, literal = Record(base), inst.literal
    codes = [inst.bits(40, 32), inst.bits(49, 41), inst.bits(58, 50)]
    negate = inst.bits(63, 61)
    if inst.encoding == "VOP3":
        absolute, opsel = inst.bits(10, 8), inst.bits(14, 11)
    else:
        absolute = opsel = 0
    if inst.dpp is not None:
        codes[0] = 256 + (inst.dpp & 0xFF)
    record.flags = inst.bits(15, 15) * CLAMP | inst.bits(60, 59) << OMOD_SHIFT
    result = row.results[0] if row.results else ""
    vdst = inst.bits(7, 0)
    if result in ("mask", "s32", "sf32", "sf16"):
        record.dst = context.scalar_destination(vdst)
        if result == "mask":
            record.flags &= ~CLAMP
    elif result == "exec":
        record.dst = EXEC
    else:
        record.dst = vdst
        if result in HALF and opsel & 8:
            record.flags |= DST_HI
    if inst.encoding == "VOP3SD":
        record.dst2 = context.scalar_destination(inst.bits(14, 8))
    for n, kind in enumerate(row.sources):
        if kind.endswith("="):
            record.src.append(Operand(VGPR, record.dst, HI if record.flags & DST_HI else 0))
            continue
        if kind == "vcc":
            continue
        if kind == "mask":
            record.src.append(_any(context, codes[n], "s32", literal))
            continue
        flags = (absolute >> n & 1) * ABS | (negate >> n & 1) * NEG
        if kind in HALF or kind.endswith("lane"):
            flags |= (opsel >> n & 1) * HI
        record.src.append(_any(context, codes[n], kind, literal, flags))
    return record


def packed_alu(context: Context, inst: Inst, base: str) -> list[Record]:
    literal = inst.literal
    codes = [inst.bits(40, 32), inst.bits(49, 41), inst.bits(58, 50)]
    neg, neg_hi = inst.bits(63, 61), inst.bits(10, 8)
    opsel, opsel_hi = inst.bits(13, 11), inst.bits(60, 59) | inst.bits(14, 14) << 2
    clamp = inst.bits(15, 15)
    if inst.dpp is not None:
        codes[0] = 256 + (inst.dpp & 0xFF)
    record = Record(base, dst=inst.bits(7, 0), flags=clamp * CLAMP)
    row = packed.PACKED.get(base) or packed.WORDS.get(base) or packed.DOTS.get(base) or packed.MIX.get(base)
    row = row or native.NATIVE.get(base)
    if row is None:
        raise Uncovered(inst.name)
    for n, kind in enumerate(row.sources):
        low, high, negate, negate_high = (x >> n & 1 for x in (opsel, opsel_hi, neg, neg_hi))
        flags = low * HI | high * HI2 | negate * NEG | negate_high * NEG2
        if base in packed.MIX:
            flags = low * HI | high * HI2 | negate * NEG | negate_high * ABS
            kind = "h16" if high else "f32"
        elif base in packed.WORDS:
            flags = negate * NEG
        elif base in packed.DOTS and n == 2:
            flags = negate * NEG | negate_high * ABS
        elif base in native.NATIVE:
            if kind == "c":
                flags = negate * NEG | negate_high * ABS | low * HI
            elif codes[n] < 256:
                raise Uncovered(f"{inst.name} on scalars")
            elif kind == "ab" and flags & (NEG | NEG2):
                raise Uncovered(f"{inst.name} with a negated matrix")
            kind = _MATRIX_C.get(base.split("_")[2], "f32")
        record.src.append(context.source(codes[n], kind, literal, flags))
    if base in packed.MIX:
        record.flags |= DST_HI if row.results[0] == "f16hi" else 0
    elif base in native.NATIVE:
        if clamp and "_I32_" not in base:
            raise Uncovered(f"{inst.name} with clamp")
        record.handler = f"{base}_RDNA3" if context.family == "rdna3" else base
    elif clamp and row.results[0] != "f32" and row.results[0] != "f16":
        if base not in packed.PACKED_CLAMPED and base not in packed.WORDS_CLAMPED:
            raise Uncovered(f"{inst.name} with clamp")
        record.handler = f"{base}_CLAMPED"
        record.flags = 0
    return _with_dpp(context, inst, base, row, record)


def _with_dpp(context: Context, inst: Inst, base: str, row: Row, record: Record) -> list[Record]:
    if inst.dpp is None:
        return [record]
    if row.results and row.results[0] == "exec":
        raise Uncovered(f"{inst.name} with DPP")
    if base in native.NATIVE or row.sources[0].endswith("64"):
        raise Uncovered(f"{inst.name} with DPP")
    source = record.src[0]
    word = inst.dpp
    if inst.dpp_kind == isa.DPP16:
        control = word >> 8 & 0x1FF
        extra = control | (word >> 28) << 16 | (word >> 24 & 15) << 20 | (word >> 19 & 1) << 24
        extra |= (word >> 18 & 1) << 25
        begin = Record("DPP16", [Operand(VGPR, source.index)], dst=DPP_TEMP, extra=extra)
        if inst.encoding in ("VOP1", "VOP2", "VOPC"):
            record.src[0].flags |= (word >> 20 & 1) * NEG | (word >> 21 & 1) * ABS
            if len(record.src) > 1:
                record.src[1].flags |= (word >> 22 & 1) * NEG | (word >> 23 & 1) * ABS
    else:
        extra = word >> 8 | (inst.dpp_kind == isa.DPP8_FI) << 24
        begin = Record("DPP8", [Operand(VGPR, source.index)], dst=DPP_TEMP, extra=extra)
    record.src[0] = Operand(VGPR, DPP_TEMP, record.src[0].flags)
    return [begin, record, Record("DPP_END")]


def vopd(context: Context, inst: Inst) -> list[Record]:
    split = inst.name.index("_V_DUAL_")
    names = (inst.name[:split], inst.name[split + 1 :])
    x_dst = inst.bits(63, 56)
    y_dst = inst.bits(55, 49) << 1 | (x_dst & 1 ^ 1)
    halves = []
    for name, code, second, dst in (
        (names[0], inst.bits(8, 0), inst.bits(16, 9), x_dst),
        (names[1], inst.bits(40, 32), inst.bits(48, 41), y_dst),
    ):
        base = name.replace("V_DUAL_", "V_")
        if not (context.ieee and base in vector.IEEE):
            base = ALIASES.get(base, base)
        row = vector.VECTOR.get(base)
        if row is None:
            raise Uncovered(inst.name)
        first = context.source(code, row.sources[0], inst.literal)
        other = Operand(VGPR, second)
        constant = context.immediate(inst.literal or 0)
        if "FMAMK" in base:
            src = [first, constant, other]
        elif "FMAAK" in base:
            src = [first, other, constant]
        elif len(row.sources) == 1:
            src = [first]
        else:
            src = [first, other]
        if row.sources[-1].endswith("="):
            src.append(Operand(VGPR, dst))
        if "mask" in row.sources:
            src.append(Operand(SGPR, VCC))
        halves.append(Record(base, src, dst=dst))
    x, y = halves
    if not _reads(y, x.dst):
        return [x, y]
    if not _reads(x, y.dst):
        return [y, x]
    keep = Record("COPY", [Operand(VGPR, x.dst)], dst=VOPD_TEMP)
    y.src = [Operand(VGPR, VOPD_TEMP, o.flags) if o.kind == VGPR and o.index == x.dst else o for o in y.src]
    return [keep, x, y]


def _reads(record: Record, vgpr: int) -> bool:
    return any(o.kind == VGPR and o.index == vgpr for o in record.src)
