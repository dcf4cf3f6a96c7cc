"""Operands and records: what the decoder hands to the runtime (runtime/wave.h: Operand, Rec).

Constants become vectors in a pool, so that the runtime reads them like a register.
"""

import struct
from dataclasses import dataclass, field

from hipbook.emulator import isa

NONE, VGPR, SGPR, CONSTANT = range(4)
ABS, NEG, HI, HI2, NEG2 = 1, 2, 4, 8, 16
CLAMP, OMOD_SHIFT, DST_HI, RETURN, NO_SADDR, NO_VADDR = 1, 1, 8, 16, 32, 64
COHERENT, SRC_HI = 128, 256
VCC, NULL, M0, EXEC, SCC, TRASH = 106, 124, 125, 126, 253, 254
TEMP = 256  # first temporary VGPR; the LDS two-address loads use TEMP .. TEMP + 3
VOPD_TEMP, DPP_TEMP = TEMP + 4, TEMP + 5
SHARED_BASE, PRIVATE_BASE = 0x0001_0000_0000_0000, 0x0002_0000_0000_0000  # apertures of flat addresses

HALF = ("u16", "i16", "f16")
_IEEE_MODE = 23  # bit of rsrc1
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}


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
        if kind in (*HALF, "h16"):
            return (0x3118 if value is None else struct.unpack("<H", struct.pack("<e", value))[0],)
        bits = 0x3E22F983 if value is None else struct.unpack("<I", struct.pack("<f", value))[0]
        return (bits >> 16,) if kind == "bf16" else (bits,)
    if code == isa.LITERAL and literal is not None:
        if kind == "f64":
            return (0, literal)
        return (literal, -(literal >> 31) if kind == "i64" else 0) if wide else (literal,)
    raise Uncovered(f"source operand {code}")


class Context:
    """What lowering the instructions of one kernel shares: the pool, and where the code lies."""

    def __init__(self, code_va: int, family: str, rsrc1: int = 0) -> None:
        self.pool = Pool()
        self.code_va = code_va  # device address of the first byte of the text
        self.family = family
        self.ieee = family == "rdna3" and bool(rsrc1 >> _IEEE_MODE & 1)  # RDNA4 has no such mode

    def source(self, code: int, kind: str, literal: int | None = None, flags: int = 0) -> Operand:
        """The operand of a 9-bit source code."""
        if code >= 256:
            return Operand(VGPR, code - 256, flags)
        if code <= 127 or code == SCC:
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
