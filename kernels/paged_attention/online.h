// online: the baseline, one key at a time for the whole workgroup.
//
// Layout   grid (total_q, num_q_heads); THREADS = 64 doubled until >= D, at most 256. Thread t holds
//          elements 4t .. 4t+3 of the row, so D / 4 threads work (32 of 128 at D = 128).
// Build    hipbook build paged_attention/paged_attention.hip gfx1200 -DHIPBOOK_ARM_ONLINE=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128
// Serves   any D up to 512; pointers need only their element's alignment.
// Traffic  each query head reads its kv head's rows anew: 2 * keys * num_q_heads * D * bytes.
// Barriers 4 + log2(THREADS) per key: after the partials, in each step of the tree, after the score,
//          after all have taken it, after maximum and sum have changed. 11 at D = 128.
// Idea     none: it is what the other arms are measured against.
#pragma once

#include "common.h"

namespace online {

constexpr int WITNESS = 0x10;
constexpr int HOLDS = 4;  // neighbouring elements a thread

constexpr int threads_for(int d) {
  int threads = 64;
  while (threads < d && threads < 256) {
    threads *= 2;
  }
  return threads;
}
constexpr int THREADS = threads_for(D);
static_assert(D >= 1 && D <= 512, "online serves D from 1 to 512");

// Calls body(i) for those of the thread's elements d0 + i that the row has.
template <class Body>
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

}  // namespace online

extern "C" __global__ __launch_bounds__(online::THREADS) void paged_attention_online(
    PAGED_ATTENTION_PARAMETERS) {
  using namespace online;
  __shared__ float partial[THREADS];
  __shared__ float shared_score, shared_max, shared_sum;

  bear_witness(witness, WITNESS);
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x), d0 = thread * HOLDS;
  const KeyRange keys =
      key_range(token, seq_lens, query_start_loc, num_reqs, causal, window_left, window_right);
  if (keys.request < 0) {
    return;
  }
  const int kv_head = kv_head_of(head, num_q_heads, num_kv_heads);
  const int* table = block_table + keys.request * block_table_stride;
  const int64_t row = (int64_t{token} * num_q_heads + head) * D;

  float query[HOLDS] = {}, pv[HOLDS] = {};
  for_elements(d0, [&](int i) { query[i] = to_f32(q[row + d0 + i]); });
  if (thread == 0) {
    shared_max = NEVER;
    shared_sum = 0.0f;
  }
  __syncthreads();

  for (int key = keys.first; key <= keys.last; ++key) {
    const int64_t block = table[key / block_size], slot = key % block_size;
    const KV* k = k_cache + block * k_block_stride + slot * k_slot_stride + kv_head * k_head_stride;
    const KV* v = v_cache + block * v_block_stride + slot * v_slot_stride + kv_head * v_head_stride;

    float dot = 0.0f;
    for_elements(d0, [&](int i) { dot += query[i] * to_f32(k[d0 + i]); });
    partial[thread] = dot;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      if (thread < half) {
        partial[thread] += partial[thread + half];
      }
      __syncthreads();
    }
    if (thread == 0) {
      shared_score = score_of(partial[0], scale, soft_cap);
    }
    __syncthreads();
    const float score = shared_score, old_max = shared_max;
    __syncthreads();
    if (thread == 0) {
      const float max = fmaxf(old_max, score);
      shared_sum = shared_sum * weight_of(old_max, max) + exp2_fast(score - max);
      shared_max = max;
    }
    __syncthreads();
    const float max = shared_max;
    const float keep = weight_of(old_max, max), p = exp2_fast(score - max);
    for_elements(d0, [&](int i) { pv[i] = pv[i] * keep + p * to_f32(v[d0 + i]); });
  }

  const float total = shared_sum;  // 0 without keys
  for_elements(d0, [&](int i) { out[row + d0 + i] = from_f32<Out>(total > 0.0f ? pv[i] / total : 0.0f); });
}
