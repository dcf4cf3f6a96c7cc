// Instructions that are not elementwise arithmetic: control flow, barriers, lanes talking to lanes, matrices.
// Every function is a handler; semantics/native.py lists them.
#include "alu.h"
#include "memory.h"

#define HANDLER(name) const Rec *name(Wave *w, const Rec *r)

// ---- control flow ----
HANDLER(NOP) { (void)w; return r + 1; }
HANDLER(S_BRANCH) { return w->records + r->target; }
HANDLER(S_CBRANCH_SCC0) { return w->s[SCC] ? r + 1 : w->records + r->target; }
HANDLER(S_CBRANCH_SCC1) { return w->s[SCC] ? w->records + r->target : r + 1; }
HANDLER(S_CBRANCH_VCCZ) { return w->s[VCC] ? r + 1 : w->records + r->target; }
HANDLER(S_CBRANCH_VCCNZ) { return w->s[VCC] ? w->records + r->target : r + 1; }
HANDLER(S_CBRANCH_EXECZ) { return w->s[EXEC] ? r + 1 : w->records + r->target; }
HANDLER(S_CBRANCH_EXECNZ) { return w->s[EXEC] ? w->records + r->target : r + 1; }
HANDLER(S_ENDPGM) { (void)r; w->stop = STOP_END; return NULL; }
HANDLER(S_TRAP) { return stop_with_fault(w, r, FAULT_TRAP, ~0u, (u64)r->offset, 0, 0, 0); }

static const Rec *jump(Wave *w, const Rec *r, u64 address) {
  const Launch *l = w->t->l;
  u64 at = address - l->code_va;
  if (at >= l->code_bytes || at & 3 || !l->jump[at / 4]) return stop_with_fault(w, r, FAULT_BAD_JUMP, ~0u, address, 4, 0, 0);
  return w->records + l->jump[at / 4] - 1;
}
// `extra` is the address of the next instruction
HANDLER(S_GETPC_B64) { put_s64(w, r->dst, r->extra); return r + 1; }
HANDLER(S_SETPC_B64) { return jump(w, r, scalar64(w, r, 0)); }
HANDLER(S_SWAPPC_B64) { u64 to = scalar64(w, r, 0); put_s64(w, r->dst, r->extra); return jump(w, r, to); }
HANDLER(S_CALL_B64) { put_s64(w, r->dst, r->extra); return w->records + r->target; }

// ---- the workgroup's barrier ----
static void complete_phase(Wave *w) {
  Group *g = w->g;
  if (g->signals && g->signals == g->members) g->signals = 0, g->phase++;
}
static const Rec *signal(Wave *w, const Rec *r) {
  Group *g = w->g;
  if (w->t->checks) {
    if (w->s[EXEC] != w->initial_exec) return stop_with_fault(w, r, FAULT_BARRIER_LANES, ~0u, w->s[EXEC], 0, 0, w->initial_exec);
    if (g->ended) return stop_with_fault(w, r, FAULT_BARRIER_ENDED, ~0u, g->ended, 0, 0, 0);
  }
  w->signalled = 1, w->signal_phase = g->phase;
  g->signals++;
  complete_phase(w);
  return r + 1;
}
static const Rec *wait(Wave *w, const Rec *r) {
  Group *g = w->g;
  w->t->totals.barriers++;
  if (!w->signalled) w->signal_phase = g->phase;
  w->signalled = 0;
  w->waiting = 1;
  w->resume = r + 1;
  w->stop = STOP_WAIT;
  return NULL;  // the schedule resumes it once the phase has passed
}
HANDLER(S_BARRIER_SIGNAL) { return signal(w, r); }
HANDLER(S_BARRIER_SIGNAL_ISFIRST) { w->s[SCC] = w->g->signals == 0; return signal(w, r); }
HANDLER(S_BARRIER_WAIT) { return wait(w, r); }
HANDLER(S_BARRIER) { return signal(w, r) ? wait(w, r) : NULL; }

// ---- lanes ----
static u32 lane_value(const Wave *w, const Rec *r, int n, u32 lane) {
  Operand o = r->src[n];
  return o.kind == VGPR ? w->v[o.index][lane] : scalar32(w, r, n);
}
HANDLER(V_READFIRSTLANE_B32) {
  u32 exec = exec_of(w);
  w->s[r->dst] = lane_value(w, r, 0, exec ? (u32)__builtin_ctz(exec) : 0);
  return r + 1;
}
HANDLER(V_READLANE_B32) { w->s[r->dst] = lane_value(w, r, 0, scalar32(w, r, 1) & 31); return r + 1; }
HANDLER(V_WRITELANE_B32) { w->v[r->dst][scalar32(w, r, 1) & 31] = scalar32(w, r, 0); return r + 1; }
HANDLER(V_SWAP_B32) {
  u32 exec = exec_of(w), *a = w->v[r->dst], *b = w->v[r->src[0].index];
  for (int i = 0; i < LANES; i++)
    if ((exec >> i) & 1) { u32 t = a[i]; a[i] = b[i]; b[i] = t; }
  return r + 1;
}
HANDLER(V_SWAP_B16) {
  u32 exec = exec_of(w), *a = w->v[r->dst], *b = w->v[r->src[0].index];
  u32 sa = r->flags & DST_HI ? 16 : 0, sb = r->src[0].flags & HI ? 16 : 0;
  for (int i = 0; i < LANES; i++)
    if ((exec >> i) & 1) {
      u32 x = (a[i] >> sa) & 0xffff, y = (b[i] >> sb) & 0xffff;
      a[i] = (a[i] & ~(0xffffu << sa)) | y << sa;
      b[i] = (b[i] & ~(0xffffu << sb)) | x << sb;
    }
  return r + 1;
}
// opsel: HI of src0 is fetch-inactive, HI of src1 is bound control
static const Rec *permlane(Wave *w, const Rec *r, u32 other_row, int per_lane) {
  u32 tmp[LANES] ALIGNED, out[LANES] ALIGNED, sel[LANES] ALIGNED, exec = exec_of(w);
  const u32 *a = fetch_u32(w, r, 0, tmp);
  int fetch_inactive = r->src[0].flags & HI, bound = r->src[1].flags & HI;
  u64 packed = per_lane ? 0 : scalar32(w, r, 1) | (u64)scalar32(w, r, 2) << 32;
  const u32 *b = per_lane ? fetch_u32(w, r, 1, sel) : NULL;
  u32 *d = w->v[r->dst];
  for (int i = 0; i < LANES; i++) {
    u32 n = per_lane ? b[i] & 15 : (u32)(packed >> (4 * (i & 15))) & 15;
    u32 from = (((u32)i & 16) ^ other_row) | n;
    out[i] = fetch_inactive || (exec >> from) & 1 ? a[from] : bound ? 0 : d[i];
  }
  put_u32(w, r, out);
  return r + 1;
}
HANDLER(V_PERMLANE16_B32) { return permlane(w, r, 0, 0); }
HANDLER(V_PERMLANEX16_B32) { return permlane(w, r, 16, 0); }
HANDLER(V_PERMLANE16_VAR_B32) { return permlane(w, r, 0, 1); }
HANDLER(V_PERMLANEX16_VAR_B32) { return permlane(w, r, 16, 1); }

HANDLER(DS_BPERMUTE_B32) {
  u32 exec = exec_of(w), out[LANES] ALIGNED, kept[LANES] ALIGNED;
  const u32 *addr = w->v[r->src[0].index], *data = w->v[r->src[1].index];
  u32 offset = (u32)r->offset;
  for (int i = 0; i < LANES; i++) kept[i] = (exec >> i) & 1 ? data[i] : 0;
  for (int i = 0; i < LANES; i++) out[i] = kept[((addr[i] + offset) >> 2) & 31];
  put_u32(w, r, out);
  return r + 1;
}
HANDLER(DS_BPERMUTE_FI_B32) {
  u32 out[LANES] ALIGNED, offset = (u32)r->offset;
  const u32 *addr = w->v[r->src[0].index], *data = w->v[r->src[1].index];
  for (int i = 0; i < LANES; i++) out[i] = data[((addr[i] + offset) >> 2) & 31];
  put_u32(w, r, out);
  return r + 1;
}
HANDLER(DS_PERMUTE_B32) {
  u32 exec = exec_of(w), out[LANES] ALIGNED, offset = (u32)r->offset;
  const u32 *addr = w->v[r->src[0].index], *data = w->v[r->src[1].index];
  memset(out, 0, sizeof out);
  for (int i = 0; i < LANES; i++)
    if ((exec >> i) & 1) out[((addr[i] + offset) >> 2) & 31] = data[i];
  put_u32(w, r, out);
  return r + 1;
}
HANDLER(DS_SWIZZLE_B32) {
  u32 exec = exec_of(w), out[LANES] ALIGNED, mode = (u32)r->offset;
  const u32 *data = w->v[r->src[0].index];
  for (u32 i = 0; i < LANES; i++) {
    u32 from;
    if (mode >= 0xe000) {  // FFT
      u32 mask = mode & 31;
      from = (__builtin_bitreverse32(i) >> 27) >> __builtin_popcount(mask);
      from |= i & mask;
    } else if (mode >= 0xc000) {  // rotate within a group of 32 by mask
      u32 mask = mode & 31, by = (mode >> 5) & 31, left = !((mode >> 10) & 1);
      u32 at = left ? i + by : i - by;
      from = (i & mask) | (at & ~mask & 31);
    } else if (mode & 0x8000) {  // any permutation of four neighbours
      from = (i & ~3u) | ((mode >> (2 * (i & 3))) & 3);
    } else {  // and, or, xor masks
      from = ((i & (mode & 31)) | ((mode >> 5) & 31)) ^ ((mode >> 10) & 31);
    }
    from &= 31;
    out[i] = (exec >> from) & 1 ? data[from] : 0;
  }
  put_u32(w, r, out);
  return r + 1;
}

// ---- helpers the decoder inserts; none of them is an instruction of its own ----

// All lanes of a source into a temporary: the half of a VOPD that must read before the other half writes.
HANDLER(COPY) { u32 tmp[LANES] ALIGNED; memcpy(w->v[r->dst], fetch_u32(w, r, 0, tmp), sizeof tmp); return r + 1; }

// DPP: the permuted source into a temporary, and EXEC narrowed to the lanes that take part, until DPP_END.
// extra: control | row mask << 16 | bank mask << 20 | bound control << 24 | fetch inactive << 25.
HANDLER(DPP16) {
  u32 exec = exec_of(w), control = (u32)r->extra & 0x1ff, rows = (r->extra >> 16) & 15, banks = (r->extra >> 20) & 15;
  int bound = (r->extra >> 24) & 1, fetch_inactive = (r->extra >> 25) & 1;
  u32 tmp[LANES] ALIGNED, *d = w->v[r->dst], enabled = 0;
  const u32 *a = fetch_u32(w, r, 0, tmp);
  for (int i = 0; i < LANES; i++) {
    int in = i & 15, from = in, valid = 1, n = control & 15;
    if (control < 0x100) from = (in & ~3) | (int)((control >> (2 * (in & 3))) & 3);
    else if (control >= 0x101 && control <= 0x10f) from = in + n, valid = from < 16;
    else if (control >= 0x111 && control <= 0x11f) from = in - n, valid = from >= 0;
    else if (control >= 0x121 && control <= 0x12f) from = (in - n) & 15;
    else if (control == 0x140) from = 15 - in;
    else if (control == 0x141) from = (in & 8) | (7 - (in & 7));
    else if (control >= 0x150 && control <= 0x15f) from = n;
    else if (control >= 0x160 && control <= 0x16f) from = in ^ n;
    from = (i & 16) | (from & 15);
    if (valid && !fetch_inactive && !((exec >> from) & 1)) valid = 0;
    int masked = !((rows >> (i >> 4)) & 1) || !((banks >> ((i & 15) >> 2)) & 1);
    d[i] = valid ? a[from] : 0;
    enabled |= (u32)(!masked && (valid || bound)) << i;
  }
  w->dpp_exec = exec;
  w->s[EXEC] = exec & enabled;
  return r + 1;
}
// extra: eight 3-bit selectors | fetch inactive << 24
HANDLER(DPP8) {
  u32 exec = exec_of(w), tmp[LANES] ALIGNED, *d = w->v[r->dst];
  const u32 *a = fetch_u32(w, r, 0, tmp);
  for (int i = 0; i < LANES; i++) {
    int from = (i & ~7) | (int)((r->extra >> (3 * (i & 7))) & 7);
    d[i] = (r->extra >> 24) & 1 || (exec >> from) & 1 ? a[from] : 0;
  }
  w->dpp_exec = exec;
  return r + 1;
}
HANDLER(DPP_END) { w->s[EXEC] = w->dpp_exec; return r + 1; }

// ---- matrices: 16x16x16, RDNA4 layout (ISA document 7.12): lane l holds row/column l % 16; A and B keep
// k = 8 * (l / 16) .. + 7 in four registers of two halves, C and D keep rows 8 * (l / 16) .. + 7 in eight
// registers. Products are exact in f32, summed in f32 in ascending k. EXEC is ignored. ----
static f32 half_at(const Wave *w, u32 reg, int lane, int k, int bf16) {
  u32 x = w->v[reg + (u32)k / 2][lane] >> (16 * (k & 1));
  return bf16 ? bf16_to_f32(x & 0xffff) : half_to_f32(x);
}
static void matrix_halves(const Wave *w, u32 reg, int bf16, f32 out[16][16]) {  // out[k][row or column]
  for (int l = 0; l < LANES; l++)
    for (int k = 0; k < 8; k++) out[8 * (l / 16) + k][l % 16] = half_at(w, reg, l, k, bf16);
}
static const Rec *wmma_f32(Wave *w, const Rec *r, int bf16) {
  f32 a[16][16], b[16][16], c[16][16];
  matrix_halves(w, r->src[0].index, bf16, a);
  matrix_halves(w, r->src[1].index, bf16, b);
  Operand o = r->src[2];
  for (int l = 0; l < LANES; l++)
    for (int k = 0; k < 8; k++) {
      u32 x = o.kind == VGPR ? w->v[o.index + (u32)k][l] : w->pool[(size_t)o.index * LANES];
      if (o.flags & ABS) x &= 0x7fffffffu;
      if (o.flags & NEG) x ^= 0x80000000u;
      memcpy(&c[8 * (l / 16) + k][l % 16], &x, 4);
    }
  for (int k = 0; k < 16; k++)
    for (int m = 0; m < 16; m++)
      for (int n = 0; n < 16; n++) c[m][n] = fmaf(a[k][m], b[k][n], c[m][n]);
  for (int l = 0; l < LANES; l++)
    for (int k = 0; k < 8; k++) memcpy(&w->v[r->dst + (u32)k][l], &c[8 * (l / 16) + k][l % 16], 4);
  return r + 1;
}
HANDLER(V_WMMA_F32_16X16X16_F16) { return wmma_f32(w, r, 0); }
HANDLER(V_WMMA_F32_16X16X16_BF16) { return wmma_f32(w, r, 1); }
