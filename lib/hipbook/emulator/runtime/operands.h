// How handlers read their operands and put their results: arrays over the 32 lanes, under EXEC.
//
// A VGPR or a constant is a pointer to its 32 words; a scalar is spread into `tmp`. fetch_* apply the
// modifiers of floating-point operands, put_* those of results.
#ifndef HIPBOOK_OPERANDS_H
#define HIPBOOK_OPERANDS_H
#include "wave.h"

INLINE u32 exec_of(const Wave* w) { return w->s[EXEC]; }

INLINE const u32* fetch_u32(const Wave* w, const Rec* r, int n, u32* tmp) {
  Operand o = r->src[n];
  if (o.kind == VGPR) return w->v[o.index];
  if (o.kind == CONSTANT) return w->pool + (size_t)o.index * LANES;
  u32 x = w->s[o.index];
  for (int i = 0; i < LANES; i++) tmp[i] = x;
  return tmp;
}

INLINE const u32* fetch_b32(const Wave* w, const Rec* r, int n, u32* tmp) {
  const u32* p = fetch_u32(w, r, n, tmp);
  u32 flags = r->src[n].flags;
  if (__builtin_expect(flags & (ABS | NEG), 0)) {
    u32 keep = flags & ABS ? 0x7fffffffu : ~0u, flip = flags & NEG ? 0x80000000u : 0;
    for (int i = 0; i < LANES; i++) tmp[i] = (p[i] & keep) ^ flip;
    return tmp;
  }
  return p;
}

INLINE void fetch_b64(const Wave* w, const Rec* r, int n, u64* tmp) {
  Operand o = r->src[n];
  if (o.kind == SGPR) {
    u64 x = w->s[o.index] | (u64)w->s[o.index + 1] << 32;
    for (int i = 0; i < LANES; i++) tmp[i] = x;
  } else {
    const u32* p = o.kind == VGPR ? w->v[o.index] : w->pool + (size_t)o.index * LANES;
    for (int i = 0; i < LANES; i++) tmp[i] = p[i] | (u64)p[i + LANES] << 32;
  }
  if (__builtin_expect(o.flags & (ABS | NEG), 0)) {
    u64 keep = o.flags & ABS ? ~(u64)0 >> 1 : ~(u64)0, flip = o.flags & NEG ? (u64)1 << 63 : 0;
    for (int i = 0; i < LANES; i++) tmp[i] = (tmp[i] & keep) ^ flip;
  }
}

INLINE void fetch_b16(const Wave* w, const Rec* r, int n, u16* tmp) {
  u32 words[LANES] ALIGNED;
  const u32* p = fetch_u32(w, r, n, words);
  u32 flags = r->src[n].flags, shift = flags & HI ? 16 : 0;
  u32 keep = flags & ABS ? 0x7fffu : 0xffffu, flip = flags & NEG ? 0x8000u : 0;
  for (int i = 0; i < LANES; i++) tmp[i] = (u16)(((p[i] >> shift) & keep) ^ flip);
}

// The two halves of a packed operand (VOP3P), each chosen and negated by its own bits.
INLINE void fetch_halves(const Wave* w, const Rec* r, int n, u16* low, u16* high) {
  u32 words[LANES] ALIGNED;
  const u32* p = fetch_u32(w, r, n, words);
  u32 flags = r->src[n].flags;
  u32 low_shift = flags & HI ? 16 : 0, high_shift = flags & HI2 ? 16 : 0;
  u16 low_flip = flags & NEG ? 0x8000 : 0, high_flip = flags & NEG2 ? 0x8000 : 0;
  for (int i = 0; i < LANES; i++) {
    low[i] = (u16)(p[i] >> low_shift) ^ low_flip;
    high[i] = (u16)(p[i] >> high_shift) ^ high_flip;
  }
}

// An operand of V_FMA_MIX_*: f32, or either half as f16 (HI2 chooses f16, HI the upper half).
INLINE void fetch_mix(const Wave* w, const Rec* r, int n, f32* out) {
  u32 words[LANES] ALIGNED;
  const u32* p = fetch_u32(w, r, n, words);
  u32 flags = r->src[n].flags;
  for (int i = 0; i < LANES; i++) {
    u32 bits = p[i];
    if (flags & HI2) {
      u16 half = (u16)(flags & HI ? bits >> 16 : bits);
      f16 h;
      memcpy(&h, &half, 2);
      f32 f = (f32)h;
      memcpy(&bits, &f, 4);
    }
    if (flags & ABS) bits &= 0x7fffffffu;
    if (flags & NEG) bits ^= 0x80000000u;
    memcpy(&out[i], &bits, 4);
  }
}

INLINE u32 fetch_mask(const Wave* w, const Rec* r, int n) {  // a lane mask in an SGPR
  Operand o = r->src[n];
  return o.kind == CONSTANT ? w->pool[(size_t)o.index * LANES] : w->s[o.index];
}

INLINE u32 scalar32(const Wave* w, const Rec* r, int n) {
  Operand o = r->src[n];
  return o.kind == SGPR ? w->s[o.index] : w->pool[(size_t)o.index * LANES];
}

INLINE u64 scalar64(const Wave* w, const Rec* r, int n) {
  Operand o = r->src[n];
  if (o.kind == SGPR) return w->s[o.index] | (u64)w->s[o.index + 1] << 32;
  const u32* p = w->pool + (size_t)o.index * LANES;
  return p[0] | (u64)p[LANES] << 32;
}

// ---- results ----

INLINE void put32(Wave* w, u32 dst, const u32* out) {
  u32 exec = exec_of(w), *d = w->v[dst];
  if (__builtin_expect(exec == ~0u, 1)) {
    memcpy(d, out, 4 * LANES);
  } else {
    for (int i = 0; i < LANES; i++) d[i] = (exec >> i) & 1 ? out[i] : d[i];
  }
}

INLINE void put_u32(Wave* w, const Rec* r, const u32* out) { put32(w, r->dst, out); }

INLINE void put_f32(Wave* w, const Rec* r, f32* out) {
  if (__builtin_expect(r->flags & 7, 0)) {
    u32 omod = (r->flags >> OMOD_SHIFT) & 3;
    f32 scale = omod == 1 ? 2.0f : omod == 2 ? 4.0f : omod == 3 ? 0.5f : 1.0f;
    if (omod)
      for (int i = 0; i < LANES; i++) out[i] *= scale;
    if (r->flags & CLAMP)  // NaN becomes 0
      for (int i = 0; i < LANES; i++) out[i] = out[i] > 0.0f ? (out[i] > 1.0f ? 1.0f : out[i]) : 0.0f;
  }
  put32(w, r->dst, (const u32*)out);
}

INLINE void put_u64(Wave* w, const Rec* r, const u64* out) {
  u32 low[LANES] ALIGNED, high[LANES] ALIGNED;
  for (int i = 0; i < LANES; i++) low[i] = (u32)out[i], high[i] = (u32)(out[i] >> 32);
  put32(w, r->dst, low);
  put32(w, r->dst + 1, high);
}

INLINE void put_f64(Wave* w, const Rec* r, f64* out) {
  if (__builtin_expect(r->flags & 7, 0)) {
    u32 omod = (r->flags >> OMOD_SHIFT) & 3;
    f64 scale = omod == 1 ? 2.0 : omod == 2 ? 4.0 : omod == 3 ? 0.5 : 1.0;
    for (int i = 0; i < LANES; i++) {
      f64 x = out[i] * scale;
      out[i] = r->flags & CLAMP ? (x > 0.0 ? (x > 1.0 ? 1.0 : x) : 0.0) : x;
    }
  }
  put_u64(w, r, (const u64*)out);
}

INLINE void put_u16(Wave* w, const Rec* r, const u16* out) {  // the other half stays
  u32 merged[LANES] ALIGNED;
  const u32* d = w->v[r->dst];
  if (r->flags & DST_HI)
    for (int i = 0; i < LANES; i++) merged[i] = (d[i] & 0xffffu) | (u32)out[i] << 16;
  else
    for (int i = 0; i < LANES; i++) merged[i] = (d[i] & 0xffff0000u) | out[i];
  put32(w, r->dst, merged);
}

INLINE void put_f16(Wave* w, const Rec* r, f16* out) {
  if (__builtin_expect(r->flags & 7, 0)) {
    u32 omod = (r->flags >> OMOD_SHIFT) & 3;
    f16 scale = (f16)(omod == 1 ? 2.0f : omod == 2 ? 4.0f : omod == 3 ? 0.5f : 1.0f);
    for (int i = 0; i < LANES; i++) {
      f16 x = (f16)(out[i] * scale);
      out[i] = r->flags & CLAMP ? (x > (f16)0 ? (x > (f16)1 ? (f16)1 : x) : (f16)0) : x;
    }
  }
  put_u16(w, r, (const u16*)out);
}

INLINE u32 lane_mask(const u32* flags) {  // bit i: flags[i] is not zero
#if defined(__AVX512F__)
  __m512i low = _mm512_loadu_si512(flags), high = _mm512_loadu_si512(flags + 16);
  return (u32)_mm512_test_epi32_mask(low, low) | (u32)_mm512_test_epi32_mask(high, high) << 16;
#else
  u32 mask = 0;
  for (int i = 0; i < LANES; i++) mask |= (u32)(flags[i] != 0) << i;
  return mask;
#endif
}

INLINE void put_mask(Wave* w, const Rec* r, u32 mask) { w->s[r->dst] = mask & exec_of(w); }
INLINE void put_mask2(Wave* w, const Rec* r, u32 mask) { w->s[r->dst2] = mask & exec_of(w); }

INLINE void put_s64(Wave* w, u32 dst, u64 x) { w->s[dst] = (u32)x, w->s[dst + 1] = (u32)(x >> 32); }

#endif
