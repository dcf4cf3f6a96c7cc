// Global, LDS, scratch and scalar memory: addresses, checks, counts, data.
//
// Device addresses are virtual: an access is translated through the views of the launch, so a stray pointer is
// a fault and never touches the host. Each memory instruction remembers (per thread) the piece of a view it
// last used; while a wave's lanes stay inside it nothing needs to be looked up.
#ifndef HIPBOOK_MEMORY_H
#define HIPBOOK_MEMORY_H
#include "wave.h"

enum { READ = 1, WRITE = 2 };
// How loaded bytes become a register: whole words, zero or sign extended, or into one half of it.
enum { WORDS, ZERO8, SIGN8, ZERO16, SIGN16, LOW_Z8, LOW_S8, LOW_16, HIGH_Z8, HIGH_S8, HIGH_16 };

typedef struct {
  u64 addr[LANES] ALIGNED;
  u8 *host[LANES];   // where each active lane's bytes are, when `scattered`
  u8 *delta;         // else host = delta + addr
  u8 *written_delta; // of the shadow, or NULL
  u64 lo, hi;        // all active lanes' bytes lie in [lo, hi)
  u32 exec, scattered;
} Access;

int find_piece(Thread *t, u64 addr, u32 size, u32 want, Cache *c, u32 *kind);
int scatter(Wave *w, const Rec *r, Access *a, u32 size, u32 want);
int check_written(Wave *w, const Rec *r, Access *a, u32 size);
void mark_written(Access *a, u32 size);
void count_segments_far(Thread *t, const u64 *addr, u32 exec, u32 size);
int lds_load_check(Wave *w, const Rec *r, const u64 *addr, u32 exec, u32 size);
int lds_store_check(Wave *w, const Rec *r, const u64 *addr, u32 exec, u32 size, u32 src, int high);
int lds_atomic_check(Wave *w, const Rec *r, const u64 *addr, u32 exec, u32 size);
u32 lds_conflicts(const u64 *addr, u32 exec, u32 size);

INLINE u8 *host_of(const Access *a, int lane) { return a->scattered ? a->host[lane] : a->delta + a->addr[lane]; }

INLINE void bounds_of(Access *a, u32 size) {
  u64 lo = ~(u64)0, hi = 0;
  if (__builtin_expect(a->exec == ~0u, 1)) {
    for (int i = 0; i < LANES; i++) lo = a->addr[i] < lo ? a->addr[i] : lo, hi = a->addr[i] > hi ? a->addr[i] : hi;
  } else {
    for (int i = 0; i < LANES; i++) {
      u64 active = -(u64)((a->exec >> i) & 1), low = a->addr[i] | ~active, high = a->addr[i] & active;
      lo = low < lo ? low : lo, hi = high > hi ? high : hi;
    }
  }
  a->lo = lo, a->hi = hi + size;
}

INLINE void count_segments(Thread *t, const Access *a, u32 size) {
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
INLINE int locate(Wave *w, const Rec *r, Access *a, u32 size, u32 want) {
  Thread *t = w->t;
  Cache *c = &t->caches[r->slot];
  bounds_of(a, size);
  a->scattered = 0;
  if (__builtin_expect(!(a->lo >= c->lo && a->hi <= c->hi && a->hi >= a->lo && (c->access & want) == want), 0)) {
    u32 kind;
    if (!find_piece(t, a->lo, size, want, c, &kind) || a->hi > c->hi) {
      if (!scatter(w, r, a, size, want)) return 0;
      count_segments(t, a, size);
      return 1;
    }
  }
  a->delta = c->delta;
  a->written_delta = c->written_delta;
  u64 lanes = (u64)__builtin_popcount(a->exec);
  ViewCount *v = &t->view_counts[c->view];
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

INLINE void global_addresses(const Wave *w, const Rec *r, u64 *addr) {
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
  const u32 *offset = w->v[r->src[0].index];
  for (int i = 0; i < LANES; i++) addr[i] = base + offset[i];
}

INLINE int contiguous(const Access *a, u32 size) {
  if (a->scattered || a->exec != ~0u || a->hi - a->lo != (u64)size * LANES) return 0;
  u64 wrong = 0;
  for (int i = 0; i < LANES; i++) wrong |= a->addr[i] ^ (a->lo + (u64)i * size);
  return wrong == 0;
}

// The data part of a load, for any space: from host bytes into registers.
INLINE void load_data(Wave *w, u32 dst, const Access *a, u32 size, int mode) {
  if (mode == WORDS) {
    u32 n = size / 4;
    if (contiguous(a, size)) {
      const u8 *p = a->delta + a->lo;
      u32 words[4 * LANES] ALIGNED;
      memcpy(words, p, size * LANES);
      for (u32 k = 0; k < n; k++)
        for (int i = 0; i < LANES; i++) w->v[dst + k][i] = words[(u32)i * n + k];
      return;
    }
    for (u32 m = a->exec; m; m &= m - 1) {
      int i = __builtin_ctz(m);
      const u8 *p = host_of(a, i);
      for (u32 k = 0; k < n; k++) memcpy(&w->v[dst + k][i], p + 4 * k, 4);
    }
    return;
  }
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    const u8 *p = host_of(a, i);
    u16 half;
    u32 x, *d = &w->v[dst][i];
    if (size == 2) memcpy(&half, p, 2);
    else half = *p;
    switch (mode) {
      case ZERO8: case ZERO16: case LOW_Z8: case HIGH_Z8: case LOW_16: case HIGH_16: x = half; break;
      case SIGN8: case LOW_S8: case HIGH_S8: x = (u32)(i32)(i8)half; break;
      default: x = (u32)(i32)(i16)half; break;
    }
    if (mode >= HIGH_Z8) *d = (*d & 0xffffu) | x << 16;
    else if (mode >= LOW_Z8) *d = (*d & 0xffff0000u) | (x & 0xffffu);
    else *d = x;
  }
}

INLINE void store_data(Wave *w, u32 src, const Access *a, u32 size, int high) {
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
      u8 *p = host_of(a, i);
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
INLINE const Rec *global_load(Wave *w, const Rec *r, u32 size, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!locate(w, r, &a, size, READ)) return NULL;
  load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec *global_store(Wave *w, const Rec *r, u32 size, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!locate(w, r, &a, size, WRITE)) return NULL;
  store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

// ---- LDS ----
INLINE int lds_access(Wave *w, const Rec *r, Access *a, u32 size, u64 offset, u32 store) {
  const u32 *base = w->v[r->src[0].index];
  for (int i = 0; i < LANES; i++) a->addr[i] = (u64)base[i] + offset;  // no wrap: an LDS address has 17 bits
  bounds_of(a, size);
  a->scattered = 0;
  a->delta = w->t->lds;
  if (__builtin_expect(a->hi > w->t->l->lds_bytes, 0)) {
    for (int i = 0; i < LANES; i++)
      if ((a->exec >> i) & 1 && a->addr[i] + size > w->t->l->lds_bytes) {
        stop_with_fault(w, r, FAULT_LDS_BOUNDS, (u32)i, a->addr[i], size, store, 0);
        return 0;
      }
  }
  Totals *n = &w->t->totals;
  u64 lanes = (u64)__builtin_popcount(a->exec);
  if (store) n->lds_bytes_written += lanes * size;
  else n->lds_bytes_read += lanes * size;
  n->lds_conflicts += lds_conflicts(a->addr, a->exec, size);
  return 1;
}
INLINE int lds_load_at(Wave *w, const Rec *r, u32 dst, u32 size, u64 offset, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!lds_access(w, r, &a, size, offset, 0)) return 0;
  if (w->t->checks && !lds_load_check(w, r, a.addr, a.exec, size)) return 0;
  load_data(w, dst, &a, size, mode);
  return 1;
}
INLINE int lds_store_at(Wave *w, const Rec *r, u32 src, u32 size, u64 offset, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!lds_access(w, r, &a, size, offset, 1)) return 0;
  if (w->t->checks && !lds_store_check(w, r, a.addr, a.exec, size, src, high)) return 0;
  store_data(w, src, &a, size, high);
  return 1;
}
INLINE const Rec *lds_load(Wave *w, const Rec *r, u32 size, int mode) {
  if (!exec_of(w)) return r + 1;
  return lds_load_at(w, r, r->dst, size, (u64)r->offset, mode) ? r + 1 : NULL;
}
INLINE const Rec *lds_store(Wave *w, const Rec *r, u32 size, int high) {
  if (!exec_of(w)) return r + 1;
  return lds_store_at(w, r, r->src[1].index, size, (u64)r->offset, high) ? r + 1 : NULL;
}
// Two addresses: offsets count elements, or 64 elements; `extra` holds the second.
INLINE const Rec *lds_load2(Wave *w, const Rec *r, u32 size, u32 unit) {
  if (!exec_of(w)) return r + 1;
  u32 base[LANES] ALIGNED;  // the first result may overwrite the address
  Operand o = r->src[0];
  memcpy(base, w->v[o.index], sizeof base);
  if (!lds_load_at(w, r, MAX_VGPRS, size, (u64)r->offset * unit, WORDS)) return NULL;
  if (!lds_load_at(w, r, MAX_VGPRS + size / 4, size, r->extra * unit, WORDS)) return NULL;
  for (u32 k = 0; k < size / 2; k++) put32(w, r->dst + k, w->v[MAX_VGPRS + k]);
  return r + 1;
}
INLINE const Rec *lds_store2(Wave *w, const Rec *r, u32 size, u32 unit) {
  if (!exec_of(w)) return r + 1;
  if (!lds_store_at(w, r, r->src[1].index, size, (u64)r->offset * unit, 0)) return NULL;
  if (!lds_store_at(w, r, r->src[2].index, size, r->extra * unit, 0)) return NULL;
  return r + 1;
}

// ---- scratch: each lane has its own bytes ----
INLINE int scratch_access(Wave *w, const Rec *r, Access *a, u32 size, u32 store) {
  u32 bytes = w->t->l->scratch_bytes;
  i64 base = r->offset;
  if (!(r->flags & NO_SADDR)) base += (i32)scalar32(w, r, 1);
  a->exec = exec_of(w);
  a->scattered = 1;
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    i64 at = base + (r->flags & NO_VADDR ? 0 : (i64)(i32)w->v[r->src[0].index][i]);
    a->addr[i] = (u64)at;
    if (at < 0 || (u64)at + size > bytes) {
      stop_with_fault(w, r, FAULT_SCRATCH_BOUNDS, (u32)i, (u64)at, size, store, 0);
      return 0;
    }
    u64 place = (u64)i * bytes + (u64)at;
    a->host[i] = w->scratch + place;
    if (store) memset(w->scratch_written + place, 1, size);
    else if (w->t->checks && memchr(w->scratch_written + place, 0, size)) {
      stop_with_fault(w, r, FAULT_SCRATCH_UNWRITTEN, (u32)i, (u64)at, size, 0, 0);
      return 0;
    }
  }
  return 1;
}
INLINE const Rec *scratch_load(Wave *w, const Rec *r, u32 size, int mode) {
  Access a;
  if (!scratch_access(w, r, &a, size, 0)) return NULL;
  load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec *scratch_store(Wave *w, const Rec *r, u32 size, int high) {
  Access a;
  if (!scratch_access(w, r, &a, size, 1)) return NULL;
  store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

// ---- flat: the upper half of an address chooses the space, lane by lane ----
int flat_access(Wave *w, const Rec *r, Access *a, u32 size, u32 want, int high);

INLINE const Rec *flat_load(Wave *w, const Rec *r, u32 size, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!flat_access(w, r, &a, size, READ, 0)) return NULL;
  load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec *flat_store(Wave *w, const Rec *r, u32 size, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!flat_access(w, r, &a, size, WRITE, high)) return NULL;
  store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

// ---- buffer: a descriptor of four SGPRs; out of range reads zero and drops stores, as the hardware does ----
int buffer_access(Wave *w, const Rec *r, Access *a, u32 size, u32 want);

INLINE const Rec *buffer_load(Wave *w, const Rec *r, u32 size, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  u32 all = a.exec;
  if (!buffer_access(w, r, &a, size, READ)) return NULL;
  for (u32 m = all & ~a.exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    if (mode >= HIGH_Z8) w->v[r->dst][i] &= 0xffffu;
    else if (mode >= LOW_Z8) w->v[r->dst][i] &= 0xffff0000u;
    else
      for (u32 k = 0; k < (size + 3) / 4; k++) w->v[r->dst + k][i] = 0;
  }
  if (a.exec) load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec *buffer_store(Wave *w, const Rec *r, u32 size, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  if (!buffer_access(w, r, &a, size, WRITE)) return NULL;
  if (a.exec) store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

// ---- scalar ----
INLINE const u8 *scalar_bytes(Wave *w, const Rec *r, u64 addr, u32 size) {
  Thread *t = w->t;
  Cache *c = &t->caches[r->slot];
  u32 kind = 0;
  if (!(addr >= c->lo && addr + size <= c->hi && c->access & READ) && !find_piece(t, addr, size, READ, c, &kind)) {
    stop_with_fault(w, r, kind, ~0u, addr, size, 0, 0);
    return NULL;
  }
  if (c->written_delta && t->checks && memchr(c->written_delta + addr, 0, size)) {
    stop_with_fault(w, r, FAULT_UNWRITTEN, ~0u, addr, size, 0, 0);
    return NULL;
  }
  ViewCount *v = &t->view_counts[c->view];
  v->loads++, v->bytes_read += size;
  return c->delta + addr;
}
INLINE const Rec *scalar_load(Wave *w, const Rec *r, u32 size, int mode) {
  u64 addr = scalar64(w, r, 0) + scalar32(w, r, 1) + (u64)r->offset;
  if (size >= 4 && addr & 3) return stop_with_fault(w, r, FAULT_MISALIGNED, ~0u, addr, size, 0, 0);
  const u8 *p = scalar_bytes(w, r, addr, size);
  if (!p) return NULL;
  if (mode == WORDS) {
    memcpy(&w->s[r->dst], p, size);
  } else {
    u16 half = size == 2 ? (u16)(p[0] | p[1] << 8) : p[0];
    w->s[r->dst] = mode == SIGN8 ? (u32)(i32)(i8)half : mode == SIGN16 ? (u32)(i32)(i16)half : half;
  }
  return r + 1;
}
INLINE const Rec *scalar_buffer_load(Wave *w, const Rec *r, u32 size, int mode) {
  u64 base = (w->s[r->src[0].index] | (u64)w->s[r->src[0].index + 1] << 32) & 0xffffffffffffull;
  u32 records = w->s[r->src[0].index + 2];
  u64 offset = (u64)scalar32(w, r, 1) + (u64)r->offset;
  if (size >= 4) offset &= ~(u64)3;
  if (offset + size > records) {
    for (u32 k = 0; k < (size + 3) / 4; k++) w->s[r->dst + k] = 0;
    return r + 1;
  }
  const u8 *p = scalar_bytes(w, r, base + offset, size);
  if (!p) return NULL;
  if (mode == WORDS) {
    memcpy(&w->s[r->dst], p, size);
  } else {
    u16 half = size == 2 ? (u16)(p[0] | p[1] << 8) : p[0];
    w->s[r->dst] = mode == SIGN8 ? (u32)(i32)(i8)half : mode == SIGN16 ? (u32)(i32)(i16)half : half;
  }
  return r + 1;
}

// ---- atomics: `code` computes `now` from `old`, x and y. Two threads may meet at one address (workgroups run
// in parallel when no result can show their order), hence the compare and swap. ----
#define ATOMIC_LANES(T, code)                                                                               \
  for (u32 m = a.exec; m; m &= m - 1) {                                                                     \
    int i = __builtin_ctz(m);                                                                               \
    T *p = (T *)host_of(&a, i), old = __atomic_load_n(p, __ATOMIC_RELAXED), now, x, y = 0;                  \
    u64 xs = w->v[data][i], ys = w->v[data2][i];                                                            \
    if (sizeof(T) == 8) xs |= (u64)w->v[data + 1][i] << 32, ys |= (u64)w->v[data2 + 1][i] << 32;            \
    x = (T)xs, y = (T)ys;                                                                                   \
    (void)x, (void)y;                                                                                       \
    do {                                                                                                    \
      code;                                                                                                 \
    } while (!__atomic_compare_exchange_n(p, &old, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));            \
    if (returns) {                                                                                          \
      w->v[r->dst][i] = (u32)(u64)old;                                                                      \
      if (sizeof(T) == 8) w->v[r->dst + 1][i] = (u32)((u64)old >> 32);                                      \
    }                                                                                                       \
  }

INLINE int aligned_lanes(Wave *w, const Rec *r, const Access *a, u32 size) {
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    if (a->addr[i] & (size - 1)) {
      stop_with_fault(w, r, FAULT_MISALIGNED, (u32)i, a->addr[i], size, 1, 0);
      return 0;
    }
  }
  return 1;
}

INLINE int locate_atomic(Wave *w, const Rec *r, Access *a, u32 size) { return locate(w, r, a, size, READ | WRITE); }
INLINE int flat_atomic(Wave *w, const Rec *r, Access *a, u32 size) { return flat_access(w, r, a, size, READ | WRITE, 0); }

#define GLOBAL_ATOMIC(NAME, T, ACCESS, ADDRESSES, code)                                                     \
  const Rec *NAME(Wave *w, const Rec *r) {                                                                  \
    Access a;                                                                                               \
    a.exec = exec_of(w);                                                                                    \
    if (!a.exec) return r + 1;                                                                              \
    u32 data = r->src[2].index, data2 = data + sizeof(T) / 4, returns = r->flags & RETURN;                  \
    ADDRESSES;                                                                                              \
    if (!aligned_lanes(w, r, &a, sizeof(T))) return NULL;                                                   \
    if (!ACCESS(w, r, &a, sizeof(T))) return NULL;                                            \
    ATOMIC_LANES(T, code)                                                                                   \
    return r + 1;                                                                                           \
  }

#define LDS_ATOMIC(NAME, T, RETURNS, code)                                                                  \
  const Rec *NAME(Wave *w, const Rec *r) {                                                                  \
    Access a;                                                                                               \
    a.exec = exec_of(w);                                                                                    \
    if (!a.exec) return r + 1;                                                                              \
    u32 data = r->src[1].index, data2 = r->src[2].index, returns = RETURNS;                                 \
    if (!lds_access(w, r, &a, sizeof(T), (u64)r->offset, 1)) return NULL;                                   \
    if (!aligned_lanes(w, r, &a, sizeof(T))) return NULL;                                                   \
    if (w->t->checks && !lds_atomic_check(w, r, a.addr, a.exec, sizeof(T))) return NULL;                    \
    ATOMIC_LANES(T, code)                                                                                   \
    return r + 1;                                                                                           \
  }

#endif
