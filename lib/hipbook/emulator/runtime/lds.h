// LDS loads and stores; their shadow state and bank conflicts are in lds.c.
#ifndef HIPBOOK_LDS_H
#define HIPBOOK_LDS_H
#include "memory.h"

int lds_load_check(Wave* w, const Rec* r, const u64* addr, u32 exec, u32 size);
int lds_store_check(Wave* w, const Rec* r, const u64* addr, u32 exec, u32 size, u32 src, int high);
int lds_atomic_check(Wave* w, const Rec* r, const u64* addr, u32 exec, u32 size);
u32 lds_conflicts(const u64* addr, u32 exec, u32 size);

INLINE int lds_access(Wave* w, const Rec* r, Access* a, u32 size, u64 offset, u32 store) {
  const u32* base = w->v[r->src[0].index];
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
  Totals* n = &w->t->totals;
  u64 lanes = (u64)__builtin_popcount(a->exec);
  if (store)
    n->lds_bytes_written += lanes * size;
  else
    n->lds_bytes_read += lanes * size;
  n->lds_conflicts += lds_conflicts(a->addr, a->exec, size);
  return 1;
}
INLINE int lds_load_at(Wave* w, const Rec* r, u32 dst, u32 size, u64 offset, int mode) {
  Access a;
  a.exec = exec_of(w);
  if (!lds_access(w, r, &a, size, offset, 0)) return 0;
  if (w->t->checks && !lds_load_check(w, r, a.addr, a.exec, size)) return 0;
  load_data(w, dst, &a, size, mode);
  return 1;
}
INLINE int lds_store_at(Wave* w, const Rec* r, u32 src, u32 size, u64 offset, int high) {
  Access a;
  a.exec = exec_of(w);
  if (!lds_access(w, r, &a, size, offset, 1)) return 0;
  if (w->t->checks && !lds_store_check(w, r, a.addr, a.exec, size, src, high)) return 0;
  store_data(w, src, &a, size, high);
  return 1;
}
INLINE const Rec* lds_load(Wave* w, const Rec* r, u32 size, int mode) {
  if (!exec_of(w)) return r + 1;
  return lds_load_at(w, r, r->dst, size, (u64)r->offset, mode) ? r + 1 : NULL;
}
INLINE const Rec* lds_store(Wave* w, const Rec* r, u32 size, int high) {
  if (!exec_of(w)) return r + 1;
  return lds_store_at(w, r, r->src[1].index, size, (u64)r->offset, high) ? r + 1 : NULL;
}
// Two addresses: offsets count elements, or 64 elements; `extra` holds the second.
INLINE const Rec* lds_load2(Wave* w, const Rec* r, u32 size, u32 unit) {
  if (!exec_of(w)) return r + 1;
  u32 base[LANES] ALIGNED;  // the first result may overwrite the address
  Operand o = r->src[0];
  memcpy(base, w->v[o.index], sizeof base);
  if (!lds_load_at(w, r, MAX_VGPRS, size, (u64)r->offset * unit, WORDS)) return NULL;
  if (!lds_load_at(w, r, MAX_VGPRS + size / 4, size, r->extra * unit, WORDS)) return NULL;
  for (u32 k = 0; k < size / 2; k++) put32(w, r->dst + k, w->v[MAX_VGPRS + k]);
  return r + 1;
}
INLINE const Rec* lds_store2(Wave* w, const Rec* r, u32 size, u32 unit) {
  if (!exec_of(w)) return r + 1;
  if (!lds_store_at(w, r, r->src[1].index, size, (u64)r->offset * unit, 0)) return NULL;
  if (!lds_store_at(w, r, r->src[2].index, size, r->extra * unit, 0)) return NULL;
  return r + 1;
}

#endif
