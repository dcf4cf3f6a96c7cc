// superblock: the baseline, a wave a result, a lane a superblock.
//
// Layout   workgroups of up to 4 waves over rows * n results; lane l takes superblocks l, l + WAVE, ...
//          At K = 2048 there are 8 of them: 24 of 32 lanes idle.
// Traffic  byte by byte; neighbouring lanes are a superblock apart.
// Idea     none: it is what the other arm is measured against.
#pragma once

#include "common.h"

namespace superblock {

#if defined(HIPBOOK_FORMAT_Q4_K)
__device__ __forceinline__ float dot(const uint8_t* w, const uint8_t* a) {
  int sum = 0, below = 0;
#pragma unroll 1
  for (int c = 0; c < 8; ++c) {
    const uint8_t* nibbles = w + W_NIBBLES + c / 2 * GROUP;
    int of_32 = 0;
    for (int l = 0; l < GROUP; ++l) {
      of_32 += (c % 2 ? nibbles[l] >> 4 : nibbles[l] & 15) * act_q(a, GROUP * c + l);
    }
    sum += scale_at(w, c) * of_32;
    below += min_at(w, c) * (act_bsum(a, 2 * c) + act_bsum(a, 2 * c + 1));
  }
  const float d = act_d(a);
  return half_at(w) * d * static_cast<float>(sum) - half_at(w + 2) * d * static_cast<float>(below);
}
#else
__device__ __forceinline__ float dot(const uint8_t* w, const uint8_t* a) {
  int sum = 0;
#pragma unroll 1
  for (int g = 0; g < 8; ++g) {
    const int h = g / 4, r = g % 4;
    const uint8_t* nibbles = w + 2 * GROUP * h + (r & 1) * GROUP;
    int of_16[2] = {};
    for (int l = 0; l < GROUP; ++l) {
      const int low = r >= 2 ? nibbles[l] >> 4 : nibbles[l] & 15;
      const int high = w[W_HIGH + GROUP * h + l] >> (2 * r) & 3;
      const int product = ((low | high << 4) - BIAS_6) * act_q(a, GROUP * g + l);
      of_16[0] += l < 16 ? product : 0;
      of_16[1] += l < 16 ? 0 : product;
    }
    sum += scale_at(w, 2 * g) * of_16[0] + scale_at(w, 2 * g + 1) * of_16[1];
  }
  return half_at(w + W_D) * act_d(a) * static_cast<float>(sum);
}
#endif

}  // namespace superblock

extern "C" __global__ __launch_bounds__(4 * WAVE) void grouped_gemv_superblock(GROUPED_GEMV_PARAMETERS) {
  for_results(GROUPED_GEMV_ARGUMENTS, 0x10, [&](const uint8_t* w, const uint8_t* a) {
    float sum = 0.0f;
    for (int block = lane_id(); block < blocks; block += WAVE) {
      sum += superblock::dot(w + int64_t{block} * WEIGHT_BYTES, a + int64_t{block} * ACT_BYTES);
    }
    return sum;
  });
}
