// split_kv's scores and P.V on vector units, on any board.
//
// A lane holds EPL elements of a row, 16 bytes where registers allow; LANES lanes hold a row, so a wave
// loads GROUPS rows at once and ROWS = UNROLL * GROUPS of them before it uses the first. Each group of
// lanes keeps a state of its own (maximum, sum and P.V for every head); the groups of a wave are joined by
// lane moves at the end, the waves through LDS.
#pragma once

#include "common.h"

namespace split_kv {

constexpr int VECTOR = 16 / static_cast<int>(sizeof(KV));
constexpr int LEAST = D / WAVE > 1 ? D / WAVE : 1;  // elements a lane holds when the whole wave holds a row

// Queries and P.V take 2 * HEADS * EPL registers a lane.
constexpr int elements_per_lane() {
  int elements = VECTOR > LEAST ? VECTOR : LEAST;
  while (elements > LEAST && 2 * HEADS * elements > 72) {
    elements /= 2;
  }
  return elements;
}
constexpr int EPL = elements_per_lane();
constexpr int LANES = D / EPL;
constexpr int GROUPS = WAVE / LANES;
constexpr int LOAD = EPL < VECTOR ? EPL : VECTOR;  // elements of one load
constexpr int LOADS = EPL / LOAD;

constexpr int rows_in_flight() {
  int unroll = 4;
  while (unroll > 1 && (unroll * GROUPS > TILE ||
                        unroll * (2 * Elements<KV, EPL>::WORDS + 2 * HEADS) + 2 * HEADS * EPL > 176)) {
    unroll /= 2;
  }
  return unroll;
}
constexpr int UNROLL = rows_in_flight();
constexpr int ROWS = UNROLL * GROUPS;
static_assert(TILE % ROWS == 0, "a tile is taken in whole steps");

struct LaneRow {
  Elements<KV, LOAD> load[LOADS];

  // Element e of the lane is element (e / LOAD * LANES + lane of the row) * LOAD + e % LOAD of the row.
  __device__ __forceinline__ void take(const KV* row, int lane) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      load[i].load(row + (i * LANES + lane) * LOAD);
    }
  }
  __device__ __forceinline__ float at(int e) const { return load[e / LOAD].at(e % LOAD); }
};

template <int BIT = 1>
__device__ __forceinline__ float sum_over_row(float value) {
  if constexpr (BIT < LANES) {
    return sum_over_row<BIT * 2>(value + lane_xor<BIT>(value));
  } else {
    return value;
  }
}

// Caps scores that all lanes of a row hold. Each lane caps one of them and hands it out: that takes the
// time of one, and its temporaries find room where the other scores were.
__device__ __forceinline__ void cap(float (&score)[HEADS][UNROLL], float soft_cap, int lane, int group) {
  constexpr int N = HEADS * UNROLL;
#pragma unroll
  for (int first = 0; first < N; first += LANES) {
    float mine = 0.0f;
#pragma unroll
    for (int i = first; i < N && i < first + LANES; ++i) {
      mine = lane == i - first ? score[i / UNROLL][i % UNROLL] : mine;
    }
    mine = capped(mine, soft_cap);
#pragma unroll
    for (int i = first; i < N && i < first + LANES; ++i) {
      score[i / UNROLL][i % UNROLL] =
          GROUPS == 1 ? read_lane(mine, i - first) : shuffle(mine, group * LANES + i - first);
    }
  }
}

struct LaneState {
  float max, sum, pv[EPL];

  // Joins the states of the wave's groups, whose lanes hold the same elements of the same head.
  template <int BIT = LANES>
  __device__ __forceinline__ void join() {
    if constexpr (BIT < WAVE) {
      const float other_max = lane_xor<BIT>(max), whole = fmaxf(max, other_max);
      const float mine = exp2_fast(max - whole), others = exp2_fast(other_max - whole);
      sum = sum * mine + lane_xor<BIT>(sum) * others;
#pragma unroll
      for (int e = 0; e < EPL; ++e) {
        pv[e] = pv[e] * mine + lane_xor<BIT>(pv[e]) * others;
      }
      max = whole;
      join<BIT * 2>();
    }
  }
};

__device__ __forceinline__ void attend_rows(const Rows& rows, const Q* q_rows, int live, float scale,
                                            float soft_cap, States& states) {
  const int wave = uniform(static_cast<int>(threadIdx.x) / WAVE);
  const int lane = lane_id() % LANES, group = lane_id() / LANES;

  // Queries carry the factor that turns a dot product into a power of two (or into a score to be capped).
  const float factor = soft_cap > 0.0f ? scale : scale * LOG2E;
  float query[HEADS][EPL];
  LaneState state[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    state[h].max = LOWEST;
    state[h].sum = 0.0f;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      Elements<Q, LOAD> elements = {};
      if (h < live) {
        elements.load(q_rows + int64_t{h} * D + (i * LANES + lane) * LOAD);
      }
#pragma unroll
      for (int e = 0; e < LOAD; ++e) {
        query[h][i * LOAD + e] = elements.at(e) * factor;
        state[h].pv[i * LOAD + e] = 0.0f;
      }
    }
  }

  TileCursor cursor(rows, wave);
  int block = cursor.block(rows);
  while (cursor.key < rows.end) {
    const KV* k_tile = rows.k + int64_t{block} * rows.k_block_stride + cursor.slot * rows.k_slot_stride;
    const KV* v_tile = rows.v + int64_t{block} * rows.v_block_stride + cursor.slot * rows.v_slot_stride;
    const int tile = cursor.key;
    cursor.advance(rows);
    block = cursor.block(rows);  // of the next tile, while this one is used

#pragma unroll 1
    for (int step = 0; step < TILE; step += ROWS) {
      if (tile + step + ROWS <= rows.begin || tile + step >= rows.end) {
        continue;
      }
      LaneRow k[UNROLL] = {}, v[UNROLL] = {};
      bool seen[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const int offset = step + u * GROUPS + group, key = tile + offset;
        seen[u] = key >= rows.begin && key < rows.end;
        if (seen[u]) {
          const KV *k_row, *v_row;
          if constexpr (TILE_IN_BLOCK) {
            k_row = k_tile + offset * rows.k_slot_stride;
            v_row = v_tile + offset * rows.v_slot_stride;
          } else {
            const int entry = key / rows.block_size, slot = key - entry * rows.block_size;
            const int64_t row_block = rows.table[entry];
            k_row = rows.k + row_block * rows.k_block_stride + slot * rows.k_slot_stride;
            v_row = rows.v + row_block * rows.v_block_stride + slot * rows.v_slot_stride;
          }
          k[u].take(k_row, lane);
          v[u].take(v_row, lane);
        }
      }

      float score[HEADS][UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int h = 0; h < HEADS; ++h) {
          float dot = 0.0f;
#pragma unroll
          for (int e = 0; e < EPL; ++e) {
            dot += query[h][e] * k[u].at(e);
          }
          score[h][u] = sum_over_row(dot);
        }
      }
      if (soft_cap > 0.0f) {
        cap(score, soft_cap, lane, group);
      }
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        float whole = state[h].max;
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
          score[h][u] = seen[u] ? score[h][u] : NEVER;
          whole = fmaxf(whole, score[h][u]);
        }
        const float keep = exp2_fast(state[h].max - whole);
        state[h].max = whole;
        state[h].sum *= keep;
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
          score[h][u] = exp2_fast(score[h][u] - whole);
          state[h].sum += score[h][u];
        }
#pragma unroll
        for (int e = 0; e < EPL; ++e) {
          state[h].pv[e] *= keep;
        }
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int h = 0; h < HEADS; ++h) {
#pragma unroll
          for (int e = 0; e < EPL; ++e) {
            state[h].pv[e] += score[h][u] * v[u].at(e);
          }
        }
      }
    }
  }

#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    state[h].join();
    if (group == 0) {
#pragma unroll
      for (int e = 0; e < EPL; ++e) {
        states.pv[wave][h][(e / LOAD * LANES + lane) * LOAD + e % LOAD] = state[h].pv[e];
      }
      if (lane == 0) {
        states.max[wave][h] = state[h].max;
        states.sum[wave][h] = state[h].sum;
      }
    }
  }
}

}  // namespace split_kv
