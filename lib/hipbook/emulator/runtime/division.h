// Scaling by powers of two, and the instructions a division is made of. Included by alu.h.
#ifndef HIPBOOK_DIVISION_H
#define HIPBOOK_DIVISION_H
#include "alu.h"

// ---- scaling ----
INLINE f32 ldexp_f32(f32 x, i32 e) {  // one rounding: exact in double, for any f32 and |e| <= 300
  e = e > 300 ? 300 : e < -300 ? -300 : e;
  return (f32)((f64)x * pow2i(e));
}
INLINE f16 ldexp_f16(f16 x, i32 e) {
  e = e > 64 ? 64 : e < -64 ? -64 : e;
  return (f16)((f64)x * pow2i(e));
}
INLINE f64 ldexp_f64(f64 x, i32 e) { return ldexp(x, e); }

INLINE i32 exponent_f32(f32 x) { return (AS(u32, x) >> 23) & 255; }
INLINE i32 exponent_f64(f64 x) { return (AS(u64, x) >> 52) & 2047; }
INLINE i32 frexp_exp_f32(f32 x) {
  int e;
  return x - x != 0.0f || x == 0.0f ? 0 : (frexpf(x, &e), e);
}
INLINE i32 frexp_exp_f64(f64 x) {
  int e;
  return x - x != 0.0 || x == 0.0 ? 0 : (frexp(x, &e), e);
}
INLINE f32 frexp_mant_f32(f32 x) {
  int e;
  return x - x != 0.0f ? x : frexpf(x, &e);
}
INLINE f64 frexp_mant_f64(f64 x) {
  int e;
  return x - x != 0.0 ? x : frexp(x, &e);
}

INLINE int subnormal_f32(f32 x) { return x != 0.0f && exponent_f32(x) == 0; }
INLINE int subnormal_f64(f64 x) { return x != 0.0 && exponent_f64(x) == 0; }

// ---- division: V_DIV_SCALE keeps the Newton steps in range, V_DIV_FMAS undoes it, V_DIV_FIXUP settles the
// special cases. a: the operand to scale, b: denominator, c: numerator. Where AMD's pseudo-code cannot give
// an IEEE quotient it is corrected, each with a test: a huge denominator of a tiny quotient is scaled down,
// not up; the factor of V_DIV_FMAS is 2**64 either way; an estimate that overflowed to NaN is infinity ----
INLINE f32 div_scale_f32(f32 a, f32 b, f32 c, u32* vcc) {
  *vcc = 0;
  if (c == 0.0f || b == 0.0f) return NAN;
  if (exponent_f32(c) - exponent_f32(b) >= 96) return *vcc = 1, a == b ? ldexp_f32(a, 64) : a;
  if (subnormal_f32(b)) return ldexp_f32(a, 64);
  // 1 / b and c / b as the hardware estimates them: by exponents
  f64 inverse = 1.0 / (f64)b, quotient = (f64)c / (f64)b;
  int inverse_tiny = fabs(inverse) < 0x1p-126 && inverse != 0.0, quotient_tiny = fabs(quotient) < 0x1p-126;
  if (inverse_tiny && quotient_tiny) return *vcc = 1, a == b ? ldexp_f32(a, -64) : a;
  if (inverse_tiny) return ldexp_f32(a, -64);
  if (quotient_tiny) return *vcc = 1, a == c ? ldexp_f32(a, 64) : a;
  if (exponent_f32(c) <= 23) return ldexp_f32(a, 64);
  return a;
}
INLINE f64 div_scale_f64(f64 a, f64 b, f64 c, u32* vcc) {
  *vcc = 0;
  if (c == 0.0 || b == 0.0) return NAN;
  if (exponent_f64(c) - exponent_f64(b) >= 768) return *vcc = 1, a == b ? ldexp(a, 128) : a;
  if (subnormal_f64(b)) return ldexp(a, 128);
  int inverse_tiny = subnormal_f64(1.0 / b), quotient_tiny = subnormal_f64(c / b);
  if (inverse_tiny && quotient_tiny) return *vcc = 1, a == b ? ldexp(a, -128) : a;
  if (inverse_tiny) return ldexp(a, -128);
  if (quotient_tiny) return *vcc = 1, a == c ? ldexp(a, 128) : a;
  if (exponent_f64(c) <= 53) return ldexp(a, 128);
  return a;
}
// The quotient estimate c tells which operand V_DIV_SCALE scaled: a large one wants its denominator's factor
// back, a small one its numerator's. Scaled and rounded once, though the result be subnormal.
INLINE f32 div_fmas_f32(f32 a, f32 b, f32 c, u32 vcc) {
  if (!vcc) return fmaf(a, b, c);
  f64 p = (f64)a * (f64)b, q = (f64)c, s = p + q;  // p is exact; s rounded to odd keeps what f32 needs
  f64 t = s - p, error = (p - (s - t)) + (q - t);
  u64 bits = AS(u64, s), up = (error > 0.0) == (s > 0.0);
  if (!(bits & 1) && (error > 0.0 || error < 0.0)) bits += up ? 1 : ~(u64)0;
  return (f32)(AS(f64, bits) * (exponent_f32(c) > 127 ? 0x1p64 : 0x1p-64));
}
// a b + c - y, its sign at least, for y = fma(a, b, c): exact steps after a scaling that keeps low parts
INLINE f64 fma_error(f64 a, f64 b, f64 c, f64 y) {
  a *= 0x1p300, c *= 0x1p300, y *= 0x1p300;
  f64 p = a * b, low = fma(a, b, -p), s = p + c, t = s - p, rest = (p - (s - t)) + (c - t);
  return ((s - y) + rest) + low;
}
INLINE f64 div_fmas_f64(f64 a, f64 b, f64 c, u32 vcc) {
  f64 y = fma(a, b, c);
  if (!vcc) return y;
  if (exponent_f64(c) > 1023) return y * 0x1p128;
  f64 z = y * 0x1p-128, beyond = y - z * 0x1p128;  // what z lost by being subnormal
  if (fabs(beyond) != 0x1p-947) return z;          // not half a unit: y, already rounded, decides
  f64 error = fma_error(a, b, c, y);
  return (beyond > 0.0 ? error > 0.0 : error < 0.0) ? z + copysign(0x1p-1074, beyond) : z;
}
#define DIV_FIXUP(T, U, suffix, absolute, underflow)                                                         \
  INLINE T div_fixup_##suffix(T a, T b, T c) {                                                               \
    const U top = (U)1 << (8 * sizeof(T) - 1);                                                               \
    U sign = (AS(U, b) ^ AS(U, c)) & top;                                                                    \
    T inf = (T)INFINITY, zero = (T)0, r;                                                                     \
    if (c != c) return quiet_##suffix(c);                                                                    \
    if (b != b) return quiet_##suffix(b);                                                                    \
    if (b == zero && c == zero) return -(T)NAN;                                                              \
    T ab = AS(T, (U)(AS(U, b) & ~top)), ac = AS(T, (U)(AS(U, c) & ~top));                                    \
    if (ab == inf && ac == inf) return -(T)NAN;                                                              \
    if (b == zero || ac == inf)                                                                              \
      r = inf;                                                                                               \
    else if (ab == inf || c == zero)                                                                         \
      r = zero;                                                                                              \
    else if (underflow)                                                                                      \
      r = zero;                                                                                              \
    else if (a != a)                                                                                         \
      r = inf;                                                                                               \
    else                                                                                                     \
      r = AS(T, (U)(AS(U, a) & ~top));                                                                       \
    return AS(T, (U)(AS(U, r) | sign));                                                                      \
  }
DIV_FIXUP(f32, u32, f32, fabsf, exponent_f32(c) - exponent_f32(b) < -150)
DIV_FIXUP(f64, u64, f64, fabs, exponent_f64(c) - exponent_f64(b) < -1075)
DIV_FIXUP(f16, u16, f16, fabs, 0)

#endif
