// Atomics of global memory and LDS.
#ifndef HIPBOOK_ATOMICS_H
#define HIPBOOK_ATOMICS_H
#include "lds.h"
#include "spaces.h"

// ---- atomics: `code` computes `now` from `old`, x and y. Two threads may meet at one address (workgroups
// run in parallel when no result can show their order), hence the compare and swap. ----
#define ATOMIC_LANES(T, code)                                                                                \
  for (u32 m = a.exec; m; m &= m - 1) {                                                                      \
    int i = __builtin_ctz(m);                                                                                \
    T *p = (T*)host_of(&a, i), old = __atomic_load_n(p, __ATOMIC_RELAXED), now, x, y = 0;                    \
    u64 xs = w->v[data][i], ys = w->v[data2][i];                                                             \
    if (sizeof(T) == 8) xs |= (u64)w->v[data + 1][i] << 32, ys |= (u64)w->v[data2 + 1][i] << 32;             \
    x = (T)xs, y = (T)ys;                                                                                    \
    (void)x, (void)y;                                                                                        \
    do { code; } while (!__atomic_compare_exchange_n(p, &old, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));  \
    if (returns) {                                                                                           \
      w->v[r->dst][i] = (u32)(u64)old;                                                                       \
      if (sizeof(T) == 8) w->v[r->dst + 1][i] = (u32)((u64)old >> 32);                                       \
    }                                                                                                        \
  }

INLINE int aligned_lanes(Wave* w, const Rec* r, const Access* a, u32 size) {
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    if (a->addr[i] & (size - 1)) {
      stop_with_fault(w, r, FAULT_MISALIGNED, (u32)i, a->addr[i], size, 2, 0);
      return 0;
    }
  }
  return 1;
}

// Where the lanes' bytes are, for each space; 0: a fault.
INLINE int global_atomic(Wave* w, const Rec* r, Access* a, u32 size) {
  global_addresses(w, r, a->addr);
  return aligned_lanes(w, r, a, size) && locate(w, r, a, size, READ | WRITE);
}
INLINE int flat_atomic(Wave* w, const Rec* r, Access* a, u32 size) {
  global_addresses(w, r, a->addr);
  return aligned_lanes(w, r, a, size) && flat_access(w, r, a, size, READ | WRITE, 0);
}
INLINE int buffer_atomic(Wave* w, const Rec* r, Access* a,
                         u32 size) {  // out of range: nothing, and zero back
  u32 all = a->exec;
  if (!buffer_access(w, r, a, size, READ | WRITE) || !aligned_lanes(w, r, a, size)) return 0;
  for (u32 m = r->flags & RETURN ? all & ~a->exec : 0; m; m &= m - 1)
    for (u32 k = 0; k < size / 4; k++) w->v[r->dst + k][__builtin_ctz(m)] = 0;
  return 1;
}

#define GLOBAL_ATOMIC(NAME, T, PLACE, code)                                                                  \
  const Rec* NAME(Wave* w, const Rec* r) {                                                                   \
    Access a;                                                                                                \
    a.exec = exec_of(w);                                                                                     \
    if (!a.exec) return r + 1;                                                                               \
    u32 data = r->src[2].index, data2 = data + sizeof(T) / 4, returns = r->flags & RETURN;                   \
    if (!PLACE(w, r, &a, sizeof(T))) return NULL;                                                            \
    ATOMIC_LANES(T, code)                                                                                    \
    return r + 1;                                                                                            \
  }

#define LDS_ATOMIC(NAME, T, RETURNS, code)                                                                   \
  const Rec* NAME(Wave* w, const Rec* r) {                                                                   \
    Access a;                                                                                                \
    a.exec = exec_of(w);                                                                                     \
    if (!a.exec) return r + 1;                                                                               \
    u32 data = r->src[1].index, data2 = r->src[2].index, returns = RETURNS;                                  \
    if (!lds_access(w, r, &a, sizeof(T), (u64)r->offset, 1)) return NULL;                                    \
    if (!aligned_lanes(w, r, &a, sizeof(T))) return NULL;                                                    \
    if (w->t->checks && !lds_atomic_check(w, r, a.addr, a.exec, sizeof(T))) return NULL;                     \
    ATOMIC_LANES(T, code)                                                                                    \
    return r + 1;                                                                                            \
  }

#endif
