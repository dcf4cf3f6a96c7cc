// Handlers in which lanes read other lanes, and the helpers the decoder inserts for DPP and VOPD.
#include "alu.h"

#define HANDLER(name) const Rec* name(Wave* w, const Rec* r)

static u32 lane_value(const Wave* w, const Rec* r, int n, u32 lane) {
  Operand o = r->src[n];
  return o.kind == VGPR ? w->v[o.index][lane] : scalar32(w, r, n);
}
HANDLER(V_READFIRSTLANE_B32) {
  u32 exec = exec_of(w);
  w->s[r->dst] = lane_value(w, r, 0, exec ? (u32)__builtin_ctz(exec) : 0);
  return r + 1;
}
HANDLER(V_READLANE_B32) {
  w->s[r->dst] = lane_value(w, r, 0, scalar32(w, r, 1) & 31);
  return r + 1;
}
HANDLER(V_WRITELANE_B32) {
  w->v[r->dst][scalar32(w, r, 1) & 31] = scalar32(w, r, 0);
  return r + 1;
}
HANDLER(V_SWAP_B32) {
  u32 exec = exec_of(w), *a = w->v[r->dst], *b = w->v[r->src[0].index];
  for (int i = 0; i < LANES; i++)
    if ((exec >> i) & 1) {
      u32 t = a[i];
      a[i] = b[i];
      b[i] = t;
    }
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
static const Rec* permlane(Wave* w, const Rec* r, u32 other_row, int per_lane) {
  u32 tmp[LANES] ALIGNED, out[LANES] ALIGNED, sel[LANES] ALIGNED, exec = exec_of(w);
  const u32* a = fetch_u32(w, r, 0, tmp);
  int fetch_inactive = r->src[0].flags & HI, bound = r->src[1].flags & HI;
  u64 packed = per_lane ? 0 : scalar32(w, r, 1) | (u64)scalar32(w, r, 2) << 32;
  const u32* b = per_lane ? fetch_u32(w, r, 1, sel) : NULL;
  u32* d = w->v[r->dst];
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
  const u32* data = w->v[r->src[0].index];
  for (u32 i = 0; i < LANES; i++) {
    u32 from;
    if (mode >= 0xe000) {  // FFT
      u32 mask = mode & 31;
      from = (reverse32(i) >> 27) >> __builtin_popcount(mask);
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
HANDLER(COPY) {
  u32 tmp[LANES] ALIGNED;
  memcpy(w->v[r->dst], fetch_u32(w, r, 0, tmp), sizeof tmp);
  return r + 1;
}

// DPP: the permuted source into a temporary, and EXEC narrowed to the lanes that take part, until DPP_END.
// extra: control | row mask << 16 | bank mask << 20 | bound control << 24 | fetch inactive << 25.
HANDLER(DPP16) {
  u32 exec = exec_of(w), control = (u32)r->extra & 0x1ff, rows = (r->extra >> 16) & 15,
      banks = (r->extra >> 20) & 15;
  int bound = (r->extra >> 24) & 1, fetch_inactive = (r->extra >> 25) & 1;
  u32 tmp[LANES] ALIGNED, *d = w->v[r->dst], enabled = 0;
  const u32* a = fetch_u32(w, r, 0, tmp);
  for (int i = 0; i < LANES; i++) {
    int in = i & 15, from = in, valid = 1, n = control & 15;
    if (control < 0x100)
      from = (in & ~3) | (int)((control >> (2 * (in & 3))) & 3);
    else if (control >= 0x101 && control <= 0x10f)
      from = in + n, valid = from < 16;
    else if (control >= 0x111 && control <= 0x11f)
      from = in - n, valid = from >= 0;
    else if (control >= 0x121 && control <= 0x12f)
      from = (in - n) & 15;
    else if (control == 0x140)
      from = 15 - in;
    else if (control == 0x141)
      from = (in & 8) | (7 - (in & 7));
    else if (control >= 0x150 && control <= 0x15f)
      from = n;
    else if (control >= 0x160 && control <= 0x16f)
      from = in ^ n;
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
  const u32* a = fetch_u32(w, r, 0, tmp);
  for (int i = 0; i < LANES; i++) {
    int from = (i & ~7) | (int)((r->extra >> (3 * (i & 7))) & 7);
    d[i] = (r->extra >> 24) & 1 || (exec >> from) & 1 ? a[from] : 0;
  }
  w->dpp_exec = exec;
  return r + 1;
}
HANDLER(DPP_END) {
  w->s[EXEC] = w->dpp_exec;
  return r + 1;
}
