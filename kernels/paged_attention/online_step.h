// One key after another by a workgroup in step, as online does it but for two things: the dot product is
// summed by lane moves, and a thread holds HOLDS elements. online_shuffle and online_wide are this.
//
// Barriers, 4 per key: after the waves' sums, after the score, after all have taken it, after maximum and
// sum have changed.
#pragma once

#include "workgroup_row.h"

struct StepShared {
  float partial[WAVES];
  float score, max, sum;
};

template <int HOLDS>
__device__ __forceinline__ void attend_in_step(StepShared& shared, const Place& place, const Q* q,
                                               const KV* k_cache, const KV* v_cache, Out* out,
                                               int64_t k_block_stride, int64_t k_slot_stride,
                                               int64_t k_head_stride, int64_t v_block_stride,
                                               int64_t v_slot_stride, int64_t v_head_stride, int block_size,
                                               float scale, float soft_cap) {
  const int d0 = place.thread * HOLDS;
  float query[HOLDS] = {}, pv[HOLDS] = {};
  for_elements<HOLDS>(d0, [&](int i) { query[i] = to_f32(q[place.row + d0 + i]); });
  if (place.thread == 0) {
    shared.max = NEVER;
    shared.sum = 0.0f;
  }
  __syncthreads();

  for (int key = place.keys.first; key <= place.keys.last; ++key) {
    const int64_t block = place.table[key / block_size], slot = key % block_size;
    const KV* k = k_cache + block * k_block_stride + slot * k_slot_stride + place.kv_head * k_head_stride;
    const KV* v = v_cache + block * v_block_stride + slot * v_slot_stride + place.kv_head * v_head_stride;

    float dot = 0.0f;
    for_elements<HOLDS>(d0, [&](int i) { dot += query[i] * to_f32(k[d0 + i]); });
    const float sum = wave_sum(dot);
    if (lane_id() == 0) {
      shared.partial[place.wave] = sum;
    }
    __syncthreads();
    if (place.thread == 0) {
      float whole = 0.0f;
#pragma unroll
      for (int w = 0; w < WAVES; ++w) {
        whole += shared.partial[w];
      }
      shared.score = score_of(whole, scale, soft_cap);
    }
    __syncthreads();
    const float score = shared.score, old_max = shared.max;
    __syncthreads();
    if (place.thread == 0) {
      const float max = fmaxf(old_max, score);
      shared.sum = shared.sum * weight_of(old_max, max) + exp2_fast(score - max);
      shared.max = max;
    }
    __syncthreads();
    const float max = shared.max;
    const float keep = weight_of(old_max, max), p = exp2_fast(score - max);
    for_elements<HOLDS>(d0, [&](int i) { pv[i] = pv[i] * keep + p * to_f32(v[d0 + i]); });
  }

  const float total = shared.sum;  // 0 without keys
  for_elements<HOLDS>(
      d0, [&](int i) { out[place.row + d0 + i] = from_f32<Out>(total > 0.0f ? pv[i] / total : 0.0f); });
}
