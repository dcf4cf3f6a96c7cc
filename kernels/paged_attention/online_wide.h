// online_wide: online_shuffle with the row dealt out to all threads.
//
// Layout   grid and threads as online; thread t holds elements HOLDS * t .. HOLDS * t + HOLDS - 1 with the
//          fewest HOLDS that do: 1 up to D = 256, 2 up to 512. At D = 128 all 128 threads work.
// Build    hipbook build paged_attention/ladder.hip gfx1200 -DHIPBOOK_ARM_ONLINE_WIDE=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128
// Serves   as online.
// Traffic  as online: 2 * keys * num_q_heads * D * bytes.
// Barriers 4 per key, as online_shuffle.
// Change   a thread's share of the row: D / THREADS elements instead of 4.
#pragma once

#include "online_step.h"

namespace online_wide {
constexpr int WITNESS = 0x12;
}  // namespace online_wide

extern "C" __global__ __launch_bounds__(THREADS) void paged_attention_online_wide(
    PAGED_ATTENTION_PARAMETERS) {
  __shared__ StepShared shared;
  bear_witness(witness, online_wide::WITNESS);
  const KeyRange keys = key_range(static_cast<int>(blockIdx.x), seq_lens, query_start_loc, num_reqs, causal,
                                  window_left, window_right);
  if (keys.request < 0) {
    return;
  }
  const Place place = place_of(block_table, block_table_stride, keys, num_q_heads, num_kv_heads);
  attend_in_step<ALL_LANES>(shared, place, q, k_cache, v_cache, out, k_block_stride, k_slot_stride,
                            k_head_stride, v_block_stride, v_slot_stride, v_head_stride, block_size, scale,
                            soft_cap);
}
