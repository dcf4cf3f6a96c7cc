"""Exact arithmetic that opcodes are held to: Python's integers and fractions, rounded once."""

import math
from fractions import Fraction

import numpy as np

FORMATS = {np.float16: (11, -24, 65504), np.float32: (24, -149, None), np.float64: (53, -1074, None)}


def rounded(x: Fraction, dtype: type) -> np.floating:
    """x as a float of `dtype`: round to nearest even, subnormals kept, overflow to infinity."""
    bits, lowest, _ = FORMATS[dtype]
    if x == 0:
        return dtype(0)
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    exponent -= abs(x) < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - bits + 1, lowest)
    value = round(x / unit) * unit
    if abs(value) > Fraction(float(np.finfo(dtype).max)):
        return dtype(-math.inf if x < 0 else math.inf)
    if value == 0:
        return dtype(-0.0 if x < 0 else 0.0)
    return dtype(float(value))  # exact: it is a float of this format


def fma(a: np.floating, b: np.floating, c: np.floating) -> np.floating:
    """a * b + c with one rounding."""
    dtype = type(a)
    with np.errstate(all="ignore"):
        if np.isfinite(a) and np.isfinite(b) and np.isinf(c):
            return c
        if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
            return dtype(np.float64(a) * np.float64(b) + np.float64(c))
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if exact == 0:
            return a * b + c if (a == 0 or b == 0) else dtype(0)
        return rounded(exact, dtype)


def before(a: np.floating, b: np.floating) -> bool:
    """a < b, with -0 before +0."""
    return bool(a < b) or (a == b and bool(np.signbit(a)) and not np.signbit(b))


def quiet(x: np.floating) -> np.floating:
    return type(x)(math.nan)


def signals(x: np.floating) -> bool:
    bits, mantissa = {np.float16: ("u2", 10), np.float32: ("u4", 23), np.float64: ("u8", 52)}[type(x)]
    return bool(np.isnan(x)) and not int(x.view(bits)) >> (mantissa - 1) & 1


def minimum_number(a, b):
    if np.isnan(a) or np.isnan(b):
        return b if np.isnan(a) else a
    return a if before(a, b) else b


def maximum_number(a, b):
    if np.isnan(a) or np.isnan(b):
        return b if np.isnan(a) else a
    return a if before(b, a) else b


def minimum(a, b):
    return quiet(a) if np.isnan(a) or np.isnan(b) else a if before(a, b) else b


def maximum(a, b):
    return quiet(a) if np.isnan(a) or np.isnan(b) else a if before(b, a) else b


def minimum_ieee(a, b):
    return quiet(a) if signals(a) or signals(b) else minimum_number(a, b)


def maximum_ieee(a, b):
    return quiet(a) if signals(a) or signals(b) else maximum_number(a, b)


def median(least, most):
    """The middle of three; with a NaN among them the least, by the rule of `least`."""

    def of(a, b, c):
        if any(np.isnan(x) for x in (a, b, c)):
            return least(least(a, b), c)
        low, high = least(a, b), most(a, b)
        return most(low, least(high, c))

    return of


def to_integer(x: np.floating, low: int, high: int, how=math.trunc) -> int:
    """Towards zero (or `how`), saturating; NaN is 0."""
    if np.isnan(x):
        return 0
    if np.isinf(x):
        return low if x < 0 else high
    return min(max(how(Fraction(float(x))), low), high)


def integral(how):
    """Rounding to an integral value that keeps the sign of zero."""

    def of(x):
        if not np.isfinite(x):
            return x
        return type(x)(math.copysign(float(how(Fraction(float(x)))), float(x)))

    return of


def flush(x: np.float32) -> np.float32:
    return np.float32(math.copysign(0.0, x)) if 0 < abs(x) < np.finfo(np.float32).tiny else x


def mantissa(x):
    return x if not np.isfinite(x) else type(x)(math.frexp(float(x))[0])


def exponent(x) -> int:
    return 0 if not np.isfinite(x) or x == 0 else math.frexp(float(x))[1]


def scaled(x, power: int):
    if not np.isfinite(x) or x == 0:
        return x
    return rounded(Fraction(float(x)) * Fraction(2) ** max(-3000, min(3000, power)), type(x))


def toward_zero(x: np.float32) -> int:
    """The bits of x as f16, rounded toward zero; a NaN becomes the quiet one."""
    if np.isnan(x):
        return 0x7E00 | int(np.signbit(x)) << 15
    if not np.isfinite(x):
        return int(np.float16(x).view(np.uint16))
    with np.errstate(over="ignore"):
        near = np.float16(x)
    bits = int(near.view(np.uint16))
    return bits - (abs(float(near)) > abs(float(x)))


def bf16(bits: int) -> np.float32:
    return np.uint32(bits << 16).view(np.float32)


def to_bf16(x: Fraction | np.float32) -> int:
    """Bits of x as bf16, to nearest even."""
    bits = int(np.float32(x).view(np.uint32))
    if np.isnan(np.float32(x)):
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
