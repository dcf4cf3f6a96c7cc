// decode: a wave takes a key, and no barrier lies between two keys.
//
// Layout   grid (total_q, num_q_heads); 8 waves. A wave holds whole rows, EPL = D / wave width elements
//          a lane; wave w takes keys first + w, first + w + 8, ... with a maximum, sum and P.V of its own.
// Build    hipbook build paged_attention/paged_attention.hip gfx1200 -DHIPBOOK_ARM_DECODE=1
//          -DHIPBOOK_Q=bf16 -DHIPBOOK_KV=bf16 -DHIPBOOK_OUT=bf16 -DHIPBOOK_D=128
// Serves   D in {64, 128, 256, 512}; alignment as wave_rows.h says.
// Traffic  as online's: 2 * keys * num_q_heads * D * bytes.
// LDS      8 * (D + 2) * 4 bytes, one merge (one barrier) at the end.
// Idea     the dot product is summed by lanes of one wave, so waves need each other only once.
//          A different order of summation than online's: not the same bytes.
#pragma once

#include "wave_rows.h"

namespace decode {

constexpr int WITNESS = 0x20;
// Keys in flight: K and V rows of all take at most 64 registers.
constexpr int REGISTERS_PER_KEY = 2 * Elements<KV, EPL>::WORDS;
constexpr int AT_ONCE = REGISTERS_PER_KEY <= 16 ? 4 : 2;

}  // namespace decode

extern "C" __global__ __launch_bounds__(THREADS) void paged_attention_decode(PAGED_ATTENTION_PARAMETERS) {
  using namespace decode;
  __shared__ Merge<1, AT_ONCE, 1> merge;

  bear_witness(witness, WITNESS);
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const KeyRange keys =
      key_range(token, seq_lens, query_start_loc, num_reqs, causal, window_left, window_right);
  if (keys.request < 0) {
    return;
  }
  const int kv_head = kv_head_of(head, num_q_heads, num_kv_heads);
  const int64_t row = (int64_t{token} * num_q_heads + head) * D;
  attend(merge, keys, q + row, out + row, 1, block_table + keys.request * block_table_stride, block_size,
         k_cache + kv_head * k_head_stride, k_block_stride, k_slot_stride, v_cache + kv_head * v_head_stride,
         v_block_stride, v_slot_stride, scale, soft_cap);
}
