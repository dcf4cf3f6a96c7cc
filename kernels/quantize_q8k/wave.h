// wave: one wave a block, neighbouring elements in a lane.
//
// Layout   workgroups of any number of waves; wave w of workgroup g takes block g * waves + w, then one a
//          whole grid further on. A lane holds 256 / WAVE neighbouring elements.
// Build    HIPBOOK_VECTOR elements a load: as many as pointer and row stride are aligned to, up to 16 bytes.
// Serves   any pointer aligned to its element.
// Traffic  x is read once, in vectors. No LDS, no barrier.
// Idea     the extremum by lane moves; its index is never carried, for the lowest lane that has the
//          maximum, and in it the first element, is the lowest index.
#pragma once

#include "common.h"

namespace wave {

constexpr int HOLDS = BLOCK / WAVE;  // elements a lane
constexpr int VECTOR = HIPBOOK_VECTOR < HOLDS ? HIPBOOK_VECTOR : HOLDS;
static_assert(HOLDS % VECTOR == 0 && HOLDS % 4 == 0 && GROUP % HOLDS == 0,
              "vectors fill a lane, lanes a group");

// The lowest lane that says so; one does.
__device__ __forceinline__ int first_lane(bool said) {
#if HIPBOOK_NVIDIA
  return __ffs(__ballot_sync(0xffffffffu, said)) - 1;
#else
  return __builtin_ctzll(__builtin_amdgcn_ballot_w64(said));
#endif
}

// Sums over neighbouring LANES lanes, in each of them.
template <int LANES, int BIT = 1>
__device__ __forceinline__ float group_sum(float value) {
  if constexpr (BIT < LANES) {
    return group_sum<LANES, BIT * 2>(value + lane_xor<BIT>(value));
  } else {
    return value;
  }
}

}  // namespace wave

extern "C" __global__ __launch_bounds__(4 * WAVE) void quantize_q8k_wave(QUANTIZE_Q8K_PARAMETERS) {
  using namespace wave;
  store_witness(witness, 0x30);
  const unsigned waves = blockDim.x / WAVE;
  const int lane = lane_id();
  for (unsigned block = uniform(blockIdx.x * waves + threadIdx.x / WAVE); block < blocks;
       block += gridDim.x * waves) {
    const X* from = block_of(x, row_stride, block, blocks_per_row) + lane * HOLDS;
    uint8_t* to = out + int64_t{block} * BLOCK_BYTES;
    float values[HOLDS];
#pragma unroll
    for (int i = 0; i < HOLDS; i += VECTOR) {
      Elements<X, VECTOR> part;
      part.load(from + i);
#pragma unroll
      for (int j = 0; j < VECTOR; ++j) {
        values[i + j] = part.at(j);
      }
    }
    float largest = 0.0f, extremum = 0.0f;
#pragma unroll
    for (int i = 0; i < HOLDS; ++i) {
      const float magnitude = magnitude_of(values[i]);
      if (magnitude > largest) {
        largest = magnitude;
        extremum = values[i];
      }
    }
    const bool has_it = largest == wave_max(largest);
    const Scale scale = scale_of(read_lane(extremum, first_lane(has_it)));
    float sum = 0.0f;  // of whole numbers below 2^24: exact in any order
#pragma unroll
    for (int i = 0; i < HOLDS; i += 4) {
      uint32_t word = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int q = quantized(values[i + j], scale.factor);
        word |= static_cast<uint32_t>(q & 0xff) << (8 * j);
        sum += static_cast<float>(q);
      }
      *reinterpret_cast<uint32_t*>(to + QS_AT + lane * HOLDS + i) = word;
    }
    sum = group_sum<GROUP / HOLDS>(sum);
    if (lane * HOLDS % GROUP == 0) {
      store_bsum(to, lane * HOLDS / GROUP, static_cast<int>(sum));
    }
    if (lane == 0) {
      store_d(to, scale.d_bits);
    }
  }
}
