// split_kv's scores and P.V on NVIDIA's matrix units, straight from global memory to registers.
//
// A wave takes a tile of 16 keys. Every load reads 128 unbroken bytes of four rows, which the memory serves
// best, and what a lane gets is already the operand it needs; lane (g, t) = (lane / 4, lane % 4) throughout.
//
// Scores, m16n8k16 with queries as A and keys as B. B's column g belongs to lanes (g, *); a load gives them
// 64 bytes, so two columns make the 128 bytes of one row: even columns its first half, odd ones its second.
// A's upper 8 rows are the queries' elements of first halves and its lower 8 rows those of second halves.
// So the score of head g and row t is D[g][2t] + D[g + 8][2t + 1], both in lane (g, t). The order of the
// elements within a product does not matter, as long as A and B agree.
//
// P.V, with V as A (transposed) and the probabilities as B. A's row g belongs to lanes (g, *), which hold
// elements 8g .. 8g + 7 of four rows; pairs of rows are interleaved by byte permutes. Lane (g, t) has the
// probabilities of head g for rows t, 4 + t, 8 + t, 12 + t: B's column g. Each is the sum of two 16-bit
// numbers, so that nothing is lost to their rounding but the last bits of f32's 24.
//
// The next tile's K is loaded as soon as this one's scores are done, its V after P.V.
#pragma once

#include <type_traits>

#include "common.h"

namespace split_kv {

constexpr int PIECE = 128 / static_cast<int>(sizeof(KV));  // elements
constexpr int PIECES = D / PIECE;
constexpr int GROUPS_OF_8 = (HEADS + 7) / 8;
constexpr int TERMS = SAME<Q, KV> ? 1 : 2;  // 16-bit numbers a query element is the sum of
// Queries take 8 * PIECES * GROUPS_OF_8 * TERMS registers; more than two pieces' worth leave too few
// for the rows.
constexpr bool QUERY_IN_LDS = PIECES * GROUPS_OF_8 > 2;

struct Quad {
  uint32_t word[4];
};
using MmaQuery = Quad[QUERY_IN_LDS ? TERMS : 1][GROUPS_OF_8][PIECES][2][WAVE];

__device__ __forceinline__ void mma(float (&d)[4], const Quad& a, uint32_t b0, uint32_t b1) {
  if constexpr (SAME<KV, bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b0), "r"(b1));
  }
}

// (low, high) rounded to a pair of 16-bit elements, and what the rounding left, replacing them.
__device__ __forceinline__ uint32_t round_pair(float& low, float& high) {
  uint32_t pair;
  if constexpr (SAME<KV, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  using Half = std::conditional_t<SAME<KV, bf16>, bf16, f16>;
  low -= to_f32(Half{static_cast<uint16_t>(pair & 0xffff)});
  high -= to_f32(Half{static_cast<uint16_t>(pair >> 16)});
  return pair;
}

// A fragments of one 128-byte piece of eight heads' queries, for its four k-steps' halves: [term][step].
__device__ __forceinline__ void load_query(const Q* q_row, bool live, int piece, int t,
                                           Quad (&fragment)[TERMS][2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Elements<Q, 8> elements = {};
    if (live) {
      elements.load(q_row + PIECE * piece + PIECE / 2 * half + 8 * t);
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {  // word w is half of step w / 2
      if constexpr (TERMS == 1) {
        fragment[0][w / 2].word[w % 2 * 2 + half] = elements.word[w];
      } else {
        float low = elements.at(2 * w), high = elements.at(2 * w + 1);
        fragment[0][w / 2].word[w % 2 * 2 + half] = round_pair(low, high);
        fragment[TERMS - 1][w / 2].word[w % 2 * 2 + half] = round_pair(low, high);
      }
    }
  }
}

// The row of `key` of the tile at `tile`, of block `block` when a tile lies in one.
__device__ __forceinline__ const KV* row_of(const KV* cache, int64_t block_stride, int64_t slot_stride,
                                            const Rows& rows, const TileCursor& cursor, int block,
                                            int offset) {
  // Keys outside the part are replaced by its first or last: read, and weighted with 0.
  const int key = max(rows.begin, min(cursor.key + offset, rows.end - 1));
  if constexpr (TILE_IN_BLOCK) {
    return cache + block * block_stride + (cursor.slot + key - cursor.key) * slot_stride;
  } else {
    const int entry = key / rows.block_size;
    return cache + rows.table[entry] * block_stride + (key - entry * rows.block_size) * slot_stride;
  }
}

__device__ __forceinline__ void attend_mma(const Rows& rows, const Q* q_rows, int live, float scale,
                                           float soft_cap, MmaQuery& shared_query, States& states) {
  const int lane = lane_id(), wave = static_cast<int>(threadIdx.x) / WAVE, g = lane / 4, t = lane % 4;

  using Piece = Elements<KV, 8>;
  Piece k[4][PIECES], v[4][PIECES];
  const auto load_k = [&](const TileCursor& cursor, int block) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const KV* row =
          row_of(rows.k, rows.k_block_stride, rows.k_slot_stride, rows, cursor, block, 4 * n + g / 2);
#pragma unroll
      for (int i = 0; i < PIECES; ++i) {
        k[n][i].load_once(row + PIECE * i + PIECE / 2 * (g % 2) + 8 * t);
      }
    }
  };
  const auto load_v = [&](const TileCursor& cursor, int block) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const KV* row = row_of(rows.v, rows.v_block_stride, rows.v_slot_stride, rows, cursor, block, 4 * n + t);
#pragma unroll
      for (int i = 0; i < PIECES; ++i) {
        v[n][i].load_once(row + PIECE * i + 8 * g);
      }
    }
  };

  TileCursor cursor(rows, wave);
  int block = cursor.block(rows);
  Quad query[GROUPS_OF_8][PIECES][TERMS][2];
#pragma unroll
  for (int group = 0; group < GROUPS_OF_8; ++group) {
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
      if (!QUERY_IN_LDS) {
        load_query(q_rows + (8 * group + g) * D, 8 * group + g < live, i, t, query[group][i]);
      } else if (wave == 0) {
        load_query(q_rows + (8 * group + g) * D, 8 * group + g < live, i, t, query[0][0]);
#pragma unroll
        for (int x = 0; x < TERMS; ++x) {
          shared_query[x][group][i][0][lane] = query[0][0][x][0];
          shared_query[x][group][i][1][lane] = query[0][0][x][1];
        }
      }
    }
  }
  if (QUERY_IN_LDS) {
    __syncthreads();
  }
  if (cursor.key < rows.end) {
    load_k(cursor, block);
    load_v(cursor, block);
  }

  float pv[GROUPS_OF_8][PIECES * 4][4] = {}, max[GROUPS_OF_8], sum[GROUPS_OF_8];  // sum: this lane's part
#pragma unroll
  for (int group = 0; group < GROUPS_OF_8; ++group) {
    max[group] = LOWEST;
    sum[group] = 0.0f;
  }
  const float factor = soft_cap > 0.0f ? scale : scale * LOG2E;
  TileCursor next = cursor;
  next.advance(rows);
  int next_block = next.block(rows);

#pragma unroll 1
  while (cursor.key < rows.end) {
    const bool more = next.key < rows.end;
    float p[GROUPS_OF_8][4];
#pragma unroll
    for (int group = 0; group < GROUPS_OF_8; ++group) {
      float d[4][4] = {};
#pragma unroll
      for (int i = 0; i < PIECES; ++i) {
#pragma unroll
        for (int x = 0; x < TERMS; ++x) {
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            const Quad a = QUERY_IN_LDS ? shared_query[x][group][i][step][lane] : query[group][i][x][step];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
              mma(d[n], a, k[n][i].word[2 * step], k[n][i].word[2 * step + 1]);
            }
          }
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        p[group][n] = (d[n][0] + d[n][3]) * factor;
      }
    }
    if (more) {
      load_k(next, next_block);
    }

    uint32_t upper[GROUPS_OF_8][2], lower[GROUPS_OF_8][2];
#pragma unroll
    for (int group = 0; group < GROUPS_OF_8; ++group) {
      float (&pg)[4] = p[group];
      if (soft_cap > 0.0f) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          pg[n] = capped(pg[n], soft_cap);
        }
      }
      if (cursor.key < rows.begin || cursor.key + TILE > rows.end) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int key = cursor.key + 4 * n + t;
          pg[n] = key >= rows.begin && key < rows.end ? pg[n] : NEVER;
        }
      }
      float top = fmaxf(fmaxf(pg[0], pg[1]), fmaxf(pg[2], pg[3]));
      top = fmaxf(top, lane_xor<1>(top));
      top = fmaxf(top, lane_xor<2>(top));
      if (wave_any(top > max[group])) {
        const float whole = fmaxf(max[group], top), keep = exp2_fast(max[group] - whole);
        max[group] = whole;
        sum[group] *= keep;
        const float even = read_lane(keep, 8 * t), odd = read_lane(keep, 8 * t + 4);  // of heads 2t, 2t + 1
#pragma unroll
        for (int j = 0; j < PIECES * 4; ++j) {
          pv[group][j][0] *= even;
          pv[group][j][1] *= odd;
          pv[group][j][2] *= even;
          pv[group][j][3] *= odd;
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        pg[n] = exp2_fast(pg[n] - max[group]);
        sum[group] += pg[n];
      }
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        upper[group][b] = round_pair(pg[2 * b], pg[2 * b + 1]);
        lower[group][b] = round_pair(pg[2 * b], pg[2 * b + 1]);
      }
    }
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const uint32_t r0 = v[0][i].word[w], r1 = v[1][i].word[w], r2 = v[2][i].word[w], r3 = v[3][i].word[w];
        const Quad a = {{__byte_perm(r0, r1, 0x5410), __byte_perm(r0, r1, 0x7632),
                         __byte_perm(r2, r3, 0x5410), __byte_perm(r2, r3, 0x7632)}};
#pragma unroll
        for (int group = 0; group < GROUPS_OF_8; ++group) {
          mma(pv[group][i * 4 + w], a, upper[group][0], upper[group][1]);
          mma(pv[group][i * 4 + w], a, lower[group][0], lower[group][1]);
        }
      }
    }
    if (more) {
      load_v(next, next_block);
    }
    cursor = next;
    next.advance(rows);
    next_block = next.block(rows);
  }

  if (QUERY_IN_LDS) {
    __syncthreads();  // the states take the queries' place
  }
#pragma unroll
  for (int group = 0; group < GROUPS_OF_8; ++group) {
    sum[group] += lane_xor<1>(sum[group]);
    sum[group] += lane_xor<2>(sum[group]);
    if (t == 0 && 8 * group + g < HEADS) {
      states.max[wave][8 * group + g] = max[group];
      states.sum[wave][8 * group + g] = sum[group];
    }
#pragma unroll
    for (int j = 0; j < PIECES * 4; ++j) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {  // rows g and g + 8 of D are elements 2w and 2w + 1 of lane g's eight
        const int head = 8 * group + 2 * t + x, d = j / 4 * PIECE + 8 * g + j % 4 * 2;
        if (head < HEADS) {
          *reinterpret_cast<float2*>(&states.pv[wave][head][d]) =
              make_float2(pv[group][j][x], pv[group][j][x + 2]);
        }
      }
    }
  }
}

}  // namespace split_kv
