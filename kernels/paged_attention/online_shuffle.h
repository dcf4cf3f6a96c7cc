// online_shuffle: online with the tree in LDS replaced by moves between the lanes of a wave.
//
// Layout   as online: grid (total_q, num_q_heads), THREADS = 64 doubled until >= D, at most 256; thread t
//          holds elements 4t .. 4t+3.
// Build    hipbook build paged_attention/ladder.hip gfx1200 -DHIPBOOK_ARM_ONLINE_SHUFFLE=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128
// Serves   as online: any D up to 512; pointers need only their element's alignment.
// Traffic  as online: 2 * keys * num_q_heads * D * bytes.
// Barriers 4 per key: online's without the log2(THREADS) of the tree, and the one after the partials now
//          stands after one sum a wave.
// Change   waves add up their own lanes; thread 0 adds up the waves.
#pragma once

#include "online_step.h"

namespace online_shuffle {
constexpr int WITNESS = 0x11;
}  // namespace online_shuffle

extern "C" __global__ __launch_bounds__(THREADS) void paged_attention_online_shuffle(
    PAGED_ATTENTION_PARAMETERS) {
  __shared__ StepShared shared;
  bear_witness(witness, online_shuffle::WITNESS);
  const KeyRange keys = key_range(static_cast<int>(blockIdx.x), seq_lens, query_start_loc, num_reqs, causal,
                                  window_left, window_right);
  if (keys.request < 0) {
    return;
  }
  const Place place = place_of(block_table, block_table_stride, keys, num_q_heads, num_kv_heads);
  attend_in_step<FEW_LANES>(shared, place, q, k_cache, v_cache, out, k_block_stride, k_slot_stride,
                            k_head_stride, v_block_stride, v_slot_stride, v_head_stride, block_size, scale,
                            soft_cap);
}
