// A run that keeps more than executions: what each record moved, and what one workgroup's waves did in turn.
// Only for launches that ask for it (Launch.profile), on one thread; others do not pay for it.
#include "schedule.h"

static u64 bytes_asked_for(const Thread* t) {
  u64 bytes = 0;
  for (u32 v = 0; v < t->l->profile->views; v++)
    bytes += t->view_counts[v].bytes_read + t->view_counts[v].bytes_written;
  return bytes;
}

// As run_wave, with a look at the thread's totals before and after each record.
void run_wave_profiled(Wave* w, u64 budget, const int* stop) {
  const Rec *r = w->resume, *base = w->records;
  Thread* t = w->t;
  Profile* p = t->l->profile;
  w->stop = 0;
  while (r && !__atomic_load_n(stop, __ATOMIC_RELAXED)) {
    if (w->executed++ >= budget) {
      stop_with_fault(w, r, FAULT_BUDGET, ~0u, 0, 0, 0, budget);
      return;
    }
    const Rec* now = r;
    u32 lanes = (u32)__builtin_popcount(w->s[EXEC]);
    Totals before = t->totals;
    u64 bytes = bytes_asked_for(t);
    t->counts[now - base].executions++;
    t->counts[now - base].lanes += lanes;
    r = r->fn(w, r);
    Moved* m = &p->moved[now - base];
    u64 segments = t->totals.segments32 - before.segments32;
    m->bytes += bytes_asked_for(t) - bytes;
    m->segments32 += segments;
    m->segments128 += t->totals.segments128 - before.segments128;
    m->lds_bytes += t->totals.lds_bytes_read - before.lds_bytes_read + t->totals.lds_bytes_written -
                    before.lds_bytes_written;
    m->lds_conflicts += t->totals.lds_conflicts - before.lds_conflicts;
    if (w->g->id == p->group && p->n_events < p->room) {
      Event* e = &p->events[p->n_events++];
      e->record = (u32)(now - base), e->wave = (u8)w->id, e->lanes = (u8)lanes, e->segments = (u16)segments;
    }
  }
}
