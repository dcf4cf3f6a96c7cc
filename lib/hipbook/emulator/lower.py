"""Turns decoded instructions into the records the runtime executes.

Most instructions become one record. VOPD becomes two (three when each half reads what the other writes), an
instruction with DPP is put between two helpers that permute its source and narrow EXEC. Constants become
vectors in a pool. What cannot be run is an `Uncovered`, found before anything executes.
"""

import struct
from dataclasses import dataclass, field

from hipbook.emulator import isa
from hipbook.emulator.isa import Inst
from hipbook.emulator.semantics import Row, memory, native, packed, scalar, vector

NONE, VGPR, SGPR, CONSTANT = range(4)
ABS, NEG, HI, HI2, NEG2 = 1, 2, 4, 8, 16
CLAMP, OMOD_SHIFT, DST_HI, RETURN, NO_SADDR, NO_VADDR = 1, 1, 8, 16, 32, 64
VCC, NULL, M0, EXEC, TRASH = 106, 124, 125, 126, 254
TEMP = 256  # first temporary VGPR; the LDS two-address loads use TEMP .. TEMP + 3
VOPD_TEMP, DPP_TEMP = TEMP + 4, TEMP + 5

_HALF = ("u16", "i16", "f16")
_ALIASES = {**scalar.ALIASES, **vector.ALIASES, **packed.ALIASES}
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
SHARED_BASE, PRIVATE_BASE = 0x0001_0000_0000_0000, 0x0002_0000_0000_0000


class Uncovered(ValueError):
    """An instruction that is not emulated; the message says what about it."""


@dataclass(slots=True)
class Operand:
    kind: int = NONE
    index: int = 0
    flags: int = 0


@dataclass(slots=True)
class Record:
    """One record before it is packed (runtime/wave.h: Rec). `target` is a code offset until linked."""

    handler: str
    src: list[Operand] = field(default_factory=list)
    dst: int = 0
    dst2: int = 0
    flags: int = 0
    target: int | None = None
    offset: int = 0
    extra: int = 0
    slot: bool = False


class Pool:
    """Constants, one 32-bit value a vector; 64-bit constants take two neighbours."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._seen: dict[tuple[int, ...], int] = {}

    def add(self, *words: int) -> int:
        key = tuple(word & 0xFFFFFFFF for word in words)
        if key not in self._seen:
            self._seen[key] = len(self.values)
            self.values.extend(key)
            if len(self.values) > 0xFFFF:
                raise Uncovered("more than 65,535 constants in one kernel")
        return self._seen[key]


def constant_words(code: int, literal: int | None, kind: str) -> tuple[int, ...]:
    """The words a constant source operand stands for, in an operand of type `kind`."""
    wide = kind.endswith("64")
    if 128 <= code <= 208:
        value = code - 128 if code <= 192 else 192 - code
        return (value, value >> 32) if wide else (value,)
    if code in _FLOATS or code == 248:
        value = _FLOATS.get(code)
        if wide:
            bits = 0x3FC45F306DC9C882 if value is None else struct.unpack("<Q", struct.pack("<d", value))[0]
            return (bits, bits >> 32)
        if kind in (*_HALF, "h16"):
            return (0x3118 if value is None else struct.unpack("<H", struct.pack("<e", value))[0],)
        bits = 0x3E22F983 if value is None else struct.unpack("<I", struct.pack("<f", value))[0]
        return (bits >> 16,) if kind == "bf16" else (bits,)
    if code == isa.LITERAL and literal is not None:
        if kind == "f64":
            return (0, literal)
        return (literal, -(literal >> 31) if kind == "i64" else 0) if wide else (literal,)
    raise Uncovered(f"source operand {code}")


class Lowering:
    """Lowers the instructions of one kernel. `code_va`: device address of the first byte of the text."""

    def __init__(self, code_va: int, family: str) -> None:
        self.pool = Pool()
        self.code_va = code_va
        self.family = family

    # ---- operands ----

    def source(self, code: int, kind: str, literal: int | None = None, flags: int = 0) -> Operand:
        """The operand of a 9-bit source code."""
        if code >= 256:
            return Operand(VGPR, code - 256, flags)
        if code <= 127 or code == 253:
            return Operand(SGPR, code, flags)
        if code in (235, 236, 237, 238):  # apertures: base and limit of LDS and scratch, upper halves
            base = SHARED_BASE if code <= 236 else PRIVATE_BASE
            value = base if code in (235, 237) else base | 0xFFFFFFFF
            words = (value, value >> 32) if kind.endswith("64") else (value >> 32,)
            return Operand(CONSTANT, self.pool.add(*words), flags)
        return Operand(CONSTANT, self.pool.add(*constant_words(code, literal, kind)), flags)

    def immediate(self, value: int) -> Operand:
        return Operand(CONSTANT, self.pool.add(value))

    @staticmethod
    def scalar_destination(code: int) -> int:
        return TRASH if code == NULL else code

    # ---- every encoding ----

    def lower(self, inst: Inst) -> list[Record]:
        """The records of `inst`. Raises `Uncovered`."""
        encoding = inst.encoding
        base = _ALIASES.get(inst.base, inst.base)
        if base in native.NOPS and not inst.dpp:
            return [Record("NOP")]
        if encoding == "SOPP":
            return self._sopp(inst, base)
        if encoding in ("SOP1", "SOP2", "SOPC", "SOPK"):
            return self._scalar(inst, base)
        if encoding == "VOPD":
            return self._vopd(inst)
        if encoding in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD"):
            return self._vector(inst, base)
        if encoding == "VOP3P":
            return self._packed(inst, base)
        if encoding == "DS":
            return self._lds(inst, base)
        if encoding == "SMEM":
            return self._smem(inst, base)
        if encoding in ("VGLOBAL", "VFLAT", "VSCRATCH"):
            return self._vmem(inst, base)
        if encoding == "VBUFFER":
            return self._buffer(inst, base)
        raise Uncovered(f"{encoding} instructions")

    def _sopp(self, inst: Inst, base: str) -> list[Record]:
        simm = inst.bits(15, 0)
        signed = simm - (simm >> 15 << 16)
        if base in native.BRANCHES:
            return [Record(base, target=inst.at + 4 + 4 * signed)]
        if base in ("S_ENDPGM", "S_ENDPGM_SAVED"):
            return [Record("S_ENDPGM")]
        if base == "S_BARRIER_WAIT":
            if simm != 0xFFFF:
                raise Uncovered("a named barrier")
            return [Record("S_BARRIER_WAIT")]
        if base == "S_BARRIER":
            return [Record("S_BARRIER")]
        if base in ("S_TRAP", "S_SETHALT", "S_SENDMSGHALT"):
            return [Record("S_TRAP", offset=simm)]
        if base == "S_SENDMSG" and simm & 0xFF == 3:  # releases VGPRs early
            return [Record("NOP")]
        if base == "S_ROUND_MODE" and simm & 0xF == 0 or base == "S_DENORM_MODE" and simm & 0xF == 0xF:
            return [Record("NOP")]
        raise Uncovered(f"{inst.name} {simm:#x}")

    def _scalar(self, inst: Inst, base: str) -> list[Record]:
        encoding, literal = inst.encoding, inst.literal
        sdst = self.scalar_destination(inst.bits(22, 16))
        simm = inst.bits(15, 0)
        signed = simm - (simm >> 15 << 16)
        if base in ("S_BARRIER_SIGNAL", "S_BARRIER_SIGNAL_ISFIRST"):
            if inst.bits(7, 0) != 193:  # -1, the workgroup's
                raise Uncovered("a named barrier")
            return [Record(base)]
        if base == "S_SLEEP_VAR":
            return [Record("NOP")]
        if base == "S_CALL_B64":
            return [Record(base, dst=sdst, target=inst.at + 4 + 4 * signed, extra=self.code_va + inst.at + 4)]
        if base in ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64"):
            src = [] if base == "S_GETPC_B64" else [self.source(inst.bits(7, 0), "u64", literal)]
            return [Record(base, src, dst=sdst, extra=self.code_va + inst.at + 4)]
        row = scalar.SCALAR.get(base)
        if row is None:
            raise Uncovered(inst.name)
        if encoding == "SOPK":
            codes: list[Operand] = [self.immediate(signed)]
        elif base == "S_FMAMK_F32":
            codes = [
                self.source(inst.bits(7, 0), "f32", literal),
                self.immediate(literal or 0),
                self.source(inst.bits(15, 8), "f32", literal),
            ]
        else:
            fields = [inst.bits(7, 0), inst.bits(15, 8)][: sum(not s.endswith("=") for s in row.sources)]
            codes = [self.source(c, k, literal) for c, k in zip(fields, row.sources, strict=False)]
            if base == "S_FMAAK_F32":
                codes.append(self.immediate(literal or 0))
        if row.sources and row.sources[-1].endswith("="):
            codes.append(Operand(SGPR, inst.bits(22, 16)))
        return [Record(base, codes, dst=sdst)]

    # ---- vector ALU ----

    def _vector(self, inst: Inst, base: str) -> list[Record]:
        row = vector.VECTOR.get(base) or native.NATIVE.get(base) or packed.PACKED.get(base)
        if row is None:
            raise Uncovered(inst.name)
        clamp = 0
        if inst.encoding in ("VOP3", "VOP3SD"):
            record = self._vop3(inst, base, row)
            clamp = record.flags & CLAMP
        else:
            record = self._vop12c(inst, base, row)
        if clamp and row.results[0] in ("u32", "i32", "u16", "i16", "u64", "i64") and base != "V_MOV_B32":
            if base not in vector.CLAMPED:
                raise Uncovered(f"{inst.name} with clamp")
            record.handler = f"{base}_CLAMPED"
        return self._with_dpp(inst, base, row, record)

    def _vop12c(self, inst: Inst, base: str, row: Row) -> Record:
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
            operands.append(self._half_or_whole(codes.pop(0), kind, literal))
        if base in ("V_FMAMK_F32", "V_FMAMK_F16"):
            operands = [operands[0], self.immediate(literal or 0), operands[1]]
        elif base in ("V_FMAAK_F32", "V_FMAAK_F16"):
            operands = [*operands[:2], self.immediate(literal or 0)]
        if inst.encoding == "VOPC":
            record.dst = EXEC if row.results == ("exec",) else VCC
        elif row.results and row.results[0] in ("s32", "s64"):
            record.dst = self.scalar_destination(inst.bits(24, 17))
        else:
            record.dst = inst.bits(24, 17)
            if row.results and row.results[0] in _HALF:
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

    def _half_or_whole(self, code: int, kind: str, literal: int | None) -> Operand:
        """A source of VOP1, VOP2 and VOPC, where 16-bit operands name a half of v0 .. v127 in bit 7."""
        if kind in _HALF and code >= 256:
            return Operand(VGPR, (code - 256) & 0x7F, HI if code & 0x80 else 0)
        return self._any(code, kind, literal)

    def _any(self, code: int, kind: str, literal: int | None, flags: int = 0) -> Operand:
        if kind == "v" and code < 256:
            raise Uncovered("a scalar where a VGPR is wanted")
        if kind in ("s32", "s32lane") and code >= 256:
            raise Uncovered("a VGPR where a scalar is wanted")
        return self.source(code, {"any": "u32", "v": "u32", "s32": "u32"}.get(kind, kind), literal, flags)

    def _vop3(self, inst: Inst, base: str, row: Row) -> Record:
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
            record.dst = self.scalar_destination(vdst)
            if result == "mask":
                record.flags &= ~CLAMP
        elif result == "exec":
            record.dst = EXEC
        else:
            record.dst = vdst
            if result in _HALF and opsel & 8:
                record.flags |= DST_HI
        if inst.encoding == "VOP3SD":
            record.dst2 = self.scalar_destination(inst.bits(14, 8))
        for n, kind in enumerate(row.sources):
            if kind.endswith("="):
                record.src.append(Operand(VGPR, record.dst, HI if record.flags & DST_HI else 0))
                continue
            if kind == "vcc":
                continue
            if kind == "mask":
                record.src.append(self.source(codes[n], "u32", literal))
                continue
            flags = (absolute >> n & 1) * ABS | (negate >> n & 1) * NEG
            if kind in _HALF or kind.endswith("lane"):
                flags |= (opsel >> n & 1) * HI
            record.src.append(self._any(codes[n], kind, literal, flags))
        return record

    def _packed(self, inst: Inst, base: str) -> list[Record]:
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
                if kind == "v4" and (flags & (NEG | NEG2)):
                    raise Uncovered(f"{inst.name} with a negated matrix")
                flags = negate * NEG | negate_high * ABS if kind == "c8" else 0
                if kind == "v4" and codes[n] < 256:
                    raise Uncovered(f"{inst.name} on scalars")
                kind = "f32"
            record.src.append(self.source(codes[n], kind, literal, flags))
        if base in packed.MIX:
            record.flags |= DST_HI if row.results[0] == "f16hi" else 0
        elif clamp and row.results[0] != "f32" and row.results[0] != "f16":
            if base not in packed.PACKED_CLAMPED and base not in packed.WORDS_CLAMPED:
                raise Uncovered(f"{inst.name} with clamp")
            record.handler = f"{base}_CLAMPED"
            record.flags = 0
        return self._with_dpp(inst, base, row, record)

    def _with_dpp(self, inst: Inst, base: str, row: Row, record: Record) -> list[Record]:
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

    def _vopd(self, inst: Inst) -> list[Record]:
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
            base = _ALIASES.get(base, base)
            row = vector.VECTOR.get(base)
            if row is None:
                raise Uncovered(inst.name)
            first = self.source(code, row.sources[0], inst.literal)
            other = Operand(VGPR, second)
            constant = self.immediate(inst.literal or 0)
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

    # ---- memory ----

    def _lds(self, inst: Inst, base: str) -> list[Record]:
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

    def _smem(self, inst: Inst, base: str) -> list[Record]:
        if base not in memory.MEMORY:
            raise Uncovered(inst.name)
        soffset = inst.bits(63, 57)
        offset = inst.bits(55, 32)
        offset -= offset >> 23 << 24
        src = [Operand(SGPR, inst.bits(5, 0) * 2), Operand(SGPR, soffset)]
        return [Record(base, src, dst=self.scalar_destination(inst.bits(12, 6)), offset=offset, slot=True)]

    def _vmem(self, inst: Inst, base: str) -> list[Record]:
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

    def _buffer(self, inst: Inst, base: str) -> list[Record]:
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
            self.source(inst.bits(6, 0), "u32"),
        ]
        extra = inst.bits(62, 62) | inst.bits(63, 63) << 1
        return [Record(base, src, dst=data, offset=offset, extra=extra, slot=True)]


def _reads(record: Record, vgpr: int) -> bool:
    return any(o.kind == VGPR and o.index == vgpr for o in record.src)
