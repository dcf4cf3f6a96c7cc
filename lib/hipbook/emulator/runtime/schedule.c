// Runs a dispatch: workgroups over threads, the waves of a workgroup in turn until each waits or ends.
//
// The result does not depend on the number of threads: each thread counts for itself, and of several faults
// the one of the lowest workgroup is reported. Python polls `emu_wait`, so that Ctrl-C can stop a run.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "races.h"
#include "schedule.h"

extern const Handler emu_handlers[];
extern const u32 emu_handler_count;

typedef struct {
  Launch* launch;
  pthread_t* threads;
  Thread* states;  // one a thread
  u32 n_threads, started, taken;
  u64 n_groups, next;
  u64 first_fault;  // lowest workgroup that faulted
  u32 running;
  int stop, failed;
  pthread_mutex_t lock;
  pthread_cond_t done;
} Run;

// ---- one thread ----

void* reserve(size_t bytes) {
  void* p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static int worker_run(Run* run, Thread* t) {
  const Launch* l = run->launch;
  u32 items = l->block[0] * l->block[1] * l->block[2], n_waves = (items + LANES - 1) / LANES;
  size_t waves_bytes = sizeof(Wave) * n_waves, lds_bytes = l->lds_bytes + 64;
  size_t scratch = (size_t)l->scratch_bytes * LANES;
  t->l = l, t->checks = l->checks;
  t->counts = calloc(l->n_records, sizeof(Count));
  t->view_counts = calloc(l->n_views + 1, sizeof(ViewCount));
  t->caches = calloc(l->n_slots + 1, sizeof(Cache));
  t->waves = reserve(waves_bytes);
  t->lds = reserve(lds_bytes), t->lds_writer = reserve(2 * lds_bytes), t->lds_reader = reserve(2 * lds_bytes);
  u8* private = reserve(2 * scratch * n_waves);
  int fine = t->counts && t->view_counts && t->caches && t->waves && t->lds && t->lds_writer &&
             t->lds_reader && private && races_begin(t);
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
        while (id < seen && !__atomic_compare_exchange_n(&run->first_fault, &seen, id, 0, __ATOMIC_RELAXED,
                                                         __ATOMIC_RELAXED)) {}
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

void add_results(Launch* l, const Thread* t) {
  for (u64 i = 0; t->counts && i < l->n_records; i++)
    l->counts[i].executions += t->counts[i].executions, l->counts[i].lanes += t->counts[i].lanes;
  u64* to = (u64*)l->view_counts;
  const u64* from = (const u64*)t->view_counts;
  for (u64 i = 0; from && i < (u64)l->n_views * sizeof(ViewCount) / 8; i++) to[i] += from[i];
  to = (u64*)&l->totals, from = (const u64*)&t->totals;
  for (u64 i = 0; i < sizeof(Totals) / 8; i++) to[i] += from[i];
  if (t->fault.kind && (!l->fault.kind || t->fault.workgroup < l->fault.workgroup)) l->fault = t->fault;
}

static void* worker(void* arg) {
  Run* run = arg;
  Thread* t = &run->states[__atomic_fetch_add(&run->taken, 1, __ATOMIC_RELAXED)];
  int fine = worker_run(run, t);
  pthread_mutex_lock(&run->lock);
  add_results(run->launch, t);
  if (!fine) run->failed = 1;
  run->running--;
  pthread_cond_signal(&run->done);
  pthread_mutex_unlock(&run->lock);
  free(t->counts), free(t->view_counts);
  return NULL;
}

static void compare_shadows(Run* run) {
  Shadow** shadows = calloc(run->n_threads, sizeof *shadows);
  for (u32 i = 0; shadows && i < run->n_threads; i++) shadows[i] = run->states[i].shadows;
  if (!shadows)
    run->failed = 1;
  else if (run->n_threads > 1 && !run->failed)
    run->launch->raced = (u32)races_between(run->launch, shadows, run->n_threads);
  free(shadows);
}

// ---- what Python calls ----

u64 emu_record_size(void) { return sizeof(Rec); }
u64 emu_launch_size(void) { return sizeof(Launch); }
u64 emu_view_size(void) { return sizeof(View); }
u64 emu_track_size(void) { return sizeof(Track); }

// Handler numbers become pointers; 0, or 1 + the index of a record with a bad number.
u64 emu_link(Rec* records, u64 n) {
  for (u64 i = 0; i < n; i++) {
    u64 number = (u64)(uintptr_t)records[i].fn;
    if (number >= emu_handler_count) return i + 1;
    records[i].fn = emu_handlers[number];
  }
  return 0;
}

void* emu_start(Launch* l) {
  Run* run = calloc(1, sizeof *run);
  if (!run) return NULL;
  run->launch = l;
  run->n_groups = (u64)l->grid[0] * l->grid[1] * l->grid[2];
  run->first_fault = ~(u64)0;
  run->n_threads = l->threads < 1 ? 1 : l->threads;
  if (run->n_threads > run->n_groups) run->n_threads = run->n_groups ? (u32)run->n_groups : 1;
  run->threads = calloc(run->n_threads, sizeof *run->threads);
  run->states = calloc(run->n_threads, sizeof *run->states);
  pthread_mutex_init(&run->lock, NULL);
  pthread_cond_init(&run->done, NULL);
  if (!run->threads || !run->states) run->n_threads = 0, run->failed = 1;
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
int emu_wait(void* handle, u32 ms) {
  Run* run = handle;
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
int emu_finish(void* handle, int stop) {
  Run* run = handle;
  if (stop) {
    __atomic_store_n(&run->stop, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&run->first_fault, 0, __ATOMIC_RELAXED);
  }
  for (u32 i = 0; i < run->started; i++) pthread_join(run->threads[i], NULL);
  if (!stop) compare_shadows(run);
  for (u32 i = 0; i < run->n_threads; i++)
    if (run->states[i].l) races_end(&run->states[i]);
  int failed = run->failed;
  pthread_mutex_destroy(&run->lock);
  pthread_cond_destroy(&run->done);
  free(run->threads), free(run->states);
  free(run);
  return failed;
}

void* emu_reserve(u64 bytes) { return reserve(bytes); }
void emu_release(void* p, u64 bytes) { munmap(p, bytes ? bytes : 1); }

// Bytes of a view that were never written; only the view's own bytes count, not the gaps between them.
u64 emu_unwritten(const View* v) {
  u64 at[MAX_LEVELS] = {0}, missing = 0;
  if (!v->written || !v->span) return 0;
  for (;;) {
    u64 offset = 0;
    for (u32 l = 0; l < v->levels; l++) offset += at[l] * v->stride[l];
    const u8* p = v->written + offset;
    for (u64 i = 0; i < v->inner; i++) missing += !p[i];
    u32 l = v->levels;
    while (l > 0 && ++at[l - 1] == v->count[l - 1]) at[--l] = 0;
    if (l == 0) return missing;
  }
}
