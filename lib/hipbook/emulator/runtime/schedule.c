// Runs a dispatch: workgroups over threads, the waves of a workgroup in turn until each waits or ends.
//
// The result does not depend on the number of threads: each thread counts for itself, and of several faults the
// one of the lowest workgroup is reported. Python polls `emu_wait`, so that Ctrl-C can stop a run.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "memory.h"

extern const Handler emu_handlers[];
extern const u32 emu_handler_count;

typedef struct {
  Launch *launch;
  pthread_t *threads;
  u32 n_threads, started;
  u64 n_groups, next;
  u64 first_fault;  // lowest workgroup that faulted
  u32 running;
  int stop, failed;
  pthread_mutex_t lock;
  pthread_cond_t done;
} Run;

const Rec *stop_with_fault(Wave *w, const Rec *r, u32 kind, u32 lane, u64 address, u64 size, u32 store, u64 other) {
  Fault *f = &w->t->fault;
  f->kind = kind, f->record = (u32)(r - w->records), f->wave = w->id, f->lane = lane, f->workgroup = w->g->id;
  f->address = address, f->size = size, f->store = store, f->other = other;
  w->stop = STOP_FAULT;
  return NULL;
}

// ---- one wave ----

enum { SLICE = 1 << 20 };

static void start_wave(Wave *w, Thread *t, Group *g, u32 id) {
  const Launch *l = t->l;
  w->t = t, w->g = g, w->id = id;
  w->records = l->records, w->pool = l->pool;
  w->resume = l->records + l->entry;
  w->stop = w->waiting = w->signalled = w->signal_phase = 0;
  w->executed = 0;
  memset(w->v, 0, (size_t)l->n_vgprs * LANES * 4);
  memset(w->s, 0, sizeof w->s);
  memset(w->loaded, 0, sizeof w->loaded);
  memcpy(w->s, l->sgprs, sizeof l->sgprs);
  u32 n = l->sgpr_count, bits = l->rsrc2 >> 7;  // ENABLE_SGPR_WORKGROUP_ID_X, Y, Z
  if (l->gfx >= 12) {
    w->s[TTMP0 + 9] = g->xyz[0];
    w->s[TTMP0 + 8] = id << 25;  // the wave's number in its workgroup, bits 29:25
    w->s[TTMP0 + 7] = bits & 4 ? (g->xyz[1] & 0xffff) | g->xyz[2] << 16 : g->xyz[1];
  } else {
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
static void run_wave(Wave *w, u64 budget, const int *stop) {
  const Rec *r = w->resume, *base = w->records;
  Count *counts = w->t->counts;
  w->stop = 0;
  while (r && !__atomic_load_n(stop, __ATOMIC_RELAXED)) {
    if (w->executed >= budget) {
      stop_with_fault(w, r, FAULT_BUDGET, ~0u, 0, 0, 0, budget);
      return;
    }
    u32 slice = budget - w->executed < SLICE ? (u32)(budget - w->executed) : SLICE, left = slice;
    do {
      Count *c = &counts[r - base];
      c->executions++;
      c->lanes += (u64)__builtin_popcount(w->s[EXEC]);
      r = r->fn(w, r);
    } while (r && --left);
    w->executed += slice - left;
  }
}

// ---- one workgroup ----

static void shuffle(u32 *order, u32 n, u64 seed) {  // splitmix64, Fisher-Yates
  for (u32 i = n - 1; i > 0; i--) {
    u64 z = (seed += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    u32 j = (u32)((z ^ z >> 31) % (i + 1)), x = order[i];
    order[i] = order[j], order[j] = x;
  }
}

enum { EPOCHS = 500 };

static void new_epoch(Thread *t, u32 phase) {  // epochs come around: what was touched becomes merely old
  if (phase % EPOCHS || !t->checks) return;
  for (u32 i = 0; i < t->l->lds_bytes; i++) t->lds_writer[i] = t->lds_writer[i] ? 1 : 0, t->lds_reader[i] = 0;
}

static int run_group(Thread *t, u64 id, const int *stop) {
  Launch const *l = t->l;
  u32 items = l->block[0] * l->block[1] * l->block[2], n = (items + LANES - 1) / LANES, order[MAX_WAVES];
  Group g = {.id = id, .n_waves = n, .members = n};
  g.xyz[0] = (u32)(id % l->grid[0]), g.xyz[1] = (u32)(id / l->grid[0] % l->grid[1]), g.xyz[2] = (u32)(id / l->grid[0] / l->grid[1]);
  memset(t->lds, 0xff, l->lds_bytes);
  if (t->checks) {
    memset(t->lds_writer, 0, 2 * (size_t)l->lds_bytes);
    memset(t->lds_reader, 0, 2 * (size_t)l->lds_bytes);
  }
  for (u32 i = 0; i < n; i++) start_wave(&t->waves[i], t, &g, i), order[i] = i;
  if (l->wave_order_seed) shuffle(order, n, l->wave_order_seed ^ id * 0x9e3779b97f4a7c15ull);
  t->totals.waves += n;
  u32 live = n, phase = 0;
  while (live) {
    int progressed = 0;
    for (u32 i = 0; i < n; i++) {
      Wave *w = &t->waves[order[i]];
      if (w->stop == STOP_END) continue;
      if (w->waiting) {
        if (g.phase == w->signal_phase) continue;
        w->waiting = 0;
        while (phase < g.phase) new_epoch(t, ++phase);
        w->tag = (g.phase % EPOCHS + 1) << 7 | w->id;
      }
      if (__atomic_load_n(stop, __ATOMIC_RELAXED)) return 0;
      progressed = 1;
      run_wave(w, l->max_wave_instructions, stop);
      if (!w->stop) return 0;  // asked to stop
      if (w->stop == STOP_FAULT) return 0;
      if (w->stop == STOP_END) {
        live--, g.members--, g.ended++;
        if (g.signals && t->checks) {  // others wait for a wave that has ended
          for (u32 j = 0; j < n; j++) {
            Wave *other = &t->waves[j];
            if (other->waiting) {
              stop_with_fault(other, other->resume - 1, FAULT_BARRIER_ENDED, ~0u, g.ended, 0, 0, 0);
              return 0;
            }
          }
        }
        if (g.signals && g.signals == g.members) g.signals = 0, g.phase++;
        for (u32 v = 0; v < l->n_views; v++) t->view_counts[v].live_lanes += (u64)__builtin_popcount(w->loaded[v]);
      }
    }
    if (!progressed && live) {
      for (u32 i = 0; i < n; i++) {
        Wave *w = &t->waves[i];
        if (w->stop != STOP_END) {
          stop_with_fault(w, w->resume - 1, FAULT_DEADLOCK, ~0u, live, 0, 0, 0);
          return 0;
        }
      }
    }
  }
  return 1;
}

// ---- one thread ----

static void *reserve(size_t bytes) {
  void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static int worker_run(Run *run, Thread *t) {
  const Launch *l = run->launch;
  u32 items = l->block[0] * l->block[1] * l->block[2], n_waves = (items + LANES - 1) / LANES;
  size_t waves_bytes = sizeof(Wave) * n_waves, lds_bytes = l->lds_bytes + 64;
  size_t scratch = (size_t)l->scratch_bytes * LANES;
  t->l = l, t->checks = l->checks;
  t->counts = calloc(l->n_records, sizeof(Count));
  t->view_counts = calloc(l->n_views + 1, sizeof(ViewCount));
  t->caches = calloc(l->n_slots + 1, sizeof(Cache));
  t->waves = reserve(waves_bytes);
  t->lds = reserve(lds_bytes), t->lds_writer = reserve(2 * lds_bytes), t->lds_reader = reserve(2 * lds_bytes);
  u8 *private = reserve(2 * scratch * n_waves);
  int fine = t->counts && t->view_counts && t->caches && t->waves && t->lds && t->lds_writer && t->lds_reader && private;
  if (fine) {
    for (u32 i = 0; i < l->n_slots; i++) t->caches[i].lo = 1;
    for (u32 i = 0; i < n_waves; i++) {
      t->waves[i].scratch = private + 2 * scratch * i;
      t->waves[i].scratch_written = t->waves[i].scratch + scratch;
    }
    for (;;) {
      u64 id = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
      if (id >= run->n_groups || id > __atomic_load_n(&run->first_fault, __ATOMIC_RELAXED)) break;
      if (run_group(t, id, &run->stop)) continue;
      if (t->fault.kind) {
        u64 seen = __atomic_load_n(&run->first_fault, __ATOMIC_RELAXED);
        while (id < seen && !__atomic_compare_exchange_n(&run->first_fault, &seen, id, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
      }
      break;
    }
  }
  if (t->waves) munmap(t->waves, waves_bytes);
  if (t->lds) munmap(t->lds, lds_bytes);
  if (t->lds_writer) munmap(t->lds_writer, 2 * lds_bytes);
  if (t->lds_reader) munmap(t->lds_reader, 2 * lds_bytes);
  if (private) munmap(private, 2 * scratch * n_waves ? 2 * scratch * n_waves : 1);
  free(t->caches);
  return fine;
}

static void add_results(Run *run, Thread *t) {
  Launch *l = run->launch;
  for (u64 i = 0; t->counts && i < l->n_records; i++)
    l->counts[i].executions += t->counts[i].executions, l->counts[i].lanes += t->counts[i].lanes;
  u64 *to = (u64 *)l->view_counts, *from = (u64 *)t->view_counts;
  for (u64 i = 0; from && i < (u64)l->n_views * sizeof(ViewCount) / 8; i++) to[i] += from[i];
  to = (u64 *)&l->totals, from = (u64 *)&t->totals;
  for (u64 i = 0; i < sizeof(Totals) / 8; i++) to[i] += from[i];
  if (t->fault.kind && (!l->fault.kind || t->fault.workgroup < l->fault.workgroup)) l->fault = t->fault;
}

static void *worker(void *arg) {
  Run *run = arg;
  Thread *t = calloc(1, sizeof *t);
  int fine = t && worker_run(run, t);
  pthread_mutex_lock(&run->lock);
  if (t) add_results(run, t);
  if (!fine) run->failed = 1;
  run->running--;
  pthread_cond_signal(&run->done);
  pthread_mutex_unlock(&run->lock);
  if (t) free(t->counts), free(t->view_counts);
  free(t);
  return NULL;
}

// ---- what Python calls ----

u64 emu_record_size(void) { return sizeof(Rec); }
u64 emu_launch_size(void) { return sizeof(Launch); }
u64 emu_view_size(void) { return sizeof(View); }

// Handler numbers become pointers; 0, or 1 + the index of a record with a bad number.
u64 emu_link(Rec *records, u64 n) {
  for (u64 i = 0; i < n; i++) {
    u64 number = (u64)(uintptr_t)records[i].fn;
    if (number >= emu_handler_count) return i + 1;
    records[i].fn = emu_handlers[number];
  }
  return 0;
}

void *emu_start(Launch *l) {
  Run *run = calloc(1, sizeof *run);
  if (!run) return NULL;
  run->launch = l;
  run->n_groups = (u64)l->grid[0] * l->grid[1] * l->grid[2];
  run->first_fault = ~(u64)0;
  run->n_threads = l->threads < 1 ? 1 : l->threads;
  if (run->n_threads > run->n_groups) run->n_threads = run->n_groups ? (u32)run->n_groups : 1;
  run->threads = calloc(run->n_threads, sizeof *run->threads);
  pthread_mutex_init(&run->lock, NULL);
  pthread_cond_init(&run->done, NULL);
  if (!run->threads) run->n_threads = 0, run->failed = 1;
  run->running = run->n_threads;
  for (u32 i = 0; i < run->n_threads; i++) {
    if (pthread_create(&run->threads[i], NULL, worker, run)) {
      pthread_mutex_lock(&run->lock);
      run->running -= run->n_threads - i;
      if (i == 0) run->failed = 1;
      pthread_mutex_unlock(&run->lock);
      break;
    }
    run->started++;
  }
  return run;
}

// 1 while it still runs after `ms` milliseconds
int emu_wait(void *handle, u32 ms) {
  Run *run = handle;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (long)(ms % 1000) * 1000000, until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&run->lock);
  while (run->running && !pthread_cond_timedwait(&run->done, &run->lock, &until)) {}
  int running = run->running > 0;
  pthread_mutex_unlock(&run->lock);
  return running;
}

// Asks the run to stop (if it still goes on), waits for its threads and frees it; 1 if it lacked memory.
int emu_finish(void *handle, int stop) {
  Run *run = handle;
  if (stop) {
    __atomic_store_n(&run->stop, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&run->first_fault, 0, __ATOMIC_RELAXED);
  }
  for (u32 i = 0; i < run->started; i++) pthread_join(run->threads[i], NULL);
  int failed = run->failed;
  pthread_mutex_destroy(&run->lock);
  pthread_cond_destroy(&run->done);
  free(run->threads);
  free(run);
  return failed;
}

// One wave on given state, for tests of single instructions: VGPRs, the 256 words of Wave.s and LDS are read
// and written back. Everything else is as in a launch.
int emu_run_wave(Launch *l, u32 *vgprs, u32 *scalars, u8 *lds) {
  static const int never = 0;
  Run run = {.launch = l};
  Group g = {.n_waves = 1, .members = 1};
  Thread t = {.l = l, .checks = l->checks};
  size_t lds_bytes = l->lds_bytes + 64;
  t.counts = calloc(l->n_records, sizeof(Count)), t.view_counts = calloc(l->n_views + 1, sizeof(ViewCount));
  t.caches = calloc(l->n_slots + 1, sizeof(Cache)), t.waves = reserve(sizeof(Wave));
  t.lds = reserve(lds_bytes), t.lds_writer = reserve(2 * lds_bytes), t.lds_reader = reserve(2 * lds_bytes);
  u8 *private = reserve(2 * (size_t)l->scratch_bytes * LANES);
  for (u32 i = 0; i < l->n_slots; i++) t.caches[i].lo = 1;
  Wave *w = t.waves;
  w->scratch = private, w->scratch_written = private + (size_t)l->scratch_bytes * LANES;
  start_wave(w, &t, &g, 0);
  memcpy(w->v, vgprs, sizeof(u32) * LANES * MAX_VGPRS);
  memcpy(w->s, scalars, sizeof w->s);
  w->initial_exec = w->s[EXEC];
  memcpy(t.lds, lds, l->lds_bytes);
  memset(t.lds_writer, 1, 2 * (size_t)l->lds_bytes);
  do {
    w->waiting = 0;
    run_wave(w, l->max_wave_instructions, &never);
  } while (w->stop == STOP_WAIT && g.phase != w->signal_phase);
  memcpy(vgprs, w->v, sizeof(u32) * LANES * MAX_VGPRS);
  memcpy(scalars, w->s, sizeof w->s);
  memcpy(lds, t.lds, l->lds_bytes);
  add_results(&run, &t);
  munmap(t.waves, sizeof(Wave)), munmap(t.lds, lds_bytes);
  munmap(t.lds_writer, 2 * lds_bytes), munmap(t.lds_reader, 2 * lds_bytes);
  size_t bytes = 2 * (size_t)l->scratch_bytes * LANES;
  munmap(private, bytes ? bytes : 1);
  free(t.counts), free(t.view_counts), free(t.caches);
  return (int)l->fault.kind;
}

void *emu_reserve(u64 bytes) { return reserve(bytes); }
void emu_release(void *p, u64 bytes) { munmap(p, bytes ? bytes : 1); }

// Bytes of a view that were never written; only the view's own bytes count, not the gaps between them.
u64 emu_unwritten(const View *v) {
  u64 at[MAX_LEVELS] = {0}, missing = 0;
  if (!v->written || !v->span) return 0;
  for (;;) {
    u64 offset = 0;
    for (u32 l = 0; l < v->levels; l++) offset += at[l] * v->stride[l];
    const u8 *p = v->written + offset;
    for (u64 i = 0; i < v->inner; i++) missing += !p[i];
    u32 l = v->levels;
    while (l > 0 && ++at[l - 1] == v->count[l - 1]) at[--l] = 0;
    if (l == 0) return missing;
  }
}
