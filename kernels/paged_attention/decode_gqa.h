// decode_gqa: decode, with each K and V row loaded once for all query heads that share it.
//
// Layout   grid (total_q, num_kv_heads, SLICES); 8 waves as in decode. SLICES = ceil(RATIO * D / 2048);
//          slice z owns query heads z * RATIO / SLICES .. (z + 1) * RATIO / SLICES - 1 of its kv head.
// Build    hipbook build paged_attention/paged_attention.hip gfx1200 -DHIPBOOK_ARM_DECODE_GQA=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128 -DHIPBOOK_RATIO=2
// Serves   D in {64, 128, 256, 512}, any ratio 1..16; alignment as wave_rows.h says.
// Traffic  2 * keys * num_kv_heads * SLICES * D * bytes: decode's, divided by RATIO / SLICES.
// LDS      8 * 4 * (D * ROUND + 2 * HEADS) bytes; the merge takes ROUND heads at a time.
// Idea     the rows of K and V are what decode reads; sharing them among the heads of a group divides
//          that. The price is RATIO * D / wave width registers twice (queries and P.V), hence the
//          slices: 2048 elements are 64 registers a lane at a wave of 32, and no scratch memory.
#pragma once

#include "wave_rows.h"

namespace decode_gqa {

constexpr int WITNESS = 0x30;
constexpr int RATIO = HIPBOOK_RATIO;
static_assert(RATIO >= 1 && RATIO <= 16, "decode_gqa serves 1 to 16 query heads per kv head");
constexpr int SLICES = (RATIO * D + 2047) / 2048;
constexpr int HEADS = (RATIO + SLICES - 1) / SLICES;  // of the largest slice
constexpr int ROUND = HEADS * D <= 512 ? HEADS : D >= 512 ? 1 : 512 / D;
// Keys in flight: as many as leave rows and scores in registers beside queries and P.V.
constexpr int REGISTERS_PER_KEY = 2 * Elements<KV, EPL>::WORDS + HEADS;
constexpr int REGISTERS_LEFT = 176 - 2 * HEADS * EPL;
constexpr int AT_ONCE = REGISTERS_PER_KEY * 4 <= REGISTERS_LEFT && HEADS * 4 <= WAVE   ? 4
                        : REGISTERS_PER_KEY * 2 <= REGISTERS_LEFT && HEADS * 2 <= WAVE ? 2
                                                                                       : 1;

}  // namespace decode_gqa

extern "C" __global__ __launch_bounds__(THREADS) void paged_attention_decode_gqa(PAGED_ATTENTION_PARAMETERS) {
  using namespace decode_gqa;
  __shared__ Merge<HEADS, AT_ONCE, ROUND> merge;

  bear_witness(witness, WITNESS);
  const int token = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const int slice = static_cast<int>(blockIdx.z);
  const KeyRange keys =
      key_range(token, seq_lens, query_start_loc, num_reqs, causal, window_left, window_right);
  if (keys.request < 0) {
    return;
  }
  const int first_head = slice * RATIO / SLICES;
  const int live = (slice + 1) * RATIO / SLICES - first_head;  // HEADS or one fewer
  const int64_t row = (int64_t{token} * num_q_heads + kv_head * RATIO + first_head) * D;
  attend(merge, keys, q + row, out + row, live, block_table + keys.request * block_table_stride, block_size,
         k_cache + kv_head * k_head_stride, k_block_stride, k_slot_stride, v_cache + kv_head * v_head_stride,
         v_block_stride, v_slot_stride, scale, soft_cap);
}
