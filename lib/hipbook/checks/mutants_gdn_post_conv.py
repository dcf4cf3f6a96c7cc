"""Broken variants of GDN post-conv's arms, each a mistake that people make."""

from hipbook.checks.mutants import Mutant

ALL = ("serial", "chunked", "wave")
THREADS = ("serial", "chunked")


def _mutant(name: str, arms: str | tuple[str, ...], file: str, old: str, new: str, why: str) -> Mutant:
    at = f"gdn_post_conv/{file}"
    return Mutant(
        f"gdn-{name}", "gdn_post_conv", at, old, new, why, (arms,) if isinstance(arms, str) else arms
    )


MUTANTS = (
    # --- gates ---
    _mutant(
        "threshold-of-10", ALL, "common.h", "x > 20.0f ? x", "x > 10.0f ? x",
        "softplus is cut short where log1p still matters",
    ),
    _mutant(
        "no-threshold", ALL, "common.h", "x > 20.0f ? x : log1pf(expf(x))", "log1pf(expf(x))",
        "exp overflows from 89 on",
    ),
    _mutant(
        "log-of-1-plus", ALL, "common.h", "log1pf(expf(x))", "logf(1.0f + expf(x))",
        "small exponentials vanish beside 1",
    ),
    _mutant(
        "subnormal-exp", ALL, "common.h", "if (x < -17.0f) {", "if (x < -1e30f) {",
        "exp(-100) has lost its digits before a large rate brings it back",
    ),
    _mutant(
        "halves-multiplied-first", ALL, "common.h", "rate * half * half", "rate * (half * half)",
        "the product of the halves is subnormal before the rate reaches it",
    ),
    _mutant(
        "g-positive", ALL, "common.h", "= -decay_of(", "= decay_of(", "g has the wrong sign",
    ),
    _mutant(
        "no-bias", ALL, "common.h", "to_f32(a[token * a_stride + head]) + dt_bias[head]",
        "to_f32(a[token * a_stride + head])", "dt_bias is left out",
    ),
    _mutant(
        "rows-of-a-contiguous", ALL, "common.h", "a[token * a_stride + head]", "a[token * num_v_heads + head]",
        "a's row stride is not looked at",
    ),
    _mutant(
        "rows-of-b-as-a", ALL, "common.h", "b[token * b_stride + head]", "b[token * a_stride + head]",
        "b is read with a's row stride",
    ),
    _mutant(
        "beta-of-minus-b", ALL, "common.h", "expf(-to_f32(b", "expf(to_f32(b", "the sigmoid is turned around",
    ),
    _mutant(
        "g-and-beta-swapped", ALL, "common.h", "  g[token * num_v_heads + head] =", "  beta[token * num_v_heads + head] =",
        "g goes where beta belongs",
    ),
    # --- norms ---
    _mutant(
        "no-epsilon", ALL, "common.h", "sqrtf(squares + 1e-6f)", "sqrtf(squares)", "a head of zeros is divided by zero",
    ),
    _mutant(
        "epsilon-outside", ALL, "common.h", "1.0f / sqrtf(squares + 1e-6f)", "1.0f / (sqrtf(squares) + 1e-6f)",
        "epsilon is added to the root",
    ),
    _mutant(
        "mean-of-squares", THREADS, "common.h", "norm_factor(squares);", "norm_factor(squares / count);",
        "a mean instead of a sum",
    ),
    _mutant(
        "k-from-q", THREADS, "common.h", "row + (num_k_heads + head) * dk, k", "row + head * dk, k",
        "k is made of q's block",
    ),
    _mutant(
        "squares-of-all-but-one", THREADS, "common.h",
        "float squares = 0.0f;\n  for (int i = 0; i < count; ++i) {",
        "float squares = 0.0f;\n  for (int i = 1; i < count; ++i) {", "the first element's square is left out",
    ),
    # --- serial and chunked ---
    _mutant(
        "serial-one-head-too-many", "serial", "serial.h", "item < num_k_heads", "item <= num_k_heads",
        "the last item is taken for a head, and V and the gates are not made",
    ),
    _mutant(
        "serial-v-one-short", "serial", "serial.h", "i < width;", "i < width - 1;", "V's last element is not copied",
    ),
    _mutant(
        "serial-v-of-the-first-token", "serial", "serial.h", "v[token * width + i]", "v[i]",
        "every token's V goes to the first row",
    ),
    _mutant(
        "chunks-rounded-down", "chunked", "chunked.h", "(width + dk - 1) / dk", "width / dk",
        "the last piece of V is not copied when it is short",
    ),
    _mutant(
        "chunk-past-the-row", "chunked", "chunked.h", "i < min(width, (chunk + 1) * dk)", "i < (chunk + 1) * dk",
        "a short last piece runs past V",
    ),
    _mutant(
        "chunked-no-witness", "chunked", "chunked.h", "store_witness(witness, 0x20);", "", "nothing says which arm ran",
    ),
    _mutant(
        "chunked-gates-of-all-but-one", "chunked", "chunked.h", "head < num_v_heads", "head < num_v_heads - 1",
        "the last head's gates are not made",
    ),
    # --- wave ---
    _mutant(
        "wave-half-a-sum", "wave", "wave.h", "if constexpr (BIT < WAVE)", "if constexpr (BIT < WAVE / 2)",
        "the two halves of a wave have a norm each",
    ),
    _mutant(
        "wave-loads-past-the-head", "wave", "wave.h", "if (at < DK) {\n      part[p].load", "if (at < DK + 64) {\n      part[p].load",
        "lanes without an element add what stands behind the head",
    ),
    _mutant(
        "wave-k-head-as-q", "wave", "wave.h", "piece >= num_k_heads;", "piece > num_k_heads;",
        "k's first head goes past q's last one",
    ),
    _mutant(
        "wave-stretches-rounded-down", "wave", "wave.h", "(width + STRETCH - 1) / STRETCH", "width / STRETCH",
        "the last stretch of V is not copied",
    ),
    _mutant(
        "wave-v-past-the-row", "wave", "wave.h", "if (first < width) {", "if (first < width + VECTOR) {",
        "one lane too many copies V",
    ),
    _mutant(
        "wave-gates-past-the-heads", "wave", "wave.h", "if (head < num_v_heads) {", "if (head <= num_v_heads) {",
        "one lane too many makes gates",
    ),
    _mutant(
        "wave-rows-contiguous", "wave", "wave.h", "conv + token * conv_stride;",
        "conv + token * (2 * num_k_heads * DK + width);", "conv's row stride is not looked at",
    ),
    _mutant(
        "wave-second-bf16-lost", "wave", "wave.h", "(pair & 0xffffu) | (bits << 16)", "(pair & 0xffffu) | bits",
        "the upper element of a pair is put into the lower one",
    ),
)  # fmt: skip
