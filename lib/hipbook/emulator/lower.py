"""Turns a decoded instruction into the records the runtime executes; here the scalar ones and the choice.

Most instructions become one record. What cannot be run is an `Uncovered`, found before anything executes.
"""

from hipbook.emulator import lower_memory, lower_vector
from hipbook.emulator.isa import Inst
from hipbook.emulator.operands import SGPR, Context, Operand, Record, Uncovered
from hipbook.emulator.semantics import memory, native, scalar, vector

ALIASES = {**scalar.ALIASES, **lower_vector.ALIASES, **memory.ALIASES}


def row_name(inst: Inst) -> str:
    """What the semantics tables call the opcode of `inst`."""
    return ALIASES.get(inst.base, inst.base)


def lower(context: Context, inst: Inst) -> list[Record]:
    """The records of `inst`. Raises `Uncovered`."""
    encoding = inst.encoding
    base = inst.base if context.ieee and inst.base in vector.IEEE else row_name(inst)
    if lower_memory.is_device_fence(inst):
        return [Record("DEVICE_FENCE")]
    if base in native.NOPS and not inst.dpp:
        return [Record("NOP")]
    if encoding == "SOPP":
        return _program(context, inst, base)
    if encoding in ("SOP1", "SOP2", "SOPC", "SOPK"):
        return _scalar(context, inst, base)
    if encoding == "VOPD":
        return lower_vector.vopd(context, inst)
    if encoding in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD"):
        return lower_vector.vector_alu(context, inst, base)
    if encoding == "VOP3P":
        return lower_vector.packed_alu(context, inst, base)
    if encoding == "DS":
        return lower_memory.lds(context, inst, base)
    if encoding == "SMEM":
        return lower_memory.smem(context, inst, base)
    if encoding in ("VGLOBAL", "VFLAT", "VSCRATCH"):
        return lower_memory.vmem(context, inst, base)
    if encoding == "VBUFFER":
        return lower_memory.buffer(context, inst, base)
    raise Uncovered(f"{encoding} instructions")


def _program(context: Context, inst: Inst, base: str) -> list[Record]:
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
    if (base == "S_ROUND_MODE" and simm & 0xF == 0) or (base == "S_DENORM_MODE" and simm & 0xF == 0xF):
        return [Record("NOP")]
    raise Uncovered(f"{inst.name} {simm:#x}")


def _scalar(context: Context, inst: Inst, base: str) -> list[Record]:
    encoding, literal = inst.encoding, inst.literal
    sdst = context.scalar_destination(inst.bits(22, 16))
    simm = inst.bits(15, 0)
    signed = simm - (simm >> 15 << 16)
    if base in ("S_BARRIER_SIGNAL", "S_BARRIER_SIGNAL_ISFIRST"):
        if inst.bits(7, 0) != 193:  # -1, the workgroup's
            raise Uncovered("a named barrier")
        return [Record(base)]
    if base == "S_SLEEP_VAR":
        return [Record("NOP")]
    if base == "S_CALL_B64":
        return [Record(base, dst=sdst, target=inst.at + 4 + 4 * signed, extra=context.code_va + inst.at + 4)]
    if base in ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64"):
        src = [] if base == "S_GETPC_B64" else [context.source(inst.bits(7, 0), "u64", literal)]
        return [Record(base, src, dst=sdst, extra=context.code_va + inst.at + 4)]
    if base.startswith("S_CMPK_"):  # SGPR against the immediate
        immediate = simm if base.endswith("U32") else signed
        operands = [context.source(inst.bits(22, 16), "u32"), context.immediate(immediate)]
        return [Record(base.replace("CMPK", "CMP"), operands)]
    row = scalar.SCALAR.get(base)
    if row is None:
        raise Uncovered(inst.name)
    if encoding == "SOPK":
        codes: list[Operand] = [context.immediate(signed)]
    elif base == "S_FMAMK_F32":
        codes = [
            context.source(inst.bits(7, 0), "f32", literal),
            context.immediate(literal or 0),
            context.source(inst.bits(15, 8), "f32", literal),
        ]
    else:
        fields = [inst.bits(7, 0), inst.bits(15, 8)][: sum(not s.endswith("=") for s in row.sources)]
        codes = [context.source(c, k, literal) for c, k in zip(fields, row.sources, strict=False)]
        if base == "S_FMAAK_F32":
            codes.append(context.immediate(literal or 0))
    if row.sources and row.sources[-1].endswith("="):
        codes.append(Operand(SGPR, inst.bits(22, 16)))
    return [Record(base, codes, dst=sdst)]
