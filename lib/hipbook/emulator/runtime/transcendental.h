// Exponentials, logarithms, roots and their like. Included by alu.h.
#ifndef HIPBOOK_TRANSCENDENTAL_H
#define HIPBOOK_TRANSCENDENTAL_H
#include "alu.h"

// ---- f32 transcendentals: evaluated in double to about 2^-50, so correctly rounded but for a few ties in
// 2^20; subnormal inputs count as zero and subnormal results become zero, as the ISA document says ----
INLINE f32 flush(f32 x) { return (AS(u32, x) & 0x7f800000u) ? x : AS(f32, AS(u32, x) & 0x80000000u); }

INLINE f64 pow2i(i64 e) { return AS(f64, (u64)(e + 1023) << 52); }  // e in -1022..1023

INLINE f64 exp2_small(f64 f) {  // 2**f, |f| <= 0.5: Taylor of exp(f ln 2), the 13th term is below 2^-52
  f64 x = f * 0.693147180559945309417232, s = 1.0 / 6227020800.0;
  s = s * x + 1.0 / 479001600.0;
  s = s * x + 1.0 / 39916800.0;
  s = s * x + 1.0 / 3628800.0;
  s = s * x + 1.0 / 362880.0;
  s = s * x + 1.0 / 40320.0;
  s = s * x + 1.0 / 5040.0;
  s = s * x + 1.0 / 720.0;
  s = s * x + 1.0 / 120.0;
  s = s * x + 1.0 / 24.0;
  s = s * x + 1.0 / 6.0;
  s = s * x + 0.5;
  s = s * x + 1.0;
  return s * x + 1.0;
}
INLINE f64 exp2_f64(f64 x) {  // for results in the normal range of f32 and a little beyond
  f64 c = x > 200.0 ? 200.0 : x < -200.0 ? -200.0 : x, n = rint(c);
  f64 y = exp2_small(c - n) * AS(f64, ((u64)(i64)(n + 1023.0)) << 52);
  return x != x ? x : y;
}
INLINE f32 exp2_f32(f32 x) { return flush((f32)exp2_f64((f64)flush(x))); }

INLINE f64 log2_f64(f64 x) {  // x > 0, normal: atanh series of the mantissa in [sqrt(1/2), sqrt(2))
  u64 bits = AS(u64, x);
  i64 e = (i64)(bits >> 52) - 1023;
  f64 m = AS(f64, (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  f64 big = m > 1.4142135623730951 ? 1.0 : 0.0;
  m = big != 0.0 ? m * 0.5 : m;
  f64 t = (m - 1.0) / (m + 1.0), q = t * t, s = 1.0 / 23.0;
  s = s * q + 1.0 / 21.0;
  s = s * q + 1.0 / 19.0;
  s = s * q + 1.0 / 17.0;
  s = s * q + 1.0 / 15.0;
  s = s * q + 1.0 / 13.0;
  s = s * q + 1.0 / 11.0;
  s = s * q + 1.0 / 9.0;
  s = s * q + 1.0 / 7.0;
  s = s * q + 1.0 / 5.0;
  s = s * q + 1.0 / 3.0;
  s = s * q + 1.0;
  return (f64)e + big + 2.0 * t * s * 1.44269504088896340735992;
}
INLINE f32 log2_f32(f32 x) {
  f32 a = flush(x);
  f32 y = (f32)log2_f64(a > 0.0f ? (f64)a : 1.0);
  y = a == 0.0f ? -INFINITY : a < 0.0f ? NAN : y;
  y = a == INFINITY ? INFINITY : y;
  return flush(a != a ? quiet32(a) : y);
}
INLINE f32 rcp_f32(f32 x) { return flush(1.0f / flush(x)); }
INLINE f32 sqrt_f32(f32 x) { return sqrtf(flush(x)); }
INLINE f32 rsq_f32(f32 x) { return (f32)(1.0 / sqrt((f64)flush(x))); }
// the argument counts turns; beyond 256 turns the hardware gives up range
INLINE f32 sin_f32(f32 x) {
  f64 t = (f64)flush(x);
  if (t == 0.0) return (f32)t;  // the sign of zero stays
  return flush((f32)sin((t - rint(t)) * 6.283185307179586476925287));
}
INLINE f32 cos_f32(f32 x) {
  f64 t = (f64)flush(x);
  return flush((f32)cos((t - rint(t)) * 6.283185307179586476925287));
}

// f16 versions keep subnormals
INLINE f16 exp2_f16(f16 x) { return (f16)exp2_f64((f64)x); }
INLINE f16 log2_f16(f16 x) { return (f16)log2((f64)x); }
INLINE f16 rcp_f16(f16 x) { return (f16)(1.0 / (f64)x); }
INLINE f16 sqrt_f16(f16 x) { return (f16)sqrt((f64)x); }
INLINE f16 rsq_f16(f16 x) { return (f16)(1.0 / sqrt((f64)x)); }
INLINE f16 sin_f16(f16 x) {
  f64 t = (f64)x;
  if (t == 0.0) return x;
  return (f16)sin((t - rint(t)) * 6.283185307179586476925287);
}
INLINE f16 cos_f16(f16 x) {
  f64 t = (f64)x;
  return (f16)cos((t - rint(t)) * 6.283185307179586476925287);
}
INLINE f16 fma_f16(f16 a, f16 b, f16 c) { return (f16)fma((f64)a, (f64)b, (f64)c); }

#endif
