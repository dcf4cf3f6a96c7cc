"""Broken variants of the paged-attention arms, each a mistake that people make."""

from hipbook.checks.mutants import Mutant

_FOLDER = "paged_attention"
DECODES = ("decode", "decode_gqa")
RUNGS = ("online_shuffle", "online_wide", "online_tile")
IN_STEP = ("online", *RUNGS)


def _mutant(
    name: str, arms: str | tuple[str, ...], file: str, old: str, new: str, why: str, **more
) -> Mutant:
    where = file if file.startswith("common/") else f"{_FOLDER}/{file}"
    return Mutant(name, _FOLDER, where, old, new, why, (arms,) if isinstance(arms, str) else arms, **more)


MUTANTS = (
    # --- barriers ---
    _mutant(
        "online-no-barrier-after-partials", "online", "online.h",
        "partial[thread] = dot;\n    __syncthreads();", "partial[thread] = dot;",
        "the tree reads partial sums that other waves may not have stored",
    ),
    _mutant(
        "online-no-barrier-in-the-tree", "online", "online.h",
        "partial[thread] += partial[thread + half];\n      }\n      __syncthreads();",
        "partial[thread] += partial[thread + half];\n      }",
        "a step of the tree reads what the step before has not finished",
    ),
    _mutant(
        "online-no-barrier-before-the-update", "online", "online.h",
        "old_max = shared_max;\n    __syncthreads();", "old_max = shared_max;",
        "thread 0 changes the maximum while other waves still read the old one",
    ),
    _mutant(
        "online-barrier-for-some-lanes", "online", "online.h",
        "      shared_max = max;\n    }\n    __syncthreads();",
        "      shared_max = max;\n      __syncthreads();\n    }",
        "a barrier inside the branch of thread 0",
    ),
    _mutant(
        "decode-no-barrier-before-the-merge", DECODES, "wave_rows.h",
        "      __syncthreads();\n      for (int i = static_cast<int>(threadIdx.x); i < ROUND",
        "      for (int i = static_cast<int>(threadIdx.x); i < ROUND",
        "waves are merged before they have stored their part",
    ),
    _mutant(
        "gqa-no-barrier-between-rounds", "decode_gqa", "wave_rows.h",
        "        __syncthreads();  // the round before has been read\n", "",
        "the next round of heads overwrites LDS that is still being read",
    ),
    _mutant(
        "split-kv-no-barrier-after-the-waves", "split_kv", "split_kv.h",
        "  __syncthreads();\n  if (used == 1) {", "  if (used == 1) {",
        "the waves' states are merged before all are stored",
    ),
    _mutant(
        "tile-no-barrier-before-the-update", "online_tile", "online_tile.h",
        "old_max = shared.max;\n    __syncthreads();",
        "old_max = shared.max;",
        "thread 0 changes the maximum while other waves still read the old one",
    ),
    _mutant(
        "step-no-barrier-after-the-sums", ("online_shuffle", "online_wide"), "online_step.h",
        "      shared.partial[place.wave] = sum;\n    }\n    __syncthreads();",
        "      shared.partial[place.wave] = sum;\n    }",
        "thread 0 adds up sums of waves that may not have stored theirs",
    ),
    _mutant(
        "split-kv-no-barrier-before-arriving", "split_kv", "split_kv.h",
        "  publish();\n  __syncthreads();", "  publish();",
        "thread 0 takes the ticket before the other waves of its workgroup have stored their part",
    ),
    # --- which key lies where ---
    _mutant(
        "online-table-off-by-one", "online", "online.h",
        "table[key / block_size], slot", "table[(key + 1) / block_size], slot",
        "the last slot of a block is looked up in the next block",
    ),
    _mutant(
        "online-v-by-the-stride-of-k", "online", "online.h",
        "block * v_block_stride", "block * k_block_stride",
        "V is addressed with K's block stride",
    ),
    _mutant(
        "gqa-v-by-the-head-stride-of-k", "decode_gqa", "decode_gqa.h",
        "v_cache + kv_head * v_head_stride", "v_cache + kv_head * k_head_stride",
        "V is addressed with K's head stride",
    ),
    _mutant(
        "online-32-bit-offset", "online", "online.h",
        "k_cache + block * k_block_stride", "k_cache + static_cast<int>(block * k_block_stride)",
        "a block's offset is cut to 32 bits",
    ),
    _mutant(
        "decode-32-bit-offset", DECODES, "wave_rows.h",
        "v + block * v_block_stride", "v + static_cast<int>(block * v_block_stride)",
        "a block's offset is cut to 32 bits",
    ),
    _mutant(
        "decode-16-bit-block-id", DECODES, "common.h",
        "int64_t block() const { return table[entry]; }",
        "int64_t block() const { return static_cast<uint16_t>(table[entry]); }",
        "block ids past 65535 wrap",
    ),
    _mutant(
        "decode-slot-never-wraps", DECODES, "common.h",
        "    if (slot >= block_size) {\n      slot -= block_size;",
        "    if (slot > block_size) {\n      slot -= block_size;",
        "a slot equal to the block size stays in the old block",
    ),
    _mutant(
        "table-row-of-the-first-request", ("online",), "online.h",
        "block_table + keys.request * block_table_stride", "block_table",
        "every request uses the first one's blocks",
    ),
    _mutant(
        "interleaved-heads", (*IN_STEP, "decode"), "common.h",
        "uniform(head / (num_q_heads / num_kv_heads))", "uniform(head % num_kv_heads)",
        "query heads are dealt out to kv heads in turn instead of in groups",
    ),
    # --- which keys ---
    _mutant(
        "online-misses-the-last-key", "online", "online.h",
        "key <= keys.last", "key < keys.last", "the token does not see itself",
    ),
    _mutant(
        "window-of-w-keys", (), "common.h",
        "? position - window_left : 0", "? position - window_left + 1 : 0",
        "a window of W keeps W keys where the contract says W + 1",
    ),
    _mutant(
        "prefill-position-from-the-end", (), "common.h",
        "seq_len - (end - begin) + (token - begin)", "seq_len - 1",
        "every token of a chunk sees what the last one sees",
    ),
    _mutant(
        "padding-belongs-to-the-last-request", (), "common.h",
        " && token < query_start_loc[low + 1]", "",
        "padding rows past the last request are written",
    ),
    _mutant(
        "decode-one-key-more-in-the-tail", DECODES, "wave_rows.h",
        "lane % AT_ONCE >= count", "lane % AT_ONCE > count",
        "the first absent key of the last group takes part",
    ),
    _mutant(
        "decode-tail-forgotten", DECODES, "wave_rows.h",
        "if (AT_ONCE > 1 && count > 0)", "if (AT_ONCE > 1 && count > 1)",
        "a wave whose last group holds one key drops it",
    ),
    _mutant(
        "split-kv-reads-before-its-part", "split_kv", "split_kv_rows.h",
        "key >= rows.begin && key < rows.end", "key < rows.end",
        "a tile that begins before the window takes part as a whole",
    ),
    _mutant(
        "split-kv-reads-one-past-the-end", "split_kv", "split_kv_rows.h",
        "key >= rows.begin && key < rows.end", "key >= rows.begin && key <= rows.end",
        "the slot after the last key is read",
    ),
    # --- lanes ---
    _mutant(
        "decode-probability-of-another-lane", DECODES, "wave_rows.h",
        "read_lane(p, h * AT_ONCE + j)", "read_lane(p, h * AT_ONCE)",
        "every key of a group is weighted with the first one's probability",
    ),
    _mutant(
        "shuffle-from-the-wrong-lane", (*DECODES, "split_kv", *RUNGS), "common/hip.h",
        "row_xmask + MASK,", "row_xmask + (MASK == 8 ? 4 : MASK),",
        "the step across 8 lanes takes its value from 4 lanes away",
    ),
    _mutant(
        "sums-keep-what-they-send", DECODES, "common/hip.h",
        "const float keep = odd ? value[2 * i + 1] : value[2 * i];",
        "const float keep = odd ? value[2 * i] : value[2 * i + 1];",
        "lanes keep the half they hand over",
    ),
    _mutant(
        "gqa-rescales-some-lanes", "decode_gqa", "wave_rows.h",
        "if (wave_any(max > old_max)) {", "if (max > old_max) {",
        "only lanes of the head whose maximum moved rescale, though all lanes hold elements of every head",
    ),
    _mutant(
        "split-kv-joins-half-the-groups", "split_kv", "split_kv_rows.h",
        "join<BIT * 2>();",
        "join<BIT * 4>();",
        "every other step of the join across groups of lanes is left out",
    ),
    # --- softmax ---
    _mutant(
        "decode-sum-is-not-rescaled", DECODES, "wave_rows.h",
        "sum = sum * keep + p;", "sum = sum + p;", "the running sum keeps its old maximum",
    ),
    _mutant(
        "tile-output-is-not-rescaled", "online_tile", "online_tile.h",
        "pv[i] *= keep;", "pv[i] *= 1.0f;", "P.V keeps the maximum of the tile before",
    ),
    _mutant(
        "merge-forgets-the-weights", DECODES, "wave_rows.h",
        "total += weight * sum[h][w];",
        "total += sum[h][w];",
        "the waves' sums are added without their weights",
    ),
    _mutant(
        "empty-row-divides-by-zero", "online", "online.h",
        "total > 0.0f ? pv[i] / total : 0.0f", "pv[i] / total", "a row without keys is 0 / 0",
    ),
    _mutant(
        "decode-empty-row-is-merged", DECODES, "wave_rows.h",
        "  if (keys.last < keys.first) {", "  if (keys.last < keys.first - (1 << 30)) {",
        "a row without keys goes through the merge: -inf - -inf",
    ),
    _mutant(
        "split-kv-unguarded-inf", "split_kv", "split_kv.h",
        "constexpr float LOWEST = -3.0e38f;", "constexpr float LOWEST = -INFINITY;",
        "two groups without a key are joined: -inf - -inf",
    ),
    _mutant(
        "soft-cap-is-not-scaled-back", (*IN_STEP, *DECODES), "common.h",
        "soft_cap * tanhf(score / soft_cap)",
        "tanhf(score / soft_cap)",
        "the cap is 1, whatever was asked for",
    ),
    _mutant(
        "exp-in-the-wrong-base", (*IN_STEP, *DECODES), "common.h",
        "return LOG2E * (soft_cap", "return (soft_cap", "2 to the score instead of e to the score",
    ),
    _mutant(
        "max-is-a-min", (*RUNGS[:2],), "online_step.h",
        "fmaxf(old_max, score)",
        "fminf(old_max, score)",
        "the running maximum is a minimum: exponentials overflow",
    ),
    # --- what is written ---
    _mutant(
        "decode-last-element-unwritten", DECODES, "wave_rows.h",
        "i < ROUND * D; i += THREADS) {\n        const int r",
        "i < ROUND * D - 1; i += THREADS) {\n        const int r",
        "the last element of a round of heads is not written",
    ),
    _mutant(
        "online-writes-past-the-row", "online", "online.h",
        "      if (d0 + i < D) {", "      if (d0 + i <= D) {", "one element past the row is read and written",
    ),
    _mutant(
        "bf16-truncated", (), "common/hip.h",
        "(bits + 0x7fff + ((bits >> 16) & 1)) >> 16", "bits >> 16", "the result is cut, not rounded",
    ),
    _mutant(
        "bf16-ties-away", (), "common/hip.h",
        "(bits + 0x7fff + ((bits >> 16) & 1)) >> 16",
        "(bits + 0x8000) >> 16",
        "ties are rounded up, not to even",
    ),
    _mutant(
        "gqa-slices-of-equal-size", "decode_gqa", "decode_gqa.h",
        "const int first_head = slice * RATIO / SLICES;", "const int first_head = slice * HEADS;",
        "slices are taken to be equally long, which an odd ratio's are not",
    ),
    _mutant(
        "gqa-short-slice-writes-on", "decode_gqa", "wave_rows.h",
        "        if (h < live) {\n          out_rows", "        if (h < HEADS) {\n          out_rows",
        "a slice that is one head short writes into the next one's rows",
    ),
    _mutant(
        "split-kv-nobody-is-last", "split_kv", "split_kv.h",
        "== used - 1;", "== used;", "no workgroup takes itself for the last: the row is never written",
    ),
    _mutant(
        "split-kv-ticket-is-kept", "split_kv", "split_kv.h",
        "    tickets[unit] = 0;  // for the next launch", "    // kept",
        "the next launch begins at this launch's count",
    ),
    _mutant(
        "decode-bears-another-arms-witness", "decode", "decode.h",
        "WITNESS = 0x20", "WITNESS = 0x30", "the kernel says that another arm ran",
    ),
)  # fmt: skip
