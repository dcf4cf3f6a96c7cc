// The machine's state and the record an instruction is decoded to.
//
// A wave is 32 lanes. VGPRs are arrays of 32 words, so that every handler is a loop over lanes which the
// compiler turns into vector code. SGPRs, VCC, M0, EXEC, SCC and the trap temporaries share one array under
// their operand numbers of the ISA document (VCC_LO 106, M0 125, EXEC_LO 126, SCC 253), so that reading any
// of them as a source needs no special case. Writes to NULL (124) go to TRASH.
#ifndef HIPBOOK_WAVE_H
#define HIPBOOK_WAVE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef float f32;
typedef double f64;
typedef _Float16 f16;
typedef unsigned __int128 u128;

#define LANES 32
#define ALIGNED __attribute__((aligned(64)))
#define INLINE static inline __attribute__((always_inline))
#define COLD static __attribute__((noinline, cold))

enum { VCC = 106, TTMP0 = 108, NUL = 124, M0 = 125, EXEC = 126, SCC = 253, TRASH = 254 };
enum { MAX_VGPRS = 256, TEMP_VGPRS = 8, MAX_VIEWS = 64, MAX_WAVES = 32, MAX_LEVELS = 4 };

enum { NONE, VGPR, SGPR, CONSTANT };                       // Operand.kind
enum { ABS = 1, NEG = 2, HI = 4, HI2 = 8, NEG2 = 16 };     // Operand.flags; HI2, NEG2: of the upper half (VOP3P)
enum { CLAMP = 1, OMOD_SHIFT = 1, DST_HI = 8, RETURN = 16, NO_SADDR = 32, NO_VADDR = 64 };  // Rec.flags

typedef struct {
  u8 kind, flags;
  u16 index;  // of a VGPR, of an SGPR, or into the pool of constants
} Operand;

typedef struct Wave Wave;
typedef struct Rec Rec;
typedef const Rec *(*Handler)(Wave *, const Rec *);  // NULL: the wave stops, Wave.stop says why

struct Rec {
  Handler fn;
  Operand src[4];
  u16 dst, dst2;
  u32 flags;
  u32 target;  // of a branch: index of a record
  u32 slot;    // of a memory instruction: its address cache
  i64 offset;  // immediate offset of a memory instruction, simm16, ...
  u64 extra;   // DPP controls, second offset, ...
} __attribute__((aligned(64)));

typedef struct {
  u64 executions, lanes;
} Count;

// One strided piece of memory that a kernel may touch: an argument's view, the kernel arguments, the code.
// `levels` outer dimensions of `count[l]` steps of `stride[l]` bytes, largest stride first, over `inner` bytes.
typedef struct {
  u64 va, span;
  u64 stride[MAX_LEVELS], count[MAX_LEVELS];
  u64 inner;
  u32 levels, access;  // access: 1 read, 2 write
  u8 *host;
  u8 *written;  // one byte a byte of the span, or NULL: all of it holds data
} View;

typedef struct {
  u64 bytes_read, bytes_written, loads, stores, live_lanes;
} ViewCount;

// The last piece a memory instruction found its lanes in: [lo, hi) lies in one view without a gap.
typedef struct {
  u64 lo, hi;
  u8 *delta;  // host address = delta + virtual address
  u8 *written_delta;
  u32 view, access;
} Cache;

typedef struct {
  u64 segments32, segments64, segments128;
  u64 lds_bytes_read, lds_bytes_written, lds_conflicts, barriers, waves;
} Totals;

enum { STOP_END = 1, STOP_WAIT, STOP_FAULT };

enum {
  FAULT_NONE, FAULT_BOUNDS, FAULT_READ_ONLY, FAULT_UNWRITTEN, FAULT_MISALIGNED, FAULT_LDS_BOUNDS,
  FAULT_LDS_UNWRITTEN, FAULT_LDS_RACE, FAULT_SCRATCH_BOUNDS, FAULT_SCRATCH_UNWRITTEN, FAULT_BARRIER_ENDED,
  FAULT_BARRIER_LANES, FAULT_DEADLOCK, FAULT_BUDGET, FAULT_TRAP, FAULT_BAD_JUMP,
};

typedef struct {
  u32 kind, record, wave, lane;
  u64 workgroup, address, size, other;  // other: what the kind needs more (the other wave of a race)
  u32 store;
} Fault;

// What Python hands over for one dispatch.
typedef struct {
  const Rec *records;
  u64 n_records;
  const u32 *pool;
  const u32 *jump;  // code offset / 4 -> record index + 1, 0: not an instruction
  u64 code_va, code_bytes;
  u32 entry, checks;
  u32 grid[3], block[3];
  u32 n_vgprs, lds_bytes, scratch_bytes, n_slots;
  u32 sgpr_count, gfx;                    // gfx: 11 or 12
  u32 sgprs[32];                          // user SGPRs
  u32 rsrc2, n_views;
  View *views;
  u64 wave_order_seed, max_wave_instructions;
  u32 threads;
  u64 shared_base, private_base;
  // results
  Count *counts;
  ViewCount *view_counts;
  Totals totals;
  Fault fault;
} Launch;

typedef struct Thread Thread;

typedef struct {
  u64 id;
  u32 xyz[3];
  u32 n_waves, members, signals, phase, ended;
} Group;

struct Wave {
  u32 v[MAX_VGPRS + TEMP_VGPRS][LANES] ALIGNED;
  u32 s[256];
  const u32 *pool;
  const Rec *records, *resume;
  Thread *t;
  Group *g;
  u32 id, stop, initial_exec;
  u32 waiting, signalled, signal_phase;  // of the workgroup's barrier
  u32 tag;                               // LDS shadow: epoch and wave
  u32 dpp_exec;                          // EXEC while a DPP instruction runs under its row and bank masks
  u64 executed;
  u8 *scratch, *scratch_written;
  u32 loaded[MAX_VIEWS];  // lanes that loaded from each view
};

struct Thread {
  const Launch *l;
  Count *counts;
  ViewCount *view_counts;
  Cache *caches;
  Wave *waves;
  u8 *lds;
  u16 *lds_writer, *lds_reader;
  u32 checks;
  Totals totals;
  Fault fault;
};

const Rec *stop_with_fault(Wave *w, const Rec *r, u32 kind, u32 lane, u64 address, u64 size, u32 store, u64 other);

// ---- operands ----

INLINE u32 exec_of(const Wave *w) { return w->s[EXEC]; }

INLINE const u32 *fetch_u32(const Wave *w, const Rec *r, int n, u32 *tmp) {
  Operand o = r->src[n];
  if (o.kind == VGPR) return w->v[o.index];
  if (o.kind == CONSTANT) return w->pool + (size_t)o.index * LANES;
  u32 x = w->s[o.index];
  for (int i = 0; i < LANES; i++) tmp[i] = x;
  return tmp;
}

INLINE const u32 *fetch_b32(const Wave *w, const Rec *r, int n, u32 *tmp) {
  const u32 *p = fetch_u32(w, r, n, tmp);
  u32 flags = r->src[n].flags;
  if (__builtin_expect(flags & (ABS | NEG), 0)) {
    u32 keep = flags & ABS ? 0x7fffffffu : ~0u, flip = flags & NEG ? 0x80000000u : 0;
    for (int i = 0; i < LANES; i++) tmp[i] = (p[i] & keep) ^ flip;
    return tmp;
  }
  return p;
}

INLINE void fetch_b64(const Wave *w, const Rec *r, int n, u64 *tmp) {
  Operand o = r->src[n];
  if (o.kind == SGPR) {
    u64 x = w->s[o.index] | (u64)w->s[o.index + 1] << 32;
    for (int i = 0; i < LANES; i++) tmp[i] = x;
  } else {
    const u32 *p = o.kind == VGPR ? w->v[o.index] : w->pool + (size_t)o.index * LANES;
    for (int i = 0; i < LANES; i++) tmp[i] = p[i] | (u64)p[i + LANES] << 32;
  }
  if (__builtin_expect(o.flags & (ABS | NEG), 0)) {
    u64 keep = o.flags & ABS ? ~(u64)0 >> 1 : ~(u64)0, flip = o.flags & NEG ? (u64)1 << 63 : 0;
    for (int i = 0; i < LANES; i++) tmp[i] = (tmp[i] & keep) ^ flip;
  }
}

INLINE void fetch_b16(const Wave *w, const Rec *r, int n, u16 *tmp) {
  u32 words[LANES] ALIGNED;
  const u32 *p = fetch_u32(w, r, n, words);
  u32 flags = r->src[n].flags, shift = flags & HI ? 16 : 0;
  u32 keep = flags & ABS ? 0x7fffu : 0xffffu, flip = flags & NEG ? 0x8000u : 0;
  for (int i = 0; i < LANES; i++) tmp[i] = (u16)(((p[i] >> shift) & keep) ^ flip);
}

// The two halves of a packed operand (VOP3P), each chosen and negated by its own bits.
INLINE void fetch_halves(const Wave *w, const Rec *r, int n, u16 *low, u16 *high) {
  u32 words[LANES] ALIGNED;
  const u32 *p = fetch_u32(w, r, n, words);
  u32 flags = r->src[n].flags;
  u32 low_shift = flags & HI ? 16 : 0, high_shift = flags & HI2 ? 16 : 0;
  u16 low_flip = flags & NEG ? 0x8000 : 0, high_flip = flags & NEG2 ? 0x8000 : 0;
  for (int i = 0; i < LANES; i++) {
    low[i] = (u16)(p[i] >> low_shift) ^ low_flip;
    high[i] = (u16)(p[i] >> high_shift) ^ high_flip;
  }
}

// An operand of V_FMA_MIX_*: f32, or either half as f16 (HI2 chooses f16, HI the upper half).
INLINE void fetch_mix(const Wave *w, const Rec *r, int n, f32 *out) {
  u32 words[LANES] ALIGNED;
  const u32 *p = fetch_u32(w, r, n, words);
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

INLINE u32 fetch_mask(const Wave *w, const Rec *r, int n) {  // a lane mask in an SGPR
  Operand o = r->src[n];
  return o.kind == CONSTANT ? w->pool[(size_t)o.index * LANES] : w->s[o.index];
}

INLINE u32 scalar32(const Wave *w, const Rec *r, int n) {
  Operand o = r->src[n];
  return o.kind == SGPR ? w->s[o.index] : w->pool[(size_t)o.index * LANES];
}

INLINE u64 scalar64(const Wave *w, const Rec *r, int n) {
  Operand o = r->src[n];
  if (o.kind == SGPR) return w->s[o.index] | (u64)w->s[o.index + 1] << 32;
  const u32 *p = w->pool + (size_t)o.index * LANES;
  return p[0] | (u64)p[LANES] << 32;
}

// ---- results ----

INLINE void put32(Wave *w, u32 dst, const u32 *out) {
  u32 exec = exec_of(w), *d = w->v[dst];
  if (__builtin_expect(exec == ~0u, 1)) {
    memcpy(d, out, 4 * LANES);
  } else {
    for (int i = 0; i < LANES; i++) d[i] = (exec >> i) & 1 ? out[i] : d[i];
  }
}

INLINE void put_u32(Wave *w, const Rec *r, const u32 *out) { put32(w, r->dst, out); }

INLINE void put_f32(Wave *w, const Rec *r, f32 *out) {
  if (__builtin_expect(r->flags & 7, 0)) {
    u32 omod = (r->flags >> OMOD_SHIFT) & 3;
    f32 scale = omod == 1 ? 2.0f : omod == 2 ? 4.0f : omod == 3 ? 0.5f : 1.0f;
    if (omod)
      for (int i = 0; i < LANES; i++) out[i] *= scale;
    if (r->flags & CLAMP)  // NaN becomes 0
      for (int i = 0; i < LANES; i++) out[i] = out[i] > 0.0f ? (out[i] > 1.0f ? 1.0f : out[i]) : 0.0f;
  }
  put32(w, r->dst, (const u32 *)out);
}

INLINE void put_u64(Wave *w, const Rec *r, const u64 *out) {
  u32 low[LANES] ALIGNED, high[LANES] ALIGNED;
  for (int i = 0; i < LANES; i++) low[i] = (u32)out[i], high[i] = (u32)(out[i] >> 32);
  put32(w, r->dst, low);
  put32(w, r->dst + 1, high);
}

INLINE void put_f64(Wave *w, const Rec *r, f64 *out) {
  if (__builtin_expect(r->flags & 7, 0)) {
    u32 omod = (r->flags >> OMOD_SHIFT) & 3;
    f64 scale = omod == 1 ? 2.0 : omod == 2 ? 4.0 : omod == 3 ? 0.5 : 1.0;
    for (int i = 0; i < LANES; i++) {
      f64 x = out[i] * scale;
      out[i] = r->flags & CLAMP ? (x > 0.0 ? (x > 1.0 ? 1.0 : x) : 0.0) : x;
    }
  }
  put_u64(w, r, (const u64 *)out);
}

INLINE void put_u16(Wave *w, const Rec *r, const u16 *out) {  // the other half stays
  u32 merged[LANES] ALIGNED;
  const u32 *d = w->v[r->dst];
  if (r->flags & DST_HI)
    for (int i = 0; i < LANES; i++) merged[i] = (d[i] & 0xffffu) | (u32)out[i] << 16;
  else
    for (int i = 0; i < LANES; i++) merged[i] = (d[i] & 0xffff0000u) | out[i];
  put32(w, r->dst, merged);
}

INLINE void put_f16(Wave *w, const Rec *r, f16 *out) {
  if (__builtin_expect(r->flags & 7, 0)) {
    u32 omod = (r->flags >> OMOD_SHIFT) & 3;
    f16 scale = (f16)(omod == 1 ? 2.0f : omod == 2 ? 4.0f : omod == 3 ? 0.5f : 1.0f);
    for (int i = 0; i < LANES; i++) {
      f16 x = (f16)(out[i] * scale);
      out[i] = r->flags & CLAMP ? (x > (f16)0 ? (x > (f16)1 ? (f16)1 : x) : (f16)0) : x;
    }
  }
  put_u16(w, r, (const u16 *)out);
}

INLINE u32 lane_mask(const u32 *flags) {  // bit i: flags[i] is not zero
#if defined(__AVX512F__)
  __m512i low = _mm512_loadu_si512(flags), high = _mm512_loadu_si512(flags + 16);
  return (u32)_mm512_test_epi32_mask(low, low) | (u32)_mm512_test_epi32_mask(high, high) << 16;
#else
  u32 mask = 0;
  for (int i = 0; i < LANES; i++) mask |= (u32)(flags[i] != 0) << i;
  return mask;
#endif
}

INLINE void put_mask(Wave *w, const Rec *r, u32 mask) { w->s[r->dst] = mask & exec_of(w); }
INLINE void put_mask2(Wave *w, const Rec *r, u32 mask) { w->s[r->dst2] = mask & exec_of(w); }

INLINE void put_s64(Wave *w, u32 dst, u64 x) { w->s[dst] = (u32)x, w->s[dst + 1] = (u32)(x >> 32); }

#endif
