// serial: the baseline, a thread an item.
//
// Layout   workgroups of 128 threads over tokens * (num_k_heads + 1) items. Item h of a token normalises q
//          and k of head h; the last one copies the whole V row and does all gates. At one token and 16 k
//          heads 17 threads work.
// Serves   any pointer aligned to its element, any sizes.
// Traffic  q and k are read twice, one element at a time; neighbouring lanes are dk elements apart.
// Idea     none: it is what the other arms are measured against.
#pragma once

#include "common.h"

extern "C" __global__ __launch_bounds__(128) void gdn_post_conv_serial(GDN_POST_CONV_PARAMETERS) {
  store_witness(witness, 0x10);
  const int64_t items = num_k_heads + 1;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < tokens * items;
       at += int64_t{gridDim.x} * blockDim.x) {
    const int64_t token = at / items;
    const int item = static_cast<int>(at - token * items);
    if (item < num_k_heads) {
      normalise_head(token, item, GDN_POST_CONV_ARGUMENTS);
      continue;
    }
    const int width = num_v_heads * dv;
    const T* from = conv + token * conv_stride + 2 * num_k_heads * dk;
    for (int i = 0; i < width; ++i) {
      v[token * width + i] = from[i];
    }
    for (int head = 0; head < num_v_heads; ++head) {
      gate(token, head, GDN_POST_CONV_ARGUMENTS);
    }
  }
}
