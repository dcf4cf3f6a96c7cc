"""A readable line for one instruction, for fault messages. Not an assembler's syntax."""

from hipbook.emulator import fields
from hipbook.emulator.isa import Inst

_NAMES = {106: "vcc_lo", 107: "vcc_hi", 124: "null", 125: "m0", 126: "exec_lo", 127: "exec_hi", 253: "scc"}
_FLOATS = {240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0"}


def _code(code: int, literal: int | None) -> str:
    if code >= 256:
        return f"v{code - 256}"
    if code in _NAMES:
        return _NAMES[code]
    if 108 <= code < 124:
        return f"ttmp{code - 108}"
    if code < 106:
        return f"s{code}"
    if 128 <= code <= 192:
        return str(code - 128)
    if 193 <= code <= 208:
        return str(192 - code)
    return _FLOATS.get(code) or (hex(literal) if literal is not None else f"src{code}")


def render(inst: Inst) -> str:
    """`mnemonic operands`, registers by their first number."""
    name, literal = inst.name.lower(), inst.literal
    e = inst.encoding
    if e == "SOPP":
        return f"{name} {inst.bits(15, 0):#x}"
    if e in ("SOP1", "SOP2", "SOPC", "SOPK"):
        parts = [] if e == "SOPC" else [_code(inst.bits(22, 16), None)]
        if e == "SOPK":
            parts.append(hex(inst.bits(15, 0)))
        else:
            parts.append(_code(inst.bits(7, 0), literal))
            if e != "SOP1":
                parts.append(_code(inst.bits(15, 8), literal))
    elif e in ("VOP1", "VOP2", "VOPC"):
        parts = [] if e == "VOPC" else [f"v{inst.bits(24, 17)}"]
        parts.append(_code(inst.bits(8, 0), literal))
        if e != "VOP1":
            parts.append(f"v{inst.bits(16, 9)}")
    elif e in ("VOP3", "VOP3SD", "VOP3P"):
        compares = name.startswith("v_cmp")
        parts = [_code(inst.bits(7, 0), None) if compares else f"v{inst.bits(7, 0)}"]
        if e == "VOP3SD":
            parts.append(_code(inst.bits(14, 8), None))
        parts += [_code(inst.bits(h, h - 8), literal) for h in (40, 49, 58)]
    elif e == "DS":
        parts = [
            f"v{inst.bits(63, 56)}",
            f"v{inst.bits(39, 32)}",
            f"v{inst.bits(47, 40)}",
            f"offset:{inst.bits(15, 0)}",
        ]
    elif e == "SMEM":
        at = fields.scalar(inst)
        parts = [f"s{at.data}", f"s{at.base}", hex(at.offset)]
    elif e in ("VGLOBAL", "VFLAT", "VSCRATCH"):
        at = fields.vector(inst)
        data = at.data if "store" in name or "atomic" in name else at.vdst
        parts = [f"v{data}", f"v{at.address}", _code(at.base, None), f"offset:{at.offset}"]
    elif e == "VBUFFER":
        at = fields.buffer(inst)
        parts = [
            f"v{at.vdst}",
            f"v{at.address}",
            f"s{at.base}",
            _code(at.soffset, None),
            f"offset:{at.offset}",
        ]
    else:
        parts = []
    return f"{name} {', '.join(parts)}".rstrip()
