// Handlers of the matrix instructions: D = A B + C of 16x16x16 (16x16x32 for one of nibbles).
//
// Lane l holds row (of A) or column (of B) l % 16.
//   RDNA4 (ISA document 7.12): of its K elements the half with k / (K / 2) = l / 16; C and D rows
//   8 * (l / 16) + r in register r, of halves rows 8 * (l / 16) + 2 r and the next.
//   RDNA3 (ISA document 7.9): all K elements, so lanes 16 to 31 repeat lanes 0 to 15, and each half of the
//   wave multiplies its own copies; C and D rows 2 r + l / 16 in register r, of halves in the half that opsel
//   names.
// Products are exact, sums are f32 in ascending k and rounded once to a half; integers wrap or saturate once.
// EXEC is ignored.
#include "alu.h"

#define HANDLER(name) const Rec* name(Wave* w, const Rec* r)

typedef enum { BF16, F16, FP8, BF8, INT8, INT4 } Kind;
enum { MAX_K = 32 };

static const int BITS[] = {[BF16] = 16, [F16] = 16, [FP8] = 8, [BF8] = 8, [INT8] = 8, [INT4] = 4};

static u32 element(const Wave* w, u32 reg, int lane, int n, int bits) {
  int per_word = 32 / bits;
  return (w->v[reg + (u32)(n / per_word)][lane] >> (bits * (n % per_word))) & ((1u << bits) - 1);
}
static f32 float_of(u32 x, Kind kind) {
  return kind == BF16  ? bf16_to_f32(x)
         : kind == F16 ? half_to_f32(x)
         : kind == FP8 ? fp8_to_f32(x, 3, 7, 0)
                       : fp8_to_f32(x, 2, 15, 1);
}
static i32 int_of(u32 x, Kind kind, int is_signed) {
  u32 top = kind == INT8 ? 128 : 8;
  return is_signed ? (i32)(x ^ top) - (i32)top : (i32)x;
}

// Raw element (m, k) of A or B; RDNA3: as the lanes of `half` see it.
static u32 raw_at(const Wave* w, u32 reg, Kind kind, int m, int k, int k_all, int rdna3, int half) {
  int mine = k_all / 2;
  return rdna3 ? element(w, reg, m + 16 * half, k, BITS[kind])
               : element(w, reg, m + 16 * (k / mine), k % mine, BITS[kind]);
}
static void floats_in(const Wave* w, u32 reg, Kind kind, int rdna3, int half, f32 out[16][16]) {
  for (int k = 0; k < 16; k++)
    for (int m = 0; m < 16; m++) out[k][m] = float_of(raw_at(w, reg, kind, m, k, 16, rdna3, half), kind);
}
static void ints_in(const Wave* w, u32 reg, Kind kind, int is_signed, int k_all, int rdna3, int half,
                    i32 out[MAX_K][16]) {
  for (int k = 0; k < k_all; k++)
    for (int m = 0; m < 16; m++)
      out[k][m] = int_of(raw_at(w, reg, kind, m, k, k_all, rdna3, half), kind, is_signed);
}

// Where element (row, column) of C and D is: register, lane and, of halves, the shift.
typedef struct {
  u32 reg;
  int lane, shift;
} Place;
static Place place_of(int row, int column, int halves, int rdna3, int high) {
  if (rdna3) return (Place){(u32)row / 2, column + 16 * (row & 1), high ? 16 : 0};
  if (halves) return (Place){(u32)(row & 7) / 2, column + 16 * (row / 8), 16 * (row & 1)};
  return (Place){(u32)row & 7, column + 16 * (row / 8), 0};
}

static u32 c_word(const Wave* w, Operand o, u32 reg, int lane) {
  return o.kind == VGPR   ? w->v[o.index + reg][lane]
         : o.kind == SGPR ? w->s[o.index]
                          : w->pool[(size_t)o.index * LANES];
}

INLINE const Rec* wmma_float(Wave* w, const Rec* r, Kind ka, Kind kb, Kind kc, int halves, int rdna3) {
  f32 a[2][16][16], b[2][16][16], c[16][16];
  Operand o = r->src[2];
  int high = o.flags & HI;
  for (int half = 0; half <= rdna3; half++) {
    floats_in(w, r->src[0].index, ka, rdna3, half, a[half]);
    floats_in(w, r->src[1].index, kb, rdna3, half, b[half]);
  }
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 16; n++) {
      Place p = place_of(m, n, halves, rdna3, high);
      u32 x = c_word(w, o, p.reg, p.lane), top = halves ? 0x8000u : 0x80000000u;
      if (halves) x = (x >> (o.kind == VGPR ? p.shift : 0)) & 0xffffu;
      if (o.flags & ABS) x &= ~top;
      if (o.flags & NEG) x ^= top;
      c[m][n] = halves ? float_of(x, kc) : AS(f32, x);
    }
  for (int m = 0; m < 16; m++) {
    int half = rdna3 ? m & 1 : 0;  // the lanes that hold row m
    for (int k = 0; k < 16; k++)
      for (int n = 0; n < 16; n++) c[m][n] = fmaf(a[half][k][m], b[half][k][n], c[m][n]);
  }
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 16; n++) {
      Place p = place_of(m, n, halves, rdna3, high);
      u32 *to = &w->v[r->dst + p.reg][p.lane], x = AS(u32, c[m][n]);
      if (halves) {
        f16 rounded = (f16)c[m][n];
        x = kc == F16 ? AS(u16, rounded) : f32_to_bf16(c[m][n]);
        *to = (*to & ~(0xffffu << p.shift)) | x << p.shift;
      } else {
        *to = x;
      }
    }
  return r + 1;
}

INLINE const Rec* wmma_int(Wave* w, const Rec* r, Kind kind, int k_all, int rdna3) {
  i32 a[2][MAX_K][16], b[2][MAX_K][16], c[16][16];
  for (int half = 0; half <= rdna3; half++) {
    ints_in(w, r->src[0].index, kind, r->src[0].flags & NEG, k_all, rdna3, half, a[half]);
    ints_in(w, r->src[1].index, kind, r->src[1].flags & NEG, k_all, rdna3, half, b[half]);
  }
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 16; n++) {
      Place p = place_of(m, n, 0, rdna3, 0);
      int half = rdna3 ? m & 1 : 0;
      i64 sum = (i32)c_word(w, r->src[2], p.reg, p.lane);
      for (int k = 0; k < k_all; k++) sum += a[half][k][m] * b[half][k][n];
      c[m][n] = (i32)(r->flags & CLAMP ? saturate_i32(sum) : (u32)sum);
    }
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 16; n++) {
      Place p = place_of(m, n, 0, rdna3, 0);
      w->v[r->dst + p.reg][p.lane] = (u32)c[m][n];
    }
  return r + 1;
}

#define FLOATS(name, a, b, c, halves, rdna3)                                                                 \
  HANDLER(name) { return wmma_float(w, r, a, b, c, halves, rdna3); }
#define INTEGERS(name, kind, k_all, rdna3)                                                                   \
  HANDLER(name) { return wmma_int(w, r, kind, k_all, rdna3); }

FLOATS(V_WMMA_F32_16X16X16_F16, F16, F16, F16, 0, 0)
FLOATS(V_WMMA_F32_16X16X16_BF16, BF16, BF16, BF16, 0, 0)
FLOATS(V_WMMA_F16_16X16X16_F16, F16, F16, F16, 1, 0)
FLOATS(V_WMMA_BF16_16X16X16_BF16, BF16, BF16, BF16, 1, 0)
FLOATS(V_WMMA_F32_16X16X16_FP8_FP8, FP8, FP8, F16, 0, 0)
FLOATS(V_WMMA_F32_16X16X16_FP8_BF8, FP8, BF8, F16, 0, 0)
FLOATS(V_WMMA_F32_16X16X16_BF8_FP8, BF8, FP8, F16, 0, 0)
FLOATS(V_WMMA_F32_16X16X16_BF8_BF8, BF8, BF8, F16, 0, 0)
INTEGERS(V_WMMA_I32_16X16X16_IU8, INT8, 16, 0)
INTEGERS(V_WMMA_I32_16X16X16_IU4, INT4, 16, 0)
INTEGERS(V_WMMA_I32_16X16X32_IU4, INT4, 32, 0)

FLOATS(V_WMMA_F32_16X16X16_F16_RDNA3, F16, F16, F16, 0, 1)
FLOATS(V_WMMA_F32_16X16X16_BF16_RDNA3, BF16, BF16, BF16, 0, 1)
FLOATS(V_WMMA_F16_16X16X16_F16_RDNA3, F16, F16, F16, 1, 1)
FLOATS(V_WMMA_BF16_16X16X16_BF16_RDNA3, BF16, BF16, BF16, 1, 1)
INTEGERS(V_WMMA_I32_16X16X16_IU8_RDNA3, INT8, 16, 1)
INTEGERS(V_WMMA_I32_16X16X16_IU4_RDNA3, INT4, 16, 1)
