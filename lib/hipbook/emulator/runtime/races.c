// Races between workgroups; see races.h.
#include "races.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "schedule.h"

enum { SEVERAL = 1 };  // a shadow word: more than one workgroup (readers, or atomics where no order is kept)
enum { CHUNK_BITS = 12, MAX_INTERVAL = 1 << 30 };
typedef enum { PLAIN_READ, PLAIN_WRITE, ATOMIC, COHERENT_READ, COHERENT_WRITE } Kind;

// ---- the order of intervals, where workgroups run one after the other ----

typedef struct {
  u32 to, next;
} Edge;

struct Order {
  u64* group_of;         // interval -> workgroup
  u32 *edges, *reached;  // interval -> first edge; -> stamp of the workgroup that is known to come after it
  Edge* edge;
  u32 *roots, *stack;  // what this workgroup's atomics found; to be searched
  u32 interval, room, n_edges, edge_room, n_roots, searched, root_room, stack_room, stamp;
  u32 released, fenced, blind;  // blind: out of memory, nobody is accused
};

static void* grow(void* p, u32* room, u32 need, size_t size) {
  if (need < *room) return p;
  u32 more = *room ? 2 * *room : 1024;
  while (more <= need) more *= 2;
  void* q = realloc(p, (size_t)more * size);
  if (q) *room = more;
  return q;
}
#define GROW(array, room, need)                                                                              \
  do {                                                                                                       \
    void* q_ = grow(o->array, &o->room, (need), sizeof *o->array);                                           \
    if (!q_) {                                                                                               \
      o->blind = 1;                                                                                          \
      return;                                                                                                \
    }                                                                                                        \
    o->array = q_;                                                                                           \
  } while (0)

static void new_interval(Thread* t, u64 group) {
  Order* o = t->order;
  u32 n = o->interval + 1;
  if (n >= MAX_INTERVAL) o->blind = 1;
  if (o->blind) return;
  if (n >= o->room) {
    u32 room = o->room ? 2 * o->room : 1024;
    u64* groups = realloc(o->group_of, room * sizeof *groups);
    if (groups) o->group_of = groups;
    u32* edges = realloc(o->edges, room * sizeof *edges);
    if (edges) o->edges = edges;
    u32* reached = realloc(o->reached, room * sizeof *reached);
    if (reached) o->reached = reached;
    if (!groups || !edges || !reached) {
      o->blind = 1;
      return;
    }
    o->room = room;
  }
  o->interval = n, o->group_of[n] = group, o->edges[n] = 0, o->reached[n] = 0, o->released = 0;
  t->race_now = 2 * n;
}

static void comes_after(Thread* t, u32 interval) {  // what this workgroup does next, and who comes after that
  Order* o = t->order;
  if (o->blind || (o->n_roots && o->roots[o->n_roots - 1] == interval)) return;
  GROW(roots, root_room, o->n_roots);
  o->roots[o->n_roots++] = interval;
  GROW(edge, edge_room, o->n_edges + 1);
  o->edge[++o->n_edges] = (Edge){interval, o->edges[o->interval]};
  o->edges[o->interval] = o->n_edges;
}

static void reach(Order* o, u32 interval, u32* depth) {
  if (o->reached[interval] == o->stamp) return;
  GROW(stack, stack_room, *depth);
  o->reached[interval] = o->stamp;
  o->stack[(*depth)++] = interval;
}

static int ordered_before(Thread* t, u32 interval) {
  Order* o = t->order;
  if (!o) return 0;
  if (o->blind) return 1;
  if (!o->fenced) return 0;
  u32 depth = 0;
  while (o->searched < o->n_roots) reach(o, o->roots[o->searched++], &depth);
  while (depth && !o->blind) {
    u32 i = o->stack[--depth];
    if (i > 1 && o->group_of[i - 1] == o->group_of[i]) reach(o, i - 1, &depth);
    for (u32 e = o->edges[i]; e; e = o->edge[e].next) reach(o, o->edge[e].to, &depth);
  }
  return o->blind || o->reached[interval] == o->stamp;
}

const Rec* DEVICE_FENCE(Wave* w, const Rec* r) {
  if (w->t->order) w->t->order->fenced = 1;
  return r + 1;
}

// ---- one access ----

static inline int others(const Thread* t, u32 word) { return word - 1 < t->race_first - 1; }

static inline int nobody_else(const Thread* t, const u32* word, u64 n) {
  u32 found = 0, limit = t->race_first - 1;
  for (u64 i = 0; i < n; i++) found |= word[i] - 1 < limit;
  return !found;
}

static int accuse(Wave* w, const Rec* r, u32 lane, u64 address, u32 size, Kind kind, u32 word, int read) {
  Thread* t = w->t;
  u64 group = word == SEVERAL ? RACE_SEVERAL : t->order ? t->order->group_of[word >> 1] : word / 2 - 1;
  u64 what = read ? RACE_READ : word & 1 ? RACE_ATOMIC : 0;
  u32 store = kind == PLAIN_READ || kind == COHERENT_READ ? 0 : kind == PLAIN_WRITE ? 1 : 2;
  stop_with_fault(w, r, FAULT_GLOBAL_RACE, lane, address, size, store, group | what);
  return 0;
}

// One granule, of which the access has the bytes `mine`, `size` of them; `data`: what a plain store brings.
static int touch_granule(Wave* w, const Rec* r, u32 lane, Shadow* s, u64 g, Kind kind, u64 address, u32 size,
                         const u8* host, const u8* data) {
  Thread* t = w->t;
  u32 wrote = s->writer[g], read = s->reader[g], now = t->race_now;
  int by_other = others(t, wrote), keep = 0;
  if (by_other && !(kind == COHERENT_READ || (wrote & 1 && (kind == ATOMIC || kind == COHERENT_WRITE)))) {
    if (kind == PLAIN_WRITE && !(wrote & 1) && memcmp(host, data, size) == 0)
      keep = 1;  // the same value again, as compilers and flags have it
    else if (!ordered_before(t, wrote >> 1))
      return accuse(w, r, lane, address, size, kind, wrote, 0);
  }
  int writes = kind != PLAIN_READ && kind != COHERENT_READ;
  if (writes && !keep && others(t, read) && !ordered_before(t, read >> 1))
    return accuse(w, r, lane, address, size, kind, read, 1);
  if (kind == PLAIN_READ) {
    s->reader[g] = !t->order && others(t, read) ? SEVERAL : now;
  } else if (kind == PLAIN_WRITE) {
    if (!keep) s->writer[g] = now;
  } else if (t->order) {
    if (by_other) comes_after(t, wrote >> 1);
    if (writes) s->writer[g] = now | 1;
  } else if (by_other) {
    s->writer[g] = SEVERAL;
  } else if (!wrote) {
    s->writer[g] = now | 1;
  }
  return 1;
}

static int touch_lane(Wave* w, const Rec* r, u32 lane, u32 track, u64 address, u32 size, Kind kind,
                      const u8* host, const u8* data) {
  const Track* k = &w->t->l->tracks[track];
  Shadow* s = &w->t->shadows[track];
  u64 end = address + size;
  for (u64 at = address; at < end;) {
    u64 g = (at - k->va) >> k->shift, next = k->va + ((g + 1) << k->shift), to = next < end ? next : end;
    s->touched[g >> CHUNK_BITS] = 1;
    if (!touch_granule(w, r, lane, s, g, kind, at, (u32)(to - at), host + (at - address),
                       data + (at - address)))
      return 0;
    at = to;
  }
  return 1;
}

// All lanes' bytes in one gapless run, which nobody else has touched: the common case.
static int touch_run(Thread* t, u32 track, u64 lo, u64 hi, Kind kind) {
  const Track* k = &t->l->tracks[track];
  Shadow* s = &t->shadows[track];
  u64 first = (lo - k->va) >> k->shift, n = ((hi - 1 - k->va) >> k->shift) - first + 1;
  u32 *writer = s->writer + first, *reader = s->reader + first, now = t->race_now;
  if (!nobody_else(t, writer, n) || !nobody_else(t, reader, n)) return 0;
  u32* mine = kind == PLAIN_READ ? reader : writer;
  for (u64 i = 0; i < n; i++) mine[i] = now;
  for (u64 c = first >> CHUNK_BITS; c <= (first + n - 1) >> CHUNK_BITS; c++) s->touched[c] = 1;
  return 1;
}

static Kind kind_of(const Rec* r, u32 want) {
  if (want == (READ | WRITE)) return ATOMIC;
  if (r->flags & COHERENT) return want == READ ? COHERENT_READ : COHERENT_WRITE;
  return want == READ ? PLAIN_READ : PLAIN_WRITE;
}

static void before_touch(Wave* w, Kind kind) {  // what follows an atomic is not part of what it released
  Order* o = w->t->order;
  if (o && o->released && (kind == PLAIN_READ || kind == PLAIN_WRITE)) new_interval(w->t, w->g->id);
}
static void after_touch(Wave* w, Kind kind) {
  if (w->t->order && (kind == ATOMIC || kind == COHERENT_WRITE)) w->t->order->released = 1;
}

int touch(Wave* w, const Rec* r, const Access* a, u32 lanes, u32 track, u32 size, u32 want) {
  Kind kind = kind_of(r, want);
  before_touch(w, kind);
  if ((kind == PLAIN_READ || kind == PLAIN_WRITE) && contiguous(a, size) &&
      touch_run(w->t, track, a->lo, a->hi, kind))
    return 1;
  for (u32 m = lanes; m; m &= m - 1) {
    u32 i = (u32)__builtin_ctz(m);
    u8 data[16];
    if (kind == PLAIN_WRITE) {
      u32 src = r->src[2].index, x = w->v[src][i] >> (r->flags & SRC_HI ? 16 : 0);
      memcpy(data, &x, 4);
      for (u32 n = 1; n < size / 4; n++) memcpy(data + 4 * n, &w->v[src + n][i], 4);
    }
    if (!touch_lane(w, r, i, track, a->addr[i], size, kind, host_of(a, (int)i), data)) return 0;
  }
  after_touch(w, kind);
  return 1;
}

int touch_scalar(Wave* w, const Rec* r, u32 track, u64 address, u32 size) {
  before_touch(w, PLAIN_READ);
  return touch_lane(w, r, ~0u, track, address, size, PLAIN_READ, NULL, NULL);
}

// ---- a thread's shadows ----

static u64 granules(const Track* k) { return (k->span >> k->shift) + 1; }
static u64 chunks(const Track* k) { return (granules(k) >> CHUNK_BITS) + 1; }

int races_begin(Thread* t) {
  const Launch* l = t->l;
  if (!l->n_tracks) return 1;
  t->shadows = calloc(l->n_tracks, sizeof *t->shadows);
  if (l->ordered) t->order = calloc(1, sizeof *t->order);
  if (!t->shadows || (l->ordered && !t->order)) return 0;
  for (u32 i = 0; i < l->n_tracks; i++) {
    Shadow* s = &t->shadows[i];
    s->writer = reserve(4 * granules(&l->tracks[i])), s->reader = reserve(4 * granules(&l->tracks[i]));
    s->touched = reserve(chunks(&l->tracks[i]));
    if (!s->writer || !s->reader || !s->touched) return 0;
  }
  return 1;
}

void races_begin_group(Thread* t, u64 id) {
  if (!t->shadows) return;
  Order* o = t->order;
  if (o) {
    new_interval(t, id);
    o->n_roots = o->searched = o->fenced = 0;
    o->stamp++;
  } else {
    t->race_now = (u32)(2 * (id + 1));
  }
  t->race_first = t->race_now;
}

void races_end(Thread* t) {
  const Launch* l = t->l;
  for (u32 i = 0; t->shadows && i < l->n_tracks; i++) {
    Shadow* s = &t->shadows[i];
    if (s->writer) munmap(s->writer, 4 * granules(&l->tracks[i]));
    if (s->reader) munmap(s->reader, 4 * granules(&l->tracks[i]));
    if (s->touched) munmap(s->touched, chunks(&l->tracks[i]));
  }
  free(t->shadows);
  Order* o = t->order;
  if (o) free(o->group_of), free(o->edges), free(o->reached), free(o->edge), free(o->roots), free(o->stack);
  free(o);
  t->shadows = NULL, t->order = NULL;
}

// Workgroups of two threads, where nothing orders them: a granule that one plainly wrote and another touched,
// or one updated atomically and another read.
int races_between(const Launch* l, Shadow* const* shadows, u32 threads) {
  for (u32 i = 0; i < l->n_tracks; i++) {
    u64 n = granules(&l->tracks[i]);
    for (u64 c = 0; c < chunks(&l->tracks[i]); c++) {
      u32 owners = 0;
      for (u32 t = 0; t < threads; t++) owners += shadows[t] && shadows[t][i].touched[c];
      if (owners < 2) continue;
      u64 end = (c + 1) << CHUNK_BITS < n ? (c + 1) << CHUNK_BITS : n;
      for (u64 g = c << CHUNK_BITS; g < end; g++) {
        u32 plain = 0, atomic = 0, readers = 0, touched = 0;
        for (u32 t = 0; t < threads; t++) {
          if (!shadows[t] || !shadows[t][i].touched[c]) continue;
          u32 wrote = shadows[t][i].writer[g], read = shadows[t][i].reader[g];
          plain += wrote && !(wrote & 1), atomic += wrote & 1, readers += read != 0,
              touched += (wrote | read) != 0;
        }
        if ((plain && touched > 1) || (atomic && readers && touched > 1)) return 1;
      }
    }
  }
  return 0;
}
