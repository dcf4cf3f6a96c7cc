// online_tile: online_wide with a tile of TILE keys in the place of one key.
//
// Layout   as online_wide.
// Build    hipbook build paged_attention/ladder.hip gfx1200 -DHIPBOOK_ARM_ONLINE_TILE=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128
// Serves   as online.
// Traffic  as online: 2 * keys * num_q_heads * D * bytes.
// Barriers 3 per tile: after the waves' sums, after the scores are stored and all have taken the old
//          maximum, after maximum and sum have changed. online_wide's other one, between storing a score
//          and taking it, has nothing to keep apart: scores are taken after the last.
// Change   one maximum, one update of the sum and one rescaling of P.V a tile, not a key; with them go the
//          barriers that stood around each.
#pragma once

#include "workgroup_row.h"

namespace online_tile {

constexpr int WITNESS = 0x13;
constexpr int TILE = 16;

struct Shared {
  float partial[TILE][WAVES];
  float score[TILE];
  float max, sum;
};

}  // namespace online_tile

extern "C" __global__ __launch_bounds__(THREADS) void paged_attention_online_tile(
    PAGED_ATTENTION_PARAMETERS) {
  using namespace online_tile;
  constexpr int HOLDS = ALL_LANES;
  __shared__ Shared shared;

  bear_witness(witness, WITNESS);
  const KeyRange keys = key_range(static_cast<int>(blockIdx.x), seq_lens, query_start_loc, num_reqs, causal,
                                  window_left, window_right);
  if (keys.request < 0) {
    return;
  }
  const Place place = place_of(block_table, block_table_stride, keys, num_q_heads, num_kv_heads);
  const int d0 = place.thread * HOLDS;
  float query[HOLDS] = {}, pv[HOLDS] = {};
  for_elements<HOLDS>(d0, [&](int i) { query[i] = to_f32(q[place.row + d0 + i]); });
  if (place.thread == 0) {
    shared.max = NEVER;
    shared.sum = 0.0f;
  }
  __syncthreads();

  for (int first = keys.first; first <= keys.last; first += TILE) {
    const int count = keys.last - first + 1 < TILE ? keys.last - first + 1 : TILE;
    KV values[TILE][HOLDS] = {};
#pragma unroll
    for (int j = 0; j < TILE; ++j) {
      if (j < count) {
        const int key = first + j;
        const int64_t block = place.table[key / block_size], slot = key % block_size;
        const KV* k = k_cache + block * k_block_stride + slot * k_slot_stride + place.kv_head * k_head_stride;
        const KV* v = v_cache + block * v_block_stride + slot * v_slot_stride + place.kv_head * v_head_stride;
        float dot = 0.0f;
        for_elements<HOLDS>(d0, [&](int i) {
          dot += query[i] * to_f32(k[d0 + i]);
          values[j][i] = v[d0 + i];
        });
        const float sum = wave_sum(dot);
        if (lane_id() == 0) {
          shared.partial[j][place.wave] = sum;
        }
      }
    }
    __syncthreads();
    if (place.thread < count) {
      float whole = 0.0f;
#pragma unroll
      for (int w = 0; w < WAVES; ++w) {
        whole += shared.partial[place.thread][w];
      }
      shared.score[place.thread] = score_of(whole, scale, soft_cap);
    } else if (place.thread < TILE) {
      shared.score[place.thread] = NEVER;  // loads of a whole tile may be joined into one
    }
    const float old_max = shared.max;
    __syncthreads();
    if (place.thread == 0) {
      float max = old_max;
      for (int j = 0; j < count; ++j) {
        max = fmaxf(max, shared.score[j]);
      }
      float sum = shared.sum * weight_of(old_max, max);
      for (int j = 0; j < count; ++j) {
        sum += exp2_fast(shared.score[j] - max);
      }
      shared.sum = sum;
      shared.max = max;
    }
    __syncthreads();
    const float max = shared.max, keep = weight_of(old_max, max);
    for_elements<HOLDS>(d0, [&](int i) { pv[i] *= keep; });
#pragma unroll
    for (int j = 0; j < TILE; ++j) {
      if (j < count) {
        const float p = exp2_fast(shared.score[j] - max);
        for_elements<HOLDS>(d0, [&](int i) { pv[i] += p * to_f32(values[j][i]); });
      }
    }
  }

  const float total = shared.sum;  // 0 without keys
  for_elements<HOLDS>(
      d0, [&](int i) { out[place.row + d0 + i] = from_f32<Out>(total > 0.0f ? pv[i] / total : 0.0f); });
}
