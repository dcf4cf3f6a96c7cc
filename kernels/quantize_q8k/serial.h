// serial: the baseline, one thread a block.
//
// Layout   workgroups of 128 threads; thread t of workgroup g takes block 128 g + t, then one a whole grid
//          further on. One row of K = 4096 has 16 blocks: 16 of 128 threads work.
// Serves   any pointer aligned to its element.
// Traffic  x is read twice, one element at a time; neighbouring lanes are 256 elements apart.
// Idea     none: it is what the other arms are measured against.
#pragma once

#include "common.h"

extern "C" __global__ __launch_bounds__(128) void quantize_q8k_serial(QUANTIZE_Q8K_PARAMETERS) {
  store_witness(witness, 0x10);
  for (unsigned block = blockIdx.x * blockDim.x + threadIdx.x; block < blocks;
       block += gridDim.x * blockDim.x) {
    const X* from = block_of(x, row_stride, block, blocks_per_row);
    uint8_t* to = out + int64_t{block} * BLOCK_BYTES;
    float largest = 0.0f, extremum = 0.0f;
    for (int i = 0; i < BLOCK; ++i) {
      const float value = to_f32(from[i]), magnitude = magnitude_of(value);
      if (magnitude > largest) {
        largest = magnitude;
        extremum = value;
      }
    }
    const Scale scale = scale_of(extremum);
    store_d(to, scale.d_bits);
    for (int group = 0; group < BLOCK / GROUP; ++group) {
      int sum = 0;
      for (int i = group * GROUP; i < (group + 1) * GROUP; ++i) {
        const int q = quantized(to_f32(from[i]), scale.factor);
        to[QS_AT + i] = static_cast<uint8_t>(q);
        sum += q;
      }
      store_bsum(to, group, sum);
    }
  }
}
