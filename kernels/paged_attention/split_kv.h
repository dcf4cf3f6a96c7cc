// split_kv: decode_gqa with the keys of a token dealt out to many workgroups.
//
// Layout   grid (total_q, num_kv_heads, SLICES * splits), x and y renumbered so that workgroups that follow
//          each other read neighbouring kv heads of the same keys (rows of all heads of a key lie side by
//          side in memory: on an H200 this order is worth 6 % of the bandwidth). A workgroup takes one of
//          `splits` equal parts of its token's keys in tiles of 16; each of its waves takes every WAVES-th
//          tile. Parts without a key leave at once. SLICES as decode_gqa's.
// Build    hipbook build paged_attention/paged_attention.hip gfx1200 -DHIPBOOK_ARM_SPLIT_KV=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128 -DHIPBOOK_RATIO=2
//          -DHIPBOOK_BLOCK_16=1, which says that the block size is a multiple of 16, so that a tile lies in
//          one block; 0 serves any block size and looks every row up.
// Serves   D in {64, 128, 256, 512}, any ratio 1..16; rows of K, V and q, and partial, aligned to 16 bytes.
// Extra    partial: float[total_q * num_kv_heads * SLICES * splits * PART], scratch;
//          tickets: int[total_q * num_kv_heads * SLICES], zeros before the first launch, and left as zeros.
// Traffic  2 * keys * num_kv_heads * SLICES * D * bytes, and 8 * PART bytes of scratch a part in use.
// LDS      4 * WAVES * HEADS * (D + 2) bytes.
// Idea     a token of one sequence has only num_kv_heads workgroups' worth of work for decode_gqa: a board
//          with more compute units idles. Parts keep an unnormalised P.V with its maximum and sum; the
//          workgroup that arrives last at the token's ticket merges them, in the same launch.
//
// The scores and P.V of a part are computed in split_kv_rows.h (vector units, any board) or, for 16-bit
// caches on NVIDIA, in split_kv_mma.h (matrix units). Both leave one state a wave in LDS.
#pragma once

#include "common.h"

namespace split_kv {

constexpr int WITNESS = 0x40;
constexpr int RATIO = HIPBOOK_RATIO;
static_assert(RATIO >= 1 && RATIO <= 16, "split_kv serves 1 to 16 query heads per kv head");
static_assert(D % WAVE == 0 && (D & (D - 1)) == 0 && D <= 512, "split_kv serves the D of the decode arms");
constexpr int SLICES = (RATIO * D + 2047) / 2048;
constexpr int HEADS = (RATIO + SLICES - 1) / SLICES;  // of the largest slice
constexpr int TILE = 16;                              // keys
constexpr bool TILE_IN_BLOCK = HIPBOOK_BLOCK_16;
// Floats: P.V, then a maximum and a sum for each head; rounded up to keep parts aligned to 16 bytes.
constexpr int PART = (HEADS * (D + 2) + 3) / 4 * 4;

// Matrix units serve 16-bit caches (split_kv_mma.h), whatever the queries' type.
constexpr bool MMA = HIPBOOK_NVIDIA && sizeof(KV) == 2 && D <= 256;
constexpr int WAVES = MMA && D == 128 && HEADS <= 8 ? 6 : 4;
constexpr int THREADS = WAVES * WAVE;
// Workgroups that a compute unit should hold: caps the registers. A row of D = 64 is half the bytes, so it
// takes twice the waves to have as many in flight.
constexpr int RESIDENT = !MMA ? 1 : D < 128 ? 4 : 2;

// A maximum below every score, but finite: then the weight of a state that saw no key, exp2(LOWEST - max),
// is 0 and that of two such states 1, where -inf - -inf would be NaN. Their sums are 0 either way.
constexpr float LOWEST = -3.0e38f;

// A score, soft-capped, as a power of two. Out of line on NVIDIA: a launch of a few microseconds feels
// every line of code that has to be fetched.
#if HIPBOOK_NVIDIA
__device__ __noinline__
#else
__device__ __forceinline__
#endif
    float capped(float score, float soft_cap) {
  return LOG2E * soft_cap * tanhf(score / soft_cap);
}

// key_range, with the three loads of a decode batch, where token t is request t's, on their way together.
__device__ __forceinline__ KeyRange keys_of_token(int token, const int* __restrict__ seq_lens,
                                                  const int* __restrict__ query_start_loc, int num_reqs,
                                                  int causal, int window_left, int window_right) {
  int begin = -1, end = -1, seq_len = 0;
  if (token < num_reqs) {
    begin = query_start_loc[token];
    end = query_start_loc[token + 1];
    seq_len = seq_lens[token];
  }
  if (begin == token && end == token + 1) {
    return keys_of(token, token, begin, end, seq_len, causal, window_left, window_right);
  }
  return key_range(token, seq_lens, query_start_loc, num_reqs, causal, window_left, window_right);
}

// x / d for 0 <= x < 2^24, d > 0: the float quotient is off by one at most.
__device__ __forceinline__ int quotient(int x, int d) {
  int q = static_cast<int>(static_cast<float>(x) * reciprocal_fast(static_cast<float>(d)));
  const int rest = x - q * d;
  q += rest >= d;
  q -= rest < 0;
  return q;
}

// Keys of one token and kv head in one request's blocks. Strides in elements.
struct Rows {
  const KV* __restrict__ k;
  const KV* __restrict__ v;
  int64_t k_block_stride, k_slot_stride, v_block_stride, v_slot_stride;
  const int* __restrict__ table;
  int block_size;
  int begin, end;                // this part's keys
  int step_entries, step_slots;  // from a wave's tile to its next, in whole blocks and what is left
};

// A wave's tiles, first to last: tile starts are multiples of TILE; the ends may stick out of the part.
struct TileCursor {
  int key, entry, slot;  // of the tile's first key; entry and slot only when a tile lies in one block

  __device__ __forceinline__ TileCursor(const Rows& rows, int wave)
      : key((rows.begin / TILE + wave) * TILE),
        entry(TILE_IN_BLOCK ? quotient(key / TILE, rows.block_size / TILE) : 0),
        slot(key - entry * rows.block_size) {}

  __device__ __forceinline__ void advance(const Rows& rows) {
    key += WAVES * TILE;
    if (TILE_IN_BLOCK) {
      entry += rows.step_entries;
      slot += rows.step_slots;
      if (slot >= rows.block_size) {
        slot -= rows.block_size;
        ++entry;
      }
    }
  }
  // The block of the tile; 0 past the part, where nothing is read.
  __device__ __forceinline__ int block(const Rows& rows) const {
    return TILE_IN_BLOCK && key < rows.end ? rows.table[entry] : 0;
  }
};

struct States {
  alignas(16) float pv[WAVES][HEADS][D];
  float max[WAVES][HEADS], sum[WAVES][HEADS];
};

}  // namespace split_kv

#include "split_kv_rows.h"
#if HIPBOOK_NVIDIA
#include "split_kv_mma.h"
#endif

namespace split_kv {

constexpr int BATCH = MMA ? 16 : 8;  // parts loaded together by the merge
constexpr int MAX_SPLITS = 48;       // the wrapper keeps to it

struct Shared {
  union {
    States states;
    float weight[MAX_SPLITS][HEADS];
#if HIPBOOK_NVIDIA
    MmaQuery query;
#endif
  };
  int last;
};

// The waves' states become the row, or this part's place in `part`.
template <bool WHOLE>
__device__ __forceinline__ void merge_waves(const States& states, int live, Out* out_rows, float* part) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) * 2; i < live * D; i += THREADS * 2) {
    const int h = i / D, d = i % D;
    float whole = states.max[0][h];
#pragma unroll
    for (int w = 1; w < WAVES; ++w) {
      whole = fmaxf(whole, states.max[w][h]);
    }
    float sum = 0.0f, x = 0.0f, y = 0.0f;
#pragma unroll
    for (int w = 0; w < WAVES; ++w) {
      const float weight = exp2_fast(states.max[w][h] - whole);
      sum += weight * states.sum[w][h];
      x += weight * states.pv[w][h][d];
      y += weight * states.pv[w][h][d + 1];
    }
    if (WHOLE) {
      const float inverse = reciprocal_fast(sum);
      out_rows[i] = from_f32<Out>(x * inverse);
      out_rows[i + 1] = from_f32<Out>(y * inverse);
    } else {
      *reinterpret_cast<float2*>(part + i) = make_float2(x, y);
      if (d == 0) {
        part[HEADS * D + h] = whole;
        part[HEADS * D + HEADS + h] = sum;
      }
    }
  }
}

// Four values of each of `used` parts, from part `first` on, at most BATCH of them.
__device__ __forceinline__ void load_parts(float4 (&pv)[BATCH], const float* parts, int first, int used,
                                           int i) {
#pragma unroll
  for (int b = 0; b < BATCH; ++b) {
    pv[b] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (first + b < used) {
      pv[b] = *reinterpret_cast<const float4*>(parts + (first + b) * PART + i);
    }
  }
}

// Parts 0 .. used - 1 become the row.
__device__ __forceinline__ void merge_parts(float (&weight)[MAX_SPLITS][HEADS], const float* parts, int used,
                                            int live, Out* out_rows) {
  const int lane = lane_id(), wave = static_cast<int>(threadIdx.x) / WAVE;
  int i = static_cast<int>(threadIdx.x) * 4;
  float4 pv[BATCH];
  load_parts(pv, parts, 0, i < live * D ? used : 0, i);  // on their way while the weights are computed

  constexpr int EACH = (MAX_SPLITS + WAVE - 1) / WAVE;
  for (int h = wave; h < live; h += WAVES) {
    float max[EACH], sum[EACH], whole = LOWEST, total = 0.0f;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int s = e * WAVE + lane;
      max[e] = s < used ? parts[s * PART + HEADS * D + h] : LOWEST;
      sum[e] = s < used ? parts[s * PART + HEADS * D + HEADS + h] : 0.0f;
      whole = fmaxf(whole, max[e]);
    }
    whole = wave_max(whole);
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      max[e] = exp2_fast(max[e] - whole);
      total += max[e] * sum[e];
    }
    const float totals[1] = {total};
    const float inverse = reciprocal_fast(wave_sums(totals));
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if (e * WAVE + lane < used) {
        weight[e * WAVE + lane][h] = max[e] * inverse;
      }
    }
  }
  __syncthreads();

#pragma unroll 1
  while (i < live * D) {
    const int h = i / D;
    float4 row = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int first = 0; first < used; first += BATCH) {
      if (first > 0) {
        load_parts(pv, parts, first, used, i);
      }
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        const float w = first + b < used ? weight[first + b][h] : 0.0f;
        row.x += w * pv[b].x;
        row.y += w * pv[b].y;
        row.z += w * pv[b].z;
        row.w += w * pv[b].w;
      }
    }
    const float values[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      out_rows[i + x] = from_f32<Out>(values[x]);
    }
    i += THREADS * 4;
    load_parts(pv, parts, 0, i < live * D ? used : 0, i);
  }
}

}  // namespace split_kv

extern "C" __global__ __launch_bounds__(split_kv::THREADS, split_kv::RESIDENT) void paged_attention_split_kv(
    PAGED_ATTENTION_PARAMETERS, float* __restrict__ partial, int* __restrict__ tickets, int splits) {
  using namespace split_kv;
  __shared__ alignas(16) Shared shared;

  // uniform(), since what a workgroup shares should take no vector registers: at ratio 16 none are left.
  const int z = uniform(static_cast<int>(blockIdx.z));
  const int place = uniform(static_cast<int>(blockIdx.x + gridDim.x * blockIdx.y));
  bear_witness(witness, WITNESS);
  const int thread = static_cast<int>(threadIdx.x);
  const int token = uniform(static_cast<int>(unsigned(place) / unsigned(num_kv_heads)));
  const int kv_head = place - token * num_kv_heads;
  const int slice = z % SLICES, split = z / SLICES;

  const KeyRange keys =
      keys_of_token(token, seq_lens, query_start_loc, num_reqs, causal, window_left, window_right);
  if (keys.request < 0) {
    return;
  }
  const int first_head = slice * RATIO / SLICES;
  const int live = (slice + 1) * RATIO / SLICES - first_head;  // HEADS or one fewer
  const int64_t row = (int64_t{token} * num_q_heads + kv_head * RATIO + first_head) * D;
  if (keys.last < keys.first) {
    for (int i = thread; split == 0 && i < live * D; i += THREADS) {
      out[row + i] = from_f32<Out>(0.0f);
    }
    return;
  }

  // Tiles are dealt out evenly, but no part has fewer than its waves could take at once.
  const int first_tile = keys.first / TILE, tiles = keys.last / TILE + 1 - first_tile;
  int each = quotient(tiles + splits - 1, splits);
  each = each < WAVES ? WAVES : each;
  const int used = quotient(tiles + each - 1, each);
  if (split >= used) {
    return;
  }
  const int begin = (first_tile + split * each) * TILE, end = begin + each * TILE;
  const int step_entries = TILE_IN_BLOCK ? quotient(WAVES, block_size / TILE) : 0;
  const Rows rows{k_cache + kv_head * k_head_stride,
                  v_cache + kv_head * v_head_stride,
                  k_block_stride,
                  k_slot_stride,
                  v_block_stride,
                  v_slot_stride,
                  block_table + keys.request * block_table_stride,
                  block_size,
                  begin < keys.first ? keys.first : begin,
                  end > keys.last ? keys.last + 1 : end,
                  step_entries,
                  WAVES * TILE - step_entries * block_size};
#if HIPBOOK_NVIDIA
  if constexpr (MMA) {
    attend_mma(rows, q + row, live, scale, soft_cap, shared.query, shared.states);
  } else
#endif
  {
    attend_rows(rows, q + row, live, scale, soft_cap, shared.states);
  }
  __syncthreads();
  if (used == 1) {
    merge_waves<true>(shared.states, live, out + row, nullptr);
    return;
  }
  const int64_t unit = int64_t{place} * SLICES + slice;
  float* parts = partial + unit * splits * PART;
  merge_waves<false>(shared.states, live, nullptr, parts + split * PART);

  publish();
  __syncthreads();
  if (thread == 0) {
    shared.last = arrive(&tickets[unit]) == used - 1;
  }
  __syncthreads();
  if (!shared.last) {
    return;
  }
  observe();
  if (thread == 0) {
    tickets[unit] = 0;  // for the next launch
  }
  merge_parts(shared.weight, parts, used, live, out + row);
}
