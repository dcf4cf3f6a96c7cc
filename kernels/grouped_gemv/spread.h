// spread: a wave a result, sixteen lanes a superblock.
//
// Layout   workgroups of up to 4 waves over rows * n results; lanes 16 i .. 16 i + 15 take superblocks i,
//          i + WAVE / 16, ... A lane has 8 bytes of nibbles, and so 8 elements in each of two sub-blocks.
//          All 32 lanes work from K = 512 on.
// Traffic  weights in words of the format's alignment, 4 bytes or 2; neighbouring lanes have neighbours.
// Idea     a superblock is shared out, so that short rows fill a wave.
#pragma once

#include "common.h"

namespace spread {

constexpr int LANES = 16;  // a superblock

struct Bytes8 {
  uint32_t word[2];
};

__device__ __forceinline__ Bytes8 load_words(const uint8_t* from) {
  const uint32_t* words = reinterpret_cast<const uint32_t*>(from);
  return {{words[0], words[1]}};
}

#if defined(HIPBOOK_FORMAT_Q4_K)
__device__ __forceinline__ float dot(const uint8_t* w, const uint8_t* a, int lane) {
  const int pair = lane / 4, at = lane % 4 * 8;  // sub-blocks 2 pair and 2 pair + 1
  const Bytes8 nibbles = load_words(w + W_NIBBLES + pair * GROUP + at);
  const Bytes8 low = load_words(a + ACT_QS + pair * 2 * GROUP + at),
               high = load_words(a + ACT_QS + pair * 2 * GROUP + GROUP + at);
  int sums[2] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int byte = byte_of(nibbles.word[i / 4], i % 4);
    sums[0] += (byte & 15) * signed_byte_of(low.word[i / 4], i % 4);
    sums[1] += (byte >> 4) * signed_byte_of(high.word[i / 4], i % 4);
  }
  const int sum = scale_at(w, 2 * pair) * sums[0] + scale_at(w, 2 * pair + 1) * sums[1];
  const int below = min_at(w, lane / 2) * act_bsum(a, lane);  // a lane a bsum
  const float d = act_d(a);
  return half_at(w) * d * static_cast<float>(sum) - half_at(w + 2) * d * static_cast<float>(below);
}
#else
// Superblocks of 210 bytes are aligned to 2 bytes only.
__device__ __forceinline__ Bytes8 load_halves(const uint8_t* from) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
  return {{halves[0] | uint32_t{halves[1]} << 16, halves[2] | uint32_t{halves[3]} << 16}};
}

__device__ __forceinline__ float dot(const uint8_t* w, const uint8_t* a, int lane) {
  const int h = lane / 8, r = lane % 8 / 4, at = lane % 4 * 8;  // groups 4 h + r and 4 h + r + 2
  const int first = 4 * h + r, second = first + 2;
  const Bytes8 nibbles = load_halves(w + 2 * GROUP * h + GROUP * r + at),
               highs = load_halves(w + W_HIGH + GROUP * h + at);
  const Bytes8 low = load_words(a + ACT_QS + GROUP * first + at),
               high = load_words(a + ACT_QS + GROUP * second + at);
  int sums[2] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int byte = byte_of(nibbles.word[i / 4], i % 4), bits = byte_of(highs.word[i / 4], i % 4) >> (2 * r);
    sums[0] += (((byte & 15) | (bits & 3) << 4) - BIAS_6) * signed_byte_of(low.word[i / 4], i % 4);
    sums[1] += ((byte >> 4 | (bits >> 4 & 3) << 4) - BIAS_6) * signed_byte_of(high.word[i / 4], i % 4);
  }
  const int half = at / 16;
  const int sum = scale_at(w, 2 * first + half) * sums[0] + scale_at(w, 2 * second + half) * sums[1];
  return half_at(w + W_D) * act_d(a) * static_cast<float>(sum);
}
#endif

}  // namespace spread

extern "C" __global__ __launch_bounds__(4 * WAVE) void grouped_gemv_spread(GROUPED_GEMV_PARAMETERS) {
  using spread::LANES;
  for_results(GROUPED_GEMV_ARGUMENTS, 0x20, [&](const uint8_t* w, const uint8_t* a) {
    float sum = 0.0f;
    for (int block = lane_id() / LANES; block < blocks; block += WAVE / LANES) {
      const int64_t at = block;
      sum += spread::dot(w + at * WEIGHT_BYTES, a + at * ACT_BYTES, lane_id() % LANES);
    }
    return sum;
  });
}
