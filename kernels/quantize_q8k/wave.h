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

// The largest of the wave, in every lane.
template <int BIT = 1>
__device__ __forceinline__ uint32_t largest_of_wave(uint32_t value) {
#if HIPBOOK_NVIDIA
  return __reduce_max_sync(0xffffffffu, value);
#else
  if constexpr (BIT < WAVE) {
    const uint32_t other = __float_as_uint(lane_xor<BIT>(__uint_as_float(value)));
    return largest_of_wave<BIT * 2>(value > other ? value : other);
  } else {
    return value;
  }
#endif
}

// Sums over neighbouring LANES lanes, in each of them.
template <int LANES, int BIT = 1>
__device__ __forceinline__ int group_sum(int value) {
  if constexpr (BIT < LANES) {
    const uint32_t other = __float_as_uint(lane_xor<BIT>(__uint_as_float(static_cast<uint32_t>(value))));
    return group_sum<LANES, BIT * 2>(value + static_cast<int>(other));
  } else {
    return value;
  }
}

// quantized(), without its bound: no |x| of a block exceeds the extremum's, and 127 times (1 + 2^-23) still
// rounds to 127. NVIDIA's conversion makes 0 of the NaN that a block without a factor may give.
__device__ __forceinline__ int quantized_in_block(float x, float factor) {
#if HIPBOOK_NVIDIA
  return __float2int_rn(factor * x);
#else
  return factor == 0.0f ? 0 : static_cast<int>(rintf(factor * x));
#endif
}

// Four values as bytes of a word, the first lowest; their sum is added to `sum`.
__device__ __forceinline__ uint32_t packed(const int (&q)[4], int& sum) {
#if HIPBOOK_NVIDIA
  const uint32_t low = __byte_perm(q[0], q[1], 0x0040), high = __byte_perm(q[2], q[3], 0x0040);
  const uint32_t word = __byte_perm(low, high, 0x5410);
  sum = __dp4a(static_cast<int>(word), 0x01010101, sum);
  return word;
#else
  uint32_t word = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    word |= static_cast<uint32_t>(q[j] & 0xff) << (8 * j);
    sum += q[j];
  }
  return word;
#endif
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
    // Without its sign a float's bits are in the order of its magnitude, above them infinity and NaN.
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < HOLDS; ++i) {
      const uint32_t magnitude = __float_as_uint(values[i]) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    const uint32_t whole = largest_of_wave(largest);
    float extremum = 0.0f;  // the lane's first value as large as that, if it has one
#pragma unroll
    for (int i = HOLDS - 1; i >= 0; --i) {
      extremum = (__float_as_uint(values[i]) & 0x7fffffffu) == whole ? values[i] : extremum;
    }
    const Scale scale = scale_of(read_lane(extremum, first_lane(largest == whole)));
    int sum = 0;
#pragma unroll
    for (int i = 0; i < HOLDS; i += 4) {
      int q[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        q[j] = quantized_in_block(values[i + j], scale.factor);
      }
      *reinterpret_cast<uint32_t*>(to + QS_AT + lane * HOLDS + i) = packed(q, sum);
    }
    sum = group_sum<GROUP / HOLDS>(sum);
    if (lane * HOLDS % GROUP == 0) {
      store_bsum(to, lane * HOLDS / GROUP, sum);
    }
    if (lane == 0) {
      store_d(to, scale.d_bits);
    }
  }
}
