// chunked: the V row in pieces of dk elements, a thread each.
//
// Layout   workgroups of 128 threads over tokens * (num_k_heads + chunks + 1) items, chunks = num_v_heads *
//          dv / dk rounded up: 49 a token at 16 and 32 heads of 128. The first num_k_heads items normalise,
//          the last one does all gates.
// Serves   what serial serves, with the same arithmetic: byte-identical.
// Idea     no thread has more to copy than another has to normalise.
#pragma once

#include "common.h"

extern "C" __global__ __launch_bounds__(128) void gdn_post_conv_chunked(GDN_POST_CONV_PARAMETERS) {
  store_witness(witness, 0x20);
  const int width = num_v_heads * dv, chunks = (width + dk - 1) / dk;
  const int64_t items = num_k_heads + chunks + 1;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < tokens * items;
       at += int64_t{gridDim.x} * blockDim.x) {
    const int64_t token = at / items;
    const int item = static_cast<int>(at - token * items), chunk = item - num_k_heads;
    if (chunk < 0) {
      normalise_head(token, item, GDN_POST_CONV_ARGUMENTS);
    } else if (chunk < chunks) {
      const T* from = conv + token * conv_stride + 2 * num_k_heads * dk;
      for (int i = chunk * dk; i < min(width, (chunk + 1) * dk); ++i) {
        v[token * width + i] = from[i];
      }
    } else {
      for (int head = 0; head < num_v_heads; ++head) {
        gate(token, head, GDN_POST_CONV_ARGUMENTS);
      }
    }
  }
}
