"""Broken variants of the grouped GEMV's arms, each a mistake that people make."""

from hipbook.checks.mutants import Mutant

ALL = ("superblock", "spread")


def _mutant(
    name: str, arms: str | tuple[str, ...], file: str, old: str, new: str, why: str, **more: str
) -> Mutant:
    chosen = (arms,) if isinstance(arms, str) else arms
    return Mutant(f"gemv-{name}", "grouped_gemv", f"grouped_gemv/{file}", old, new, why, chosen, **more)


MUTANTS = (
    # --- the formats ---
    _mutant(
        "upper-scales-without-high-bits",
        ALL,
        "common.h",
        "(s[c + 4] & 15) | (s[c - 4] >> 6 << 4)",
        "s[c + 4] & 15",
        "the upper four scales lose two bits",
    ),
    _mutant(
        "upper-mins-with-the-scales-bits",
        ALL,
        "common.h",
        "s[c + 4] >> 4 | (s[c] >> 6 << 4)",
        "s[c + 4] >> 4 | (s[c - 4] >> 6 << 4)",
        "the upper minima take the scales' high bits",
    ),
    _mutant(
        "scales-and-mins-swapped",
        ALL,
        "common.h",
        "c < 4 ? s[c] & SIX_BITS",
        "c < 4 ? s[c + 4] & SIX_BITS",
        "the lower four scales are the minima",
    ),
    _mutant(
        "bias-of-16",
        ALL,
        "common.h",
        "BIAS_6 = 1 << 5",
        "BIAS_6 = 1 << 4",
        "6-bit values stand above 16 instead of 32",
    ),
    _mutant(
        "unsigned-scales",
        ALL,
        "common.h",
        "static_cast<int8_t>(w[W_SCALES + s])",
        "w[W_SCALES + s]",
        "Q6_K's scales are taken as unsigned",
    ),
    _mutant(
        "q6-d-elsewhere",
        ALL,
        "common.h",
        "W_D = 208",
        "W_D = 206",
        "Q6_K's d is read from its scales",
    ),
    _mutant(
        "unsigned-activations",
        "superblock",
        "common.h",
        "static_cast<int8_t>(act[ACT_QS + i])",
        "act[ACT_QS + i]",
        "activations are taken as unsigned",
    ),
    _mutant(
        "unsigned-activations-of-a-word",
        "spread",
        "common.h",
        "static_cast<int8_t>(word >> (8 * i) & 0xff)",
        "static_cast<int>(word >> (8 * i) & 0xff)",
        "activations are taken as unsigned",
    ),
    # --- which row, which expert ---
    _mutant(
        "expert-of-the-first-row",
        ALL,
        "common.h",
        "expert_ids[row]",
        "expert_ids[0]",
        "every row takes the first row's expert",
    ),
    _mutant(
        "expert-is-the-row",
        ALL,
        "common.h",
        "int64_t{expert_ids[row]} * n",
        "row * n",
        "expert ids are not looked at",
    ),
    _mutant(
        "one-activation-for-all",
        ALL,
        "common.h",
        "act + row * act_step * ACT_BYTES",
        "act",
        "every row is multiplied with the first one's activations",
    ),
    _mutant(
        "row-step-of-one-block",
        ALL,
        "common.h",
        "row * act_step * ACT_BYTES",
        "row * ACT_BYTES",
        "rows of activations are taken to be one block long",
    ),
    _mutant(
        "sum-of-two-lanes",
        ALL,
        "common.h",
        "wave_sums(share)",
        "(share[0] + lane_xor<1>(share[0]))",
        "only two lanes' shares are added",
    ),
    _mutant(
        "results-past-the-end",
        ALL,
        "common.h",
        "at < results;",
        "at < results + waves;",
        "one more result than there is",
    ),
    _mutant(
        "last-result-left-out",
        ALL,
        "common.h",
        "at < results;",
        "at < results - 1;",
        "the last result is not computed",
    ),
    # --- superblock ---
    _mutant(
        "superblock-nibbles-swapped",
        "superblock",
        "superblock.h",
        "c % 2 ? nibbles[l] >> 4",
        "c % 2 == 0 ? nibbles[l] >> 4",
        "even sub-blocks take the high nibbles",
    ),
    _mutant(
        "superblock-one-sum-of-two",
        "superblock",
        "superblock.h",
        "(act_bsum(a, 2 * c) + act_bsum(a, 2 * c + 1))",
        "(2 * act_bsum(a, 2 * c))",
        "the minima's part takes one bsum twice",
    ),
    _mutant(
        "superblock-mins-added",
        "superblock",
        "superblock.h",
        "static_cast<float>(sum) - half_at",
        "static_cast<float>(sum) + half_at",
        "the minima are added",
    ),
    _mutant(
        "superblock-scale-of-32",
        "superblock",
        "superblock.h",
        "scale_at(w, 2 * g + 1) * of_16[1]",
        "scale_at(w, 2 * g) * of_16[1]",
        "Q6_K's second scale of a group is its first",
    ),
    _mutant(
        "superblock-high-bits-of-the-group",
        "superblock",
        "superblock.h",
        ">> (2 * r) & 3",
        ">> r & 3",
        "the two high bits are shifted half as far",
    ),
    _mutant(
        "superblock-never-steps",
        "superblock",
        "superblock.h",
        "block < blocks; block += WAVE",
        "block < 4; block += WAVE",
        "superblocks past the fourth are left out",
    ),
    _mutant(
        "superblock-no-witness",
        "superblock",
        "superblock.h",
        "GROUPED_GEMV_ARGUMENTS, 0x10",
        "GROUPED_GEMV_ARGUMENTS, 0x20",
        "the arm gives itself out for the other",
    ),
    # --- spread ---
    _mutant(
        "spread-every-other-superblock",
        "spread",
        "spread.h",
        "block += WAVE / LANES",
        "block += WAVE / LANES * 2",
        "half of the superblocks are left out",
    ),
    _mutant(
        "spread-mins-of-the-pair",
        "spread",
        "spread.h",
        "min_at(w, lane / 2)",
        "min_at(w, lane / 4)",
        "the minimum of another sub-block is taken for a bsum",
    ),
    _mutant(
        "spread-high-nibbles-for-low",
        "spread",
        "spread.h",
        "(byte & 15) * signed",
        "(byte >> 4) * signed",
        "the lower sub-block takes the high nibbles",
    ),
    _mutant(
        "spread-next-groups-bits",
        "spread",
        "spread.h",
        "(bits >> 4 & 3) << 4",
        "(bits >> 2 & 3) << 4",
        "the high bits of another group are taken",
    ),
    _mutant(
        "spread-scale-of-32",
        "spread",
        "spread.h",
        "const int half = at / 16;",
        "const int half = 0;",
        "Q6_K's second scale of a group is its first",
    ),
    _mutant(
        "spread-activations-of-the-first-group",
        "spread",
        "spread.h",
        "a + ACT_QS + GROUP * second + at",
        "a + ACT_QS + GROUP * first + at",
        "both groups take the same activations",
    ),
    _mutant(
        "spread-q6-in-words",
        "spread",
        "spread.h",
        "  return {{halves[0] | uint32_t{halves[1]} << 16, halves[2] | uint32_t{halves[3]} << 16}};",
        "  return load_words(from);",
        "Q6_K's nibbles are read as words, from addresses that are aligned to two bytes only",
        out_of_reach="clang makes the same machine code of both, which the alignment mode that HSA requires "
        "permits (docs/emulator.md); on NVIDIA it is a fault",
    ),
)
