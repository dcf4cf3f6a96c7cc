// Handlers of control flow and barriers; semantics/native.py lists them.
#include "operands.h"

#define HANDLER(name) const Rec* name(Wave* w, const Rec* r)

// ---- control flow ----
HANDLER(NOP) {
  (void)w;
  return r + 1;
}
HANDLER(S_BRANCH) { return w->records + r->target; }
HANDLER(S_CBRANCH_SCC0) { return w->s[SCC] ? r + 1 : w->records + r->target; }
HANDLER(S_CBRANCH_SCC1) { return w->s[SCC] ? w->records + r->target : r + 1; }
HANDLER(S_CBRANCH_VCCZ) { return w->s[VCC] ? r + 1 : w->records + r->target; }
HANDLER(S_CBRANCH_VCCNZ) { return w->s[VCC] ? w->records + r->target : r + 1; }
HANDLER(S_CBRANCH_EXECZ) { return w->s[EXEC] ? r + 1 : w->records + r->target; }
HANDLER(S_CBRANCH_EXECNZ) { return w->s[EXEC] ? w->records + r->target : r + 1; }
HANDLER(S_ENDPGM) {
  (void)r;
  w->stop = STOP_END;
  return NULL;
}
HANDLER(S_TRAP) { return stop_with_fault(w, r, FAULT_TRAP, ~0u, (u64)r->offset, 0, 0, 0); }

static const Rec* jump(Wave* w, const Rec* r, u64 address) {
  const Launch* l = w->t->l;
  u64 at = address - l->code_va;
  if (at >= l->code_bytes || at & 3 || !l->jump[at / 4])
    return stop_with_fault(w, r, FAULT_BAD_JUMP, ~0u, address, 4, 0, 0);
  return w->records + l->jump[at / 4] - 1;
}
// `extra` is the address of the next instruction
HANDLER(S_GETPC_B64) {
  put_s64(w, r->dst, r->extra);
  return r + 1;
}
HANDLER(S_SETPC_B64) { return jump(w, r, scalar64(w, r, 0)); }
HANDLER(S_SWAPPC_B64) {
  u64 to = scalar64(w, r, 0);
  put_s64(w, r->dst, r->extra);
  return jump(w, r, to);
}
HANDLER(S_CALL_B64) {
  put_s64(w, r->dst, r->extra);
  return w->records + r->target;
}

// ---- the workgroup's barrier ----
static void complete_phase(Wave* w) {
  Group* g = w->g;
  if (g->signals && g->signals == g->members) g->signals = 0, g->phase++;
}
static const Rec* signal(Wave* w, const Rec* r) {
  Group* g = w->g;
  if (w->t->checks) {
    if (w->s[EXEC] != w->initial_exec)
      return stop_with_fault(w, r, FAULT_BARRIER_LANES, ~0u, w->s[EXEC], 0, 0, w->initial_exec);
    if (g->ended) return stop_with_fault(w, r, FAULT_BARRIER_ENDED, ~0u, g->ended, 0, 0, 0);
  }
  w->signalled = 1, w->signal_phase = g->phase;
  g->signals++;
  complete_phase(w);
  return r + 1;
}
static const Rec* wait(Wave* w, const Rec* r) {
  Group* g = w->g;
  w->t->totals.barriers++;
  if (!w->signalled) w->signal_phase = g->phase;
  w->signalled = 0;
  w->waiting = 1;
  w->resume = r + 1;
  w->stop = STOP_WAIT;
  return NULL;  // the schedule resumes it once the phase has passed
}
HANDLER(S_BARRIER_SIGNAL) { return signal(w, r); }
HANDLER(S_BARRIER_SIGNAL_ISFIRST) {
  w->s[SCC] = w->g->signals == 0;
  return signal(w, r);
}
HANDLER(S_BARRIER_WAIT) { return wait(w, r); }
HANDLER(S_BARRIER) { return signal(w, r) ? wait(w, r) : NULL; }
