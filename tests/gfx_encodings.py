"""Machine code of every opcode of a family in every encoding, written from the ISA documents' field tables.

The decoder is not used: tests hold it to llvm-objdump on these words.
"""

from dataclasses import dataclass

from hipbook.emulator import isa

V = 256  # source code of v0
LITERAL, DPP16, DPP8 = 255, 250, 233
EXEC = 126
NULL = 124
ENCODINGS = (
    "SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "DS", "SMEM",
    "VFLAT", "VSCRATCH", "VGLOBAL", "VBUFFER",
)  # fmt: skip
_SEGMENT = {"VFLAT": 0, "VSCRATCH": 1, "VGLOBAL": 2}
_EIGHT = {"VFLAT": 0xEC, "VSCRATCH": 0xED, "VGLOBAL": 0xEE}


def _scalar(encoding: str, op: int, full: int) -> int:
    head = {
        "SOP1": 0x17D << 23 | 4 << 16 | op << 8, "SOPC": 0x17E << 23 | op << 16,
        "SOPP": 0x17F << 23 | op << 16, "SOPK": 0xB << 28 | op << 23 | 4 << 16,
        "SOP2": 2 << 30 | op << 23 | 4 << 16,
    }[encoding]  # fmt: skip
    return head | full * {"SOP1": 6, "SOPC": 8 << 8 | 6, "SOPP": 3, "SOPK": 5, "SOP2": 8 << 8 | 6}[encoding]


@dataclass(frozen=True)
class Registers:
    """Register numbers for the fields of a vector instruction. third: a source code (256 + n: vn)."""

    first: int = V + 2
    second: int = 4
    third: int = V + 8
    destination: int = 6
    scalar: int = 10  # of the second result (VOP3SD)


def _vector(encoding: str, op: int, name: str, first: int, full: int) -> int:
    if encoding == "VOP1":
        return 0x3F << 25 | op << 9 | full * 6 << 17 | first
    if encoding == "VOPC":
        return 0x3E << 25 | op << 17 | 4 << 9 | first
    if encoding == "VOP2":
        return op << 25 | 6 << 17 | 4 << 9 | first
    sources = first << 32 | (V + 4) << 41 | (V + 8) << 50 if full else first << 32
    if encoding == "VOP3P":  # registers far apart: a matrix takes eight; opsel_hi all ones
        return 0xCC << 24 | op << 16 | 16 | (first + 30 if first >= V else first) << 32 | (V + 40) << 41 | (
            V + 48) << 50 | 3 << 59 | 1 << 14  # fmt: skip
    destination = EXEC if "CMPX" in name else 6 * full
    return 0b110101 << 26 | op << 16 | destination | sources | (10 << 8 if encoding == "VOP3SD" else 0)


def _memory(encoding: str, op: int, family: str, full: int) -> int:
    if encoding == "DS":
        return 0b110110 << 26 | op << 18 | full * (2 << 32 | 4 << 40 | 6 << 48 | 8 << 56)
    if encoding == "SMEM":
        return 0b111101 << 26 | op << (18 if family == "rdna3" else 13) | NULL << 57 | full * (2 | 8 << 6)
    if family == "rdna3":
        registers = full * (2 << 32 | 4 << 40 | 8 << 56)
        if encoding == "VBUFFER":
            return 0b111000 << 26 | op << 18 | 128 << 56 | full * (2 << 32 | 4 << 40 | 2 << 48)
        scratch = 1 << 55 if encoding == "VSCRATCH" else 0
        return 0b110111 << 26 | op << 18 | _SEGMENT[encoding] << 16 | NULL << 48 | registers | scratch
    if encoding == "VBUFFER":
        return 0b110001 << 26 | op << 14 | NULL | full * (8 << 32 | 8 << 41 | 2 << 64)
    scratch = 1 << 49 if encoding == "VSCRATCH" else 0
    return _EIGHT[encoding] << 24 | op << 14 | NULL | full * (8 << 32 | 4 << 55 | 2 << 64) | scratch


def words(family: str, encoding: str, op: int, name: str, form: str) -> bytes | None:
    """The bytes of one opcode. form: `full` (registers in all fields), `bare` (zeros where nothing is
    needed), `literal`, `dpp16`, `dpp8`. None for a form the encoding has not."""
    full = int(form != "bare")
    first = {"literal": LITERAL, "dpp16": DPP16, "dpp8": DPP8}.get(form, V + 2 if full else V)
    extra = b""
    if form in ("dpp16", "dpp8"):
        if encoding not in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P"):
            return None
        extra = (0xFF << 24 | 0x11 << 8 | 2 if form == "dpp16" else 0xFAC688 << 8 | 2).to_bytes(4, "little")
    if form == "literal":
        if name.startswith(("S_BARRIER", "S_GET_BARRIER")):  # crashes llvm-objdump 22
            return None
        if encoding not in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "SOP1", "SOP2", "SOPC"):
            return None
        extra = (0x12345678).to_bytes(4, "little")
    if encoding.startswith("SOP"):
        word, size = _scalar(encoding, op, full), 4
        if form == "literal":
            word = word & ~0xFF | LITERAL
    elif encoding.startswith("V") and encoding[1] == "O":
        word, size = _vector(encoding, op, name, first, full), 8 if encoding.startswith("VOP3") else 4
    else:
        word = _memory(encoding, op, family, full)
        size = 12 if family == "rdna4" and encoding in (*_SEGMENT, "VBUFFER") else 8
    if form != "literal" and ("FMAAK" in name or "FMAMK" in name or name == "S_SETREG_IMM32_B32"):
        if extra:
            return None
        extra = (0x12345678).to_bytes(4, "little")
    return word.to_bytes(size, "little") + extra


def vector(encoding: str, op: int, registers: Registers, opsel_hi: int = 3, extra: int = 0) -> bytes:
    """A vector ALU instruction with these registers; `extra` bits are added (opsel, neg, clamp)."""
    r = registers
    if encoding == "VOP1":
        word = 0x3F << 25 | op << 9 | r.destination << 17 | r.first
    elif encoding == "VOPC":
        word = 0x3E << 25 | op << 17 | r.second << 9 | r.first
    elif encoding == "VOP2":
        word = op << 25 | r.destination << 17 | r.second << 9 | r.first
    else:
        sources = r.first << 32 | (V + r.second) << 41 | r.third << 50
        head = 0b110101 << 26 | op << 16 if encoding != "VOP3P" else 0xCC << 24 | op << 16
        word = head | r.destination | sources
        if encoding == "VOP3SD":
            word |= r.scalar << 8
        if encoding == "VOP3P":
            word |= opsel_hi << 59 | 1 << 14
    return (word | extra).to_bytes(8 if encoding.startswith("VOP3") else 4, "little")


def scalar(encoding: str, op: int, destination: int, first: int, second: int = 0) -> bytes:
    """A scalar ALU instruction; of SOPK `first` is the immediate."""
    word = {
        "SOP1": 0x17D << 23 | destination << 16 | op << 8 | first,
        "SOP2": 2 << 30 | op << 23 | destination << 16 | second << 8 | first,
        "SOPC": 0x17E << 23 | op << 16 | second << 8 | first,
        "SOPK": 0xB << 28 | op << 23 | destination << 16 | first,
    }[encoding]
    return word.to_bytes(4, "little")


def everything(family: str) -> list[tuple[str, str, str, bytes]]:
    """(encoding, opcode, form, bytes) of all opcodes and forms."""
    return [
        (encoding, name, form, code)
        for encoding in ENCODINGS
        for op, name in isa.opcodes(family)[encoding].items()
        for form in ("full", "bare", "literal", "dpp16", "dpp8")
        if (code := words(family, encoding, op, name, form)) is not None
    ]
