// block: one workgroup of 256 threads a block, a thread an element.
//
// Layout   workgroup g takes block g, then one a whole grid further on.
// Serves   any pointer aligned to its element.
// Traffic  x is read once; neighbouring lanes read neighbouring elements.
// Barriers two trees in LDS: log2(256) steps for the extremum, log2(16) for the sums.
// Idea     all threads work on one block, and meet in LDS.
#pragma once

#include "common.h"

extern "C" __global__ __launch_bounds__(BLOCK) void quantize_q8k_block(QUANTIZE_Q8K_PARAMETERS) {
  __shared__ float magnitudes[BLOCK], values[BLOCK];
  __shared__ int indices[BLOCK], sums[BLOCK];

  store_witness(witness, 0x20);
  const int thread = static_cast<int>(threadIdx.x);
  for (unsigned block = blockIdx.x; block < blocks; block += gridDim.x) {
    uint8_t* to = out + int64_t{block} * BLOCK_BYTES;
    const float value = to_f32(block_of(x, row_stride, block, blocks_per_row)[thread]);
    magnitudes[thread] = magnitude_of(value);
    values[thread] = value;
    indices[thread] = thread;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
      if (thread < half) {
        const int other = thread + half;
        const float mine = magnitudes[thread], theirs = magnitudes[other];
        // Of equals the lowest index: it may have come from either side.
        if (theirs > mine || (theirs == mine && indices[other] < indices[thread])) {
          magnitudes[thread] = theirs;
          values[thread] = values[other];
          indices[thread] = indices[other];
        }
      }
      __syncthreads();
    }
    const Scale scale = scale_of(values[0]);
    const int q = quantized(value, scale.factor);
    to[QS_AT + thread] = static_cast<uint8_t>(q);
    sums[thread] = q;
    __syncthreads();
    for (int half = GROUP / 2; half > 0; half /= 2) {
      if (thread % GROUP < half) {
        sums[thread] += sums[thread + half];
      }
      __syncthreads();
    }
    if (thread % GROUP == 0) {
      store_bsum(to, thread / GROUP, sums[thread]);
    }
    if (thread == 0) {
      store_d(to, scale.d_bits);
    }
  }
}
