"""What scalar opcodes compute, in Python's integers and exact floats: name -> (result, sources, function).

The function takes SCC and the sources (for `old` the destination's former value) and returns (result, SCC);
SCC None: unchanged. Types as in gfx_expected_vector; s16: the immediate, signed.
"""

import operator
from fractions import Fraction

import numpy as np
from gfx_expected_vector import COMPARISONS, RANGES, as_f16, field, half, pack
from gfx_numbers import (
    fma,
    integral,
    maximum,
    maximum_number,
    minimum,
    minimum_number,
    rounded,
    to_integer,
    toward_zero,
)

M32 = 0xFFFFFFFF
SCALAR: dict[str, tuple[str, tuple[str, ...], object]] = {}


def say(names: str, result: str, sources: str, function) -> None:
    for name in names.split():
        assert name not in SCALAR, name
        SCALAR[name] = (result, tuple(sources.split()), function)


def plain(function):
    """A result that leaves SCC alone."""
    return lambda scc, *sources: (function(*sources), None)


def zero_tested(function, bits: int = 32):
    """A result that sets SCC when it is not zero."""

    def of(scc, *sources):
        value = function(*sources) & (1 << bits) - 1
        return value, value != 0

    return of


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (x >> bits - 1 << bits)


def overflows(exact: int) -> bool:
    return not -(1 << 31) <= exact < 1 << 31


# ---- moves and bits ----
for bits in (32, 64):
    u = f"u{bits}"
    mask = (1 << bits) - 1
    say(f"S_MOV_B{bits}", u, u, plain(lambda a: a))
    say(f"S_CMOV_B{bits}", u, f"{u} old", lambda scc, a, old: (a if scc else old, None))
    say(f"S_CSELECT_B{bits}", u, f"{u} {u}", lambda scc, a, b: (a if scc else b, None))
    say(f"S_NOT_B{bits}", u, u, zero_tested(operator.invert, bits))
    say(f"S_BREV_B{bits}", u, u, plain(lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2)))
    say(f"S_CTZ_I32_B{bits}", "u32", u, plain(lambda a: (a & -a).bit_length() - 1 if a else M32))
    say(f"S_CLZ_I32_U{bits}", "u32", u, plain(lambda a, n=bits: n - a.bit_length() if a else M32))
    say(
        f"S_CLS_I32{'_I64' if bits == 64 else ''}",
        "u32",
        f"i{bits}",
        plain(lambda a, n=bits: M32 if a in (0, -1) else n - (a if a > 0 else ~a).bit_length()),
    )
    say(f"S_BCNT0_I32_B{bits}", "u32", u, zero_tested(lambda a, n=bits: n - a.bit_count()))
    say(f"S_BCNT1_I32_B{bits}", "u32", u, zero_tested(lambda a: a.bit_count()))
    say(f"S_BITSET0_B{bits}", u, "u32 old", plain(lambda a, old, n=bits: old & ~(1 << a % n)))
    say(f"S_BITSET1_B{bits}", u, "u32 old", plain(lambda a, old, n=bits: old | 1 << a % n))
    say(
        f"S_QUADMASK_B{bits}",
        u,
        u,
        zero_tested(lambda a, n=bits: sum((a >> 4 * i & 15 != 0) << i for i in range(n // 4)), bits),
    )
    say(
        f"S_WQM_B{bits}",
        u,
        u,
        zero_tested(lambda a, n=bits: sum((a >> 4 * i & 15 != 0) * 15 << 4 * i for i in range(n // 4)), bits),
    )
    for name, of in (
        ("AND", operator.and_),
        ("OR", operator.or_),
        ("XOR", operator.xor),
        ("NAND", lambda a, b: ~(a & b)),
        ("NOR", lambda a, b: ~(a | b)),
        ("XNOR", lambda a, b: ~(a ^ b)),
        ("AND_NOT1", lambda a, b: a & ~b),
        ("OR_NOT1", lambda a, b: a | ~b),
    ):
        say(f"S_{name}_B{bits}", u, f"{u} {u}", zero_tested(of, bits))
    say(f"S_LSHL_B{bits}", u, f"{u} u32", zero_tested(lambda a, b, n=bits: a << b % n, bits))
    say(f"S_LSHR_B{bits}", u, f"{u} u32", zero_tested(lambda a, b, n=bits: a >> b % n, bits))
    say(f"S_ASHR_I{bits}", u, f"i{bits} u32", zero_tested(lambda a, b, n=bits: a >> b % n, bits))
    say(
        f"S_BFE_U{bits}",
        u,
        f"{u} u32",
        zero_tested(lambda a, b, n=bits: field(a, b % n, b >> 16 & 127), bits),
    )
    say(
        f"S_BFE_I{bits}",
        u,
        f"i{bits} u32",
        zero_tested(
            lambda a, b, n=bits: signed(field(a, b % n, w), w) if (w := min(b >> 16 & 127, n)) else 0, bits
        ),
    )
    say(f"S_BFM_B{bits}", u, "u32 u32", plain(lambda a, b, n=bits: (1 << a % n) - 1 << b % n))
    say(f"S_BITCMP0_B{bits}", "", f"{u} u32", lambda scc, a, b, n=bits: (None, not a >> b % n & 1))
    say(f"S_BITCMP1_B{bits}", "", f"{u} u32", lambda scc, a, b, n=bits: (None, a >> b % n & 1))
say("S_SEXT_I32_I8", "u32", "u32", plain(lambda a: signed(a, 8)))
say("S_SEXT_I32_I16", "u32", "u32", plain(lambda a: signed(a, 16)))
say("S_BITREPLICATE_B64_B32", "u64", "u32", plain(lambda a: sum(3 << 2 * n for n in range(32) if a >> n & 1)))
say("S_ABS_I32", "u32", "i32", zero_tested(abs))
for first, a_half in (("L", 0), ("H", 1)):
    for second, b_half in (("L", 0), ("H", 1)):
        say(
            f"S_PACK_{first}{second}_B32_B16",
            "u32",
            "u32 u32",
            plain(lambda a, b, m=a_half, n=b_half: pack(half(a, m), half(b, n))),
        )

# ---- integers ----
say("S_ADD_CO_U32 S_ADD_U32", "u32", "u32 u32", lambda scc, a, b: (a + b, a + b > M32))
say("S_SUB_CO_U32 S_SUB_U32", "u32", "u32 u32", lambda scc, a, b: (a - b, a < b))
say("S_ADD_CO_I32 S_ADD_I32", "u32", "i32 i32", lambda scc, a, b: (a + b, overflows(a + b)))
say("S_SUB_CO_I32 S_SUB_I32", "u32", "i32 i32", lambda scc, a, b: (a - b, overflows(a - b)))
say("S_ADD_CO_CI_U32 S_ADDC_U32", "u32", "u32 u32", lambda scc, a, b: (a + b + scc, a + b + scc > M32))
say("S_SUB_CO_CI_U32 S_SUBB_U32", "u32", "u32 u32", lambda scc, a, b: (a - b - scc, a < b + scc))
say("S_ABSDIFF_I32", "u32", "u32 u32", zero_tested(lambda a, b: abs(signed(a - b))))
for n in (1, 2, 3, 4):
    say(f"S_LSHL{n}_ADD_U32", "u32", "u32 u32", lambda scc, a, b, n=n: ((a << n) + b, (a << n) + b > M32))
for kind in ("I32", "U32"):
    t = f"{kind.lower()} {kind.lower()}"
    say(f"S_MIN_{kind}", "u32", t, lambda scc, a, b: (min(a, b), a < b))
    say(f"S_MAX_{kind}", "u32", t, lambda scc, a, b: (max(a, b), a >= b))
say("S_MUL_I32", "u32", "u32 u32", plain(operator.mul))
say("S_MUL_HI_U32", "u32", "u32 u32", plain(lambda a, b: a * b >> 32))
say("S_MUL_HI_I32", "u32", "i32 i32", plain(lambda a, b: a * b >> 32))
say("S_MUL_U64", "u64", "u64 u64", plain(operator.mul))
say("S_ADD_NC_U64", "u64", "u64 u64", plain(operator.add))
say("S_SUB_NC_U64", "u64", "u64 u64", plain(operator.sub))
say("S_MOVK_I32", "u32", "s16", plain(lambda a: a))
say("S_VERSION", "", "s16", lambda scc, a: (None, None))
say("S_CMOVK_I32", "u32", "s16 old", lambda scc, a, old: (a if scc else old, None))
say(
    "S_ADDK_CO_I32 S_ADDK_I32",
    "u32",
    "s16 old",
    lambda scc, a, old: (a + signed(old), overflows(a + signed(old))),
)
say("S_MULK_I32", "u32", "s16 old", plain(lambda a, old: a * old))

# ---- floats ----
for f in ("f32", "f16"):
    bits = f[1:]
    say(f"S_ADD_F{bits}", f, f"{f} {f}", plain(operator.add))
    say(f"S_SUB_F{bits}", f, f"{f} {f}", plain(operator.sub))
    say(f"S_MUL_F{bits}", f, f"{f} {f}", plain(operator.mul))
    say(f"S_MIN_NUM_F{bits} S_MIN_F{bits}", f, f"{f} {f}", plain(minimum_number))
    say(f"S_MAX_NUM_F{bits} S_MAX_F{bits}", f, f"{f} {f}", plain(maximum_number))
    say(f"S_MINIMUM_F{bits}", f, f"{f} {f}", plain(minimum))
    say(f"S_MAXIMUM_F{bits}", f, f"{f} {f}", plain(maximum))
    say(f"S_FMAC_F{bits}", f, f"{f} {f} old", plain(fma))
    for name, exact in {
        "CEIL": lambda x: -(-x // 1),
        "FLOOR": lambda x: x // 1,
        "TRUNC": int,
        "RNDNE": round,
    }.items():
        say(f"S_{name}_F{bits}", f, f, plain(integral(exact)))
say("S_FMAAK_F32", "f32", "f32 f32 literal", plain(fma))
say("S_FMAMK_F32", "f32", "f32 f32 literal", plain(lambda a, b, k: fma(a, k, b)))
say("S_CVT_F32_I32", "f32", "i32", plain(lambda a: rounded(Fraction(a), np.float32)))
say("S_CVT_F32_U32", "f32", "u32", plain(lambda a: rounded(Fraction(a), np.float32)))
say("S_CVT_I32_F32", "u32", "f32", plain(lambda a: to_integer(a, *RANGES["I32"])))
say("S_CVT_U32_F32", "u32", "f32", plain(lambda a: to_integer(a, *RANGES["U32"])))
say("S_CVT_F16_F32", "f16", "f32", plain(np.float16))
say("S_CVT_F32_F16", "f32", "f16", plain(np.float32))
say("S_CVT_HI_F32_F16", "f32", "u32", plain(lambda a: np.float32(as_f16(half(a, 1)))))
say("S_CVT_PK_RTZ_F16_F32", "u32", "f32 f32", plain(lambda a, b: pack(toward_zero(a), toward_zero(b))))

# ---- comparisons ----
for kinds, names in (
    (("I32", "U32"), ("EQ", "LG", "GT", "GE", "LT", "LE")),
    (("U64",), ("EQ", "LG")),
    (("F32", "F16"), [n for n in COMPARISONS if n not in ("F", "T")]),
):
    for kind in kinds:
        for name in names:
            t = kind.lower()
            say(
                f"S_CMP_{name}_{kind}",
                "",
                f"{t} {t}",
                lambda scc, a, b, of=COMPARISONS[name]: (None, of(a, b)),
            )
            if kind in ("I32", "U32"):
                immediate = "s16" if kind == "I32" else "u16"
                say(
                    f"S_CMPK_{name}_{kind}",
                    "",
                    f"{t} {immediate}",
                    lambda scc, a, b, of=COMPARISONS[name]: (None, of(a, b)),
                )

# ---- EXEC, then the result is what EXEC was: name -> new EXEC of (source, EXEC) ----
SAVEEXEC = {
    "S_AND_SAVEEXEC_B32": lambda a, e: a & e,
    "S_OR_SAVEEXEC_B32": lambda a, e: a | e,
    "S_XOR_SAVEEXEC_B32": lambda a, e: a ^ e,
    "S_NAND_SAVEEXEC_B32": lambda a, e: ~(a & e),
    "S_NOR_SAVEEXEC_B32": lambda a, e: ~(a | e),
    "S_XNOR_SAVEEXEC_B32": lambda a, e: ~(a ^ e),
    "S_AND_NOT0_SAVEEXEC_B32": lambda a, e: ~a & e,
    "S_OR_NOT0_SAVEEXEC_B32": lambda a, e: ~a | e,
    "S_AND_NOT1_SAVEEXEC_B32": lambda a, e: a & ~e,
    "S_OR_NOT1_SAVEEXEC_B32": lambda a, e: a | ~e,
    "S_AND_NOT0_WREXEC_B32": lambda a, e: ~a & e,
    "S_AND_NOT1_WREXEC_B32": lambda a, e: a & ~e,
}
