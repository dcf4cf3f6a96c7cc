// Arithmetic the semantics tables call by name. Everything here is scalar C that vectorises over lanes where
// it matters. Compiled with -ffp-contract=off: only fma() fuses.
#ifndef HIPBOOK_ALU_H
#define HIPBOOK_ALU_H
#include <math.h>

#include "operands.h"

#define AS(type, x)                                                                                          \
  ({                                                                                                         \
    __typeof__(x) from_ = (x);                                                                               \
    type to_;                                                                                                \
    memcpy(&to_, &from_, sizeof to_);                                                                        \
    to_;                                                                                                     \
  })

INLINE f32 quiet32(f32 x) { return AS(f32, AS(u32, x) | 0x400000u); }

// ---- minimum, maximum: *num prefers numbers over NaN; -0 < +0 (IEEE 754-2019) ----
#define MINMAX(T, U, suffix, quiet_bit)                                                                      \
  INLINE int less_##suffix(T a, T b) {                                                                       \
    return a < b || (a == b && (AS(U, a) >> (8 * sizeof(T) - 1)) > (AS(U, b) >> (8 * sizeof(T) - 1)));       \
  }                                                                                                          \
  INLINE T quiet_##suffix(T a) { return AS(T, (U)(AS(U, a) | quiet_bit)); }                                  \
  INLINE T minnum_##suffix(T a, T b) {                                                                       \
    T r = less_##suffix(a, b) ? a : b;                                                                       \
    r = b != b ? a : r;                                                                                      \
    r = a != a ? b : r;                                                                                      \
    return r != r ? quiet_##suffix(r) : r;                                                                   \
  }                                                                                                          \
  INLINE T maxnum_##suffix(T a, T b) {                                                                       \
    T r = less_##suffix(b, a) ? a : b;                                                                       \
    r = b != b ? a : r;                                                                                      \
    r = a != a ? b : r;                                                                                      \
    return r != r ? quiet_##suffix(r) : r;                                                                   \
  }                                                                                                          \
  INLINE T minimum_##suffix(T a, T b) {                                                                      \
    return a != a ? quiet_##suffix(a) : b != b ? quiet_##suffix(b) : less_##suffix(a, b) ? a : b;            \
  }                                                                                                          \
  INLINE T maximum_##suffix(T a, T b) {                                                                      \
    return a != a ? quiet_##suffix(a) : b != b ? quiet_##suffix(b) : less_##suffix(b, a) ? a : b;            \
  }                                                                                                          \
  INLINE T med3num_##suffix(T a, T b, T c) {                                                                 \
    if (a != a || b != b || c != c) return minnum_##suffix(minnum_##suffix(a, b), c);                        \
    T top = maxnum_##suffix(maxnum_##suffix(a, b), c);                                                       \
    return top == a ? maxnum_##suffix(b, c) : top == b ? maxnum_##suffix(a, c) : maxnum_##suffix(a, b);      \
  }                                                                                                          \
  INLINE int signals_##suffix(T a) { return a != a && !(AS(U, a) & quiet_bit); }                             \
  INLINE T minieee_##suffix(T a, T b) { /* RDNA3 in IEEE mode: a signalling NaN wins */                      \
    return signals_##suffix(a)   ? quiet_##suffix(a)                                                         \
           : signals_##suffix(b) ? quiet_##suffix(b)                                                         \
                                 : minnum_##suffix(a, b);                                                    \
  }                                                                                                          \
  INLINE T maxieee_##suffix(T a, T b) {                                                                      \
    return signals_##suffix(a)   ? quiet_##suffix(a)                                                         \
           : signals_##suffix(b) ? quiet_##suffix(b)                                                         \
                                 : maxnum_##suffix(a, b);                                                    \
  }                                                                                                          \
  INLINE T med3ieee_##suffix(T a, T b, T c) {                                                                \
    if (a == a && b == b && c == c) return med3num_##suffix(a, b, c);                                        \
    return minieee_##suffix(minieee_##suffix(a, b), c);                                                      \
  }
MINMAX(f32, u32, f32, 0x400000u)
MINMAX(f64, u64, f64, 0x8000000000000ull)
MINMAX(f16, u16, f16, 0x200)

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MED3(a, b, c) MAX(MIN(a, b), MIN(MAX(a, b), c))

// ---- conversions: out of range saturates, NaN is 0 ----
INLINE u32 to_u32(f64 x) { return x >= 4294967295.0 ? ~0u : x > 0 ? (u32)x : 0; }
INLINE i32 to_i32(f64 x) {
  return x >= 2147483647.0 ? INT32_MAX : x > -2147483648.0 ? (i32)x : x == x ? INT32_MIN : 0;
}
INLINE u32 f32_to_u32(f32 x) { return x >= 4294967296.0f ? ~0u : x > 0 ? (u32)x : 0; }
INLINE i32 f32_to_i32(f32 x) {
  return x >= 2147483648.0f ? INT32_MAX : x >= -2147483648.0f ? (i32)x : x == x ? INT32_MIN : 0;
}
INLINE u16 to_u16(f64 x) { return x >= 65535.0 ? 0xffff : x > 0 ? (u16)x : 0; }
INLINE i16 to_i16(f64 x) { return x >= 32767.0 ? 32767 : x > -32768.0 ? (i16)x : x == x ? -32768 : 0; }
INLINE u32 to_u8(f64 x) { return x >= 255.0 ? 255 : x > 0 ? (u32)x : 0; }
INLINE u16 to_snorm(f64 x) { return x != x ? 0 : (u16)(i16)rint((x < -1 ? -1 : x > 1 ? 1 : x) * 32767.0); }
INLINE u16 to_unorm(f64 x) { return x != x ? 0 : (u16)rint((x < 0 ? 0 : x > 1 ? 1 : x) * 65535.0); }

INLINE u16 f32_to_f16_toward_zero(f32 x) {
  f16 h = (f16)x;
  u16 bits = AS(u16, h);
  f32 back = (f32)h;
  if (x != x) return bits;
  if (fabsf(back) > fabsf(x) && (AS(u32, x) & 0x7fffffff) != 0x7f800000)
    bits--;  // also turns inf into the largest
  return bits;
}

INLINE f32 bf16_to_f32(u32 x) { return AS(f32, x << 16); }
INLINE u16 f32_to_bf16(f32 x) {  // round to nearest even
  u32 bits = AS(u32, x);
  if (x != x) return (u16)(bits >> 16) | 0x40;
  return (u16)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
INLINE f32 half_to_f32(u32 x) {
  u16 h = (u16)x;
  return (f32)AS(f16, h);
}

INLINE f32 dot2_f16(u32 a, u32 b, f32 c) {
  return fmaf(half_to_f32(a >> 16), half_to_f32(b >> 16), fmaf(half_to_f32(a), half_to_f32(b), c));
}
INLINE f32 dot2_bf16(u32 a, u32 b, f32 c) {
  f32 low = fmaf(bf16_to_f32(a & 0xffff), bf16_to_f32(b & 0xffff), c);
  return fmaf(bf16_to_f32(a >> 16), bf16_to_f32(b >> 16), low);
}
INLINE f16 dot2_f16_f16(u32 a, u32 b, f16 c) {
  f64 low = (f64)half_to_f32(a) * half_to_f32(b), high = (f64)half_to_f32(a >> 16) * half_to_f32(b >> 16);
  return (f16)(low + high + (f64)c);
}
INLINE u32 saturate8(i32 x) { return x < 0 ? 0 : x > 255 ? 255 : (u32)x; }
INLINE u32 saturate_i16(i32 x) { return (u16)(x < -32768 ? -32768 : x > 32767 ? 32767 : x); }
INLINE f32 cube_face(f32 x, f32 y, f32 z) {
  if (fabsf(z) >= fabsf(x) && fabsf(z) >= fabsf(y)) return z < 0 ? 5.0f : 4.0f;
  if (fabsf(y) >= fabsf(x)) return y < 0 ? 3.0f : 2.0f;
  return x < 0 ? 1.0f : 0.0f;
}

INLINE f32 fp8_to_f32(u32 x, int mantissa_bits, int bias, int ieee) {  // OCP e4m3fn and e5m2
  u32 sign = (x >> 7) & 1, exponent = (x & 0x7f) >> mantissa_bits, mantissa = x & ((1u << mantissa_bits) - 1);
  u32 top = (0x7fu >> mantissa_bits);
  f32 v;
  if (ieee && exponent == top)
    v = mantissa ? NAN : INFINITY;
  else if (!ieee && (x & 0x7f) == 0x7f)
    v = NAN;
  else if (exponent)
    v = ldexpf((f32)(mantissa + (1u << mantissa_bits)), (int)exponent - bias - mantissa_bits);
  else
    v = ldexpf((f32)mantissa, 1 - bias - mantissa_bits);
  return sign ? -v : v;
}

// ---- classes (V_CMP_CLASS): signalling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, ..., +inf ----
#define CLASS(T, U, suffix, exponent_bits, mantissa_bits)                                                    \
  INLINE int class_##suffix(T x, u32 wanted) {                                                               \
    U bits = AS(U, x), mantissa = bits & (((U)1 << mantissa_bits) - 1);                                      \
    U exponent = (bits >> mantissa_bits) & (((U)1 << exponent_bits) - 1);                                    \
    int negative = (int)(bits >> (8 * sizeof(T) - 1)), kind;                                                 \
    if (exponent == ((U)1 << exponent_bits) - 1)                                                             \
      kind = mantissa ? (int)(mantissa >> (mantissa_bits - 1)) : negative ? 2 : 9;                           \
    else if (exponent)                                                                                       \
      kind = negative ? 3 : 8;                                                                               \
    else if (mantissa)                                                                                       \
      kind = negative ? 4 : 7;                                                                               \
    else                                                                                                     \
      kind = negative ? 5 : 6;                                                                               \
    return (wanted >> kind) & 1;                                                                             \
  }
CLASS(f32, u32, f32, 8, 23)
CLASS(f64, u64, f64, 11, 52)
CLASS(f16, u16, f16, 5, 10)

// ---- bits ----
INLINE u32 reverse32(u32 x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
INLINE u64 reverse64(u64 x) { return (u64)reverse32((u32)x) << 32 | reverse32((u32)(x >> 32)); }
INLINE u32 clz32(u32 x) { return x ? (u32)__builtin_clz(x) : ~0u; }
INLINE u32 ctz32(u32 x) { return x ? (u32)__builtin_ctz(x) : ~0u; }
INLINE u32 clz64(u64 x) { return x ? (u32)__builtin_clzll(x) : ~0u; }
INLINE u32 ctz64(u64 x) { return x ? (u32)__builtin_ctzll(x) : ~0u; }
INLINE u32 cls32(i32 x) {
  u32 y = (u32)(x ^ (x >> 31));
  return y ? (u32)__builtin_clz(y) : ~0u;
}
INLINE u32 cls64(i64 x) {
  u64 y = (u64)(x ^ (x >> 63));
  return y ? (u32)__builtin_clzll(y) : ~0u;
}
INLINE u32 bfe_u32(u32 x, u32 at, u32 n) {
  return n == 0 ? 0 : n >= 32 ? x >> at : (x >> at) & ((1u << n) - 1);
}
INLINE i32 bfe_i32(i32 x, u32 at, u32 n) {  // bits past the top repeat the sign
  if (n == 0) return 0;
  i32 y = x >> at;
  return n >= 32 ? y : (i32)((u32)y << (32 - n)) >> (32 - n);
}
INLINE u64 bfe_u64(u64 x, u32 at, u32 n) {
  return n == 0 ? 0 : n >= 64 ? x >> at : (x >> at) & (((u64)1 << n) - 1);
}
INLINE i64 bfe_i64(i64 x, u32 at, u32 n) {
  if (n == 0) return 0;
  i64 y = x >> at;
  return n >= 64 ? y : (i64)((u64)y << (64 - n)) >> (64 - n);
}
INLINE u32 perm_byte(u64 data, u32 sel) {
  if (sel >= 13) return 0xff;
  if (sel == 12) return 0;
  if (sel >= 8) return (data >> (16 * (sel - 8) + 15)) & 1 ? 0xff : 0;
  return (u32)(data >> (8 * sel)) & 0xff;
}
INLINE u32 perm(u32 a, u32 b, u32 s) {
  u64 data = (u64)a << 32 | b;
  return perm_byte(data, s & 0xff) | perm_byte(data, (s >> 8) & 0xff) << 8 |
         perm_byte(data, (s >> 16) & 0xff) << 16 | perm_byte(data, s >> 24) << 24;
}
INLINE u32 absdiff(u32 a, u32 b) { return a > b ? a - b : b - a; }
INLINE u32 byte_of(u32 x, int n) { return (x >> (8 * n)) & 255; }
INLINE u32 sad8(u32 a, u32 b) {
  return absdiff(byte_of(a, 0), byte_of(b, 0)) + absdiff(byte_of(a, 1), byte_of(b, 1)) +
         absdiff(byte_of(a, 2), byte_of(b, 2)) + absdiff(byte_of(a, 3), byte_of(b, 3));
}
INLINE u32 msad8(u32 a, u32 b) {
  u32 sum = 0;
  for (int i = 0; i < 4; i++) sum += byte_of(b, i) ? absdiff(byte_of(a, i), byte_of(b, i)) : 0;
  return sum;
}
INLINE u32 lerp8(u32 a, u32 b, u32 c) {
  u32 out = 0;
  for (int i = 0; i < 4; i++) out |= ((byte_of(a, i) + byte_of(b, i) + (byte_of(c, i) & 1)) >> 1) << (8 * i);
  return out;
}
INLINE i32 sext24(u32 x) { return (i32)(x << 8) >> 8; }
INLINE u32 quadmask(u64 x, int n) {
  u32 m = 0;
  for (int i = 0; i < n; i++) m |= (u32)(((x >> (4 * i)) & 15) != 0) << i;
  return m;
}
INLINE u64 wqm(u64 x, int n) {
  u64 m = 0;
  for (int i = 0; i < n; i++)
    if ((x >> (4 * i)) & 15) m |= (u64)15 << (4 * i);
  return m;
}
INLINE u64 replicate(u32 x) {
  u64 m = 0;
  for (int i = 0; i < 32; i++)
    if ((x >> i) & 1) m |= (u64)3 << (2 * i);
  return m;
}
INLINE i32 dot_bytes(u32 a, u32 b, int a_signed, int b_signed) {
  i32 sum = 0;
  for (int i = 0; i < 4; i++) {
    i32 x = a_signed ? (i8)(a >> (8 * i)) : (i32)(u8)(a >> (8 * i)),
        y = b_signed ? (i8)(b >> (8 * i)) : (i32)(u8)(b >> (8 * i));
    sum += x * y;
  }
  return sum;
}
INLINE i32 dot_nibbles(u32 a, u32 b, int a_signed, int b_signed) {
  i32 sum = 0;
  for (int i = 0; i < 8; i++) {
    i32 x = (i32)((a >> (4 * i)) & 15), y = (i32)((b >> (4 * i)) & 15);
    if (a_signed) x = (x ^ 8) - 8;
    if (b_signed) y = (y ^ 8) - 8;
    sum += x * y;
  }
  return sum;
}
INLINE u32 saturate_i32(i64 x) { return (u32)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x); }
INLINE u32 pk_add_f16(u32 a, u32 b) {
  f16 low = (f16)(half_to_f32(a) + half_to_f32(b)), high = (f16)(half_to_f32(a >> 16) + half_to_f32(b >> 16));
  return AS(u16, low) | (u32)AS(u16, high) << 16;
}
INLINE u32 pk_add_bf16(u32 a, u32 b) {
  return f32_to_bf16(bf16_to_f32(a & 0xffff) + bf16_to_f32(b & 0xffff)) |
         (u32)f32_to_bf16(bf16_to_f32(a >> 16) + bf16_to_f32(b >> 16)) << 16;
}
INLINE i64 saturate(i64 x, i64 low, i64 high) { return x < low ? low : x > high ? high : x; }

#include "transcendental.h"
#include "division.h"

#endif
