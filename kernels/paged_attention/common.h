// What all arms of paged attention share: the parameter list, which keys a token sees, where a key
// lies, and what becomes of a dot product.
//
// Build macros (the same for every arm; hipbook.ops passes them):
//   HIPBOOK_Q, HIPBOOK_KV, HIPBOOK_OUT   bf16 | f16 | f32
//   HIPBOOK_D                            head size
//   HIPBOOK_RATIO                        query heads per kv head (decode_gqa only)
//   HIPBOOK_ARM_<NAME>=1                 the one arm to compile
#pragma once

#include "../common/hip.h"

using Q = HIPBOOK_Q;
using KV = HIPBOOK_KV;
using Out = HIPBOOK_OUT;
constexpr int D = HIPBOOK_D;

// The launch contract of every arm. Strides are in elements; the last stride of q, k_cache, v_cache
// and out is 1; q and out are [total_q, num_q_heads, D], contiguous. `witness` holds an int32 for
// each workgroup (x fastest), or is null.
#define PAGED_ATTENTION_PARAMETERS                                                                           \
  const Q *__restrict__ q, const KV *__restrict__ k_cache, const KV *__restrict__ v_cache,                   \
      Out *__restrict__ out, int *__restrict__ witness, const int *__restrict__ block_table,                 \
      const int *__restrict__ seq_lens, const int *__restrict__ query_start_loc, int64_t k_block_stride,     \
      int64_t k_slot_stride, int64_t k_head_stride, int64_t v_block_stride, int64_t v_slot_stride,           \
      int64_t v_head_stride, int64_t block_table_stride, int num_reqs, [[maybe_unused]] int total_q,         \
      int num_q_heads, [[maybe_unused]] int num_kv_heads, int block_size, int causal, int window_left,       \
      int window_right, float scale, float soft_cap

// The keys that one token attends to, and the request that owns both.
struct KeyRange {
  int request;  // -1: a padding token, whose row is not written
  int first;
  int last;  // last < first: no key, and the row is zeros
};

// Largest r with query_start_loc[r] <= token: requests without tokens are stepped over.
__device__ __forceinline__ int owner_of(int token, const int* __restrict__ query_start_loc, int num_reqs) {
  int low = 0, high = num_reqs;  // the owner, if any, is in [low, high)
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (query_start_loc[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const bool owned = num_reqs > 0 && query_start_loc[low] <= token && token < query_start_loc[low + 1];
  return owned ? low : -1;
}

// The keys of token `token` of a request that owns tokens begin .. end - 1.
__device__ __forceinline__ KeyRange keys_of(int request, int token, int begin, int end, int seq_len,
                                            int causal, int window_left, int window_right) {
  const int position = seq_len - (end - begin) + (token - begin);
  // Compared by differences: position + window may pass the largest int.
  const int first = window_left >= 0 && position > window_left ? position - window_left : 0;
  int last = causal && position < seq_len - 1 ? position : seq_len - 1;
  if (window_right >= 0 && window_right < last - position) {
    last = position + window_right;
  }
  return {request, first, last};
}

__device__ __forceinline__ KeyRange key_range(int token, const int* __restrict__ seq_lens,
                                              const int* __restrict__ query_start_loc, int num_reqs,
                                              int causal, int window_left, int window_right) {
  const int request = owner_of(token, query_start_loc, num_reqs);
  if (request < 0) {
    return {-1, 0, -1};
  }
  return keys_of(request, token, query_start_loc[request], query_start_loc[request + 1], seq_lens[request],
                 causal, window_left, window_right);
}

// The kv head that a query head reads. A division leaves scalar registers on the way; uniform() brings
// the result, and every address made from it, back.
__device__ __forceinline__ int kv_head_of(int head, int num_q_heads, int num_kv_heads) {
  return uniform(head / (num_q_heads / num_kv_heads));
}

// Where keys lie, for a wave or workgroup that takes every `step`-th: block table entry and slot,
// advanced without a division.
struct KeyCursor {
  const int* __restrict__ table;  // the request's row
  int entry, slot;
  int step_entries, step_slots, block_size;

  __device__ __forceinline__ KeyCursor(const int* __restrict__ table, int key, int step, int block_size)
      : table(table),
        entry(uniform(key / block_size)),
        slot(key - entry * block_size),
        step_entries(uniform(step / block_size)),
        step_slots(step - step_entries * block_size),
        block_size(block_size) {}

  __device__ __forceinline__ int64_t block() const { return table[entry]; }

  __device__ __forceinline__ void advance() {
    entry += step_entries;
    slot += step_slots;
    if (slot >= block_size) {
      slot -= block_size;
      ++entry;
    }
  }
};

// score = scale * dot, soft-capped, times log2(e): exponentials are powers of two from here on.
__device__ __forceinline__ float score_of(float dot, float scale, float soft_cap) {
  const float score = scale * dot;
  return LOG2E * (soft_cap > 0.0f ? soft_cap * tanhf(score / soft_cap) : score);
}

// The weight of a part whose maximum is `part` under the maximum `whole` of all parts; 0 for a part
// that saw no key (-inf - -inf would be NaN).
__device__ __forceinline__ float weight_of(float part, float whole) {
  return part == NEVER ? 0.0f : exp2_fast(part - whole);
}

// Thread 0 of every workgroup says which arm ran, padding and empty rows included.
__device__ __forceinline__ void bear_witness(int* __restrict__ witness, int code) {
  if (witness != nullptr && threadIdx.x == 0) {
    witness[blockIdx.x + int64_t{gridDim.x} * (blockIdx.y + int64_t{gridDim.y} * blockIdx.z)] = code;
  }
}
