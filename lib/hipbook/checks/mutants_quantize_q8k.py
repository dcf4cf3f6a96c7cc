"""Broken variants of the quantizer's arms, each a mistake that people make."""

from hipbook.checks.mutants import Mutant

ALL = ("serial", "block", "wave")


def _mutant(
    name: str, arms: str | tuple[str, ...], file: str, old: str, new: str, why: str, **more: str
) -> Mutant:
    chosen = (arms,) if isinstance(arms, str) else arms
    return Mutant(f"q8k-{name}", "quantize_q8k", f"quantize_q8k/{file}", old, new, why, chosen, **more)


MUTANTS = (
    # --- the arithmetic of a block ---
    _mutant(
        "positive-factor",
        ALL,
        "common.h",
        "-127.0f / extremum",
        "127.0f / extremum",
        "the extremum becomes 127 and d keeps its sign",
    ),
    _mutant(
        "factor-of-the-magnitude",
        ALL,
        "common.h",
        "-127.0f / extremum",
        "-127.0f / magnitude",
        "opposite extrema get the same sign of d",
    ),
    _mutant(
        "truncated",
        ALL,
        "common.h",
        "static_cast<int>(rintf(factor * x))",
        "static_cast<int>(factor * x)",
        "values are cut off instead of rounded",
    ),
    _mutant(
        "halves-away-from-zero",
        ALL,
        "common.h",
        "rintf(factor * x)",
        "roundf(factor * x)",
        "ties are not rounded to even",
    ),
    _mutant(
        "divided-instead-of-multiplied",
        ALL,
        "common.h",
        "rintf(factor * x)",
        "rintf(x / (1.0f / factor))",
        "a quotient by d is not the product with iscale",
    ),
    _mutant(
        "subnormal-d-rounded-twice",
        ALL,
        "common.h",
        "if (magnitude <= 0x1p126f) {",
        "if (magnitude > 0.0f) {",
        "a division that scales a rounded quotient back into range rounds a subnormal one twice",
        out_of_reach="the emulated boards' division rounds once; whether hardware's does is not known here",
    ),
    _mutant(
        "near-ties-of-d-as-ties",
        ALL,
        "common.h",
        "if (rest != 0.0f) {",
        "if (rest > 1e38f) {",
        "what only looks like a tie of d is rounded to even",
    ),
    _mutant(
        "overflowing-factor",
        ALL,
        "common.h",
        "magnitude == 0.0f || fabsf(factor) > FLT_MAX",
        "magnitude == 0.0f",
        "an infinite iscale is used",
    ),
    _mutant(
        "nan-is-no-extremum",
        ALL,
        "common.h",
        "return magnitude <= FLT_MAX ? magnitude : INFINITY;",
        "return magnitude;",
        "a NaN compares false and its block is written as if it were finite",
    ),
    _mutant(
        "negative-nan",
        ALL,
        "common.h",
        "0x7fc00000u};",
        "0xffc00000u};",
        "a block that is not finite has another NaN as its d",
    ),
    # --- where a block lies ---
    _mutant(
        "rows-as-if-contiguous",
        ALL,
        "common.h",
        "row * row_stride + ",
        "int64_t{row} * blocks_per_row * BLOCK + ",
        "the row stride is not looked at",
    ),
    _mutant(
        "block-of-the-matrix",
        ALL,
        "common.h",
        "int64_t{block - row * blocks_per_row}",
        "int64_t{block}",
        "the block's number in its row is its number in the matrix",
    ),
    _mutant(
        "sums-two-bytes-on",
        ALL,
        "common.h",
        "BSUMS_AT = 260",
        "BSUMS_AT = 262",
        "bsums stand two bytes further on",
    ),
    # --- serial ---
    _mutant(
        "serial-last-of-equals",
        "serial",
        "serial.h",
        "magnitude > largest",
        "magnitude >= largest",
        "of equal magnitudes the last one decides the sign of d",
    ),
    _mutant(
        "serial-no-bounds",
        "serial",
        "serial.h",
        "block < blocks;",
        "block < blocks + 128;",
        "threads past the last block work on what is not there",
    ),
    _mutant(
        "serial-sums-of-15",
        "serial",
        "serial.h",
        "sum += q;",
        "sum += i % GROUP ? q : 0;",
        "a sum leaves its first value out",
    ),
    _mutant(
        "serial-no-witness",
        "serial",
        "serial.h",
        "store_witness(witness, 0x10);",
        "",
        "nothing says which arm ran",
    ),
    # --- block ---
    _mutant(
        "block-no-barrier-before-the-tree",
        "block",
        "block.h",
        "indices[thread] = thread;\n    __syncthreads();",
        "indices[thread] = thread;",
        "the tree reads what other waves have not stored",
    ),
    _mutant(
        "block-no-barrier-in-the-tree",
        "block",
        "block.h",
        "          indices[thread] = indices[other];\n        }\n      }\n      __syncthreads();",
        "          indices[thread] = indices[other];\n        }\n      }",
        "a step of the tree reads what the step before has not finished",
    ),
    _mutant(
        "block-tree-keeps-its-left",
        "block",
        "block.h",
        "theirs > mine || (theirs == mine && indices[other] < indices[thread])",
        "theirs > mine",
        "of equal magnitudes the one that is met first decides, whatever its index",
    ),
    _mutant(
        "block-one-sum-too-few",
        "block",
        "block.h",
        "thread % GROUP == 0",
        "thread % GROUP == 0 && thread > 0",
        "the first bsum is not written",
    ),
    # --- wave ---
    _mutant(
        "wave-last-of-equals-in-a-lane",
        "wave",
        "wave.h",
        "int i = HOLDS - 1; i >= 0; --i",
        "int i = 0; i < HOLDS; ++i",
        "of equal magnitudes of a lane the last one decides",
    ),
    _mutant(
        "wave-last-lane",
        "wave",
        "wave.h",
        "__builtin_ctzll(__builtin_amdgcn_ballot_w64(said))",
        "63 - __builtin_clzll(__builtin_amdgcn_ballot_w64(said))",
        "of lanes with the maximum the last one decides",
    ),
    _mutant(
        "wave-extremum-of-lane-0",
        "wave",
        "wave.h",
        "first_lane(largest == whole)",
        "first_lane(true)",
        "the first lane's extremum is taken for the block's",
    ),
    _mutant(
        "wave-bytes-in-reverse",
        "wave",
        "wave.h",
        "<< (8 * j)",
        "<< (24 - 8 * j)",
        "the four values of a word are stored backwards",
    ),
    _mutant(
        "wave-sign-over-neighbours",
        "wave",
        "wave.h",
        "static_cast<uint32_t>(q[j] & 0xff)",
        "static_cast<uint32_t>(q[j])",
        "a negative value's sign covers the bytes above it",
    ),
    _mutant(
        "wave-sums-of-a-lane",
        "wave",
        "wave.h",
        "if constexpr (BIT < LANES)",
        "if constexpr (BIT * 2 < LANES)",
        "a bsum lacks its neighbouring lane's half",
    ),
    _mutant(
        "wave-sums-of-every-other-group",
        "wave",
        "wave.h",
        "lane * HOLDS % GROUP == 0",
        "lane * HOLDS % (2 * GROUP) == 0",
        "half of the bsums are not written",
    ),
    _mutant(
        "wave-vectors-of-a-lane",
        "wave",
        "wave.h",
        "part.load(from + i);",
        "part.load(from + i / 2);",
        "a lane's second vector is not its neighbour",
    ),
)
