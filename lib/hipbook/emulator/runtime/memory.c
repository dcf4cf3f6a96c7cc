// The slower paths of memory access: looking up views, lanes that lie apart, shadow state.
#include "lds.h"
#include "spaces.h"

// ---- views ----

// The gapless piece of `v` around `addr`, or 0 if it holds no `size` bytes there.
static int piece_of(const View* v, u64 addr, u32 size, u64* lo, u64* hi) {
  if (addr < v->va || addr - v->va >= v->span) return 0;
  u64 at = addr - v->va, row = v->va;
  for (u32 l = 0; l < v->levels; l++) {
    u64 n = at / v->stride[l];
    if (n >= v->count[l]) return 0;
    at -= n * v->stride[l];
    row += n * v->stride[l];
  }
  if (at + size > v->inner) return 0;
  *lo = row, *hi = row + v->inner;
  return 1;
}

// The first view, in argument order, that holds the bytes and allows the access; `kind` says what was wrong.
int find_piece(Thread* t, u64 addr, u32 size, u32 want, Cache* c, u32* kind) {
  const Launch* l = t->l;
  *kind = FAULT_BOUNDS;
  if (addr + size < addr) return 0;
  for (u32 i = 0; i < l->n_views; i++) {
    const View* v = &l->views[i];
    u64 lo, hi;
    if (!piece_of(v, addr, size, &lo, &hi)) continue;
    if ((v->access & want) != want) {
      *kind = v->access ? FAULT_READ_ONLY : FAULT_FREED;
      continue;
    }
    c->lo = lo, c->hi = hi, c->view = i, c->access = v->access, c->track = v->track;
    c->delta = v->host - v->va;
    c->written_delta = v->written ? v->written - v->va : NULL;
    return 1;
  }
  return 0;
}

// Lanes in different pieces: each is looked up by itself.
int scatter(Wave* w, const Rec* r, Access* a, u32 size, u32 want) {
  Thread* t = w->t;
  Cache c = {.lo = 1, .hi = 0};
  a->scattered = 1;
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    u64 addr = a->addr[i];
    u32 kind;
    if (!(addr >= c.lo && addr + size <= c.hi && addr + size >= addr) &&
        !find_piece(t, addr, size, want, &c, &kind)) {
      stop_with_fault(w, r, kind, (u32)i, addr, size, access_of(want), 0);
      return 0;
    }
    a->host[i] = c.delta + addr;
    if (c.track && t->shadows && !touch(w, r, a, 1u << i, c.track - 1, size, want)) return 0;
    ViewCount* v = &t->view_counts[c.view];
    if (want & READ) {
      v->loads++, v->bytes_read += size;
      w->loaded[c.view] |= 1u << i;
      if (c.written_delta && t->checks && memchr(c.written_delta + addr, 0, size)) {
        stop_with_fault(w, r, FAULT_UNWRITTEN, (u32)i, addr, size, 0, 0);
        return 0;
      }
    }
    if (want & WRITE) {
      v->stores++, v->bytes_written += size;
      if (c.written_delta) memset(c.written_delta + addr, 1, size);
    }
  }
  return 1;
}

int check_written(Wave* w, const Rec* r, Access* a, u32 size) {
  for (u32 m = a->exec; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    if (memchr(a->written_delta + a->addr[i], 0, size)) {
      stop_with_fault(w, r, FAULT_UNWRITTEN, (u32)i, a->addr[i], size, 0, 0);
      return 0;
    }
  }
  return 1;
}

void mark_written(Access* a, u32 size) {
  if (contiguous(a, size)) {
    memset(a->written_delta + a->lo, 1, a->hi - a->lo);
    return;
  }
  for (u32 m = a->exec; m; m &= m - 1) memset(a->written_delta + a->addr[__builtin_ctz(m)], 1, size);
}

// Distinct segments of lanes far apart, by insertion into a sorted list.
void count_segments_far(Thread* t, const u64* addr, u32 exec, u32 size) {
  u64* out[3] = {&t->totals.segments32, &t->totals.segments64, &t->totals.segments128};
  for (int s = 0; s < 3; s++) {
    u64 seen[2 * LANES];
    int n = 0;
    for (u32 m = exec; m; m &= m - 1) {
      u64 first = addr[__builtin_ctz(m)] >> (5 + s), last = (addr[__builtin_ctz(m)] + size - 1) >> (5 + s);
      for (u64 x = first; x <= last; x++) {
        int at = n;
        while (at > 0 && seen[at - 1] > x) at--;
        if (at > 0 && seen[at - 1] == x) continue;
        memmove(seen + at + 1, seen + at, (size_t)(n - at) * sizeof *seen);
        seen[at] = x;
        n++;
      }
    }
    *out[s] += (u64)n;
  }
}

// ---- flat and buffer ----

int flat_access(Wave* w, const Rec* r, Access* a, u32 size, u32 want, int high) {
  const Launch* l = w->t->l;
  u32 shared = 0, private = 0;
  for (int i = 0; i < LANES; i++) {
    u32 active = (a->exec >> i) & 1, high = (u32)(a->addr[i] >> 32);
    shared |= (active & (high == (u32)(l->shared_base >> 32))) << i;
    private |= (active & (high == (u32)(l->private_base >> 32))) << i;
  }
  if (!(shared | private)) return locate(w, r, a, size, want);
  u32 all = a->exec, global = all & ~(shared | private);
  if (global) {
    a->exec = global;
    bounds_of(a, size);
    if (!scatter(w, r, a, size, want)) return 0;
    count_segments(w->t, a, size);
  }
  a->scattered = 1;
  for (u32 m = shared; m; m &= m - 1) {
    u32 i = (u32)__builtin_ctz(m);
    a->addr[i] &= 0xffffffffu;
    if (a->addr[i] + size > l->lds_bytes) {
      stop_with_fault(w, r, FAULT_LDS_BOUNDS, i, a->addr[i], size, access_of(want), 0);
      return 0;
    }
    a->host[i] = w->t->lds + a->addr[i];
  }
  if (shared && w->t->checks) {
    if (want == READ && !lds_load_check(w, r, a->addr, shared, size)) return 0;
    if (want == WRITE && !lds_store_check(w, r, a->addr, shared, size, r->src[2].index, high)) return 0;
    if (want == (READ | WRITE) && !lds_atomic_check(w, r, a->addr, shared, size)) return 0;
  }
  u64 lanes = (u64)__builtin_popcount(shared);
  if (want & READ) w->t->totals.lds_bytes_read += lanes * size;
  if (want & WRITE) w->t->totals.lds_bytes_written += lanes * size;
  for (u32 m = private; m; m &= m - 1) {
    u32 i = (u32)__builtin_ctz(m);
    u64 at = a->addr[i] & 0xffffffffu;
    if (at + size > l->scratch_bytes) {
      stop_with_fault(w, r, FAULT_SCRATCH_BOUNDS, i, at, size, access_of(want), 0);
      return 0;
    }
    u64 place = (u64)i * l->scratch_bytes + at;
    a->host[i] = w->scratch + place;
    if (want & READ && w->t->checks && memchr(w->scratch_written + place, 0, size)) {
      stop_with_fault(w, r, FAULT_SCRATCH_UNWRITTEN, i, at, size, 0, 0);
      return 0;
    }
    if (want & WRITE) memset(w->scratch_written + place, 1, size);
  }
  a->exec = all;
  return 1;
}

// Raw and structured buffers without swizzling. src: vaddr, descriptor, data, soffset; extra: 1 offen, 2
// idxen.
int buffer_access(Wave* w, const Rec* r, Access* a, u32 size, u32 want) {
  const u32* d = &w->s[r->src[1].index];
  u64 base = (d[0] | (u64)d[1] << 32) & 0xffffffffffffull;
  u32 stride = (d[1] >> 16) & 0x3fff, records = d[2], offen = r->extra & 1, idxen = (r->extra >> 1) & 1;
  u32 scalar = scalar32(w, r, 3);
  const u32 *first = w->v[r->src[0].index], *second = w->v[r->src[0].index + (offen && idxen)];
  u32 in_range = 0;
  for (int i = 0; i < LANES; i++) {
    u64 index = idxen ? first[i] : 0, offset = (u64)r->offset + (offen ? (idxen ? second[i] : first[i]) : 0);
    int inside = stride && idxen ? index < records && offset + size <= stride
                                 : offset + (u64)scalar * 0 + size <= records;
    a->addr[i] = base + scalar + index * stride + offset;
    in_range |= ((a->exec >> i) & 1 & (u32)inside) << i;
  }
  a->exec = in_range;
  return in_range ? locate(w, r, a, size, want) : 1;
}
