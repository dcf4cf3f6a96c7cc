"""Where the fields of memory instructions are: they differ between RDNA3 and RDNA4, all else is shared."""

from dataclasses import dataclass

from hipbook.emulator.isa import Inst

DEVICE_SCOPE = 2  # RDNA4's scopes: compute unit, shader engine, device, system
_ATOMIC_RETURN = 1  # RDNA4: the lowest bit of the temporal hint


@dataclass(frozen=True, slots=True)
class Vector:
    """Fields of a flat, global, scratch or buffer instruction. `data` is stored (or atomic operand), `vdst`
    loaded; registers by number. `base` is saddr, for a buffer the first SGPR of its descriptor."""

    address: int
    data: int
    vdst: int
    base: int
    offset: int
    returns: bool  # of an atomic: the old value
    coherent: bool = False  # device scope or wider: other workgroups' stores are seen (RDNA3: of loads only)
    has_vaddr: bool = True  # scratch: an address register takes part
    soffset: int = 0  # buffer
    offen: bool = False  # buffer
    idxen: bool = False  # buffer
    tfe: bool = False  # buffer: also returns whether the page was there


@dataclass(frozen=True, slots=True)
class Scalar:
    """Fields of a scalar memory instruction."""

    base: int
    data: int
    offset: int
    soffset: int


def signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


def _load(inst: Inst) -> bool:
    return "_LOAD_" in inst.name


def vector(inst: Inst) -> Vector:
    """Fields of a VFLAT, VGLOBAL or VSCRATCH instruction."""
    if inst.family == "rdna3":
        # in the flat segment the offset has no sign
        offset = inst.bits(11, 0) if inst.encoding == "VFLAT" else signed(inst.bits(12, 0), 13)
        return Vector(
            address=inst.bits(39, 32), data=inst.bits(47, 40), vdst=inst.bits(63, 56), base=inst.bits(54, 48),
            offset=offset, returns=bool(inst.bits(14, 14)), coherent=_load(inst) and bool(inst.bits(14, 14)),
            has_vaddr=inst.encoding != "VSCRATCH" or bool(inst.bits(55, 55)),
        )  # fmt: skip
    return Vector(
        address=inst.bits(71, 64), data=inst.bits(62, 55), vdst=inst.bits(39, 32), base=inst.bits(6, 0),
        offset=signed(inst.bits(95, 72), 24), returns=bool(inst.bits(54, 52) & _ATOMIC_RETURN),
        coherent=inst.bits(51, 50) >= DEVICE_SCOPE,
        has_vaddr=inst.encoding != "VSCRATCH" or bool(inst.bits(49, 49)),
    )  # fmt: skip


def buffer(inst: Inst) -> Vector:
    """Fields of a VBUFFER instruction. Its offset has no sign."""
    if inst.family == "rdna3":
        return Vector(
            address=inst.bits(39, 32), data=inst.bits(47, 40), vdst=inst.bits(47, 40),
            base=4 * inst.bits(52, 48), offset=inst.bits(11, 0), returns=bool(inst.bits(14, 14)),
            coherent=_load(inst) and bool(inst.bits(14, 14)),
            soffset=inst.bits(63, 56), offen=bool(inst.bits(54, 54)), idxen=bool(inst.bits(55, 55)),
            tfe=bool(inst.bits(53, 53)),
        )  # fmt: skip
    return Vector(
        address=inst.bits(71, 64), data=inst.bits(39, 32), vdst=inst.bits(39, 32), base=inst.bits(49, 41),
        offset=signed(inst.bits(95, 72), 24), returns=bool(inst.bits(54, 52) & _ATOMIC_RETURN),
        coherent=inst.bits(51, 50) >= DEVICE_SCOPE,
        soffset=inst.bits(6, 0), offen=bool(inst.bits(62, 62)), idxen=bool(inst.bits(63, 63)),
        tfe=bool(inst.bits(22, 22)),
    )  # fmt: skip


def scalar(inst: Inst) -> Scalar:
    """Fields of an SMEM instruction."""
    bits = 21 if inst.family == "rdna3" else 24
    return Scalar(
        base=2 * inst.bits(5, 0), data=inst.bits(12, 6), offset=signed(inst.bits(31 + bits, 32), bits),
        soffset=inst.bits(63, 57),
    )  # fmt: skip
