// Handlers of the matrix instructions.
#include "alu.h"

#define HANDLER(name) const Rec* name(Wave* w, const Rec* r)

// ---- matrices: 16x16x16, RDNA4 layout (ISA document 7.12): lane l holds row/column l % 16; A and B keep
// k = 8 * (l / 16) .. + 7 in four registers of two halves, C and D keep rows 8 * (l / 16) .. + 7 in eight
// registers. Products are exact in f32, summed in f32 in ascending k. EXEC is ignored. ----
static f32 half_at(const Wave* w, u32 reg, int lane, int k, int bf16) {
  u32 x = w->v[reg + (u32)k / 2][lane] >> (16 * (k & 1));
  return bf16 ? bf16_to_f32(x & 0xffff) : half_to_f32(x);
}
static void matrix_halves(const Wave* w, u32 reg, int bf16, f32 out[16][16]) {  // out[k][row or column]
  for (int l = 0; l < LANES; l++)
    for (int k = 0; k < 8; k++) out[8 * (l / 16) + k][l % 16] = half_at(w, reg, l, k, bf16);
}
static const Rec* wmma_f32(Wave* w, const Rec* r, int bf16) {
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
