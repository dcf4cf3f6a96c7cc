// What the arms of the grouped K-quant GEMV share: the parameter list, the two weight formats, and the walk
// over results.
//
// Build macros: HIPBOOK_OUT (f32 | bf16), HIPBOOK_FORMAT_Q4_K or HIPBOOK_FORMAT_Q6_K, HIPBOOK_ARM_<NAME>=1.
#pragma once

#include "../common/witness.h"

using Out = HIPBOOK_OUT;
constexpr int BLOCK = 256;      // elements of a superblock
constexpr int ACT_BYTES = 292;  // Q8_K: f32 d, int8 qs[256], int16 bsums[16]
constexpr int ACT_QS = 4, ACT_BSUMS = 260;

// act Q8_K [rows or 1, blocks], act_step blocks or 0 for one row; weights [experts, n, blocks] superblocks;
// expert_ids [rows]; out [rows, n]. act is aligned to 4 bytes, Q4_K weights to 4, Q6_K weights to 2.
#define GROUPED_GEMV_PARAMETERS                                                                              \
  const uint8_t *__restrict__ act, const uint8_t *__restrict__ weights, const int *__restrict__ expert_ids,  \
      Out *__restrict__ out, int *__restrict__ witness, int rows, int n, int blocks, int act_step

__device__ __forceinline__ float half_at(const uint8_t* from) {
  return to_f32(f16{*reinterpret_cast<const uint16_t*>(from)});
}

__device__ __forceinline__ float act_d(const uint8_t* act) {
  return *reinterpret_cast<const float*>(act);
}

__device__ __forceinline__ int act_q(const uint8_t* act, int i) {
  return static_cast<int8_t>(act[ACT_QS + i]);
}

__device__ __forceinline__ int act_bsum(const uint8_t* act, int group) {
  return reinterpret_cast<const int16_t*>(act + ACT_BSUMS)[group];
}

// Byte i of a word, as it is and as a signed number; i is a constant after unrolling.
__device__ __forceinline__ int byte_of(uint32_t word, int i) {
  return static_cast<int>(word >> (8 * i) & 0xff);
}
__device__ __forceinline__ int signed_byte_of(uint32_t word, int i) {
  return static_cast<int8_t>(word >> (8 * i) & 0xff);
}

// Elements of a sub-block (Q4_K) or group (Q6_K), and what a 6-bit value is stored above.
constexpr int GROUP = 256 / 8;
constexpr int BIAS_6 = 1 << 5;
constexpr int SIX_BITS = (1 << 6) - 1;

#if defined(HIPBOOK_FORMAT_Q4_K)

// f16 d, f16 dmin, 12 bytes of scales and mins, 128 bytes of nibbles.
constexpr int WEIGHT_BYTES = 144, W_SCALES = 4, W_NIBBLES = 16;

// 6 bits each, of sub-block c of 32: the upper four sub-blocks keep two bits above the lower four's.
__device__ __forceinline__ int scale_at(const uint8_t* w, int c) {
  const uint8_t* s = w + W_SCALES;
  return c < 4 ? s[c] & SIX_BITS : (s[c + 4] & 15) | (s[c - 4] >> 6 << 4);
}
__device__ __forceinline__ int min_at(const uint8_t* w, int c) {
  const uint8_t* s = w + W_SCALES;
  return c < 4 ? s[c + 4] & SIX_BITS : s[c + 4] >> 4 | (s[c] >> 6 << 4);
}

#elif defined(HIPBOOK_FORMAT_Q6_K)

// 128 bytes of low nibbles, 64 of two bits, int8 scale[16], f16 d.
constexpr int WEIGHT_BYTES = 210, W_HIGH = 128, W_SCALES = 192, W_D = 208;

__device__ __forceinline__ int scale_at(const uint8_t* w, int s) {
  return static_cast<int8_t>(w[W_SCALES + s]);
}

#else
#error "no format: define HIPBOOK_FORMAT_Q4_K or HIPBOOK_FORMAT_Q6_K"
#endif

// A wave a result: part(w row, act row) is a lane's share of its sum.
template <class Part>
__device__ __forceinline__ void for_results(GROUPED_GEMV_PARAMETERS, int code, Part part) {
  store_witness(witness, code);
  const int waves = static_cast<int>(blockDim.x) / WAVE;
  const int64_t results = int64_t{rows} * n, step = int64_t{gridDim.x} * waves;
  for (int64_t at = int64_t{blockIdx.x} * waves + uniform(static_cast<int>(threadIdx.x) / WAVE); at < results;
       at += step) {
    const int64_t row = at / n, column = at - row * n;
    const uint8_t* w = weights + (int64_t{expert_ids[row]} * n + column) * blocks * WEIGHT_BYTES;
    const float share[1] = {part(w, act + row * act_step * ACT_BYTES)};
    const float sum = wave_sums(share);
    if (lane_id() == 0) {
      out[at] = from_f32<Out>(sum);
    }
  }
}

#define GROUPED_GEMV_ARGUMENTS act, weights, expert_ids, out, witness, rows, n, blocks, act_step
