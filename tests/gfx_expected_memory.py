"""What memory opcodes do to bytes, in Python: sizes and extensions of loads, what stores keep, atomics."""

from fractions import Fraction

import numpy as np
from gfx_expected_vector import half, pack
from gfx_numbers import bf16, maximum_number, minimum_number, to_bf16

# ending of the name: (bytes, extension: z zero, s sign, w whole words, low or high half of the register)
LOADS = {
    "U8": (1, "z"), "I8": (1, "s"), "U16": (2, "z"), "I16": (2, "s"), "B32": (4, "w"), "B64": (8, "w"),
    "B96": (12, "w"), "B128": (16, "w"), "B256": (32, "w"), "B512": (64, "w"),
    "D16_U8": (1, "low z"), "D16_I8": (1, "low s"), "D16_B16": (2, "low z"), "D16_HI_U8": (1, "high z"),
    "D16_HI_I8": (1, "high s"), "D16_HI_B16": (2, "high z"),
    "U8_D16": (1, "low z"), "I8_D16": (1, "low s"), "U16_D16": (2, "low z"), "U8_D16_HI": (1, "high z"),
    "I8_D16_HI": (1, "high s"), "U16_D16_HI": (2, "high z"),
}  # fmt: skip
STORES = {  # ending: (bytes, first byte of the register)
    "B8": (1, 0), "B16": (2, 0), "B32": (4, 0), "B64": (8, 0), "B96": (12, 0), "B128": (16, 0),
    "D16_HI_B8": (1, 2), "D16_HI_B16": (2, 2), "B8_D16_HI": (1, 2), "B16_D16_HI": (2, 2),
}  # fmt: skip


def loaded(memory: bytes, how: str, old: int) -> list[int]:
    """Registers after a load of `memory` into one that held `old`."""
    if how == "w":
        return [int.from_bytes(memory[n : n + 4], "little") for n in range(0, len(memory), 4)]
    value = int.from_bytes(memory, "little", signed=how.endswith("s"))
    if how.startswith("low"):
        return [old & 0xFFFF0000 | value & 0xFFFF]
    if how.startswith("high"):
        return [old & 0xFFFF | (value & 0xFFFF) << 16]
    return [value & 0xFFFFFFFF]


def as_float(bits: int, size: int) -> np.floating:
    return np.array(bits, f"u{size}").view(f"f{size}")[()]


def bits_of(x: np.floating) -> int:
    return int(x.view(f"u{x.nbytes}"))


def signed(x: int, size: int) -> int:
    return x - (x >> 8 * size - 1 << 8 * size)


def _floats(choose):
    return lambda old, x, y, size: bits_of(choose(as_float(old, size), as_float(x, size)))


def _packed(add):
    return lambda old, x, y, size: pack(*(add(half(old, n), half(x, n)) for n in (0, 1)))


def _f16_sum(a: int, b: int) -> int:
    return bits_of(as_float(a, 2) + as_float(b, 2))


def _bf16_sum(a: int, b: int) -> int:
    exact = Fraction(float(bf16(a))) + Fraction(float(bf16(b)))
    return to_bf16(np.float32(float(exact)))


# stem: new value of (old, x, y, bytes)
ATOMICS = {
    "SWAP": lambda old, x, y, size: x,
    "STOREXCHG": lambda old, x, y, size: x,
    "CMPSWAP": lambda old, x, y, size: x if old == y else old,
    "CMPSTORE": lambda old, x, y, size: x if old == y else old,
    "ADD": lambda old, x, y, size: old + x,
    "SUB": lambda old, x, y, size: old - x,
    "RSUB": lambda old, x, y, size: x - old,
    "SUB_CLAMP": lambda old, x, y, size: max(old - x, 0),
    "CSUB": lambda old, x, y, size: max(old - x, 0),
    "COND_SUB": lambda old, x, y, size: old - x if old >= x else old,
    "MIN_I": lambda old, x, y, size: min(old, x, key=lambda v: signed(v, size)),
    "MAX_I": lambda old, x, y, size: max(old, x, key=lambda v: signed(v, size)),
    "MIN_U": lambda old, x, y, size: min(old, x),
    "MAX_U": lambda old, x, y, size: max(old, x),
    "AND": lambda old, x, y, size: old & x,
    "OR": lambda old, x, y, size: old | x,
    "XOR": lambda old, x, y, size: old ^ x,
    "MSKOR": lambda old, x, y, size: old & ~x | y,
    "INC": lambda old, x, y, size: 0 if old >= x else old + 1,
    "DEC": lambda old, x, y, size: x if old == 0 or old > x else old - 1,
    "ADD_F": _floats(lambda old, x: old + x),
    "MIN_F": _floats(lambda old, x: x if x < old else old),
    "MAX_F": _floats(lambda old, x: x if x > old else old),
    "MIN_NUM_F": _floats(minimum_number),
    "MAX_NUM_F": _floats(maximum_number),
    "CMPSWAP_F": lambda old, x, y, size: x if as_float(old, size) == as_float(y, size) else old,
    "CMPSTORE_F": lambda old, x, y, size: x if as_float(old, size) == as_float(y, size) else old,
    "PK_ADD_F": _packed(_f16_sum),
    "PK_ADD_BF": _packed(_bf16_sum),
}


def atomic(name: str) -> tuple[object, int, bool, bool] | None:
    """(new value, bytes, whether floats, whether a second operand) of an atomic's name; None: another."""
    rest = name.partition("_ATOMIC_")[2] or name[3:]
    stem, _, kind = rest.replace("_RTN", "").rpartition("_")
    floats = kind.lstrip("B").startswith("F") and kind != "B"
    letter = "BF" if kind == "BF16" else kind[0]
    function = ATOMICS.get(f"{stem}_{letter}") or ATOMICS.get(stem)
    if function is None or stem in ("LOAD", "STORE", "PERMUTE", "BPERMUTE", "SWIZZLE"):
        return None
    size = 4 if kind in ("F16", "BF16") else int(kind.lstrip("BUIF")) // 8
    return function, size, floats, stem in ("CMPSWAP", "CMPSTORE", "MSKOR")
