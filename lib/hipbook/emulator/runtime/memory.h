// Memory: addresses, checks, counts, data; and the global loads and stores.
//
// Device addresses are virtual: an access is translated through the views of the launch, so a stray pointer
// is a fault and never touches the host. Each memory instruction remembers (per thread) the piece of a view
// it last used; while a wave's lanes stay inside it nothing needs to be looked up.
#ifndef HIPBOOK_MEMORY_H
#define HIPBOOK_MEMORY_H
#include "operands.h"

enum { READ = 1, WRITE = 2 };
INLINE u32 access_of(u32 want) { return want == READ ? 0 : want == WRITE ? 1 : 2; }  // Fault.store
// How loaded bytes become a register: whole words, zero or sign extended, or into one half of it.
enum { WORDS, ZERO8, SIGN8, ZERO16, SIGN16, LOW_Z8, LOW_S8, LOW_16, HIGH_Z8, HIGH_S8, HIGH_16 };

typedef struct {
  u64 addr[LANES] ALIGNED;
  u8* host[LANES];    // where each active lane's bytes are, when `scattered`
  u8* delta;          // else host = delta + addr
  u8* written_delta;  // of the shadow, or NULL
  u64 lo, hi;         // all active lanes' bytes lie in [lo, hi)
  u32 exec, scattered;
} Access;

int find_piece(Thread* t, u64 addr, u32 size, u32 want, Cache* c, u32* kind);
int scatter(Wave* w, const Rec* r, Access* a, u32 size, u32 want);
int check_written(Wave* w, const Rec* r, Access* a, u32 size);
void mark_written(Access* a, u32 size);
int touch(Wave* w, const Rec* r, const Access* a, u32 lanes, u32 track, u32 size, u32 want);  // races.c
int touch_scalar(Wave* w, const Rec* r, u32 track, u64 address, u32 size);
void count_segments_far(Thread* t, const u64* addr, u32 exec, u32 size);

INLINE u8* host_of(const Access* a, int lane) {
  return a->scattered ? a->host[lane] : a->delta + a->addr[lane];
}

INLINE void bounds_of(Access* a, u32 size) {
  u64 lo = ~(u64)0, hi = 0;
  if (__builtin_expect(a->exec == ~0u, 1)) {
    for (int i = 0; i < LANES; i++)
      lo = a->addr[i] < lo ? a->addr[i] : lo, hi = a->addr[i] > hi ? a->addr[i] : hi;
  } else {
    for (int i = 0; i < LANES; i++) {
      u64 active = -(u64)((a->exec >> i) & 1), low = a->addr[i] | ~active, high = a->addr[i] & active;
      lo = low < lo ? low : lo, hi = high > hi ? high : hi;
    }
  }
  a->lo = lo, a->hi = hi + size;
}

INLINE void count_segments(Thread* t, const Access* a, u32 size) {
  u64 base = a->lo & ~(u64)127;
  if (__builtin_expect(a->hi - base > 2048, 0)) {
    count_segments_far(t, a->addr, a->exec, size);
    return;
  }
  u64 mask = 0;
  for (int i = 0; i < LANES; i++) {
    u64 active = (a->exec >> i) & 1, at = a->addr[i] - base;
    mask |= active << ((at >> 5) & 63) | active << (((at + size - 1) >> 5) & 63);
  }
  t->totals.segments32 += (u64)__builtin_popcountll(mask);
  u64 pairs = (mask | mask >> 1) & 0x5555555555555555ull;
  t->totals.segments64 += (u64)__builtin_popcountll(pairs);
  t->totals.segments128 += (u64)__builtin_popcountll((pairs | pairs >> 2) & 0x1111111111111111ull);
}

// Finds where the lanes' bytes are; 0 when the wave faulted. Counts the traffic of the buffer touched.
INLINE int locate(Wave* w, const Rec* r, Access* a, u32 size, u32 want) {
  Thread* t = w->t;
  Cache* c = &t->caches[r->slot];
  bounds_of(a, size);
  a->scattered = 0;
  if (__builtin_expect(!(a->lo >= c->lo && a->hi <= c->hi && a->hi >= a->lo && (c->access & want) == want),
                       0)) {
    u32 kind;
    if (!find_piece(t, a->lo, size, want, c, &kind) || a->hi > c->hi) {
      if (!scatter(w, r, a, size, want)) return 0;
      count_segments(t, a, size);
      return 1;
    }
  }
  a->delta = c->delta;
  a->written_delta = c->written_delta;
  if (__builtin_expect(c->track && t->shadows, 0) && !touch(w, r, a, a->exec, c->track - 1, size, want))
    return 0;
  u64 lanes = (u64)__builtin_popcount(a->exec);
  ViewCount* v = &t->view_counts[c->view];
  if (want & READ) {
    v->loads += lanes, v->bytes_read += lanes * size;
    w->loaded[c->view] |= a->exec;
    if (__builtin_expect(a->written_delta != NULL && t->checks, 0) && !check_written(w, r, a, size)) return 0;
  }
  if (want & WRITE) {
    v->stores += lanes, v->bytes_written += lanes * size;
    if (a->written_delta) mark_written(a, size);
  }
  count_segments(t, a, size);
  return 1;
}

INLINE void global_addresses(const Wave* w, const Rec* r, u64* addr) {
  u64 base = (u64)r->offset;
  if (r->flags & NO_SADDR) {
    const u32 *low = w->v[r->src[0].index], *high = w->v[r->src[0].index + 1];
    for (int i = 0; i < LANES; i++) addr[i] = (low[i] | (u64)high[i] << 32) + base;
    return;
  }
  base += scalar64(w, r, 1);
  if (r->flags & NO_VADDR) {
    for (int i = 0; i < LANES; i++) addr[i] = base;
    return;
  }
  const u32* offset = w->v[r->src[0].index];
  for (int i = 0; i < LANES; i++) addr[i] = base + offset[i];
}

INLINE int contiguous(const Access* a, u32 size) {
  if (a->scattered || a->exec != ~0u || a->hi - a->lo != (u64)size * LANES) return 0;
  u64 wrong = 0;
  for (int i = 0; i < LANES; i++) wrong |= a->addr[i] ^ (a->lo + (u64)i * size);
  return wrong == 0;
}

// The data part of a load, for any space: from host bytes into registers.
INLINE void load_data(Wave* w, u32 dst, const Access* a, u32 size, int mode) {
  if (mode == WORDS) {
    u32 n = size / 4;
    if (contiguous(a, size)) {
      const u8* p = a->delta + a->lo;
      u32 words[4 * LANES] ALIGNED;
      memcpy(words, p, size * LANES);
      for (u32 k = 0; k < n; k++)
        for (int i = 0; i < LANES; i++) w->v[dst + k][i] = words[(u32)i * n + k];
      return;
    }
    for (u32 m = a->exec; m; m &= m - 1) {
      int i = __builtin_ctz(m);
      const u8* p = host_of(a, i);
      for (u32 k = 0; k < n; k++) memcpy(&w->v[dst + k][i], p + 4 * k, 4);
    }
    return;
  }
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    const u8* p = host_of(a, i);
    u16 half;
    u32 x, *d = &w->v[dst][i];
    if (size == 2)
      memcpy(&half, p, 2);
    else
      half = *p;
    switch (mode) {
      case ZERO8:
      case ZERO16:
      case LOW_Z8:
      case HIGH_Z8:
      case LOW_16:
      case HIGH_16: x = half; break;
      case SIGN8:
      case LOW_S8:
      case HIGH_S8: x = (u32)(i32)(i8)half; break;
      default: x = (u32)(i32)(i16)half; break;
    }
    if (mode >= HIGH_Z8)
      *d = (*d & 0xffffu) | x << 16;
    else if (mode >= LOW_Z8)
      *d = (*d & 0xffff0000u) | (x & 0xffffu);
    else
      *d = x;
  }
}

INLINE void store_data(Wave* w, u32 src, const Access* a, u32 size, int high) {
  if (size >= 4) {
    u32 n = size / 4;
    if (contiguous(a, size)) {
      u32 words[4 * LANES] ALIGNED;
      for (u32 k = 0; k < n; k++)
        for (int i = 0; i < LANES; i++) words[(u32)i * n + k] = w->v[src + k][i];
      memcpy(a->delta + a->lo, words, size * LANES);
      return;
    }
    for (u32 m = a->exec; m; m &= m - 1) {
      int i = __builtin_ctz(m);
      u8* p = host_of(a, i);
      for (u32 k = 0; k < n; k++) memcpy(p + 4 * k, &w->v[src + k][i], 4);
    }
    return;
  }
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    u32 x = w->v[src][i] >> (high ? 16 : 0);
    memcpy(host_of(a, i), &x, size);
  }
}

// ---- global ----
INLINE const Rec* global_load(Wave* w, const Rec* r, u32 size, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!locate(w, r, &a, size, READ)) return NULL;
  load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec* global_store(Wave* w, const Rec* r, u32 size, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!locate(w, r, &a, size, WRITE)) return NULL;
  store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

#endif
