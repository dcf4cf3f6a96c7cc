// prefill: many query tokens against the same keys, which a workgroup loads once for all of them.
//
// Layout   grid (ceil(total_q / ROWS), num_q_heads); WAVES waves of ROWS_OF_WAVE tokens each. The tokens of a
//          workgroup may belong to several requests: it takes one request's after another's.
// Build    hipbook build paged_attention/prefill.hip -- -DHIPBOOK_ARM_PREFILL=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128
// Serves   D in {64, 128}; rows of K and V aligned to 16 bytes; any rows, though a decode row alone wastes
// it. Traffic  2 * num_q_heads * D * bytes for each key that some token of a workgroup's request sees. LDS 4
// * ROWS * D + TILE * (D * bytes + 16) + bytes. Idea     online and decode load a key once for every token.
// Here a tile of as many keys as a wave has lanes
//          is staged in LDS; a lane computes the scores of one key for its wave's tokens, so nothing moves
//          between lanes for a dot product, and the maximum and the rescaling are done once a tile.
#pragma once

#include "common.h"

namespace prefill {

constexpr int WITNESS = 0x50;
static_assert(D == 64 || D == 128, "prefill serves D in {64, 128}");
constexpr int WAVES = 8;
constexpr int THREADS = WAVES * WAVE;
constexpr int ROWS_OF_WAVE = 4;
constexpr int ROWS = WAVES * ROWS_OF_WAVE;
constexpr int TILE = WAVE;  // keys: a lane each
constexpr int EPL = D / WAVE;
constexpr int VECTOR = 16 / static_cast<int>(sizeof(KV));
constexpr int STRIDE = D + VECTOR;  // elements; the 16 bytes more keep a column's lanes on different banks
constexpr int LANES_OF_ROW = D / VECTOR;
constexpr int STAGED_AT_ONCE = THREADS / LANES_OF_ROW;
static_assert(TILE % STAGED_AT_ONCE == 0 || STAGED_AT_ONCE % TILE == 0, "a tile is staged in whole passes");
// Below every score, but finite: the weight of a token that has seen no key is 1 and its sum 0, where
// -inf - -inf would be NaN.
constexpr float LOWEST = -3.0e38f;

struct Shared {
  alignas(16) float query[ROWS][D];
  alignas(16) KV tile[TILE * STRIDE];
};

// Keys first .. first + TILE - 1 of one request, zeros past `last`.
__device__ __forceinline__ void stage(KV* tile, const KV* cache, int64_t block_stride, int64_t slot_stride,
                                      const int* table, int block_size, int first, int last) {
  const int thread = static_cast<int>(threadIdx.x), column = thread % LANES_OF_ROW * VECTOR;
#pragma unroll
  for (int row = thread / LANES_OF_ROW; row < TILE; row += STAGED_AT_ONCE) {
    Elements<KV, VECTOR> elements = {};
    const int key = first + row;
    if (key <= last) {
      const int entry = key / block_size, slot = key - entry * block_size;
      elements.load(cache + table[entry] * block_stride + slot * slot_stride + column);
    }
    uint4* to = reinterpret_cast<uint4*>(tile + row * STRIDE + column);
    *to = make_uint4(elements.word[0], elements.word[1], elements.word[2], elements.word[3]);
  }
}

// A wave's tokens: the keys each sees, and what has been summed so far.
struct Rows {
  KeyRange keys[ROWS_OF_WAVE];
  float max[ROWS_OF_WAVE], sum[ROWS_OF_WAVE];  // sum: this lane's keys
  float pv[ROWS_OF_WAVE][EPL];

  // Whether any token of the wave belongs to `request` and sees a key of first .. first + TILE - 1.
  __device__ __forceinline__ bool see(int request, int first) const {
    bool any = false;
#pragma unroll
    for (int r = 0; r < ROWS_OF_WAVE; ++r) {
      any |= keys[r].request == request && keys[r].first < first + TILE && keys[r].last >= first;
    }
    return any;
  }

  // This lane's key of the tile, `key`: its scores become weights, and the rest is rescaled.
  __device__ __forceinline__ void weigh(float (&score)[ROWS_OF_WAVE], int request, int key, float scale,
                                        float soft_cap) {
#pragma unroll
    for (int r = 0; r < ROWS_OF_WAVE; ++r) {
      const bool seen = keys[r].request == request && key >= keys[r].first && key <= keys[r].last;
      score[r] = seen ? score_of(score[r], scale, soft_cap) : NEVER;
      const float whole = fmaxf(max[r], wave_max(score[r])), keep = exp2_fast(max[r] - whole);
      max[r] = whole;
      score[r] = exp2_fast(score[r] - whole);
      sum[r] = sum[r] * keep + score[r];
#pragma unroll
      for (int e = 0; e < EPL; ++e) {
        pv[r][e] *= keep;
      }
    }
  }
};

// Dot products of this lane's key with the wave's queries.
__device__ __forceinline__ void dots(const float (*query)[D], const KV* key_row,
                                     float (&score)[ROWS_OF_WAVE]) {
#pragma unroll 2
  for (int column = 0; column < D; column += VECTOR) {
    Elements<KV, VECTOR> key;
    key.load(key_row + column);
#pragma unroll
    for (int r = 0; r < ROWS_OF_WAVE; ++r) {
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
        score[r] += query[r][column + e] * key.at(e);
      }
    }
  }
}

// P.V of a tile: lane l has elements l * EPL .. of every row; weights come from the lanes that have them.
__device__ __forceinline__ void accumulate(Rows& rows, const float (&weight)[ROWS_OF_WAVE], const KV* tile,
                                           int lane) {
#pragma unroll 8
  for (int key = 0; key < TILE; ++key) {
    Elements<KV, EPL> value;
    value.load(tile + key * STRIDE + lane * EPL);
#pragma unroll
    for (int r = 0; r < ROWS_OF_WAVE; ++r) {
      const float p = read_lane(weight[r], key);
#pragma unroll
      for (int e = 0; e < EPL; ++e) {
        rows.pv[r][e] += p * value.at(e);
      }
    }
  }
}

}  // namespace prefill

extern "C" __global__ __launch_bounds__(prefill::THREADS) void paged_attention_prefill(
    PAGED_ATTENTION_PARAMETERS) {
  using namespace prefill;
  __shared__ Shared shared;

  bear_witness(witness, WITNESS);
  const int thread = static_cast<int>(threadIdx.x), lane = lane_id(), wave = uniform(thread / WAVE);
  const int first_token = static_cast<int>(blockIdx.x) * ROWS, head = static_cast<int>(blockIdx.y);
  const int end_token = first_token + ROWS < total_q ? first_token + ROWS : total_q;
  const int kv_head = kv_head_of(head, num_q_heads, num_kv_heads);
  const KV* k = k_cache + kv_head * k_head_stride;
  const KV* v = v_cache + kv_head * v_head_stride;

  Rows rows;
#pragma unroll
  for (int r = 0; r < ROWS_OF_WAVE; ++r) {
    const int token = first_token + wave * ROWS_OF_WAVE + r;
    rows.keys[r] = {-1, 0, -1};
    if (token < end_token) {
      rows.keys[r] = key_range(token, seq_lens, query_start_loc, num_reqs, causal, window_left, window_right);
    }
    rows.max[r] = LOWEST;
    rows.sum[r] = 0.0f;
#pragma unroll
    for (int e = 0; e < EPL; ++e) {
      rows.pv[r][e] = 0.0f;
    }
  }
  for (int i = thread; i < ROWS * D; i += THREADS) {
    const int token = first_token + i / D;
    const bool live = token < end_token;
    shared.query[i / D][i % D] = live ? to_f32(q[(int64_t{token} * num_q_heads + head) * D + i % D]) : 0.0f;
  }

  int token = first_token;
  while (token < end_token) {
    const int request = owner_of(token, query_start_loc, num_reqs);
    if (request < 0) {
      break;  // padding, to the end
    }
    const int begin = query_start_loc[request], end = query_start_loc[request + 1];
    const int next = end < end_token ? end : end_token;
    // Ranges only move up with the token: the first token's first key and the last one's last.
    const int seq_len = seq_lens[request];
    const int first = keys_of(request, token, begin, end, seq_len, causal, window_left, window_right).first;
    const int last = keys_of(request, next - 1, begin, end, seq_len, causal, window_left, window_right).last;
    const int* table = block_table + request * block_table_stride;
    token = next;

    for (int key = first; key <= last; key += TILE) {
      __syncthreads();  // the tile before has been used; at first, the queries are there
      stage(shared.tile, k, k_block_stride, k_slot_stride, table, block_size, key, last);
      __syncthreads();
      const bool wanted = rows.see(request, key);
      float weight[ROWS_OF_WAVE] = {};
      if (wanted) {
        dots(&shared.query[wave * ROWS_OF_WAVE], shared.tile + lane * STRIDE, weight);
        rows.weigh(weight, request, key + lane, scale, soft_cap);
      }
      __syncthreads();
      stage(shared.tile, v, v_block_stride, v_slot_stride, table, block_size, key, last);
      __syncthreads();
      if (wanted) {
        accumulate(rows, weight, shared.tile, lane);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < ROWS_OF_WAVE; ++r) {
    const float sums[1] = {rows.sum[r]};
    const float sum = wave_sums(sums);
    if (rows.keys[r].request < 0) {
      continue;
    }
    const float inverse = rows.keys[r].last < rows.keys[r].first ? 0.0f : 1.0f / sum;
    Out* row = out + (int64_t{first_token + wave * ROWS_OF_WAVE + r} * num_q_heads + head) * D + lane * EPL;
#pragma unroll
    for (int e = 0; e < EPL; ++e) {
      row[e] = from_f32<Out>(rows.pv[r][e] * inverse);
    }
  }
}
