// What the decode arms share: a wave that holds whole rows, its keys, and the merge of the waves.
//
// A wave holds a row of D elements in EPL = D / WAVE registers a lane. Elements are dealt out in
// vectors: lane l holds elements (c * WAVE + l) * VECTOR + i for each chunk c, so that one load of the
// wave reads one unbroken stretch. VECTOR elements are 16 bytes of K and V, or all EPL when fewer.
//
// Alignment: rows of K and V (pointer, and block, slot and head strides) to min(16, EPL * bytes of an
// element) bytes; q to min(16, VECTOR * bytes of its own); out is stored element by element. The wrapper
// refuses what does not fit.
#pragma once

#include "common.h"

static_assert(D == 64 || D == 128 || D == 256 || D == 512, "the decode arms serve D in {64, 128, 256, 512}");
constexpr int WAVES = 8;
constexpr int THREADS = WAVES * WAVE;
constexpr int EPL = D / WAVE;
constexpr int VECTOR = EPL * static_cast<int>(sizeof(KV)) <= 16 ? EPL : 16 / static_cast<int>(sizeof(KV));
constexpr int CHUNKS = EPL / VECTOR;

__device__ __forceinline__ int element_of(int lane, int chunk) {
  return (chunk * WAVE + lane) * VECTOR;
}

// One row of K or V in a wave, as it lies in memory.
struct RowKV {
  Elements<KV, VECTOR> chunk[CHUNKS];

  __device__ __forceinline__ void load(const KV* row, int lane) {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      chunk[c].load(row + element_of(lane, c));
    }
  }
  __device__ __forceinline__ float at(int e) const { return chunk[e / VECTOR].at(e % VECTOR); }
};

__device__ __forceinline__ void load_query(const Q* row, int lane, float (&query)[EPL]) {
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    Elements<Q, VECTOR> elements;
    elements.load(row + element_of(lane, c));
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
      query[c * VECTOR + i] = elements.at(i);
    }
  }
}

constexpr int power_of_two_from(int n) {
  int power = 1;
  while (power < n) {
    power *= 2;
  }
  return power;
}

// One wave's share of the work for HEADS query heads of one kv head: keys first + wave,
// first + wave + WAVES, ..., AT_ONCE of them at a time (a power of two). Their K and V rows are loaded
// together, then each is used by every head.
//
// Scores live across the lanes: lane l has score l % SCORES, that of head l % SCORES / AT_ONCE for key
// l % AT_ONCE of the group, so that scale, soft cap, maximum and exponential are done once for all of
// them. Only the probabilities are handed back to every lane, which needs them for its elements of P.V.
template <int HEADS, int AT_ONCE>
struct WaveState {
  static constexpr int SCORES = power_of_two_from(HEADS * AT_ONCE);
  static_assert(SCORES <= WAVE, "one score a lane");

  float max = NEVER;  // of this lane's head
  float sum = 0.0f;   // of this lane's head and place in the group
  float pv[HEADS][EPL] = {};

  // Takes `count` keys (all of the group when ALL, else fewer) that start at `cursor`, and moves it on.
  template <bool ALL>
  __device__ __forceinline__ void take(KeyCursor& cursor, int count, const KV* k, int64_t k_block_stride,
                                       int64_t k_slot_stride, const KV* v, int64_t v_block_stride,
                                       int64_t v_slot_stride, const float (&query)[HEADS][EPL], float scale,
                                       float soft_cap, int lane) {
    RowKV rows_k[AT_ONCE] = {}, rows_v[AT_ONCE] = {};
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      if (ALL || j < count) {
        const int64_t block = cursor.block(), slot = cursor.slot;
        rows_k[j].load(k + block * k_block_stride + slot * k_slot_stride, lane);
        rows_v[j].load(v + block * v_block_stride + slot * v_slot_stride, lane);
        cursor.advance();
      }
    }

    float dots[SCORES] = {};
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j) {
#pragma unroll
        for (int e = 0; e < EPL; ++e) {
          dots[h * AT_ONCE + j] += query[h][e] * rows_k[j].at(e);
        }
      }
    }
    float score = score_of(wave_sums(dots), scale, soft_cap);
    if (!ALL && lane % AT_ONCE >= count) {
      score = NEVER;
    }

    const float old_max = max;
    max = fmaxf(old_max, over_group(score, [](float a, float b) { return fmaxf(a, b); }));
    const float keep = exp2_fast(old_max - max);  // max is finite: a group has a key
    const float p = exp2_fast(score - max);
    sum = sum * keep + p;
    if (wave_any(max > old_max)) {
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        const float keep_h = read_lane(keep, h * AT_ONCE);
#pragma unroll
        for (int e = 0; e < EPL; ++e) {
          pv[h][e] *= keep_h;
        }
      }
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j) {
        const float p_hj = read_lane(p, h * AT_ONCE + j);
#pragma unroll
        for (int e = 0; e < EPL; ++e) {
          pv[h][e] += p_hj * rows_v[j].at(e);
        }
      }
    }
  }

  // One value for the lanes that hold the keys of a group for one head.
  template <class Join>
  static __device__ __forceinline__ float over_group(float value, Join join) {
    if constexpr (AT_ONCE > 1) {
      value = join(value, lane_xor<1>(value));
    }
    if constexpr (AT_ONCE > 2) {
      value = join(value, lane_xor<2>(value));
    }
    static_assert(AT_ONCE <= 4);
    return value;
  }
};

// The waves' states to rows of `out`, ROUND heads at a time through LDS.
template <int HEADS, int AT_ONCE, int ROUND>
struct Merge {
  float max[HEADS][WAVES], sum[HEADS][WAVES];
  float pv[ROUND][WAVES][D];

  // `out_rows`: the first head's row, the others follow it; only the first `live` heads are written.
  __device__ __forceinline__ void run(const WaveState<HEADS, AT_ONCE>& state, int live, Out* out_rows,
                                      int wave, int lane) {
    const float wave_sum = state.over_group(state.sum, [](float a, float b) { return a + b; });
    if (lane % AT_ONCE == 0 && lane / AT_ONCE < HEADS) {
      max[lane / AT_ONCE][wave] = state.max;
      sum[lane / AT_ONCE][wave] = wave_sum;
    }
#pragma unroll
    for (int h0 = 0; h0 < HEADS; h0 += ROUND) {
      if (h0 > 0) {
        __syncthreads();  // the round before has been read
      }
#pragma unroll
      for (int r = 0; r < ROUND && h0 + r < HEADS; ++r) {
#pragma unroll
        for (int e = 0; e < EPL; ++e) {
          pv[r][wave][element_of(lane, e / VECTOR) + e % VECTOR] = state.pv[h0 + r][e];
        }
      }
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < ROUND * D; i += THREADS) {
        const int r = i / D, d = i % D, h = h0 + r;
        if (h < live) {
          out_rows[int64_t{h} * D + d] = from_f32<Out>(merged(h, r, d));
        }
      }
    }
  }

  __device__ __forceinline__ float merged(int h, int r, int d) const {
    float whole = NEVER;
#pragma unroll
    for (int w = 0; w < WAVES; ++w) {
      whole = fmaxf(whole, max[h][w]);
    }
    float total = 0.0f, value = 0.0f;
#pragma unroll
    for (int w = 0; w < WAVES; ++w) {
      const float weight = weight_of(max[h][w], whole);
      total += weight * sum[h][w];
      value += weight * pv[r][w][d];
    }
    return value / total;  // at least one key: total >= 1
  }
};

// A workgroup's rows: HEADS query heads of one kv head against its key range, live heads of them.
template <int HEADS, int AT_ONCE, int ROUND>
__device__ __forceinline__ void attend(Merge<HEADS, AT_ONCE, ROUND>& merge, const KeyRange& keys,
                                       const Q* q_rows, Out* out_rows, int live, const int* table,
                                       int block_size, const KV* k, int64_t k_block_stride,
                                       int64_t k_slot_stride, const KV* v, int64_t v_block_stride,
                                       int64_t v_slot_stride, float scale, float soft_cap) {
  const int thread = static_cast<int>(threadIdx.x);
  if (keys.last < keys.first) {
    for (int i = thread; i < live * D; i += THREADS) {
      out_rows[i] = from_f32<Out>(0.0f);
    }
    return;
  }
  const int lane = thread % WAVE, wave = uniform(thread / WAVE);
  float query[HEADS][EPL] = {};  // a slice that is one head short computes with zeros
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    if (h < live) {
      load_query(q_rows + int64_t{h} * D, lane, query[h]);
    }
  }

  WaveState<HEADS, AT_ONCE> state;
  KeyCursor cursor(table, keys.first + wave, WAVES, block_size);
  int count = (keys.last - keys.first - wave + WAVES) / WAVES;  // keys of this wave; 0 for a late one
  for (; count >= AT_ONCE; count -= AT_ONCE) {
    state.template take<true>(cursor, AT_ONCE, k, k_block_stride, k_slot_stride, v, v_block_stride,
                              v_slot_stride, query, scale, soft_cap, lane);
  }
  if (AT_ONCE > 1 && count > 0) {
    state.template take<false>(cursor, count, k, k_block_stride, k_slot_stride, v, v_block_stride,
                               v_slot_stride, query, scale, soft_cap, lane);
  }
  merge.run(state, live, out_rows, wave, lane);
}
