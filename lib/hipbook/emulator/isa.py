"""Finds encoding, opcode and length of a machine instruction.

Opcode numbers and names come from tinygrad's tables of AMD's ISA documents; field positions are here, since
its decoder is wrong in known places (DPP8 lengths, compares with DPP, buffer instructions) and slow.
A test compares every instruction of every code object with llvm-objdump.
"""

import importlib
from dataclasses import dataclass
from functools import cache

# architecture -> the tables' name
FAMILIES = {"gfx1200": "rdna4", "gfx1201": "rdna4", "gfx1100": "rdna3", "gfx1151": "rdna3"}

LITERAL, DPP16, DPP8, DPP8_FI = 255, 250, 233, 234


@dataclass(frozen=True, slots=True)
class Inst:
    """One decoded instruction. `raw` holds all its bits, literal included; `at` is its offset in the text."""

    at: int
    size: int  # bytes
    encoding: str  # SOP1, VOP3, ...
    name: str  # as in the tables: V_ADD_F32_E32, V_DUAL_MOV_B32_V_DUAL_ADD_F32
    raw: int
    literal: int | None = None
    dpp: int | None = None  # the DPP word; `dpp_kind` is the source code that asked for it
    dpp_kind: int = 0
    family: str = "rdna4"

    def bits(self, high: int, low: int) -> int:
        return (self.raw >> low) & ((1 << (high - low + 1)) - 1)

    @property
    def base(self) -> str:
        return base_name(self.name)


class Undecodable(ValueError):
    """The bytes are no instruction of this family; the message says why."""


def base_name(name: str) -> str:
    """`name` without its encoding's suffix: what the semantics tables call it."""
    return name[:-4] if name.endswith(("_E32", "_E64")) else name


_SHARED = ("SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMEM", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P",
           "VOPD", "DS", "VINTERP")  # fmt: skip
# our name of a memory encoding: the tables' name of it in each family
_OWN = {
    "rdna3": {"VFLAT": "FLAT", "VGLOBAL": "GLOBAL", "VSCRATCH": "SCRATCH", "VBUFFER": "MUBUF",
              "VTBUFFER": "MTBUF", "VIMAGE": "MIMG", "VDSDIR": "LDSDIR", "VEXPORT": "EXP"},
    "rdna4": {"VFLAT": "VFLAT", "VGLOBAL": "VGLOBAL", "VSCRATCH": "VSCRATCH", "VBUFFER": "VBUFFER",
              "VIMAGE": "VIMAGE", "VSAMPLE": "VSAMPLE", "VDSDIR": "VDSDIR", "VEXPORT": "VEXPORT"},
}  # fmt: skip


@cache
def opcodes(family: str) -> dict[str, dict[int, str]]:
    """{encoding: {opcode number: name}} of `family`, from the tables."""
    tables = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.enum")
    named = dict.fromkeys(_SHARED) | _OWN[family]
    return {
        encoding: {int(op.value): op.name for op in getattr(tables, f"{theirs or encoding}Op")}
        for encoding, theirs in named.items()
    }


def _encoding(word: int, family: str) -> tuple[str, int, int]:
    """(encoding, opcode, bytes without literal) of the instruction that starts with `word`."""
    if word >> 31 == 0:
        top = word >> 25
        if top == 0x3F:
            return "VOP1", (word >> 9) & 0xFF, 4
        if top == 0x3E:
            return "VOPC", (word >> 17) & 0xFF, 4
        return "VOP2", top, 4
    if word >> 30 == 2:
        top = word >> 23
        if top == 0x17D:
            return "SOP1", (word >> 8) & 0xFF, 4
        if top == 0x17E:
            return "SOPC", (word >> 16) & 0x7F, 4
        if top == 0x17F:
            return "SOPP", (word >> 16) & 0x7F, 4
        if word >> 28 == 0xB:
            return "SOPK", (word >> 23) & 0x1F, 4
        return "SOP2", (word >> 23) & 0x7F, 4
    six, eight = word >> 26, word >> 24
    if six == 0b110101:
        return "VOP3", (word >> 16) & 0x3FF, 8
    if eight == 0b11001100:
        return "VOP3P", (word >> 16) & 0x7F, 8
    if eight == 0b11001101:
        return "VINTERP", (word >> 16) & 0x1F, 8
    if eight == 0b11001110:
        return "VDSDIR", (word >> 20) & 3, 4
    if six == 0b110010:
        return "VOPD", 0, 8
    if six == 0b110110:
        return "DS", (word >> 18) & 0xFF, 8
    if six == 0b111110:
        return "VEXPORT", 0, 8
    found = _memory_rdna3(word) if family == "rdna3" else _memory_rdna4(word)
    if found is None:
        raise Undecodable(f"{word:#010x} starts no {family} encoding that is decoded")
    return found


def _memory_rdna3(word: int) -> tuple[str, int, int] | None:
    six = word >> 26
    if six == 0b111101:
        return "SMEM", (word >> 18) & 0xFF, 8
    if six == 0b110111:
        segment = ("VFLAT", "VSCRATCH", "VGLOBAL", None)[(word >> 16) & 3]
        return segment and (segment, (word >> 18) & 0x7F, 8)
    if six == 0b111000:
        return "VBUFFER", (word >> 18) & 0xFF, 8
    if six == 0b111010:
        return "VTBUFFER", (word >> 15) & 0xF, 8
    if six == 0b111100:
        return "VIMAGE", (word >> 18) & 0xFF, 12 if word & 1 else 8  # bit 0: addresses in a third word
    return None


def _memory_rdna4(word: int) -> tuple[str, int, int] | None:
    six, eight = word >> 26, word >> 24
    if six == 0b111101:
        return "SMEM", (word >> 13) & 0x3F, 8
    three_words = {0b11101100: "VFLAT", 0b11101101: "VSCRATCH", 0b11101110: "VGLOBAL"}.get(eight)
    three_words = three_words or {0b110001: "VBUFFER", 0b110100: "VIMAGE", 0b111001: "VSAMPLE"}.get(six)
    return three_words and (three_words, (word >> 14) & 0xFF, 12)


_NO_SOURCE = ("S_GETPC", "S_SENDMSG_RTN")  # SOP1 whose source field is no operand


def _needs_literal(encoding: str, name: str, raw: int) -> bool:
    if encoding in ("SOP1", "SOP2", "SOPC"):
        if name.startswith(("S_FMAAK", "S_FMAMK")):
            return True
        if name.startswith(_NO_SOURCE):
            return False
        return raw & 0xFF == LITERAL or (encoding != "SOP1" and (raw >> 8) & 0xFF == LITERAL)
    if encoding == "SOPK":
        return name == "S_SETREG_IMM32_B32"
    if encoding in ("VOP1", "VOP2", "VOPC"):
        return raw & 0x1FF == LITERAL or "FMAAK" in name or "FMAMK" in name
    if encoding in ("VOP3", "VOP3P"):
        return LITERAL in ((raw >> 32) & 0x1FF, (raw >> 41) & 0x1FF, (raw >> 50) & 0x1FF)
    if encoding == "VOPD":
        return LITERAL in (raw & 0x1FF, (raw >> 32) & 0x1FF) or "FMAAK" in name or "FMAMK" in name
    return False


def _dpp_kind(encoding: str, raw: int) -> int:
    if encoding in ("VOP1", "VOP2", "VOPC"):
        code = raw & 0x1FF
    elif encoding in ("VOP3", "VOP3P"):
        code = (raw >> 32) & 0x1FF
    else:
        return 0
    return code if code in (DPP16, DPP8, DPP8_FI) else 0


def decode(text: bytes, at: int, family: str) -> Inst:
    """The instruction at byte `at` of `text`. Raises `Undecodable`."""
    if at + 4 > len(text):
        raise Undecodable("the code ends inside an instruction")
    encoding, op, size = _encoding(int.from_bytes(text[at : at + 4], "little"), family)
    raw = int.from_bytes(text[at : at + size], "little")
    known_opcodes = opcodes(family)
    if encoding == "VOPD":
        x, y = (raw >> 22) & 0xF, (raw >> 17) & 0x1F
        known = known_opcodes["VOPD"]
        if x not in known or y not in known:
            raise Undecodable(f"unknown VOPD opcodes {x}, {y}")
        name = f"{known[x]}_{known[y]}"
    else:
        if encoding == "VOP3" and op in known_opcodes["VOP3SD"]:
            encoding = "VOP3SD"
        if op not in known_opcodes[encoding]:
            raise Undecodable(f"unknown {encoding} opcode {op}")
        name = known_opcodes[encoding][op]
    literal = dpp = None
    words = "VOP3" if encoding == "VOP3SD" else encoding
    kind = _dpp_kind(words, raw)
    if kind or _needs_literal(words, name, raw):
        extra = int.from_bytes(text[at + size : at + size + 4], "little")
        raw |= extra << (8 * size)
        size += 4
        if kind:
            dpp = extra
        else:
            literal = extra
    if at + size > len(text):
        raise Undecodable("the code ends inside an instruction")
    return Inst(at, size, encoding, name, raw, literal, dpp, kind, family)
