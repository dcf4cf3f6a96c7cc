"""Scalar ALU: SOP1, SOP2, SOPC, SOPK. `scc` may be read, and is written by rows that assign it."""

from hipbook.emulator.semantics import Row, parse

_TABLE = """
# ---- SOP1 ----
S_MOV_B32             u32  u32      a
S_MOV_B64             u64  u64      a
S_CMOV_B32            u32  u32 u32=  scc ? a : b
S_CMOV_B64            u64  u64 u64=  scc ? a : b
S_BREV_B32            u32  u32      reverse32(a)
S_BREV_B64            u64  u64      reverse64(a)
S_CTZ_I32_B32         u32  u32      ctz32(a)
S_CTZ_I32_B64         u32  u64      ctz64(a)
S_CLZ_I32_U32         u32  u32      clz32(a)
S_CLZ_I32_U64         u32  u64      clz64(a)
S_CLS_I32             u32  i32      cls32(a)
S_CLS_I32_I64         u32  i64      cls64(a)
S_SEXT_I32_I8         i32  u32      (i8)a
S_SEXT_I32_I16        i32  u32      (i16)a
S_BITSET0_B32         u32  u32 u32=  b & ~(1u << (a & 31))
S_BITSET0_B64         u64  u32 u64=  b & ~((u64)1 << (a & 63))
S_BITSET1_B32         u32  u32 u32=  b | 1u << (a & 31)
S_BITSET1_B64         u64  u32 u64=  b | (u64)1 << (a & 63)
S_BITREPLICATE_B64_B32  u64  u32    replicate(a)
S_ABS_I32             i32  i32      d = a < 0 ? (i32)(0u - (u32)a) : a; scc = d != 0
S_BCNT0_I32_B32       u32  u32      d = (u32)__builtin_popcount(~a); scc = d != 0
S_BCNT0_I32_B64       u32  u64      d = (u32)__builtin_popcountll(~a); scc = d != 0
S_BCNT1_I32_B32       u32  u32      d = (u32)__builtin_popcount(a); scc = d != 0
S_BCNT1_I32_B64       u32  u64      d = (u32)__builtin_popcountll(a); scc = d != 0
S_QUADMASK_B32        u32  u32      d = quadmask(a, 8); scc = d != 0
S_QUADMASK_B64        u64  u64      d = quadmask(a, 16); scc = d != 0
S_WQM_B32             u32  u32      d = (u32)wqm(a, 8); scc = d != 0
S_WQM_B64             u64  u64      d = wqm(a, 16); scc = d != 0
S_NOT_B32             u32  u32      d = ~a; scc = d != 0
S_NOT_B64             u64  u64      d = ~a; scc = d != 0
S_AND_SAVEEXEC_B32    u32  u32      d = EXECUTING; EXECUTING = a & d; scc = EXECUTING != 0
S_OR_SAVEEXEC_B32     u32  u32      d = EXECUTING; EXECUTING = a | d; scc = EXECUTING != 0
S_XOR_SAVEEXEC_B32    u32  u32      d = EXECUTING; EXECUTING = a ^ d; scc = EXECUTING != 0
S_NAND_SAVEEXEC_B32   u32  u32      d = EXECUTING; EXECUTING = ~(a & d); scc = EXECUTING != 0
S_NOR_SAVEEXEC_B32    u32  u32      d = EXECUTING; EXECUTING = ~(a | d); scc = EXECUTING != 0
S_XNOR_SAVEEXEC_B32   u32  u32      d = EXECUTING; EXECUTING = ~(a ^ d); scc = EXECUTING != 0
S_AND_NOT0_SAVEEXEC_B32  u32  u32   d = EXECUTING; EXECUTING = ~a & d; scc = EXECUTING != 0
S_OR_NOT0_SAVEEXEC_B32   u32  u32   d = EXECUTING; EXECUTING = ~a | d; scc = EXECUTING != 0
S_AND_NOT1_SAVEEXEC_B32  u32  u32   d = EXECUTING; EXECUTING = a & ~d; scc = EXECUTING != 0
S_OR_NOT1_SAVEEXEC_B32   u32  u32   d = EXECUTING; EXECUTING = a | ~d; scc = EXECUTING != 0
S_AND_NOT0_WREXEC_B32    u32  u32   d = EXECUTING = ~a & EXECUTING; scc = d != 0
S_AND_NOT1_WREXEC_B32    u32  u32   d = EXECUTING = a & ~EXECUTING; scc = d != 0
S_CEIL_F32            f32  f32      ceilf(a)
S_FLOOR_F32           f32  f32      floorf(a)
S_TRUNC_F32           f32  f32      truncf(a)
S_RNDNE_F32           f32  f32      rintf(a)
S_CVT_F32_I32         f32  i32      (f32)a
S_CVT_F32_U32         f32  u32      (f32)a
S_CVT_I32_F32         i32  f32      f32_to_i32(a)
S_CVT_U32_F32         u32  f32      f32_to_u32(a)
S_CVT_F16_F32         f16  f32      (f16)a
S_CVT_F32_F16         f32  f16      (f32)a
S_CVT_HI_F32_F16      f32  u32      half_to_f32(a >> 16)
S_CEIL_F16            f16  f16      (f16)ceilf((f32)a)
S_FLOOR_F16           f16  f16      (f16)floorf((f32)a)
S_TRUNC_F16           f16  f16      (f16)truncf((f32)a)
S_RNDNE_F16           f16  f16      (f16)rintf((f32)a)
# ---- SOP2 ----
S_ADD_CO_U32          u32  u32 u32  d = a + b; scc = d < a
S_SUB_CO_U32          u32  u32 u32  d = a - b; scc = b > a
S_ADD_CO_I32          u32  u32 u32  d = a + b; scc = (~(a ^ b) & (a ^ d)) >> 31
S_SUB_CO_I32          u32  u32 u32  d = a - b; scc = ((a ^ b) & (a ^ d)) >> 31
S_ADD_CO_CI_U32       u32  u32 u32  u64 t = (u64)a + b + scc; d = (u32)t; scc = (u32)(t >> 32)
S_SUB_CO_CI_U32       u32  u32 u32  d = a - b - scc; scc = (u64)b + scc > a
S_ABSDIFF_I32         u32  u32 u32  d = a - b; d = (i32)d < 0 ? 0u - d : d; scc = d != 0
S_LSHL_B32            u32  u32 u32  d = a << (b & 31); scc = d != 0
S_LSHL_B64            u64  u64 u32  d = a << (b & 63); scc = d != 0
S_LSHR_B32            u32  u32 u32  d = a >> (b & 31); scc = d != 0
S_LSHR_B64            u64  u64 u32  d = a >> (b & 63); scc = d != 0
S_ASHR_I32            i32  i32 u32  d = a >> (b & 31); scc = d != 0
S_ASHR_I64            i64  i64 u32  d = a >> (b & 63); scc = d != 0
S_LSHL1_ADD_U32       u32  u32 u32  u64 t = ((u64)a << 1) + b; d = (u32)t; scc = t >> 32 != 0
S_LSHL2_ADD_U32       u32  u32 u32  u64 t = ((u64)a << 2) + b; d = (u32)t; scc = t >> 32 != 0
S_LSHL3_ADD_U32       u32  u32 u32  u64 t = ((u64)a << 3) + b; d = (u32)t; scc = t >> 32 != 0
S_LSHL4_ADD_U32       u32  u32 u32  u64 t = ((u64)a << 4) + b; d = (u32)t; scc = t >> 32 != 0
S_MIN_I32             i32  i32 i32  scc = a < b; d = MIN(a, b)
S_MIN_U32             u32  u32 u32  scc = a < b; d = MIN(a, b)
S_MAX_I32             i32  i32 i32  scc = a >= b; d = MAX(a, b)
S_MAX_U32             u32  u32 u32  scc = a >= b; d = MAX(a, b)
S_AND_B32             u32  u32 u32  d = a & b; scc = d != 0
S_AND_B64             u64  u64 u64  d = a & b; scc = d != 0
S_OR_B32              u32  u32 u32  d = a | b; scc = d != 0
S_OR_B64              u64  u64 u64  d = a | b; scc = d != 0
S_XOR_B32             u32  u32 u32  d = a ^ b; scc = d != 0
S_XOR_B64             u64  u64 u64  d = a ^ b; scc = d != 0
S_NAND_B32            u32  u32 u32  d = ~(a & b); scc = d != 0
S_NAND_B64            u64  u64 u64  d = ~(a & b); scc = d != 0
S_NOR_B32             u32  u32 u32  d = ~(a | b); scc = d != 0
S_NOR_B64             u64  u64 u64  d = ~(a | b); scc = d != 0
S_XNOR_B32            u32  u32 u32  d = ~(a ^ b); scc = d != 0
S_XNOR_B64            u64  u64 u64  d = ~(a ^ b); scc = d != 0
S_AND_NOT1_B32        u32  u32 u32  d = a & ~b; scc = d != 0
S_AND_NOT1_B64        u64  u64 u64  d = a & ~b; scc = d != 0
S_OR_NOT1_B32         u32  u32 u32  d = a | ~b; scc = d != 0
S_OR_NOT1_B64         u64  u64 u64  d = a | ~b; scc = d != 0
S_BFE_U32             u32  u32 u32  d = bfe_u32(a, b & 31, (b >> 16) & 127); scc = d != 0
S_BFE_I32             i32  i32 u32  d = bfe_i32(a, b & 31, (b >> 16) & 127); scc = d != 0
S_BFE_U64             u64  u64 u32  d = bfe_u64(a, b & 63, (b >> 16) & 127); scc = d != 0
S_BFE_I64             i64  i64 u32  d = bfe_i64(a, b & 63, (b >> 16) & 127); scc = d != 0
S_BFM_B32             u32  u32 u32  ((1u << (a & 31)) - 1) << (b & 31)
S_BFM_B64             u64  u32 u32  (((u64)1 << (a & 63)) - 1) << (b & 63)
S_MUL_I32             u32  u32 u32  a * b
S_MUL_HI_U32          u32  u32 u32  (u32)(((u64)a * b) >> 32)
S_MUL_HI_I32          u32  i32 i32  (u32)(((i64)a * b) >> 32)
S_MUL_U64             u64  u64 u64  a * b
S_ADD_NC_U64          u64  u64 u64  a + b
S_SUB_NC_U64          u64  u64 u64  a - b
S_CSELECT_B32         u32  u32 u32  scc ? a : b
S_CSELECT_B64         u64  u64 u64  scc ? a : b
S_PACK_LL_B32_B16     u32  u32 u32  (a & 0xffff) | b << 16
S_PACK_LH_B32_B16     u32  u32 u32  (a & 0xffff) | (b & 0xffff0000u)
S_PACK_HH_B32_B16     u32  u32 u32  a >> 16 | (b & 0xffff0000u)
S_PACK_HL_B32_B16     u32  u32 u32  a >> 16 | b << 16
S_ADD_F32             f32  f32 f32  a + b
S_SUB_F32             f32  f32 f32  a - b
S_MUL_F32             f32  f32 f32  a * b
S_MIN_NUM_F32         f32  f32 f32  minnum_f32(a, b)
S_MAX_NUM_F32         f32  f32 f32  maxnum_f32(a, b)
S_MIN_F32             f32  f32 f32  minieee_f32(a, b)
S_MAX_F32             f32  f32 f32  maxieee_f32(a, b)
S_MIN_F16             f16  f16 f16  minieee_f16(a, b)
S_MAX_F16             f16  f16 f16  maxieee_f16(a, b)
S_MINIMUM_F32         f32  f32 f32  minimum_f32(a, b)
S_MAXIMUM_F32         f32  f32 f32  maximum_f32(a, b)
S_FMAAK_F32           f32  f32 f32 f32   fmaf(a, b, c)
S_FMAMK_F32           f32  f32 f32 f32   fmaf(a, b, c)
S_FMAC_F32            f32  f32 f32 f32=  fmaf(a, b, c)
S_CVT_PK_RTZ_F16_F32  u32  f32 f32  f32_to_f16_toward_zero(a) | (u32)f32_to_f16_toward_zero(b) << 16
S_ADD_F16             f16  f16 f16  a + b
S_SUB_F16             f16  f16 f16  a - b
S_MUL_F16             f16  f16 f16  a * b
S_MIN_NUM_F16         f16  f16 f16  minnum_f16(a, b)
S_MAX_NUM_F16         f16  f16 f16  maxnum_f16(a, b)
S_MINIMUM_F16         f16  f16 f16  minimum_f16(a, b)
S_MAXIMUM_F16         f16  f16 f16  maximum_f16(a, b)
S_FMAC_F16            f16  f16 f16 f16=  fma_f16(a, b, c)
# ---- SOPC other than the comparisons below ----
S_BITCMP0_B32         -    u32 u32  scc = !((a >> (b & 31)) & 1)
S_BITCMP1_B32         -    u32 u32  scc = (a >> (b & 31)) & 1
S_BITCMP0_B64         -    u64 u32  scc = !((a >> (b & 63)) & 1)
S_BITCMP1_B64         -    u64 u32  scc = (a >> (b & 63)) & 1
# ---- SOPK: the immediate is a source ----
S_MOVK_I32            u32  u32      a
S_VERSION             -    u32      (void)a
S_CMOVK_I32           u32  u32 u32=  scc ? a : b
S_ADDK_CO_I32         u32  u32 u32=  d = b + a; scc = (~(a ^ b) & (b ^ d)) >> 31
S_MULK_I32            u32  u32 u32=  b * a
"""

INTEGER_CONDITIONS = {
    "EQ": "a == b",
    "LG": "a != b",
    "GT": "a > b",
    "GE": "a >= b",
    "LT": "a < b",
    "LE": "a <= b",
}
FLOAT_CONDITIONS = {
    "LT": "a < b", "EQ": "a == b", "LE": "a <= b", "GT": "a > b", "LG": "a < b || a > b", "GE": "a >= b",
    "O": "a == a && b == b", "U": "a != a || b != b", "NGE": "!(a >= b)", "NLG": "!(a < b || a > b)",
    "NGT": "!(a > b)", "NLE": "!(a <= b)", "NEQ": "!(a == b)", "NLT": "!(a < b)",
}  # fmt: skip


def _comparisons() -> dict[str, Row]:
    rows = {}
    for kinds, conditions in (
        (("I32", "U32"), INTEGER_CONDITIONS),
        (("U64",), {c: INTEGER_CONDITIONS[c] for c in ("EQ", "LG")}),
        (("F32", "F16"), FLOAT_CONDITIONS),
    ):
        for kind in kinds:
            for condition, code in conditions.items():
                name = f"S_CMP_{condition}_{kind}"
                rows[name] = Row(name, (), (kind.lower(),) * 2, f"scc = ({code}) ? 1 : 0")
    return rows


SCALAR = {**parse(_TABLE), **_comparisons()}

# RDNA3 names of the same operations
ALIASES = {
    "S_ADD_U32": "S_ADD_CO_U32", "S_SUB_U32": "S_SUB_CO_U32", "S_ADD_I32": "S_ADD_CO_I32",
    "S_SUB_I32": "S_SUB_CO_I32", "S_ADDC_U32": "S_ADD_CO_CI_U32", "S_SUBB_U32": "S_SUB_CO_CI_U32",
    "S_ADDK_I32": "S_ADDK_CO_I32", "S_MIN_F32": "S_MIN_NUM_F32", "S_MAX_F32": "S_MAX_NUM_F32",
    "S_MIN_F16": "S_MIN_NUM_F16", "S_MAX_F16": "S_MAX_NUM_F16",
}  # fmt: skip
