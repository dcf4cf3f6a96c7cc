"""Vector ALU: VOP1, VOP2, VOP3, VOP3SD, VOPD and the comparisons of VOPC."""

from hipbook.emulator.semantics import Row, parse
from hipbook.emulator.semantics.scalar import FLOAT_CONDITIONS, INTEGER_CONDITIONS

_TABLE = """
# ---- moves and conversions ----
V_MOV_B32             u32  b32          a
V_MOV_B16             u16  u16          a
V_NOT_B32             u32  u32          ~a
V_NOT_B16             u16  u16          (u16)~a
V_BFREV_B32           u32  u32          reverse32(a)
V_CLZ_I32_U32         u32  u32          clz32(a)
V_CTZ_I32_B32         u32  u32          ctz32(a)
V_CLS_I32             u32  i32          cls32(a)
V_CVT_F64_I32         f64  i32          (f64)a
V_CVT_F64_U32         f64  u32          (f64)a
V_CVT_F64_F32         f64  f32          (f64)a
V_CVT_I32_F64         i32  f64          to_i32(a)
V_CVT_U32_F64         u32  f64          to_u32(a)
V_CVT_F32_F64         f32  f64          (f32)a
V_CVT_F32_I32         f32  i32          (f32)a
V_CVT_F32_U32         f32  u32          (f32)a
V_CVT_U32_F32         u32  f32          f32_to_u32(a)
V_CVT_I32_F32         i32  f32          f32_to_i32(a)
V_CVT_NEAREST_I32_F32  i32  f32         f32_to_i32(floorf(a + 0.5f))
V_CVT_FLOOR_I32_F32   i32  f32          f32_to_i32(floorf(a))
V_CVT_OFF_F32_I4      f32  u32          (f32)((i32)((a & 15) ^ 8) - 8) / 16.0f
V_CVT_F16_F32         f16  f32          (f16)a
V_CVT_F32_F16         f32  f16          (f32)a
V_CVT_F32_UBYTE0      f32  u32          (f32)(a & 255)
V_CVT_F32_UBYTE1      f32  u32          (f32)((a >> 8) & 255)
V_CVT_F32_UBYTE2      f32  u32          (f32)((a >> 16) & 255)
V_CVT_F32_UBYTE3      f32  u32          (f32)(a >> 24)
V_CVT_F16_U16         f16  u16          (f16)a
V_CVT_F16_I16         f16  i16          (f16)a
V_CVT_U16_F16         u16  f16          to_u16((f64)a)
V_CVT_I16_F16         i16  f16          to_i16((f64)a)
V_CVT_NORM_I16_F16    u16  f16          to_snorm((f64)a)
V_CVT_NORM_U16_F16    u16  f16          to_unorm((f64)a)
V_CVT_I32_I16         i32  i16          a
V_CVT_U32_U16         u32  u16          a
V_SAT_PK_U8_I16       u16  u32          (u16)(saturate8((i16)a) | saturate8((i16)(a >> 16)) << 8)
V_CVT_PK_RTZ_F16_F32  u32  f32 f32      f32_to_f16_toward_zero(a) | (u32)f32_to_f16_toward_zero(b) << 16
V_CVT_PK_I16_F32      u32  f32 f32      (u16)to_i16(a) | (u32)(u16)to_i16(b) << 16
V_CVT_PK_U16_F32      u32  f32 f32      to_u16(a) | (u32)to_u16(b) << 16
V_CVT_PK_NORM_I16_F32  u32  f32 f32     to_snorm(a) | (u32)to_snorm(b) << 16
V_CVT_PK_NORM_U16_F32  u32  f32 f32     to_unorm(a) | (u32)to_unorm(b) << 16
V_CVT_PK_NORM_I16_F16  u32  f16 f16     to_snorm((f64)a) | (u32)to_snorm((f64)b) << 16
V_CVT_PK_NORM_U16_F16  u32  f16 f16     to_unorm((f64)a) | (u32)to_unorm((f64)b) << 16
V_CVT_PK_U16_U32      u32  u32 u32      MIN(a, 65535u) | MIN(b, 65535u) << 16
V_CVT_PK_I16_I32      u32  i32 i32      saturate_i16(a) | saturate_i16(b) << 16
V_CVT_PK_U8_F32       u32  f32 u32 u32  (c & ~(255u << (8 * (b & 3)))) | to_u8(a) << (8 * (b & 3))
V_PACK_B32_F16        u32  u16 u16      a | (u32)b << 16
# ---- f32 ----
V_ADD_F32             f32  f32 f32      a + b
V_SUB_F32             f32  f32 f32      a - b
V_SUBREV_F32          f32  f32 f32      b - a
V_MUL_F32             f32  f32 f32      a * b
V_MUL_DX9_ZERO_F32    f32  f32 f32      a == 0.0f || b == 0.0f ? 0.0f : a * b
V_FMA_F32             f32  f32 f32 f32   fmaf(a, b, c)
V_FMAC_F32            f32  f32 f32 f32=  fmaf(a, b, c)
V_FMAMK_F32           f32  f32 f32 f32   fmaf(a, b, c)
V_FMAAK_F32           f32  f32 f32 f32   fmaf(a, b, c)
V_FMA_DX9_ZERO_F32    f32  f32 f32 f32   a == 0.0f || b == 0.0f ? c : fmaf(a, b, c)
V_FMAC_DX9_ZERO_F32   f32  f32 f32 f32=  a == 0.0f || b == 0.0f ? c : fmaf(a, b, c)
V_MIN_NUM_F32         f32  f32 f32      minnum_f32(a, b)
V_MAX_NUM_F32         f32  f32 f32      maxnum_f32(a, b)
V_MINIMUM_F32         f32  f32 f32      minimum_f32(a, b)
V_MAXIMUM_F32         f32  f32 f32      maximum_f32(a, b)
V_MIN3_NUM_F32        f32  f32 f32 f32  minnum_f32(minnum_f32(a, b), c)
V_MAX3_NUM_F32        f32  f32 f32 f32  maxnum_f32(maxnum_f32(a, b), c)
V_MED3_NUM_F32        f32  f32 f32 f32  med3num_f32(a, b, c)
V_MINMAX_NUM_F32      f32  f32 f32 f32  maxnum_f32(minnum_f32(a, b), c)
V_MAXMIN_NUM_F32      f32  f32 f32 f32  minnum_f32(maxnum_f32(a, b), c)
V_MINIMUM3_F32        f32  f32 f32 f32  minimum_f32(minimum_f32(a, b), c)
V_MAXIMUM3_F32        f32  f32 f32 f32  maximum_f32(maximum_f32(a, b), c)
V_MINIMUMMAXIMUM_F32  f32  f32 f32 f32  maximum_f32(minimum_f32(a, b), c)
V_MAXIMUMMINIMUM_F32  f32  f32 f32 f32  minimum_f32(maximum_f32(a, b), c)
V_FRACT_F32           f32  f32          a + -floorf(a)
V_TRUNC_F32           f32  f32          truncf(a)
V_CEIL_F32            f32  f32          ceilf(a)
V_RNDNE_F32           f32  f32          rintf(a)
V_FLOOR_F32           f32  f32          floorf(a)
V_EXP_F32             f32  f32          exp2_f32(a)
V_LOG_F32             f32  f32          log2_f32(a)
V_RCP_F32             f32  f32          rcp_f32(a)
V_RCP_IFLAG_F32       f32  f32          rcp_f32(a)
V_RSQ_F32             f32  f32          rsq_f32(a)
V_SQRT_F32            f32  f32          sqrt_f32(a)
V_SIN_F32             f32  f32          sin_f32(a)
V_COS_F32             f32  f32          cos_f32(a)
V_FREXP_EXP_I32_F32   i32  f32          frexp_exp_f32(a)
V_FREXP_MANT_F32      f32  f32          frexp_mant_f32(a)
V_LDEXP_F32           f32  f32 i32      ldexp_f32(a, b)
V_DIV_SCALE_F32       f32+mask  f32 f32 f32  d = div_scale_f32(a, b, c, &k)
V_DIV_FMAS_F32        f32  f32 f32 f32 vcc   div_fmas_f32(a, b, c, m)
V_DIV_FIXUP_F32       f32  f32 f32 f32  div_fixup_f32(a, b, c)
V_DOT2ACC_F32_F16     f32  u32 u32 f32=  dot2_f16(a, b, c)
V_DOT2ACC_F32_BF16    f32  u32 u32 f32=  dot2_bf16(a, b, c)
V_CUBEID_F32          f32  f32 f32 f32  cube_face(a, b, c)
# ---- f64 ----
V_ADD_F64             f64  f64 f64      a + b
V_MUL_F64             f64  f64 f64      a * b
V_FMA_F64             f64  f64 f64 f64  fma(a, b, c)
V_MIN_NUM_F64         f64  f64 f64      minnum_f64(a, b)
V_MAX_NUM_F64         f64  f64 f64      maxnum_f64(a, b)
V_MINIMUM_F64         f64  f64 f64      minimum_f64(a, b)
V_MAXIMUM_F64         f64  f64 f64      maximum_f64(a, b)
V_TRUNC_F64           f64  f64          trunc(a)
V_CEIL_F64            f64  f64          ceil(a)
V_RNDNE_F64           f64  f64          rint(a)
V_FLOOR_F64           f64  f64          floor(a)
V_FRACT_F64           f64  f64          a + -floor(a)
V_RCP_F64             f64  f64          1.0 / a
V_RSQ_F64             f64  f64          1.0 / sqrt(a)
V_SQRT_F64            f64  f64          sqrt(a)
V_FREXP_EXP_I32_F64   i32  f64          frexp_exp_f64(a)
V_FREXP_MANT_F64      f64  f64          frexp_mant_f64(a)
V_LDEXP_F64           f64  f64 i32      ldexp_f64(a, b)
V_DIV_SCALE_F64       f64+mask  f64 f64 f64  d = div_scale_f64(a, b, c, &k)
V_DIV_FMAS_F64        f64  f64 f64 f64 vcc   div_fmas_f64(a, b, c, m)
V_DIV_FIXUP_F64       f64  f64 f64 f64  div_fixup_f64(a, b, c)
# ---- f16 ----
V_ADD_F16             f16  f16 f16      a + b
V_SUB_F16             f16  f16 f16      a - b
V_SUBREV_F16          f16  f16 f16      b - a
V_MUL_F16             f16  f16 f16      a * b
V_FMA_F16             f16  f16 f16 f16   fma_f16(a, b, c)
V_FMAC_F16            f16  f16 f16 f16=  fma_f16(a, b, c)
V_FMAMK_F16           f16  f16 f16 f16   fma_f16(a, b, c)
V_FMAAK_F16           f16  f16 f16 f16   fma_f16(a, b, c)
V_MIN_NUM_F16         f16  f16 f16      minnum_f16(a, b)
V_MAX_NUM_F16         f16  f16 f16      maxnum_f16(a, b)
V_MINIMUM_F16         f16  f16 f16      minimum_f16(a, b)
V_MAXIMUM_F16         f16  f16 f16      maximum_f16(a, b)
V_MIN3_NUM_F16        f16  f16 f16 f16  minnum_f16(minnum_f16(a, b), c)
V_MAX3_NUM_F16        f16  f16 f16 f16  maxnum_f16(maxnum_f16(a, b), c)
V_MED3_NUM_F16        f16  f16 f16 f16  med3num_f16(a, b, c)
V_MINMAX_NUM_F16      f16  f16 f16 f16  maxnum_f16(minnum_f16(a, b), c)
V_MAXMIN_NUM_F16      f16  f16 f16 f16  minnum_f16(maxnum_f16(a, b), c)
V_MINIMUM3_F16        f16  f16 f16 f16  minimum_f16(minimum_f16(a, b), c)
V_MAXIMUM3_F16        f16  f16 f16 f16  maximum_f16(maximum_f16(a, b), c)
V_MINIMUMMAXIMUM_F16  f16  f16 f16 f16  maximum_f16(minimum_f16(a, b), c)
V_MAXIMUMMINIMUM_F16  f16  f16 f16 f16  minimum_f16(maximum_f16(a, b), c)
V_RCP_F16             f16  f16          rcp_f16(a)
V_SQRT_F16            f16  f16          sqrt_f16(a)
V_RSQ_F16             f16  f16          rsq_f16(a)
V_LOG_F16             f16  f16          log2_f16(a)
V_EXP_F16             f16  f16          exp2_f16(a)
V_SIN_F16             f16  f16          sin_f16(a)
V_COS_F16             f16  f16          cos_f16(a)
V_FLOOR_F16           f16  f16          (f16)floorf((f32)a)
V_CEIL_F16            f16  f16          (f16)ceilf((f32)a)
V_TRUNC_F16           f16  f16          (f16)truncf((f32)a)
V_RNDNE_F16           f16  f16          (f16)rintf((f32)a)
V_FRACT_F16           f16  f16          a + (f16)-floorf((f32)a)
V_FREXP_MANT_F16      f16  f16          (f16)frexp_mant_f32((f32)a)
V_FREXP_EXP_I16_F16   i16  f16          (i16)frexp_exp_f32((f32)a)
V_LDEXP_F16           f16  f16 i16      ldexp_f16(a, b)
V_DIV_FIXUP_F16       f16  f16 f16 f16  div_fixup_f16(a, b, c)
V_DOT2_F16_F16        f16  u32 u32 f16  dot2_f16_f16(a, b, c)
V_DOT2_BF16_BF16      u16  u32 u32 u16  f32_to_bf16(dot2_bf16(a, b, bf16_to_f32(c)))
# ---- integers ----
V_CNDMASK_B32         u32  b32 b32 mask  c ? b : a
V_CNDMASK_B16         u16  u16 u16 mask  c ? b : a
V_ADD_NC_U32          u32  u32 u32      a + b
V_SUB_NC_U32          u32  u32 u32      a - b
V_SUBREV_NC_U32       u32  u32 u32      b - a
V_ADD_NC_I32          u32  u32 u32      a + b
V_SUB_NC_I32          u32  u32 u32      a - b
V_ADD_CO_U32          u32+mask  u32 u32       d = a + b; k = d < a
V_SUB_CO_U32          u32+mask  u32 u32       d = a - b; k = b > a
V_SUBREV_CO_U32       u32+mask  u32 u32       d = b - a; k = a > b
V_ADD_CO_CI_U32       u32+mask  u32 u32 mask  u64 t = (u64)a + b + c; d = (u32)t; k = (u32)(t >> 32)
V_SUB_CO_CI_U32       u32+mask  u32 u32 mask  d = a - b - c; k = (u64)b + c > a
V_SUBREV_CO_CI_U32    u32+mask  u32 u32 mask  d = b - a - c; k = (u64)a + c > b
V_MAD_CO_U64_U32      u64+mask  u32 u32 u64   d = (u64)a * b + c; k = d < c
V_MAD_CO_I64_I32      i64+mask  i32 i32 i64   i128 t = (i128)((i64)a * b) + c; d = (i64)t; k = t != d
V_MUL_LO_U32          u32  u32 u32      a * b
V_MUL_HI_U32          u32  u32 u32      (u32)(((u64)a * b) >> 32)
V_MUL_HI_I32          u32  i32 i32      (u32)(((i64)a * b) >> 32)
V_MUL_I32_I24         i32  u32 u32      (i32)((i64)sext24(a) * sext24(b))
V_MUL_HI_I32_I24      i32  u32 u32      (i32)(((i64)sext24(a) * sext24(b)) >> 32)
V_MUL_U32_U24         u32  u32 u32      (a & 0xffffff) * (b & 0xffffff)
V_MUL_HI_U32_U24      u32  u32 u32      (u32)(((u64)(a & 0xffffff) * (b & 0xffffff)) >> 32)
V_MAD_I32_I24         u32  u32 u32 u32  (u32)((i64)sext24(a) * sext24(b)) + c
V_MAD_U32_U24         u32  u32 u32 u32  (a & 0xffffff) * (b & 0xffffff) + c
V_MAD_U32_U16         u32  u16 u16 u32  (u32)a * b + c
V_MAD_I32_I16         i32  i16 i16 i32  (i32)((u32)((i32)a * b) + (u32)c)
V_MIN_I32             i32  i32 i32      MIN(a, b)
V_MAX_I32             i32  i32 i32      MAX(a, b)
V_MIN_U32             u32  u32 u32      MIN(a, b)
V_MAX_U32             u32  u32 u32      MAX(a, b)
V_MIN3_I32            i32  i32 i32 i32  MIN(MIN(a, b), c)
V_MAX3_I32            i32  i32 i32 i32  MAX(MAX(a, b), c)
V_MED3_I32            i32  i32 i32 i32  MED3(a, b, c)
V_MIN3_U32            u32  u32 u32 u32  MIN(MIN(a, b), c)
V_MAX3_U32            u32  u32 u32 u32  MAX(MAX(a, b), c)
V_MED3_U32            u32  u32 u32 u32  MED3(a, b, c)
V_MAXMIN_U32          u32  u32 u32 u32  MIN(MAX(a, b), c)
V_MINMAX_U32          u32  u32 u32 u32  MAX(MIN(a, b), c)
V_MAXMIN_I32          i32  i32 i32 i32  MIN(MAX(a, b), c)
V_MINMAX_I32          i32  i32 i32 i32  MAX(MIN(a, b), c)
V_LSHLREV_B32         u32  u32 u32      b << (a & 31)
V_LSHRREV_B32         u32  u32 u32      b >> (a & 31)
V_ASHRREV_I32         i32  u32 i32      b >> (a & 31)
V_LSHLREV_B64         u64  u32 u64      b << (a & 63)
V_LSHRREV_B64         u64  u32 u64      b >> (a & 63)
V_ASHRREV_I64         i64  u32 i64      b >> (a & 63)
V_AND_B32             u32  u32 u32      a & b
V_OR_B32              u32  u32 u32      a | b
V_XOR_B32             u32  u32 u32      a ^ b
V_XNOR_B32            u32  u32 u32      ~(a ^ b)
V_BFE_U32             u32  u32 u32 u32  bfe_u32(a, b & 31, c & 31)
V_BFE_I32             i32  i32 u32 u32  bfe_i32(a, b & 31, c & 31)
V_BFI_B32             u32  u32 u32 u32  (a & b) | (~a & c)
V_BFM_B32             u32  u32 u32      ((1u << (a & 31)) - 1) << (b & 31)
V_BCNT_U32_B32        u32  u32 u32      (u32)__builtin_popcount(a) + b
V_MBCNT_LO_U32_B32    u32  u32 u32      (u32)__builtin_popcount(a & ((1u << i) - 1)) + b
V_MBCNT_HI_U32_B32    u32  u32 u32      b + 0 * a
V_ALIGNBIT_B32        u32  u32 u32 u32  (u32)(((u64)a << 32 | b) >> (c & 31))
V_ALIGNBYTE_B32       u32  u32 u32 u32  (u32)(((u64)a << 32 | b) >> (8 * (c & 3)))
V_PERM_B32            u32  u32 u32 u32  perm(a, b, c)
V_XOR3_B32            u32  u32 u32 u32  a ^ b ^ c
V_OR3_B32             u32  u32 u32 u32  a | b | c
V_ADD3_U32            u32  u32 u32 u32  a + b + c
V_XAD_U32             u32  u32 u32 u32  (a ^ b) + c
V_LSHL_ADD_U32        u32  u32 u32 u32  (a << (b & 31)) + c
V_ADD_LSHL_U32        u32  u32 u32 u32  (a + b) << (c & 31)
V_LSHL_OR_B32         u32  u32 u32 u32  a << (b & 31) | c
V_AND_OR_B32          u32  u32 u32 u32  (a & b) | c
V_LERP_U8             u32  u32 u32 u32  lerp8(a, b, c)
V_SAD_U8              u32  u32 u32 u32  sad8(a, b) + c
V_SAD_HI_U8           u32  u32 u32 u32  (sad8(a, b) << 16) + c
V_SAD_U16             u32  u32 u32 u32  absdiff(a & 0xffff, b & 0xffff) + absdiff(a >> 16, b >> 16) + c
V_SAD_U32             u32  u32 u32 u32  absdiff(a, b) + c
V_MSAD_U8             u32  u32 u32 u32  msad8(a, b) + c
# ---- 16-bit integers ----
V_ADD_NC_U16          u16  u16 u16      (u16)(a + b)
V_SUB_NC_U16          u16  u16 u16      (u16)(a - b)
V_ADD_NC_I16          u16  u16 u16      (u16)(a + b)
V_SUB_NC_I16          u16  u16 u16      (u16)(a - b)
V_MUL_LO_U16          u16  u16 u16      (u16)((u32)a * b)
V_MAD_U16             u16  u16 u16 u16  (u16)((u32)a * b + c)
V_MAD_I16             u16  u16 u16 u16  (u16)((u32)a * b + c)
V_MIN_U16             u16  u16 u16      MIN(a, b)
V_MAX_U16             u16  u16 u16      MAX(a, b)
V_MIN_I16             i16  i16 i16      MIN(a, b)
V_MAX_I16             i16  i16 i16      MAX(a, b)
V_MIN3_I16            i16  i16 i16 i16  MIN(MIN(a, b), c)
V_MAX3_I16            i16  i16 i16 i16  MAX(MAX(a, b), c)
V_MED3_I16            i16  i16 i16 i16  MED3(a, b, c)
V_MIN3_U16            u16  u16 u16 u16  MIN(MIN(a, b), c)
V_MAX3_U16            u16  u16 u16 u16  MAX(MAX(a, b), c)
V_MED3_U16            u16  u16 u16 u16  MED3(a, b, c)
V_LSHLREV_B16         u16  u16 u16      (u16)(b << (a & 15))
V_LSHRREV_B16         u16  u16 u16      (u16)(b >> (a & 15))
V_ASHRREV_I16         i16  u16 i16      (i16)(b >> (a & 15))
V_AND_B16             u16  u16 u16      a & b
V_OR_B16              u16  u16 u16      a | b
V_XOR_B16             u16  u16 u16      a ^ b
# ---- scalar results of the transcendental unit (V_S_*): lane 0's formula on a scalar ----
V_S_EXP_F32           sf32  f32         exp2_f32(a)
V_S_LOG_F32           sf32  f32         log2_f32(a)
V_S_RCP_F32           sf32  f32         rcp_f32(a)
V_S_RSQ_F32           sf32  f32         rsq_f32(a)
V_S_SQRT_F32          sf32  f32         sqrt_f32(a)
V_S_EXP_F16           sf16  f16         exp2_f16(a)
V_S_LOG_F16           sf16  f16         log2_f16(a)
V_S_RCP_F16           sf16  f16         rcp_f16(a)
V_S_RSQ_F16           sf16  f16         rsq_f16(a)
V_S_SQRT_F16          sf16  f16         sqrt_f16(a)
"""

# Integer operations that saturate when their CLAMP bit is set: the row to use instead.
_CLAMPED = """
V_ADD_NC_U32          u32  u32 u32      a + b < a ? ~0u : a + b
V_SUB_NC_U32          u32  u32 u32      a < b ? 0 : a - b
V_SUBREV_NC_U32       u32  u32 u32      b < a ? 0 : b - a
V_ADD_NC_I32          i32  i32 i32      saturate_i32((i64)a + b)
V_SUB_NC_I32          i32  i32 i32      saturate_i32((i64)a - b)
V_ADD_NC_U16          u16  u16 u16      (u16)MIN((u32)a + b, 65535u)
V_SUB_NC_U16          u16  u16 u16      a < b ? 0 : (u16)(a - b)
V_ADD_NC_I16          i16  i16 i16      (i16)saturate((i32)a + b, -32768, 32767)
V_SUB_NC_I16          i16  i16 i16      (i16)saturate((i32)a - b, -32768, 32767)
V_ADD_CO_U32          u32+mask  u32 u32  d = a + b; k = d < a; d = k ? ~0u : d
V_SUB_CO_U32          u32+mask  u32 u32  d = a - b; k = b > a; d = k ? 0 : d
V_MAD_U32_U24         u32  u32 u32 u32  (u32)MIN((u64)(a & 0xffffff) * (b & 0xffffff) + c, (u64)~0u)
V_MAD_U16             u16  u16 u16 u16  (u16)MIN((u64)a * b + c, (u64)65535)
V_MAD_U32_U16         u32  u16 u16 u32  (u32)MIN((u64)a * b + c, (u64)~0u)
"""


def _comparisons() -> dict[str, Row]:
    rows = {}
    integers = {("NE" if c == "LG" else c): code for c, code in INTEGER_CONDITIONS.items()}
    for kinds, conditions in (
        (("I16", "U16", "I32", "U32", "I64", "U64"), integers),
        (("F16", "F32", "F64"), FLOAT_CONDITIONS),
    ):
        for kind in kinds:
            for condition, code in conditions.items():
                for prefix, result in (("V_CMP", "mask"), ("V_CMPX", "exec")):
                    name = f"{prefix}_{condition}_{kind}"
                    rows[name] = Row(name, (result,), (kind.lower(),) * 2, code)
    for kind in ("I32", "U32", "I64", "U64", "F16", "F32", "F64"):  # RDNA3 has comparisons of one outcome
        for condition, code in (("F", "0 & (a == b)"), ("T", "1 | (a == b)")):
            for prefix, result in (("V_CMP", "mask"), ("V_CMPX", "exec")):
                name = f"{prefix}_{condition}_{kind}"
                rows[name] = Row(name, (result,), (kind.lower(),) * 2, code)
    for kind, size in (("F16", "u16"), ("F32", "u32"), ("F64", "u32")):
        for prefix, result in (("V_CMP", "mask"), ("V_CMPX", "exec")):
            name = f"{prefix}_CLASS_{kind}"
            rows[name] = Row(name, (result,), (kind.lower(), size), f"class_{kind.lower()}(a, b)")
    return rows


def _ieee() -> dict[str, Row]:
    """Minima and maxima of RDNA3 in its IEEE mode, where a signalling NaN wins (quieted)."""
    rows = {}
    for bits in (16, 32, 64):
        f = f"f{bits}"
        least, most, middle = f"minieee_{f}", f"maxieee_{f}", f"med3ieee_{f}"
        two = {"MIN": f"{least}(a, b)", "MAX": f"{most}(a, b)"}
        three = {
            "MIN3": f"{least}({least}(a, b), c)", "MAX3": f"{most}({most}(a, b), c)",
            "MED3": f"{middle}(a, b, c)", "MINMAX": f"{most}({least}(a, b), c)",
            "MAXMIN": f"{least}({most}(a, b), c)",
        }  # fmt: skip
        for sources, codes in (((f,) * 2, two), ((f,) * 3, three if bits < 64 else {})):
            for name, code in codes.items():
                rows[f"V_{name}_F{bits}"] = Row(f"V_{name}_F{bits}", (f,), sources, code)
    return rows


_IEEE_ROWS = _ieee()
VECTOR = {**parse(_TABLE), **_comparisons(), **_IEEE_ROWS}
CLAMPED = parse(_CLAMPED)

# RDNA3 names of the same operations
ALIASES = {
    **{f"V_{m}_F{n}": f"V_{m}_NUM_F{n}" for m in ("MIN", "MAX") for n in (16, 32, 64)},
    **{f"V_{m}3_F{n}": f"V_{m}3_NUM_F{n}" for m in ("MIN", "MAX", "MED") for n in (16, 32)},
    **{f"V_{m}_F{n}": f"V_{m}_NUM_F{n}" for m in ("MINMAX", "MAXMIN") for n in (16, 32)},
    "V_MAD_U64_U32": "V_MAD_CO_U64_U32", "V_MAD_I64_I32": "V_MAD_CO_I64_I32",
    "V_FMA_LEGACY_F32": "V_FMA_DX9_ZERO_F32", "V_CVT_PKRTZ_F16_F32": "V_CVT_PK_RTZ_F16_F32",
}  # fmt: skip

# Opcodes that RDNA3's IEEE mode changes: with it their own row is used, without it the alias.
IEEE = frozenset(
    {*_IEEE_ROWS, "V_PK_MIN_F16", "V_PK_MAX_F16", *(f"S_{m}_F{n}" for m in ("MIN", "MAX") for n in (16, 32))}
)
