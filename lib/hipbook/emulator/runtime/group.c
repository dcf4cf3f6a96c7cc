// One workgroup: its waves run in turn until each waits or ends.
#include "races.h"
#include "schedule.h"

const Rec* stop_with_fault(Wave* w, const Rec* r, u32 kind, u32 lane, u64 address, u64 size, u32 store,
                           u64 other) {
  Fault* f = &w->t->fault;
  f->kind = kind, f->record = (u32)(r - w->records), f->wave = w->id, f->lane = lane, f->workgroup = w->g->id;
  f->address = address, f->size = size, f->store = store, f->other = other;
  w->stop = STOP_FAULT;
  return NULL;
}

// ---- one wave ----

enum { SLICE = 1 << 20 };

void start_wave(Wave* w, Thread* t, Group* g, u32 id) {
  const Launch* l = t->l;
  w->t = t, w->g = g, w->id = id;
  w->records = l->records, w->pool = l->pool;
  w->resume = l->records + l->entry;
  w->stop = w->waiting = w->signalled = w->signal_phase = 0;
  w->executed = 0;
  memset(w->v, 0, (size_t)l->n_vgprs * LANES * 4);
  memset(w->s, 0, sizeof w->s);
  memset(w->loaded, 0, sizeof w->loaded);
  memcpy(w->s, l->sgprs, sizeof l->sgprs);
  u32 bits = l->rsrc2 >> 7;  // ENABLE_SGPR_WORKGROUP_ID_X, Y, Z
  if (l->gfx >= 12) {
    w->s[TTMP0 + 9] = g->xyz[0];
    w->s[TTMP0 + 8] = id << 25;  // the wave's number in its workgroup, bits 29:25
    w->s[TTMP0 + 7] = bits & 4 ? (g->xyz[1] & 0xffff) | g->xyz[2] << 16 : g->xyz[1];
  } else {
    u32 n = (l->rsrc2 >> 1) & 31;  // USER_SGPR_COUNT: more than there are values for, on some chips
    for (int d = 0; d < 3; d++)
      if ((bits >> d) & 1) w->s[n++] = g->xyz[d];
  }
  u32 exec = 0, size = l->block[0] * l->block[1] * l->block[2];
  for (u32 i = 0; i < LANES; i++) {
    u32 item = id * LANES + i;
    if (item >= size) break;
    exec |= 1u << i;
    u32 x = item % l->block[0], y = item / l->block[0] % l->block[1], z = item / l->block[0] / l->block[1];
    w->v[0][i] = x | y << 10 | z << 20;
  }
  w->s[EXEC] = w->initial_exec = exec;
  w->tag = 1u << 7 | id;
  if (l->scratch_bytes) memset(w->scratch_written, 0, (size_t)l->scratch_bytes * LANES);
}

// In slices, so that a wave that never ends notices a stop and its budget.
void run_wave(Wave* w, u64 budget, const int* stop) {
  const Rec *r = w->resume, *base = w->records;
  Count* counts = w->t->counts;
  w->stop = 0;
  while (r && !__atomic_load_n(stop, __ATOMIC_RELAXED)) {
    if (w->executed >= budget) {
      stop_with_fault(w, r, FAULT_BUDGET, ~0u, 0, 0, 0, budget);
      return;
    }
    u32 slice = budget - w->executed < SLICE ? (u32)(budget - w->executed) : SLICE, left = slice;
    do {
      Count* c = &counts[r - base];
      c->executions++;
      c->lanes += (u64)__builtin_popcount(w->s[EXEC]);
      r = r->fn(w, r);
    } while (r && --left);
    w->executed += slice - left;
  }
}

// ---- one workgroup ----

static void shuffle(u32* order, u32 n, u64 seed) {  // splitmix64, Fisher-Yates
  for (u32 i = n - 1; i > 0; i--) {
    u64 z = (seed += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    u32 j = (u32)((z ^ z >> 31) % (i + 1)), x = order[i];
    order[i] = order[j], order[j] = x;
  }
}

enum { EPOCHS = 500 };

static void new_epoch(Thread* t, u32 phase) {  // epochs come around: what was touched becomes merely old
  if (phase % EPOCHS || !t->checks) return;
  for (u32 i = 0; i < t->l->lds_bytes; i++) t->lds_writer[i] = t->lds_writer[i] ? 1 : 0, t->lds_reader[i] = 0;
}

int run_group(Thread* t, u64 id, const int* stop) {
  Launch const* l = t->l;
  u32 items = l->block[0] * l->block[1] * l->block[2], n = (items + LANES - 1) / LANES, order[MAX_WAVES];
  Group g = {.id = id, .n_waves = n, .members = n};
  g.xyz[0] = (u32)(id % l->grid[0]), g.xyz[1] = (u32)(id / l->grid[0] % l->grid[1]),
  g.xyz[2] = (u32)(id / l->grid[0] / l->grid[1]);
  memset(t->lds, 0xff, l->lds_bytes);
  if (t->checks) {
    memset(t->lds_writer, 0, 2 * (size_t)l->lds_bytes);
    memset(t->lds_reader, 0, 2 * (size_t)l->lds_bytes);
  }
  races_begin_group(t, id);
  for (u32 i = 0; i < n; i++) start_wave(&t->waves[i], t, &g, i), order[i] = i;
  if (l->wave_order_seed) shuffle(order, n, l->wave_order_seed ^ id * 0x9e3779b97f4a7c15ull);
  t->totals.waves += n;
  u32 live = n, phase = 0;
  while (live) {
    int progressed = 0;
    for (u32 i = 0; i < n; i++) {
      Wave* w = &t->waves[order[i]];
      if (w->stop == STOP_END) continue;
      if (w->waiting) {
        if (g.phase == w->signal_phase) continue;
        w->waiting = 0;
        while (phase < g.phase) new_epoch(t, ++phase);
        w->tag = (g.phase % EPOCHS + 1) << 7 | w->id;
      }
      if (__atomic_load_n(stop, __ATOMIC_RELAXED)) return 0;
      progressed = 1;
      (l->profile ? run_wave_profiled : run_wave)(w, l->max_wave_instructions, stop);
      if (!w->stop) return 0;  // asked to stop
      if (w->stop == STOP_FAULT) return 0;
      if (w->stop == STOP_END) {
        live--, g.members--, g.ended++;
        if (g.signals && t->checks) {  // others wait for a wave that has ended
          for (u32 j = 0; j < n; j++) {
            Wave* other = &t->waves[j];
            if (other->waiting) {
              stop_with_fault(other, other->resume - 1, FAULT_BARRIER_ENDED, ~0u, g.ended, 0, 0, 0);
              return 0;
            }
          }
        }
        if (g.signals && g.signals == g.members) g.signals = 0, g.phase++;
        for (u32 v = 0; v < l->n_views; v++)
          t->view_counts[v].live_lanes += (u64)__builtin_popcount(w->loaded[v]);
      }
    }
    if (!progressed && live) {
      for (u32 i = 0; i < n; i++) {
        Wave* w = &t->waves[i];
        if (w->stop != STOP_END) {
          stop_with_fault(w, w->resume - 1, FAULT_DEADLOCK, ~0u, live, 0, 0, 0);
          return 0;
        }
      }
    }
  }
  return 1;
}
