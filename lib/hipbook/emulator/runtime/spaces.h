// Scratch, flat, buffer and scalar memory.
#ifndef HIPBOOK_SPACES_H
#define HIPBOOK_SPACES_H
#include "memory.h"

// ---- scratch: each lane has its own bytes ----
INLINE int scratch_access(Wave* w, const Rec* r, Access* a, u32 size, u32 store) {
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
    if (store)
      memset(w->scratch_written + place, 1, size);
    else if (w->t->checks && memchr(w->scratch_written + place, 0, size)) {
      stop_with_fault(w, r, FAULT_SCRATCH_UNWRITTEN, (u32)i, (u64)at, size, 0, 0);
      return 0;
    }
  }
  return 1;
}
INLINE const Rec* scratch_load(Wave* w, const Rec* r, u32 size, int mode) {
  Access a;
  if (!scratch_access(w, r, &a, size, 0)) return NULL;
  load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec* scratch_store(Wave* w, const Rec* r, u32 size, int high) {
  Access a;
  if (!scratch_access(w, r, &a, size, 1)) return NULL;
  store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

// ---- flat: the upper half of an address chooses the space, lane by lane ----
int flat_access(Wave* w, const Rec* r, Access* a, u32 size, u32 want, int high);

INLINE const Rec* flat_load(Wave* w, const Rec* r, u32 size, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!flat_access(w, r, &a, size, READ, 0)) return NULL;
  load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec* flat_store(Wave* w, const Rec* r, u32 size, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  global_addresses(w, r, a.addr);
  if (!flat_access(w, r, &a, size, WRITE, high)) return NULL;
  store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

// ---- buffer: a descriptor of four SGPRs; out of range reads zero and drops stores, as the hardware does
// ----
int buffer_access(Wave* w, const Rec* r, Access* a, u32 size, u32 want);

INLINE const Rec* buffer_load(Wave* w, const Rec* r, u32 size, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  u32 all = a.exec;
  if (!buffer_access(w, r, &a, size, READ)) return NULL;
  for (u32 m = all & ~a.exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    if (mode >= HIGH_Z8)
      w->v[r->dst][i] &= 0xffffu;
    else if (mode >= LOW_Z8)
      w->v[r->dst][i] &= 0xffff0000u;
    else
      for (u32 k = 0; k < (size + 3) / 4; k++) w->v[r->dst + k][i] = 0;
  }
  if (a.exec) load_data(w, r->dst, &a, size, mode);
  return r + 1;
}
INLINE const Rec* buffer_store(Wave* w, const Rec* r, u32 size, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!a.exec) return r + 1;
  if (!buffer_access(w, r, &a, size, WRITE)) return NULL;
  if (a.exec) store_data(w, r->src[2].index, &a, size, high);
  return r + 1;
}

// ---- scalar ----
INLINE const u8* scalar_bytes(Wave* w, const Rec* r, u64 addr, u32 size) {
  Thread* t = w->t;
  Cache* c = &t->caches[r->slot];
  u32 kind = 0;
  if (!(addr >= c->lo && addr + size <= c->hi && c->access & READ) &&
      !find_piece(t, addr, size, READ, c, &kind)) {
    stop_with_fault(w, r, kind, ~0u, addr, size, 0, 0);
    return NULL;
  }
  if (c->written_delta && t->checks && memchr(c->written_delta + addr, 0, size)) {
    stop_with_fault(w, r, FAULT_UNWRITTEN, ~0u, addr, size, 0, 0);
    return NULL;
  }
  if (c->track && t->shadows && !touch_scalar(w, r, c->track - 1, addr, size)) return NULL;
  ViewCount* v = &t->view_counts[c->view];
  v->loads++, v->bytes_read += size;
  return c->delta + addr;
}
INLINE const Rec* scalar_load(Wave* w, const Rec* r, u32 size, int mode) {
  u64 addr = scalar64(w, r, 0) + scalar32(w, r, 1) + (u64)r->offset;
  if (size >= 4 && addr & 3) return stop_with_fault(w, r, FAULT_MISALIGNED, ~0u, addr, size, 0, 0);
  const u8* p = scalar_bytes(w, r, addr, size);
  if (!p) return NULL;
  if (mode == WORDS) {
    memcpy(&w->s[r->dst], p, size);
  } else {
    u16 half = size == 2 ? (u16)(p[0] | p[1] << 8) : p[0];
    w->s[r->dst] = mode == SIGN8 ? (u32)(i32)(i8)half : mode == SIGN16 ? (u32)(i32)(i16)half : half;
  }
  return r + 1;
}
INLINE const Rec* scalar_buffer_load(Wave* w, const Rec* r, u32 size, int mode) {
  u64 base = (w->s[r->src[0].index] | (u64)w->s[r->src[0].index + 1] << 32) & 0xffffffffffffull;
  u32 records = w->s[r->src[0].index + 2];
  u64 offset = (u64)scalar32(w, r, 1) + (u64)r->offset;
  if (size >= 4) offset &= ~(u64)3;
  if (offset + size > records) {
    for (u32 k = 0; k < (size + 3) / 4; k++) w->s[r->dst + k] = 0;
    return r + 1;
  }
  const u8* p = scalar_bytes(w, r, base + offset, size);
  if (!p) return NULL;
  if (mode == WORDS) {
    memcpy(&w->s[r->dst], p, size);
  } else {
    u16 half = size == 2 ? (u16)(p[0] | p[1] << 8) : p[0];
    w->s[r->dst] = mode == SIGN8 ? (u32)(i32)(i8)half : mode == SIGN16 ? (u32)(i32)(i16)half : half;
  }
  return r + 1;
}

#endif
