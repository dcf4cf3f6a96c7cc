// What the arms of the Q8_K quantizer share: the parameter list, where a block lies, and the arithmetic
// of one value. All 292 bytes of a block are exact, so this arithmetic is IEEE's, one rounding an
// operation: built with -ffp-contract=off, denormals kept, divisions correctly rounded.
//
// Build macros: HIPBOOK_X (f32 | f16 | bf16), HIPBOOK_ARM_<NAME>=1; HIPBOOK_VECTOR (wave only).
#pragma once

#include <float.h>

#include "../common/witness.h"

using X = HIPBOOK_X;
constexpr int BLOCK = 256;        // elements
constexpr int GROUP = 16;         // elements of one bsum
constexpr int BLOCK_BYTES = 292;  // f32 d, int8 qs[256], int16 bsums[16]
constexpr int QS_AT = 4, BSUMS_AT = 260;

// x [rows, blocks_per_row * 256], row_stride in elements; out [rows, blocks_per_row, 292], 4-byte aligned.
// `blocks` is rows * blocks_per_row, below 2^31. Grids are on x alone and may be smaller than the work.
#define QUANTIZE_Q8K_PARAMETERS                                                                              \
  const X *__restrict__ x, uint8_t *__restrict__ out, int *__restrict__ witness, int64_t row_stride,         \
      unsigned blocks, unsigned blocks_per_row

__device__ __forceinline__ const X* block_of(const X* x, int64_t row_stride, unsigned block,
                                             unsigned blocks_per_row) {
  const unsigned row = block / blocks_per_row;
  return x + row * row_stride + int64_t{block - row * blocks_per_row} * BLOCK;
}

// |x|, and infinity for what is not finite: one key finds the extremum and the blocks that have none.
__device__ __forceinline__ float magnitude_of(float x) {
  const float magnitude = fabsf(x);
  return magnitude <= FLT_MAX ? magnitude : INFINITY;
}

// The factor of a block's values, 0 for a block whose values are all written as 0; and the bits of d.
struct Scale {
  float factor;
  uint32_t d_bits;
};

// The bits of 1 / factor, rounded once. Past 2^126 the quotient is subnormal, and a division sequence that
// scales its result back into range rounds a second time there; as a whole number of 2^-149 it is the bit
// pattern itself, and the sign of the remainder settles what only looks like a tie.
__device__ __forceinline__ uint32_t reciprocal_bits(float factor) {
  const float magnitude = fabsf(factor);
  if (magnitude <= 0x1p126f) {
    return __float_as_uint(1.0f / factor);
  }
  const float divisor = magnitude * 0x1p-126f, quotient = 0x1p23f / divisor;
  float whole = rintf(quotient);
  if (quotient - floorf(quotient) == 0.5f) {
    const float rest = fmaf(-quotient, divisor, 0x1p23f);
    if (rest != 0.0f) {
      whole = floorf(quotient) + (rest > 0.0f ? 1.0f : 0.0f);
    }
  }
  return (__float_as_uint(factor) & 0x80000000u) | static_cast<uint32_t>(whole);
}

__device__ __forceinline__ Scale scale_of(float extremum) {
  const float magnitude = magnitude_of(extremum);
  if (magnitude > FLT_MAX) {
    return {0.0f, 0x7fc00000u};
  }
  const float factor = -127.0f / extremum;
  if (magnitude == 0.0f || fabsf(factor) > FLT_MAX) {
    return {0.0f, 0u};
  }
  return {factor, reciprocal_bits(factor)};
}

__device__ __forceinline__ int quantized(float x, float factor) {
  return factor == 0.0f ? 0 : min(127, static_cast<int>(rintf(factor * x)));
}

__device__ __forceinline__ void store_d(uint8_t* block, uint32_t bits) {
  *reinterpret_cast<uint32_t*>(block) = bits;
}

__device__ __forceinline__ void store_bsum(uint8_t* block, int group, int sum) {
  reinterpret_cast<int16_t*>(block + BSUMS_AT)[group] = static_cast<int16_t>(sum);
}
