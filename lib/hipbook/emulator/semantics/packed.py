"""VOP3P: packed 16-bit arithmetic, dot products and mixed-precision FMA.

PACKED rows compute one half (type of the halves, number of sources); the generated handler runs them on both
halves, as chosen and negated by opsel and neg. WORDS rows see raw 32-bit operands and `na`, `nb`: the neg
bits, which the integer dot products use for signedness. DOTS rows see the halves as f32. MIX rows take f32
or f16 operands.
"""

from hipbook.emulator.semantics import parse

PACKED = parse("""
V_PK_MAD_I16          u16  u16 u16 u16  (u16)((u32)a * b + c)
V_PK_MAD_U16          u16  u16 u16 u16  (u16)((u32)a * b + c)
V_PK_MUL_LO_U16       u16  u16 u16      (u16)((u32)a * b)
V_PK_ADD_I16          u16  u16 u16      (u16)(a + b)
V_PK_SUB_I16          u16  u16 u16      (u16)(a - b)
V_PK_ADD_U16          u16  u16 u16      (u16)(a + b)
V_PK_SUB_U16          u16  u16 u16      (u16)(a - b)
V_PK_LSHLREV_B16      u16  u16 u16      (u16)(b << (a & 15))
V_PK_LSHRREV_B16      u16  u16 u16      (u16)(b >> (a & 15))
V_PK_ASHRREV_I16      i16  u16 i16      (i16)(b >> (a & 15))
V_PK_MAX_I16          i16  i16 i16      MAX(a, b)
V_PK_MIN_I16          i16  i16 i16      MIN(a, b)
V_PK_MAX_U16          u16  u16 u16      MAX(a, b)
V_PK_MIN_U16          u16  u16 u16      MIN(a, b)
V_PK_FMA_F16          f16  f16 f16 f16  fma_f16(a, b, c)
V_PK_ADD_F16          f16  f16 f16      a + b
V_PK_MUL_F16          f16  f16 f16      a * b
V_PK_MIN_NUM_F16      f16  f16 f16      minnum_f16(a, b)
V_PK_MAX_NUM_F16      f16  f16 f16      maxnum_f16(a, b)
V_PK_MIN_F16          f16  f16 f16      minieee_f16(a, b)
V_PK_MAX_F16          f16  f16 f16      maxieee_f16(a, b)
V_PK_MINIMUM_F16      f16  f16 f16      minimum_f16(a, b)
V_PK_MAXIMUM_F16      f16  f16 f16      maximum_f16(a, b)
V_PK_FMAC_F16         f16  f16 f16 f16=  fma_f16(a, b, c)
""")

PACKED_CLAMPED = parse("""
V_PK_ADD_I16          i16  i16 i16      (i16)saturate((i32)a + b, -32768, 32767)
V_PK_SUB_I16          i16  i16 i16      (i16)saturate((i32)a - b, -32768, 32767)
V_PK_ADD_U16          u16  u16 u16      (u16)MIN((u32)a + b, 65535u)
V_PK_SUB_U16          u16  u16 u16      a < b ? 0 : (u16)(a - b)
V_PK_MAD_U16          u16  u16 u16 u16  (u16)MIN((u64)a * b + c, (u64)65535)
V_PK_MAD_I16          i16  i16 i16 i16  (i16)saturate((i64)a * b + c, -32768, 32767)
""")

# The halves a and b of the two operands are a0 a1 b0 b1 (as f32 where the name says so).
WORDS = parse("""
V_DOT4_I32_IU8        u32  u32 u32 u32  (u32)dot_bytes(a, b, na, nb) + c
V_DOT4_U32_U8         u32  u32 u32 u32  (u32)dot_bytes(a, b, 0, 0) + c
V_DOT8_I32_IU4        u32  u32 u32 u32  (u32)dot_nibbles(a, b, na, nb) + c
V_DOT8_U32_U4         u32  u32 u32 u32  (u32)dot_nibbles(a, b, 0, 0) + c
""")

WORDS_CLAMPED = parse("""
V_DOT4_I32_IU8        u32  u32 u32 u32  saturate_i32((i64)dot_bytes(a, b, na, nb) + (i32)c)
V_DOT4_U32_U8         u32  u32 u32 u32  (u32)MIN((u64)(u32)dot_bytes(a, b, 0, 0) + c, (u64)~0u)
V_DOT8_I32_IU4        u32  u32 u32 u32  saturate_i32((i64)dot_nibbles(a, b, na, nb) + (i32)c)
V_DOT8_U32_U4         u32  u32 u32 u32  (u32)MIN((u64)(u32)dot_nibbles(a, b, 0, 0) + c, (u64)~0u)
""")

# a0, a1, b0, b1: the chosen halves as f32; c: f32 with its modifiers
DOTS = parse("""
V_DOT2_F32_F16        f32  f16 f16 f32  fmaf(a1, b1, fmaf(a0, b0, c))
V_DOT2_F32_BF16       f32  bf16 bf16 f32  fmaf(a1, b1, fmaf(a0, b0, c))
""")

MIX = parse("""
V_FMA_MIX_F32         f32    mix mix mix  fmaf(a, b, c)
V_FMA_MIXLO_F16       f16lo  mix mix mix  (f16)fmaf(a, b, c)
V_FMA_MIXHI_F16       f16hi  mix mix mix  (f16)fmaf(a, b, c)
""")

ALIASES = {
    **{f"V_PK_{m}_F16": f"V_PK_{m}_NUM_F16" for m in ("MIN", "MAX")},
}
