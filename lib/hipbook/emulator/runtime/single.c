// Runs one wave on given registers, for tests of single instructions.
#include <stdlib.h>
#include <sys/mman.h>

#include "schedule.h"

// One wave on given state, for tests of single instructions: VGPRs, the 256 words of Wave.s and LDS are read
// and written back. Everything else is as in a launch.
int emu_run_wave(Launch* l, u32* vgprs, u32* scalars, u8* lds) {
  static const int never = 0;
  Group g = {.n_waves = 1, .members = 1};
  Thread t = {.l = l, .checks = l->checks};
  size_t lds_bytes = l->lds_bytes + 64;
  t.counts = calloc(l->n_records, sizeof(Count)), t.view_counts = calloc(l->n_views + 1, sizeof(ViewCount));
  t.caches = calloc(l->n_slots + 1, sizeof(Cache)), t.waves = reserve(sizeof(Wave));
  t.lds = reserve(lds_bytes), t.lds_writer = reserve(2 * lds_bytes), t.lds_reader = reserve(2 * lds_bytes);
  u8* private = reserve(2 * (size_t)l->scratch_bytes * LANES);
  for (u32 i = 0; i < l->n_slots; i++) t.caches[i].lo = 1;
  Wave* w = t.waves;
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
  add_results(l, &t);
  munmap(t.waves, sizeof(Wave)), munmap(t.lds, lds_bytes);
  munmap(t.lds_writer, 2 * lds_bytes), munmap(t.lds_reader, 2 * lds_bytes);
  size_t bytes = 2 * (size_t)l->scratch_bytes * LANES;
  munmap(private, bytes ? bytes : 1);
  free(t.counts), free(t.view_counts), free(t.caches);
  return (int)l->fault.kind;
}
