// What the rungs between online and decode share: a row that lies across the threads of a workgroup, a
// dot product summed by the lanes of each wave, and one key after another.
#pragma once

#include "common.h"

static_assert(D >= 1 && D <= 512, "the rungs serve D from 1 to 512");

// As online has them: 64 doubled until at least D, at most 256.
constexpr int threads_for(int d) {
  int threads = 64;
  while (threads < d && threads < 256) {
    threads *= 2;
  }
  return threads;
}
constexpr int THREADS = threads_for(D);
constexpr int WAVES = THREADS / WAVE;
constexpr int FEW_LANES = 4;                            // elements a thread in online
constexpr int ALL_LANES = (D + THREADS - 1) / THREADS;  // the fewest with which THREADS hold a row

// Calls body(i) for those of a thread's elements d0 .. d0 + HOLDS - 1 that the row has.
template <int HOLDS, class Body>
__device__ __forceinline__ void for_elements(int d0, Body body) {
  if constexpr (D % HOLDS == 0) {
    if (d0 < D) {
#pragma unroll
      for (int i = 0; i < HOLDS; ++i) {
        body(i);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < HOLDS; ++i) {
      if (d0 + i < D) {
        body(i);
      }
    }
  }
}

// This thread's place in a launch, and the rows that belong to it.
struct Place {
  int thread, wave;
  KeyRange keys;
  int kv_head;
  const int* table;
  int64_t row;
};

__device__ __forceinline__ Place place_of(const int* __restrict__ block_table, int64_t block_table_stride,
                                          const KeyRange& keys, int num_q_heads, int num_kv_heads) {
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  return {thread,
          uniform(thread / WAVE),
          keys,
          kv_head_of(head, num_q_heads, num_kv_heads),
          block_table + keys.request * block_table_stride,
          (int64_t{token} * num_q_heads + head) * D};
}

__device__ __forceinline__ float wave_sum(float value) {
  const float one[1] = {value};
  return wave_sums(one);
}
