"""What vector opcodes compute, said again in Python's integers, fractions and numpy: name -> (result,
sources, function of a lane). Independent of the emulator's tables; names without encoding suffix.

Types as the operands are: u32 i32 u16 i16 u64 i64 (Python integers), f16 f32 f64 (numpy scalars), mask (one
bit), old (the destination's former value, as the type of the result). A result `f32~` may be one unit in the
last place off; `u32+mask`: two results; `b16`: a bf16 by its bits.
"""

import math
import operator
from fractions import Fraction

import numpy as np
from gfx_numbers import (
    bf16,
    exponent,
    flush,
    fma,
    integral,
    mantissa,
    maximum,
    maximum_ieee,
    maximum_number,
    median,
    minimum,
    minimum_ieee,
    minimum_number,
    rounded,
    scaled,
    to_bf16,
    to_integer,
    toward_zero,
)

M32 = 0xFFFFFFFF
LITERAL = 0x3FA6  # of the FMAMK and FMAAK forms, in both halves
LITERAL16 = np.uint16(LITERAL).view(np.float16)
LITERAL32 = np.uint32(LITERAL << 16 | LITERAL).view(np.float32)
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
Expected = tuple[str, tuple[str, ...], object]
EXPECTED: dict[str, Expected] = {}


def say(names: str, result: str, sources: str, function) -> None:
    for name in names.split():
        assert name not in EXPECTED, name
        EXPECTED[name] = (result, tuple(sources.split()), function)


def low24(x: int) -> int:
    return x & 0xFFFFFF


def signed24(x: int) -> int:
    return (x & 0xFFFFFF ^ 0x800000) - 0x800000


def byte(x: int, n: int) -> int:
    return x >> 8 * n & 255


def half(x: int, n: int) -> int:
    return x >> 16 * n & 0xFFFF


def field(x: int, at: int, n: int) -> int:
    return x >> at & (1 << n) - 1


def as_f16(bits: int) -> np.float16:
    return np.uint16(bits).view(np.float16)


def pack(low: int, high: int) -> int:
    return low & 0xFFFF | (high & 0xFFFF) << 16


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


# ---- integers of 32 bits ----
say("V_ADD_NC_U32 V_ADD_NC_I32", "u32", "u32 u32", lambda a, b: a + b)
say("V_SUB_NC_U32 V_SUB_NC_I32", "u32", "u32 u32", lambda a, b: a - b)
say("V_SUBREV_NC_U32", "u32", "u32 u32", lambda a, b: b - a)
say("V_ADD_CO_U32", "u32+mask", "u32 u32", lambda a, b: (a + b, a + b > M32))
say("V_SUB_CO_U32", "u32+mask", "u32 u32", lambda a, b: (a - b, a < b))
say("V_SUBREV_CO_U32", "u32+mask", "u32 u32", lambda a, b: (b - a, b < a))
say("V_ADD_CO_CI_U32", "u32+mask", "u32 u32 mask", lambda a, b, k: (a + b + k, a + b + k > M32))
say("V_SUB_CO_CI_U32", "u32+mask", "u32 u32 mask", lambda a, b, k: (a - b - k, a < b + k))
say("V_SUBREV_CO_CI_U32", "u32+mask", "u32 u32 mask", lambda a, b, k: (b - a - k, b < a + k))
say(
    "V_MAD_CO_U64_U32 V_MAD_U64_U32",
    "u64+mask",
    "u32 u32 u64",
    lambda a, b, c: (a * b + c, a * b + c >> 64 > 0),
)
say(
    "V_MAD_CO_I64_I32 V_MAD_I64_I32",
    "u64+mask",
    "i32 i32 i64",
    lambda a, b, c: (a * b + c, not -(1 << 63) <= a * b + c < 1 << 63),
)
say("V_MUL_LO_U32", "u32", "u32 u32", lambda a, b: a * b)
say("V_MUL_HI_U32", "u32", "u32 u32", lambda a, b: a * b >> 32)
say("V_MUL_HI_I32", "u32", "i32 i32", lambda a, b: a * b >> 32)
say("V_MUL_I32_I24", "u32", "u32 u32", lambda a, b: signed24(a) * signed24(b))
say("V_MUL_HI_I32_I24", "u32", "u32 u32", lambda a, b: signed24(a) * signed24(b) >> 32)
say("V_MUL_U32_U24", "u32", "u32 u32", lambda a, b: low24(a) * low24(b))
say("V_MUL_HI_U32_U24", "u32", "u32 u32", lambda a, b: low24(a) * low24(b) >> 32)
say("V_MAD_I32_I24", "u32", "u32 u32 u32", lambda a, b, c: signed24(a) * signed24(b) + c)
say("V_MAD_U32_U24", "u32", "u32 u32 u32", lambda a, b, c: low24(a) * low24(b) + c)
say("V_MAD_U32_U16", "u32", "u16 u16 u32", lambda a, b, c: a * b + c)
say("V_MAD_I32_I16", "u32", "i16 i16 i32", lambda a, b, c: a * b + c)
say("V_LSHLREV_B32", "u32", "u32 u32", lambda a, b: b << a % 32)
say("V_LSHRREV_B32", "u32", "u32 u32", lambda a, b: b >> a % 32)
say("V_ASHRREV_I32", "u32", "u32 i32", lambda a, b: b >> a % 32)
say("V_LSHLREV_B64", "u64", "u32 u64", lambda a, b: b << a % 64)
say("V_LSHRREV_B64", "u64", "u32 u64", lambda a, b: b >> a % 64)
say("V_ASHRREV_I64", "u64", "u32 i64", lambda a, b: b >> a % 64)
say("V_AND_B32", "u32", "u32 u32", operator.and_)
say("V_OR_B32", "u32", "u32 u32", operator.or_)
say("V_XOR_B32", "u32", "u32 u32", operator.xor)
say("V_XNOR_B32", "u32", "u32 u32", lambda a, b: ~(a ^ b))
say("V_NOT_B32", "u32", "u32", operator.invert)
say("V_MOV_B32", "u32", "u32", lambda a: a)
say("V_BFE_U32", "u32", "u32 u32 u32", lambda a, b, c: field(a, b % 32, c % 32))
say(
    "V_BFE_I32",
    "u32",
    "i32 u32 u32",
    lambda a, b, c: 0 if c % 32 == 0 else (field(a, b % 32, c % 32) ^ 1 << c % 32 - 1) - (1 << c % 32 - 1),
)
say("V_BFI_B32", "u32", "u32 u32 u32", lambda a, b, c: a & b | ~a & c)
say("V_BFM_B32", "u32", "u32 u32", lambda a, b: (1 << a % 32) - 1 << b % 32)
say("V_BCNT_U32_B32", "u32", "u32 u32", lambda a, b: a.bit_count() + b)
say("V_BFREV_B32", "u32", "u32", lambda a: int(f"{a:032b}"[::-1], 2))
say("V_CLZ_I32_U32", "u32", "u32", lambda a: 32 - a.bit_length() if a else M32)
say("V_CTZ_I32_B32", "u32", "u32", lambda a: (a & -a).bit_length() - 1 if a else M32)
say("V_CLS_I32", "u32", "i32", lambda a: M32 if a in (0, -1) else 32 - (a if a > 0 else ~a).bit_length())
say("V_ALIGNBIT_B32", "u32", "u32 u32 u32", lambda a, b, c: (a << 32 | b) >> c % 32)
say("V_ALIGNBYTE_B32", "u32", "u32 u32 u32", lambda a, b, c: (a << 32 | b) >> 8 * (c % 4))
say("V_XOR3_B32", "u32", "u32 u32 u32", lambda a, b, c: a ^ b ^ c)
say("V_OR3_B32", "u32", "u32 u32 u32", lambda a, b, c: a | b | c)
say("V_ADD3_U32", "u32", "u32 u32 u32", lambda a, b, c: a + b + c)
say("V_XAD_U32", "u32", "u32 u32 u32", lambda a, b, c: (a ^ b) + c)
say("V_LSHL_ADD_U32", "u32", "u32 u32 u32", lambda a, b, c: (a << b % 32) + c)
say("V_ADD_LSHL_U32", "u32", "u32 u32 u32", lambda a, b, c: a + b << c % 32)
say("V_LSHL_OR_B32", "u32", "u32 u32 u32", lambda a, b, c: a << b % 32 | c)
say("V_AND_OR_B32", "u32", "u32 u32 u32", lambda a, b, c: a & b | c)
say("V_CNDMASK_B32", "u32", "u32 u32 mask", lambda a, b, k: b if k else a)
say("V_CNDMASK_B16", "u16", "u16 u16 mask", lambda a, b, k: b if k else a)
say(
    "V_LERP_U8",
    "u32",
    "u32 u32 u32",
    lambda a, b, c: sum((byte(a, n) + byte(b, n) + (byte(c, n) & 1) >> 1) << 8 * n for n in range(4)),
)
say("V_SAD_U8", "u32", "u32 u32 u32", lambda a, b, c: sum(abs(byte(a, n) - byte(b, n)) for n in range(4)) + c)
say(
    "V_SAD_HI_U8",
    "u32",
    "u32 u32 u32",
    lambda a, b, c: (sum(abs(byte(a, n) - byte(b, n)) for n in range(4)) << 16) + c,
)
say(
    "V_SAD_U16", "u32", "u32 u32 u32", lambda a, b, c: sum(abs(half(a, n) - half(b, n)) for n in range(2)) + c
)
say("V_SAD_U32", "u32", "u32 u32 u32", lambda a, b, c: abs(a - b) + c)
say(
    "V_MSAD_U8",
    "u32",
    "u32 u32 u32",
    lambda a, b, c: sum(abs(byte(a, n) - byte(b, n)) for n in range(4) if byte(b, n)) + c,
)


def _permuted(a: int, b: int, selectors: int) -> int:
    data = (a << 32 | b).to_bytes(8, "little")

    def chosen(s: int) -> int:
        if s < 8:
            return data[s]
        return 255 if s > 12 or (s < 12 and data[2 * (s - 8) + 1] & 128) else 0

    return sum(chosen(byte(selectors, n)) << 8 * n for n in range(4))


say("V_PERM_B32", "u32", "u32 u32 u32", _permuted)
for kind in ("I32", "U32", "I16", "U16"):
    t, r = kind.lower(), f"u{kind[1:]}"
    say(f"V_MIN_{kind}", r, f"{t} {t}", min)
    say(f"V_MAX_{kind}", r, f"{t} {t}", max)
    say(f"V_MIN3_{kind}", r, f"{t} {t} {t}", min)
    say(f"V_MAX3_{kind}", r, f"{t} {t} {t}", max)
    say(f"V_MED3_{kind}", r, f"{t} {t} {t}", lambda a, b, c: sorted((a, b, c))[1])
    if kind.endswith("32"):
        say(f"V_MAXMIN_{kind}", r, f"{t} {t} {t}", lambda a, b, c: min(max(a, b), c))
        say(f"V_MINMAX_{kind}", r, f"{t} {t} {t}", lambda a, b, c: max(min(a, b), c))

say("V_FMAMK_F32", "f32", "f32 f32", lambda a, b: fma(a, LITERAL32, b))
say("V_FMAAK_F32", "f32", "f32 f32", lambda a, b: fma(a, b, LITERAL32))
say("V_FMAMK_F16", "f16", "f16 f16", lambda a, b: fma(a, LITERAL16, b))
say("V_FMAAK_F16", "f16", "f16 f16", lambda a, b: fma(a, b, LITERAL16))


def _face(x, y, z):
    """The cube's face a direction meets: the axis of largest magnitude, z before y before x, and its sign."""
    if any(np.isnan(v) for v in (x, y, z)):
        return None
    axis = max((abs(float(z)), 2), (abs(float(y)), 1), (abs(float(x)), 0))[1]
    return np.float32(2 * axis + ((x, y, z)[axis] < 0))


say("V_CUBEID_F32", "f32", "f32 f32 f32", _face)

# ---- integers of 16 bits ----
say("V_ADD_NC_U16 V_ADD_NC_I16", "u16", "u16 u16", lambda a, b: a + b)
say("V_SUB_NC_U16 V_SUB_NC_I16", "u16", "u16 u16", lambda a, b: a - b)
say("V_MUL_LO_U16", "u16", "u16 u16", lambda a, b: a * b)
say("V_MAD_U16 V_MAD_I16", "u16", "u16 u16 u16", lambda a, b, c: a * b + c)
say("V_LSHLREV_B16", "u16", "u16 u16", lambda a, b: b << a % 16)
say("V_LSHRREV_B16", "u16", "u16 u16", lambda a, b: b >> a % 16)
say("V_ASHRREV_I16", "u16", "u16 i16", lambda a, b: b >> a % 16)
say("V_AND_B16", "u16", "u16 u16", operator.and_)
say("V_OR_B16", "u16", "u16 u16", operator.or_)
say("V_XOR_B16", "u16", "u16 u16", operator.xor)
say("V_NOT_B16", "u16", "u16", operator.invert)
say("V_MOV_B16", "u16", "u16", lambda a: a)
say("V_CVT_I32_I16", "u32", "i16", lambda a: a)
say("V_CVT_U32_U16", "u32", "u16", lambda a: a)
say("V_PACK_B32_F16", "u32", "u16 u16", pack)
say("V_CVT_PK_U16_U32", "u32", "u32 u32", lambda a, b: pack(min(a, 65535), min(b, 65535)))
say("V_CVT_PK_I16_I32", "u32", "i32 i32", lambda a, b: pack(clamp(a, -32768, 32767), clamp(b, -32768, 32767)))
say(
    "V_SAT_PK_U8_I16",
    "u16",
    "u32",
    lambda a: sum(clamp((half(a, n) ^ 0x8000) - 0x8000, 0, 255) << 8 * n for n in range(2)),
)

# ---- floats ----
for f, dtype in FLOATS.items():
    bits = f[1:]
    say(f"V_ADD_F{bits}", f, f"{f} {f}", operator.add)
    say(f"V_MUL_F{bits}", f, f"{f} {f}", operator.mul)
    say(f"V_FMA_F{bits}", f, f"{f} {f} {f}", fma)
    for name, least, most in (("_NUM", minimum_number, maximum_number), ("", minimum_number, maximum_number)):
        say(f"V_MIN{name}_F{bits}", f, f"{f} {f}", least)
        say(f"V_MAX{name}_F{bits}", f, f"{f} {f}", most)
        if f == "f64":
            continue
        three = f"{f} {f} {f}"
        say(f"V_MIN3{name}_F{bits}", f, three, lambda a, b, c, m=least: m(m(a, b), c))
        say(f"V_MAX3{name}_F{bits}", f, three, lambda a, b, c, m=most: m(m(a, b), c))
        say(f"V_MED3{name}_F{bits}", f, three, median(least, most))
        say(f"V_MINMAX{name}_F{bits}", f, three, lambda a, b, c, lo=least, hi=most: hi(lo(a, b), c))
        say(f"V_MAXMIN{name}_F{bits}", f, three, lambda a, b, c, lo=least, hi=most: lo(hi(a, b), c))
    say(f"V_MINIMUM_F{bits}", f, f"{f} {f}", minimum)
    say(f"V_MAXIMUM_F{bits}", f, f"{f} {f}", maximum)
    say(f"V_TRUNC_F{bits}", f, f, integral(math.trunc))
    say(f"V_CEIL_F{bits}", f, f, integral(math.ceil))
    say(f"V_FLOOR_F{bits}", f, f, integral(math.floor))
    say(f"V_RNDNE_F{bits}", f, f, integral(round))
    say(
        f"V_FRACT_F{bits}",
        f,
        f,
        lambda a, t=dtype: (
            rounded(Fraction(float(a)) - math.floor(Fraction(float(a))), t) if np.isfinite(a) else t("nan")
        ),
    )
    say(f"V_FREXP_MANT_F{bits}", f, f, mantissa)
    say(f"V_LDEXP_F{bits}", f, f"{f} {'i16' if f == 'f16' else 'i32'}", scaled)
    if f == "f64":
        continue
    say(f"V_SUB_F{bits}", f, f"{f} {f}", operator.sub)
    say(f"V_SUBREV_F{bits}", f, f"{f} {f}", lambda a, b: b - a)
    say(f"V_FMAC_F{bits}", f, f"{f} {f} old", fma)
    say(f"V_MINIMUM3_F{bits}", f, f"{f} {f} {f}", lambda a, b, c: minimum(minimum(a, b), c))
    say(f"V_MAXIMUM3_F{bits}", f, f"{f} {f} {f}", lambda a, b, c: maximum(maximum(a, b), c))
    say(f"V_MINIMUMMAXIMUM_F{bits}", f, f"{f} {f} {f}", lambda a, b, c: maximum(minimum(a, b), c))
    say(f"V_MAXIMUMMINIMUM_F{bits}", f, f"{f} {f} {f}", lambda a, b, c: minimum(maximum(a, b), c))
say("V_FREXP_EXP_I16_F16", "u16", "f16", exponent)
say("V_FREXP_EXP_I32_F32", "u32", "f32", exponent)
say("V_FREXP_EXP_I32_F64", "u32", "f64", exponent)
say("V_MUL_DX9_ZERO_F32", "f32", "f32 f32", lambda a, b: np.float32(0) if a == 0 or b == 0 else a * b)
say("V_FMA_DX9_ZERO_F32", "f32", "f32 f32 f32", lambda a, b, c: c if a == 0 or b == 0 else fma(a, b, c))
say("V_FMAC_DX9_ZERO_F32", "f32", "f32 f32 old", lambda a, b, c: c if a == 0 or b == 0 else fma(a, b, c))

# minima and maxima of RDNA3 in IEEE mode
IEEE: dict[str, Expected] = {
    name: (result, sources, function)
    for f in FLOATS
    for name, (result, sources, function) in {
        f"V_MIN_F{f[1:]}": (f, (f, f), minimum_ieee),
        f"V_MAX_F{f[1:]}": (f, (f, f), maximum_ieee),
        f"V_MIN3_F{f[1:]}": (f, (f, f, f), lambda a, b, c: minimum_ieee(minimum_ieee(a, b), c)),
        f"V_MAX3_F{f[1:]}": (f, (f, f, f), lambda a, b, c: maximum_ieee(maximum_ieee(a, b), c)),
        f"V_MED3_F{f[1:]}": (f, (f, f, f), median(minimum_ieee, maximum_number)),
        f"V_MINMAX_F{f[1:]}": (f, (f, f, f), lambda a, b, c: maximum_ieee(minimum_ieee(a, b), c)),
        f"V_MAXMIN_F{f[1:]}": (f, (f, f, f), lambda a, b, c: minimum_ieee(maximum_ieee(a, b), c)),
    }.items()
    if name in EXPECTED
}

# ---- conversions ----
RANGES = {"I32": (-(1 << 31), (1 << 31) - 1), "U32": (0, M32), "I16": (-32768, 32767), "U16": (0, 65535)}
for kind in ("I32", "U32"):
    for f, dtype in (("f32", np.float32), ("f64", np.float64)):
        say(f"V_CVT_{kind}_F{f[1:]}", "u32", f, lambda a, r=RANGES[kind]: to_integer(a, *r))
        say(f"V_CVT_F{f[1:]}_{kind}", f, kind.lower(), lambda a, t=dtype: rounded(Fraction(a), t))
for kind in ("I16", "U16"):
    say(f"V_CVT_{kind}_F16", "u16", "f16", lambda a, r=RANGES[kind]: to_integer(a, *r))
    say(f"V_CVT_F16_{kind}", "f16", kind.lower(), lambda a: rounded(Fraction(a), np.float16))
    say(
        f"V_CVT_PK_{kind}_F32",
        "u32",
        "f32 f32",
        lambda a, b, r=RANGES[kind]: pack(to_integer(a, *r), to_integer(b, *r)),
    )
say(
    "V_CVT_NEAREST_I32_F32",
    "u32",
    "f32",
    lambda a: to_integer(np.float32(a + np.float32(0.5)), *RANGES["I32"], how=math.floor),
)
say("V_CVT_FLOOR_I32_F32", "u32", "f32", lambda a: to_integer(a, *RANGES["I32"], how=math.floor))
say("V_CVT_OFF_F32_I4", "f32", "u32", lambda a: np.float32(((a & 15 ^ 8) - 8) / 16))
say("V_CVT_F16_F32", "f16", "f32", np.float16)
say("V_CVT_F32_F16", "f32", "f16", np.float32)
say("V_CVT_F32_F64", "f32", "f64", np.float32)
say("V_CVT_F64_F32", "f64", "f32", np.float64)
for n in range(4):
    say(f"V_CVT_F32_UBYTE{n}", "f32", "u32", lambda a, n=n: np.float32(byte(a, n)))
say("V_CVT_PK_RTZ_F16_F32", "u32", "f32 f32", lambda a, b: pack(toward_zero(a), toward_zero(b)))


def normed(x, low: int, high: int) -> int:
    return 0 if np.isnan(x) else round(Fraction(min(max(float(x), low), 1.0)) * high)


for f in ("f16", "f32"):
    say(
        f"V_CVT_PK_NORM_I16_F{f[1:]}",
        "u32",
        f"{f} {f}",
        lambda a, b: pack(normed(a, -1, 32767), normed(b, -1, 32767)),
    )
    say(
        f"V_CVT_PK_NORM_U16_F{f[1:]}",
        "u32",
        f"{f} {f}",
        lambda a, b: pack(normed(a, 0, 65535), normed(b, 0, 65535)),
    )
say("V_CVT_NORM_I16_F16", "u16", "f16", lambda a: normed(a, -1, 32767))
say("V_CVT_NORM_U16_F16", "u16", "f16", lambda a: normed(a, 0, 65535))
say(
    "V_CVT_PK_U8_F32",
    "u32",
    "f32 u32 u32",
    lambda a, b, c: c & ~(255 << 8 * (b % 4)) | to_integer(a, 0, 255) << 8 * (b % 4),
)

# ---- the transcendental unit: f32 flushes subnormals in and out ----
TAU = 2 * math.pi


def _turn(function):
    return lambda x: function(TAU * (x - round(x))) if math.isfinite(x) else math.nan


def _log2(x: float) -> float:
    return (
        math.nan
        if math.isnan(x) or x < 0
        else -math.inf
        if x == 0
        else math.inf
        if x == math.inf
        else math.log2(x)
    )


def _exp2(x: float) -> float:
    return x if math.isnan(x) else math.inf if x > 1100 else 0.0 if x < -1100 else 2.0**x


def _inverse(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def _root(x: float) -> float:
    return x if x == 0 or math.isnan(x) else math.nan if x < 0 else math.sqrt(x)


UNIT = {
    "EXP": _exp2,
    "LOG": _log2,
    "RCP": _inverse,
    "SQRT": _root,
    "SIN": _turn(math.sin),
    "COS": _turn(math.cos),
    "RSQ": lambda x: _inverse(_root(x)),
}
for name, of in UNIT.items():
    for prefix in ("V", "V_S") if name not in ("SIN", "COS") else ("V",):
        keep = name in ("SQRT", "RSQ")
        say(f"{prefix}_{name}_F32", "f32~", "f32", lambda a, of=of: flush(np.float32(of(float(flush(a))))))
        say(f"{prefix}_{name}_F16", "f16~", "f16", lambda a, of=of: np.float16(of(float(a))))
say("V_RCP_IFLAG_F32", "f32~", "f32", lambda a: flush(np.float32(_inverse(float(flush(a))))))
say("V_RCP_F64", "f64~", "f64", lambda a: np.float64(_inverse(float(a))))
say("V_SQRT_F64", "f64~", "f64", lambda a: np.float64(_root(float(a))))
say("V_RSQ_F64", "f64~", "f64", lambda a: np.float64(_inverse(_root(float(a)))))


# ---- dot products of halves: exact products, f32 sums from the low half up ----
def _dot2(convert, first, last):
    def of(a, b, c):
        inner = fma(convert(half(a, 0)), convert(half(b, 0)), first(c))
        return last(fma(convert(half(a, 1)), convert(half(b, 1)), inner))

    return of


def _f32_of_f16(bits: int) -> np.float32:
    return np.float32(as_f16(bits))


say("V_DOT2ACC_F32_F16", "f32", "u32 u32 old", _dot2(_f32_of_f16, lambda c: c, lambda x: x))
say("V_DOT2ACC_F32_BF16", "f32", "u32 u32 old", _dot2(bf16, lambda c: c, lambda x: x))
say("V_DOT2_F32_F16", "f32", "u32 u32 f32", _dot2(_f32_of_f16, lambda c: c, lambda x: x))
say("V_DOT2_F32_BF16", "f32", "u32 u32 f32", _dot2(bf16, lambda c: c, lambda x: x))
say("V_DOT2_BF16_BF16", "b16", "u32 u32 u16", _dot2(bf16, bf16, to_bf16))


def _dot2_f16(a, b, c):
    x, y = ([as_f16(half(v, n)) for n in (0, 1)] for v in (a, b))
    if not all(np.isfinite(v) for v in (*x, *y, c)):
        return np.float16(
            np.float64(x[0]) * np.float64(y[0]) + np.float64(x[1]) * np.float64(y[1]) + np.float64(c)
        )
    exact = sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(x, y, strict=True)) + Fraction(
        float(c)
    )
    return rounded(exact, np.float16)


say("V_DOT2_F16_F16", "f16", "u32 u32 f16", _dot2_f16)


def _dot(bits: int):
    """Of unsigned bytes or nibbles: the neg bits that would make them signed are clear here."""
    mask, count = (1 << bits) - 1, 32 // bits
    return lambda a, b, c: sum((a >> bits * n & mask) * (b >> bits * n & mask) for n in range(count)) + c


say("V_DOT4_I32_IU8 V_DOT4_U32_U8", "u32", "u32 u32 u32", _dot(8))
say("V_DOT8_I32_IU4 V_DOT8_U32_U4", "u32", "u32 u32 u32", _dot(4))


def _mix(a, b, c):  # all three chosen as the low halves
    return fma(*(_f32_of_f16(half(x, 0)) for x in (a, b, c)))


say("V_FMA_MIX_F32", "f32", "u32 u32 u32", _mix)
say("V_FMA_MIXLO_F16", "f16", "u32 u32 u32", lambda a, b, c: np.float16(_mix(a, b, c)))
say("V_FMA_MIXHI_F16", "f16hi", "u32 u32 u32", lambda a, b, c: np.float16(_mix(a, b, c)))


# ---- packed: the 16-bit operation on both halves ----
PACKED = {
    "V_PK_MAD_I16": "V_MAD_I16",
    "V_PK_MAD_U16": "V_MAD_U16",
    "V_PK_MUL_LO_U16": "V_MUL_LO_U16",
    "V_PK_ADD_I16": "V_ADD_NC_I16",
    "V_PK_SUB_I16": "V_SUB_NC_I16",
    "V_PK_ADD_U16": "V_ADD_NC_U16",
    "V_PK_SUB_U16": "V_SUB_NC_U16",
    "V_PK_LSHLREV_B16": "V_LSHLREV_B16",
    "V_PK_LSHRREV_B16": "V_LSHRREV_B16",
    "V_PK_ASHRREV_I16": "V_ASHRREV_I16",
    "V_PK_MAX_I16": "V_MAX_I16",
    "V_PK_MIN_I16": "V_MIN_I16",
    "V_PK_MAX_U16": "V_MAX_U16",
    "V_PK_MIN_U16": "V_MIN_U16",
    "V_PK_FMA_F16": "V_FMA_F16",
    "V_PK_ADD_F16": "V_ADD_F16",
    "V_PK_MUL_F16": "V_MUL_F16",
    "V_PK_MIN_NUM_F16": "V_MIN_NUM_F16",
    "V_PK_MAX_NUM_F16": "V_MAX_NUM_F16",
    "V_PK_MIN_F16": "V_MIN_F16",
    "V_PK_MAX_F16": "V_MAX_F16",
    "V_PK_MINIMUM_F16": "V_MINIMUM_F16",
    "V_PK_MAXIMUM_F16": "V_MAXIMUM_F16",
    "V_PK_FMAC_F16": "V_FMAC_F16",
}

# ---- comparisons ----
ORDERED = {
    "LT": operator.lt,
    "EQ": operator.eq,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "LG": lambda a, b: a < b or a > b,
    "O": lambda a, b: a == a and b == b,
    "F": lambda a, b: False,
}
NEGATED = {"U": "O", "NGE": "GE", "NLG": "LG", "NGT": "GT", "NLE": "LE", "NEQ": "EQ", "NLT": "LT", "T": "F"}
COMPARISONS = ORDERED | {n: (lambda a, b, o=ORDERED[of]: not o(a, b)) for n, of in NEGATED.items()}


def _class(x, wanted: int) -> bool:
    if np.isnan(x):
        bits = int(x.view({2: "u2", 4: "u4", 8: "u8"}[x.nbytes]))
        kind = bits >> {2: 9, 4: 22, 8: 51}[x.nbytes] & 1
    elif np.isinf(x):
        kind = 9 if x > 0 else 2
    elif x == 0:
        kind = 5 if np.signbit(x) else 6
    elif abs(x) < np.finfo(type(x)).tiny:
        kind = 7 if x > 0 else 4
    else:
        kind = 8 if x > 0 else 3
    return bool(wanted >> kind & 1)


for kind in ("I16", "U16", "I32", "U32", "I64", "U64", "F16", "F32", "F64"):
    t = kind.lower()
    floats = kind[0] == "F"
    names = COMPARISONS if floats else {"LT": 0, "EQ": 0, "LE": 0, "GT": 0, "NE": 0, "GE": 0, "F": 0, "T": 0}
    for name in names:
        if name in ("F", "T") and kind in ("I16", "U16"):
            continue
        for prefix in ("V_CMP", "V_CMPX"):
            say(f"{prefix}_{name}_{kind}", "mask", f"{t} {t}", COMPARISONS[name if name != "NE" else "NEQ"])
    if floats:
        say(f"V_CMP_CLASS_{kind} V_CMPX_CLASS_{kind}", "mask", f"{t} u32", _class)
