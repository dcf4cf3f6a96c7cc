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
// probabilities of head g for rows t, 4 + t, 8 + t, 12 + t: B's column g. Each is the sum of P_TERMS 16-bit
// numbers, so that their rounding is not seen in the output.
//
// The next tile's K is loaded as soon as this one's scores are done, its V after P.V.
#pragma once

#include <type_traits>

#include "common.h"

namespace split_kv {

constexpr int PIECE = 128 / static_cast<int>(sizeof(KV));  // elements
constexpr int PIECES = D / PIECE;
constexpr int GROUPS_OF_8 = (HEADS + 7) / 8;
template <class A, class B>
constexpr bool SAME = std::is_same_v<A, B>;

// Queries of another type than the cache's become sums of numbers of that type, and nothing is lost: an
// f16 (11 bits) is two bf16 (8 bits each), an f32 (24 bits) three of either. bf16 and f32 may lie outside
// f16's range; for an f16 cache they are scaled by a power of two that brings the largest of a head to
// 2^13 .. 2^14, where what is too small for f16 is below 2^-38 of the largest.
constexpr int TERMS = SAME<Q, KV> ? 1 : SAME<Q, f32> ? 3 : SAME<Q, f16> ? 2 : 1;
constexpr bool SCALED = SAME<KV, f16> && !SAME<Q, f16>;
// Two bf16 or f16 hold 16 or 22 bits of a probability, far more than a 16-bit output shows; an f32 output
// gets three. f16 ends at 2^-24, so for f16 all probabilities, and their sum, are 2^14 times as large.
constexpr int P_TERMS = SAME<Out, f32> ? 3 : 2;
constexpr float LIFT = SAME<KV, f16> ? 16384.0f : 1.0f;
// Queries take 8 * PIECES * GROUPS_OF_8 * TERMS registers; more than two pieces' worth leave too few
// for the rows.
constexpr bool QUERY_IN_LDS = PIECES * GROUPS_OF_8 * TERMS > 2;

struct Quad {
  uint32_t word[4];
};
using MmaQuery = Quad[TERMS][GROUPS_OF_8][PIECES][2][WAVE];

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

using Piece = Elements<KV, 8>;

// Loads in the order they are written, ahead of their use. HIPBOOK_STREAM=1 says that the batch's K and V
// are larger than the last-level cache, and asks for no place in the first-level one: 268 MB and more are
// read 1 % faster so, but 34 MB that fit 38 % slower (H200, 8 x 1024 keys: 12.4 us against 8.9).
#ifndef HIPBOOK_STREAM
#define HIPBOOK_STREAM 0
#endif
__device__ __forceinline__ void load_ahead(Piece& piece, const KV* from) {
#if HIPBOOK_STREAM
  piece.load_once(from);
#else
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(piece.word[0]), "=r"(piece.word[1]), "=r"(piece.word[2]), "=r"(piece.word[3])
               : "l"(from));
#endif
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

// A fragments of one 128-byte piece of eight heads' queries, times `scale`: [term][k-step].
__device__ __forceinline__ void load_query(const Q* q_row, bool live, int piece, int t, float scale,
                                           Quad (&fragment)[TERMS][2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Elements<Q, 8> elements = {};
    if (live) {
      elements.load(q_row + PIECE * piece + PIECE / 2 * half + 8 * t);
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {  // word w is half of step w / 2
      if constexpr (SAME<Q, KV>) {
        fragment[0][w / 2].word[w % 2 * 2 + half] = elements.word[w];
      } else {
        float low = elements.at(2 * w) * scale, high = elements.at(2 * w + 1) * scale;
#pragma unroll
        for (int x = 0; x < TERMS; ++x) {
          fragment[x][w / 2].word[w % 2 * 2 + half] = round_pair(low, high);
        }
      }
    }
  }
}

// The power of two, and its inverse, that brings the largest element of lane (g, *)'s head near 2^13.
__device__ __forceinline__ float query_scale(const Q* q_row, bool live, int t, float& inverse) {
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < 2 * PIECES; ++i) {
    Elements<Q, 8> elements = {};
    if (live) {
      elements.load(q_row + PIECE / 2 * i + 8 * t);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      largest = fmaxf(largest, fabsf(elements.at(e)));
    }
  }
  largest = fmaxf(largest, lane_xor<1>(largest));
  largest = fmaxf(largest, lane_xor<2>(largest));
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23);  // with its bias of 127
  const int wanted = min(127 + 13 - (exponent - 127), 253);
  inverse = __uint_as_float(static_cast<uint32_t>(254 - wanted) << 23);
  return __uint_as_float(static_cast<uint32_t>(wanted) << 23);
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

  Piece k[4][PIECES], v[4][PIECES];
  const auto load_k = [&](const TileCursor& cursor, int block) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const KV* row =
          row_of(rows.k, rows.k_block_stride, rows.k_slot_stride, rows, cursor, block, 4 * n + g / 2);
#pragma unroll
      for (int i = 0; i < PIECES; ++i) {
        load_ahead(k[n][i], row + PIECE * i + PIECE / 2 * (g % 2) + 8 * t);
      }
    }
  };
  const auto load_v = [&](const TileCursor& cursor, int block) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const KV* row = row_of(rows.v, rows.v_block_stride, rows.v_slot_stride, rows, cursor, block, 4 * n + t);
#pragma unroll
      for (int i = 0; i < PIECES; ++i) {
        load_ahead(v[n][i], row + PIECE * i + 8 * g);
      }
    }
  };

  TileCursor cursor(rows, wave);
  int block = cursor.block(rows);
  // What turns a product into a power of two, or into a score to be capped.
  float factor[GROUPS_OF_8];
  Quad query[GROUPS_OF_8][PIECES][TERMS][2];
#pragma unroll
  for (int group = 0; group < GROUPS_OF_8; ++group) {
    const Q* q_row = q_rows + (8 * group + g) * D;
    const bool mine = 8 * group + g < live;
    float q_scale = 1.0f, inverse = 1.0f;
    if (SCALED) {
      q_scale = query_scale(q_row, mine, t, inverse);
    }
    factor[group] = (soft_cap > 0.0f ? scale : scale * LOG2E) * inverse;
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
      if (!QUERY_IN_LDS) {
        load_query(q_row, mine, i, t, q_scale, query[group][i]);
      } else if (wave == 0) {
        load_query(q_row, mine, i, t, q_scale, query[0][0]);
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
        p[group][n] = (d[n][0] + d[n][3]) * factor[group];
      }
    }
    if (more) {
      load_k(next, next_block);
    }

    uint32_t p_pairs[GROUPS_OF_8][P_TERMS][2];
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
        pg[n] = exp2_fast(pg[n] - max[group]) * LIFT;
        sum[group] += pg[n];
      }
#pragma unroll
      for (int b = 0; b < 2; ++b) {
#pragma unroll
        for (int x = 0; x < P_TERMS; ++x) {
          p_pairs[group][x][b] = round_pair(pg[2 * b], pg[2 * b + 1]);
        }
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
#pragma unroll
          for (int x = 0; x < P_TERMS; ++x) {
            mma(pv[group][i * 4 + w], a, p_pairs[group][x][0], p_pairs[group][x][1]);
          }
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
