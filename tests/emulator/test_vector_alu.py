"""Vector opcodes against numpy, on edge values in every pairing."""

from fractions import Fraction

import numpy as np
import pytest
from gfx_assembler import TRUE16, code

from hipbook.emulator.single import EXEC, SCC, VCC, State, run

F32_EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e-45, -1e-45, 1.1754942e-38, 1.17549435e-38, 3.4e38,
        -3.4e38,
     np.inf, -np.inf, np.nan, 0.1, 1e10, 2147483648.0, 4294967296.0, -2147483904.0, 65504.0, 65520.0, 1e-8,
     127.5,
     255.9, -0.4999, 16777217.0, 7.0, 1e-20],
    np.float32,
)  # fmt: skip
U32_EDGES = np.array(
    [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF,
        0x800000,
     0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678, 0x9ABCDEF0,
     0x0F0F0F0F, 0xF0F0F0F0, 0x01020304],
    np.uint32,
)  # fmt: skip
ROUNDS = 32


def pairings(values: np.ndarray, rounds: int = ROUNDS):
    """(a, b, c) lane vectors so that over the rounds every value meets every other."""
    for n in range(rounds):
        yield values, np.roll(values, n), np.roll(values, 5 * n + 3)


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal bits, any NaN equal to any NaN."""
    if got.dtype.kind == "f":
        unsigned = f"u{got.dtype.itemsize}"
        return bool(((got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))).all())
    return bool((got == want).all())


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.uint64)


def signed(x: np.ndarray) -> np.ndarray:
    return x.view(np.int32).astype(np.int64)


def low32(x: np.ndarray) -> np.ndarray:
    return (
        (x.astype(object) & 0xFFFFFFFF).astype(np.uint32)
        if x.dtype == object
        else x.astype(np.uint64).astype(np.uint32)
    )


def s24(x: np.ndarray) -> np.ndarray:
    return ((x & 0xFFFFFF).astype(np.int64) ^ 0x800000) - 0x800000


def shift(x: np.ndarray, mask: int) -> np.ndarray:
    return x & np.uint32(mask)


def popcount(x: np.ndarray) -> np.ndarray:
    return np.array([bin(int(n)).count("1") for n in x], np.uint32)


INTEGER = {
    "v_add_nc_u32": lambda a, b, c: a + b,
    "v_sub_nc_u32": lambda a, b, c: a - b,
    "v_subrev_nc_u32": lambda a, b, c: b - a,
    "v_mul_lo_u32": lambda a, b, c: low32(wide(a) * wide(b)),
    "v_mul_hi_u32": lambda a, b, c: low32((wide(a) * wide(b)) >> np.uint64(32)),
    "v_mul_hi_i32": lambda a, b, c: ((signed(a) * signed(b)) >> 32).astype(np.uint64).astype(np.uint32),
    "v_mul_i32_i24": lambda a, b, c: (s24(a) * s24(b)).astype(np.uint64).astype(np.uint32),
    "v_mul_u32_u24": lambda a, b, c: low32(wide(a & 0xFFFFFF) * wide(b & 0xFFFFFF)),
    "v_mul_hi_u32_u24": lambda a, b, c: low32((wide(a & 0xFFFFFF) * wide(b & 0xFFFFFF)) >> np.uint64(32)),
    "v_min_i32": lambda a, b, c: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    "v_max_i32": lambda a, b, c: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    "v_min_u32": lambda a, b, c: np.minimum(a, b),
    "v_max_u32": lambda a, b, c: np.maximum(a, b),
    "v_lshlrev_b32": lambda a, b, c: b << shift(a, 31),
    "v_lshrrev_b32": lambda a, b, c: b >> shift(a, 31),
    "v_ashrrev_i32": lambda a, b, c: (b.view(np.int32) >> shift(a, 31).view(np.int32)).view(np.uint32),
    "v_and_b32": lambda a, b, c: a & b,
    "v_or_b32": lambda a, b, c: a | b,
    "v_xor_b32": lambda a, b, c: a ^ b,
    "v_xnor_b32": lambda a, b, c: ~(a ^ b),
    "v_bcnt_u32_b32": lambda a, b, c: popcount(a) + b,
    "v_bfm_b32": lambda a, b, c: ((np.uint32(1) << shift(a, 31)) - np.uint32(1)) << shift(b, 31),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_and_or_b32": lambda a, b, c: (a & b) | c,
    "v_lshl_or_b32": lambda a, b, c: (a << shift(b, 31)) | c,
    "v_lshl_add_u32": lambda a, b, c: (a << shift(b, 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << shift(c, 31),
    "v_bfi_b32": lambda a, b, c: (a & b) | (~a & c),
    "v_bfe_u32": lambda a, b, c: (a >> shift(b, 31)) & ((np.uint32(1) << shift(c, 31)) - np.uint32(1)),
    "v_min3_u32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "v_max3_i32": lambda a, b, c: np.maximum(np.maximum(signed(a), signed(b)), signed(c)).astype(np.uint32),
    "v_med3_u32": lambda a, b, c: np.sort(np.stack([a, b, c]), axis=0)[1],
    "v_med3_i32": lambda a, b, c: np.sort(np.stack([signed(a), signed(b), signed(c)]), axis=0)[1].astype(
        np.uint32
    ),
    "v_mad_u32_u24": lambda a, b, c: low32(wide(a & 0xFFFFFF) * wide(b & 0xFFFFFF)) + c,
    "v_alignbit_b32": lambda a, b, c: low32((wide(a) << np.uint64(32) | wide(b)) >> wide(shift(c, 31))),
    "v_alignbyte_b32": lambda a, b, c: low32((wide(a) << np.uint64(32) | wide(b)) >> wide(8 * shift(c, 3))),
    "v_maxmin_u32": lambda a, b, c: np.minimum(np.maximum(a, b), c),
}
THREE = {"v_add3_u32", "v_xad_u32", "v_xor3_b32", "v_or3_b32", "v_and_or_b32", "v_lshl_or_b32",
    "v_lshl_add_u32",
         "v_add_lshl_u32", "v_bfi_b32", "v_bfe_u32", "v_min3_u32", "v_max3_i32", "v_med3_u32", "v_med3_i32",
         "v_mad_u32_u24", "v_alignbit_b32", "v_alignbyte_b32", "v_maxmin_u32", "v_bfe_i32",
         "v_perm_b32"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(INTEGER))
def test_integer(name):
    program = code(f"{name} v0, v1, v2" + (", v3" if name in THREE else ""))
    for a, b, c in pairings(U32_EDGES):
        state = State()
        state.v[1], state.v[2], state.v[3] = a, b, c
        run(program, state)
        with np.errstate(over="ignore"):
            assert same(state.v[0], INTEGER[name](a, b, c)), (name, a, b, c)


def num(pick, a, b):
    """minimumNumber / maximumNumber: a number beats a NaN, -0 < +0."""
    zero = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    negative = np.where(np.signbit(a), a, b)
    positive = np.where(np.signbit(a), b, a)
    r = np.where(zero, negative if pick is np.fmin else positive, pick(a, b))
    return r.astype(a.dtype)


def round_to_f32(x: Fraction) -> np.float32:
    """The nearest f32, ties to even: exact arithmetic throughout."""
    if x == 0:
        return np.float32(0)
    exponent = max(abs(x).numerator.bit_length() - abs(x).denominator.bit_length() - 25, -149)
    unit = Fraction(2) ** exponent
    while abs(x) / unit >= 1 << 24:
        unit *= 2
    with np.errstate(over="ignore"):
        return np.float32(float(round(x / unit) * unit))  # at most 24 bits: exact in double; beyond f32: inf


def fma32(a, b, c):
    out = (a.astype(np.float64) * b + c).astype(np.float32)  # for zeros, infinities and NaN
    for n, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
        if np.isfinite([x, y, z]).all():
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            out[n] = round_to_f32(exact) if exact else out[n]
    return out


FLOAT = {
    "v_add_f32": lambda a, b, c: a + b,
    "v_sub_f32": lambda a, b, c: a - b,
    "v_subrev_f32": lambda a, b, c: b - a,
    "v_mul_f32": lambda a, b, c: a * b,
    "v_mul_dx9_zero_f32": lambda a, b, c: np.where((a == 0) | (b == 0), np.float32(0), a * b),
    "v_min_num_f32": lambda a, b, c: num(np.fmin, a, b),
    "v_max_num_f32": lambda a, b, c: num(np.fmax, a, b),
    "v_fma_f32": fma32,
    "v_min3_num_f32": lambda a, b, c: num(np.fmin, num(np.fmin, a, b), c),
    "v_max3_num_f32": lambda a, b, c: num(np.fmax, num(np.fmax, a, b), c),
}


@pytest.mark.parametrize("name", sorted(FLOAT))
def test_float(name):
    program = code(f"{name} v0, v1, v2" + (", v3" if "3_" in name or "fma" in name else ""))
    for a, b, c in pairings(F32_EDGES):
        state = State()
        state.v[1], state.v[2], state.v[3] = (x.view(np.uint32) for x in (a, b, c))
        run(program, state)
        with np.errstate(all="ignore"):
            want = FLOAT[name](a, b, c)
        assert same(state.v[0].view(np.float32), want), (name, a, b, c, state.v[0].view(np.float32), want)


def to_int(x, low, high):
    y = np.where(np.isnan(x), 0, np.clip(np.trunc(x.astype(np.float64)), low, high))
    return y.astype(np.int64).astype(np.uint64).astype(np.uint32)


UNARY = {
    "v_trunc_f32": np.trunc, "v_ceil_f32": np.ceil, "v_floor_f32": np.floor, "v_rndne_f32": np.rint,
    "v_fract_f32": lambda x: x + -np.floor(x),
    "v_cvt_u32_f32": lambda x: to_int(x, 0, 2**32 - 1),
    "v_cvt_i32_f32": lambda x: to_int(x, -(2**31), 2**31 - 1),
    "v_cvt_nearest_i32_f32": lambda x: to_int(np.floor(x + np.float32(0.5)), -(2**31), 2**31 - 1),
    "v_cvt_floor_i32_f32": lambda x: to_int(np.floor(x), -(2**31), 2**31 - 1),
    "v_frexp_mant_f32": lambda x: np.where(np.isfinite(x), np.frexp(x)[0], x).astype(np.float32),
    "v_frexp_exp_i32_f32": lambda x: np.where(np.isfinite(x), np.frexp(x)[1],
        0).astype(np.int32).view(np.uint32),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary_float(name):
    state = State()
    state.v[1] = F32_EDGES.view(np.uint32)
    run(code(f"{name} v0, v1"), state)
    with np.errstate(all="ignore"):
        want = UNARY[name](F32_EDGES)
    assert same(state.v[0].view(want.dtype), want), (state.v[0].view(want.dtype), want)


def same_bits(x: int) -> int:
    """How many bits from the top repeat the sign; all of them: -1."""
    magnitude = x ^ 0xFFFFFFFF if x >> 31 else x
    return 32 - magnitude.bit_length() if magnitude else 0xFFFFFFFF


UNARY_INTEGER = {
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": lambda a: np.array([int(f"{int(x):032b}"[::-1], 2) for x in a], np.uint32),
    "v_clz_i32_u32": lambda a: np.array(
        [32 - int(x).bit_length() if x else 0xFFFFFFFF for x in a], np.uint32
    ),
    "v_ctz_i32_b32": lambda a: np.array(
        [(int(x) & -int(x)).bit_length() - 1 if x else 0xFFFFFFFF for x in a], np.uint32
    ),
    "v_cvt_f32_u32": lambda a: a.astype(np.float32).view(np.uint32),
    "v_cvt_f32_i32": lambda a: a.view(np.int32).astype(np.float32).view(np.uint32),
    "v_cvt_f32_ubyte2": lambda a: ((a >> 16) & 255).astype(np.float32).view(np.uint32),
    "v_cls_i32": lambda a: np.array([same_bits(int(x)) for x in a], np.uint32),
}


@pytest.mark.parametrize("name", sorted(UNARY_INTEGER))
def test_unary_integer(name):
    state = State()
    state.v[1] = U32_EDGES
    run(code(f"{name} v0, v1"), state)
    assert same(state.v[0], UNARY_INTEGER[name](U32_EDGES))


# ---- transcendentals: correctly rounded from double here, subnormals flushed ----

GRID = np.concatenate([np.linspace(-30, 30, 1000), np.geomspace(1e-30, 1e30, 600)]).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "function"),
    [("v_exp_f32", np.exp2), ("v_log_f32", np.log2), ("v_rcp_f32", lambda x: 1 / x), ("v_sqrt_f32", np.sqrt),
     ("v_rsq_f32", lambda x: 1 / np.sqrt(x))],
)  # fmt: skip
def test_transcendental_is_correctly_rounded(name, function):
    program = code(f"{name} v0, v1")
    for chunk in np.array_split(GRID, 50):
        state = State()
        state.v[1] = np.resize(chunk, 32).view(np.uint32)
        run(program, state)
        x = np.resize(chunk, 32)
        with np.errstate(all="ignore"):
            want = function(x.astype(np.float64)).astype(np.float32)
        want = np.where(np.abs(want) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), want), want)
        assert same(state.v[0].view(np.float32), want), (x, state.v[0].view(np.float32), want)


@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("v_exp_f32", -127.0, 0.0),  # a subnormal result
        ("v_exp_f32", 1e-40, 1.0),  # a subnormal argument
        ("v_exp_f32", 128.0, np.inf),
        ("v_exp_f32", -np.inf, 0.0),
        ("v_exp_f32", np.nan, np.nan),
        ("v_log_f32", 1e-40, -np.inf),
        ("v_log_f32", 0.0, -np.inf),
        ("v_log_f32", -1.0, np.nan),
        ("v_log_f32", np.inf, np.inf),
        ("v_log_f32", 1.0, 0.0),
        ("v_rcp_f32", 1e-40, np.inf),
        ("v_rcp_f32", -1e-40, -np.inf),
        ("v_rcp_f32", 3e38, 0.0),
        ("v_rcp_f32", -np.inf, -0.0),
        ("v_sqrt_f32", 1e-40, 0.0),
        ("v_sqrt_f32", -0.0, -0.0),
        ("v_rsq_f32", 0.0, np.inf),
        ("v_sin_f32", 0.25, 1.0),  # the argument counts turns
        ("v_cos_f32", 0.5, -1.0),
    ],
)
def test_transcendental_edges(name, x, want):
    state = State()
    state.v[1] = np.float32(x).view(np.uint32)
    run(code(f"{name} v0, v1"), state)
    assert same(state.v[0].view(np.float32), np.full(32, want, np.float32)), state.v[0].view(np.float32)[0]


# ---- 64 bits ----

U64_EDGES = (U32_EDGES.astype(np.uint64) << np.uint64(32)) ^ (
    U32_EDGES[::-1].astype(np.uint64) * np.uint64(0x10001)
)
F64_EDGES = np.concatenate([F32_EDGES.astype(np.float64)[:20], [5e-324, 1e308, -1e-310, 1e300, 4.5, -4.5,
    np.pi, 2.0**53 + 2,
                                                                 0.3, 1e-5, 9007199254740993.0,
                                                                 -7.25]])  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("v_add_f64", lambda a, b: a + b),
        ("v_mul_f64", lambda a, b: a * b),
        ("v_min_num_f64", lambda a, b: num(np.fmin, a, b)),
        ("v_max_num_f64", lambda a, b: num(np.fmax, a, b)),
    ],
)
def test_f64(name, function):
    program = code(f"{name} v[0:1], v[2:3], v[4:5]")
    for a, b, _ in pairings(F64_EDGES):
        state = State()
        state.set_u64(2, a)
        state.set_u64(4, b)
        run(program, state)
        with np.errstate(all="ignore"):
            assert same(state.u64(0).view(np.float64), function(a, b)), (a, b)


def test_wide_shifts_and_products():
    program = code(
        "v_lshlrev_b64 v[10:11], v1, v[4:5]", "v_lshrrev_b64 v[12:13], v1, v[4:5]",
        "v_ashrrev_i64 v[14:15], v1, v[4:5]",
        "v_mad_co_u64_u32 v[16:17], s10, v1, v2, v[4:5]", "v_mad_co_i64_i32 v[18:19], s11, v1, v2, v[4:5]",
    )  # fmt: skip
    for a, b, _ in pairings(U32_EDGES):
        state = State()
        state.v[1], state.v[2] = a, b
        state.set_u64(4, U64_EDGES)
        run(program, state)
        by = wide(a) & np.uint64(63)
        assert same(state.u64(10), U64_EDGES << by)
        assert same(state.u64(12), U64_EDGES >> by)
        assert same(state.u64(14), (U64_EDGES.view(np.int64) >> by.view(np.int64)).view(np.uint64))
        exact = [int(x) * int(y) + int(z) for x, y, z in zip(a, b, U64_EDGES, strict=True)]
        assert [int(x) for x in state.u64(16)] == [x & (1 << 64) - 1 for x in exact]
        assert state.s[10] == sum((x >> 64 & 1) << n for n, x in enumerate(exact))
        exact = [int(x) * int(y) + int(z) for x, y, z in
                 zip(a.view(np.int32), b.view(np.int32), U64_EDGES.view(np.int64), strict=True)]  # fmt: skip
        assert [int(x) for x in state.u64(18)] == [x & (1 << 64) - 1 for x in exact]


def test_conversions_of_f64():
    state = State()
    state.set_u64(2, F64_EDGES)
    run(code("v_cvt_f32_f64 v10, v[2:3]", "v_cvt_i32_f64 v11, v[2:3]", "v_cvt_u32_f64 v12, v[2:3]",
             "v_rndne_f64 v[14:15], v[2:3]", "v_frexp_exp_i32_f64 v16, v[2:3]"), state)  # fmt: skip
    with np.errstate(all="ignore"):
        assert same(state.v[10].view(np.float32), F64_EDGES.astype(np.float32))
    assert same(state.v[11], to_int(F64_EDGES, -(2**31), 2**31 - 1))
    assert same(state.v[12], to_int(F64_EDGES, 0, 2**32 - 1))
    assert same(state.u64(14).view(np.float64), np.rint(F64_EDGES))
    assert same(
        state.v[16].view(np.int32),
        np.where(np.isfinite(F64_EDGES), np.frexp(F64_EDGES)[1], 0).astype(np.int32),
    )


# ---- carries, masks, EXEC ----


def test_carry_chain():
    program = code(
        "v_add_co_u32 v10, vcc_lo, v1, v2", "v_add_co_ci_u32 v11, vcc_lo, v3, v4, vcc_lo",
        "v_sub_co_u32 v12, s8, v1, v2", "v_sub_co_ci_u32 v13, s9, v3, v4, s8",
    )  # fmt: skip
    for a, b, c in pairings(U32_EDGES):
        state = State()
        state.v[1], state.v[2], state.v[3], state.v[4] = a, b, c, a
        run(program, state)
        x = [int(h) << 32 | int(n) for h, n in zip(c, a, strict=True)]
        y = [int(h) << 32 | int(n) for h, n in zip(a, b, strict=True)]
        assert [int(n) for n in state.u64(10)] == [(p + q) & (1 << 64) - 1 for p, q in zip(x, y, strict=True)]
        assert [int(n) for n in state.u64(12)] == [(p - q) & (1 << 64) - 1 for p, q in zip(x, y, strict=True)]
        assert state.s[VCC] == sum((p + q >> 64) << n for n, (p, q) in enumerate(zip(x, y, strict=True)))
        assert state.s[9] == sum(int(p < q) << n for n, (p, q) in enumerate(zip(x, y, strict=True)))


def bits(flags: np.ndarray) -> int:
    return sum(int(flag) << n for n, flag in enumerate(flags))


CONDITIONS = {
    "lt": np.less, "eq": np.equal, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lg": lambda a, b: (a < b) | (a > b), "nlt": lambda a, b: ~(a < b), "neq": lambda a, b: ~(a == b),
    "nge": lambda a, b: ~(a >= b), "ngt": lambda a, b: ~(a > b), "nle": lambda a, b: ~(a <= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)), "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip


@pytest.mark.parametrize("condition", sorted(CONDITIONS))
def test_float_compare_under_exec(condition):
    program = code(f"v_cmp_{condition}_f32 vcc_lo, v1, v2", f"v_cmpx_{condition}_f32 -v1, |v2|")
    for n, (a, b, _) in enumerate(pairings(F32_EDGES)):
        state, active = State(), [0xFFFFFFFF, 0x0F0F1234, 0][n % 3]
        state.s[EXEC] = active
        state.v[1], state.v[2] = a.view(np.uint32), b.view(np.uint32)
        run(program, state)
        assert state.s[VCC] == bits(CONDITIONS[condition](a, b)) & active
        assert state.s[EXEC] == bits(CONDITIONS[condition](-a, np.abs(b))) & active


@pytest.mark.parametrize(("kind", "view"), [("u32", np.uint32), ("i32", np.int32)])
def test_integer_compare(kind, view):
    for condition, function in (("lt", np.less), ("eq", np.equal), ("le", np.less_equal), ("gt", np.greater),
                                ("ne", np.not_equal), ("ge", np.greater_equal)):  # fmt: skip
        program = code(f"v_cmp_{condition}_{kind} s4, v1, v2")
        for a, b, _ in pairings(U32_EDGES, 8):
            state = State()
            state.v[1], state.v[2] = a, b
            run(program, state)
            assert state.s[4] == bits(function(a.view(view), b.view(view)))


def test_class():
    """One bit a class, from signalling NaN to +infinity."""
    values = np.array([0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1,
        0x3F800000, 0x7F800000],
                      np.uint32)  # fmt: skip
    for n in range(10):
        state = State()
        state.v[1] = np.resize(values, 32)
        state.v[2] = 1 << n
        run(code("v_cmp_class_f32 vcc_lo, v1, v2"), state)
        assert state.s[VCC] == bits(np.resize(np.arange(10) == n, 32))


def test_cndmask_and_partial_exec():
    state = State()
    state.v[0], state.v[1], state.v[2] = 9, 1, 2
    state.s[VCC], state.s[EXEC] = 0x55555555, 0x0000FFFF
    run(code("v_cndmask_b32 v0, v1, v2, vcc_lo"), state)
    want = np.where(np.arange(32) < 16, np.where(np.arange(32) % 2 == 0, 2, 1), 9)
    assert same(state.v[0], want.astype(np.uint32))


def test_nothing_is_written_with_no_lane_active():
    state = State()
    state.v[0], state.s[EXEC] = 7, 0
    run(code("v_mov_b32 v0, 1", "v_add_f32 v0, v0, v0", "v_cmp_eq_u32 vcc_lo, v0, v0"), state)
    assert (state.v[0] == 7).all()
    assert state.s[VCC] == 0


def test_modifiers():
    """abs, neg, clamp, omod; NaN clamps to 0."""
    state = State()
    state.v[1] = F32_EDGES.view(np.uint32)
    run(code("v_add_f32_e64 v10, -|v1|, 1.0", "v_mul_f32_e64 v11, v1, 1.0 clamp",
        "v_mul_f32_e64 v12, v1, 1.0 mul:4",
             "v_max_num_f32_e64 v13, v1, v1 div:2"), state)  # fmt: skip
    with np.errstate(all="ignore"):
        assert same(state.v[10].view(np.float32), -np.abs(F32_EDGES) + np.float32(1))
        clamped = np.where(F32_EDGES > 0, np.minimum(F32_EDGES, np.float32(1)), np.float32(0))
        assert same(state.v[11].view(np.float32), clamped)
        assert same(state.v[12].view(np.float32), F32_EDGES * np.float32(4))
        assert same(state.v[13].view(np.float32), F32_EDGES * np.float32(0.5))


def test_integer_clamp_saturates():
    state = State()
    state.v[1], state.v[2] = U32_EDGES, U32_EDGES[::-1]
    run(
        code(
            "v_add_nc_u32_e64 v10, v1, v2 clamp",
            "v_sub_nc_u32_e64 v11, v1, v2 clamp",
            "v_add_nc_i32 v12, v1, v2 clamp",
        ),
        state,
    )
    total = wide(U32_EDGES) + wide(U32_EDGES[::-1])
    assert same(state.v[10], np.minimum(total, 0xFFFFFFFF).astype(np.uint32))
    assert same(
        state.v[11], np.where(U32_EDGES[::-1] > U32_EDGES, 0, U32_EDGES - U32_EDGES[::-1]).astype(np.uint32)
    )
    total = np.clip(signed(U32_EDGES) + signed(U32_EDGES[::-1]), -(2**31), 2**31 - 1)
    assert same(state.v[12], total.astype(np.uint64).astype(np.uint32))


# ---- sources ----


def test_constants_and_scalars_as_sources():
    state = State()
    state.s[7], state.s[SCC] = 100, 1
    run(code("v_add_nc_u32 v1, s7, v0", "v_mov_b32 v2, 64", "v_mov_b32 v3, -16", "v_mov_b32 v4, 0.5",
        "v_mov_b32 v5, 0xdeadbeef",
             "v_mov_b32 v6, 0.15915494", "v_add_nc_u32_e64 v7, src_scc, 1", "v_add_f64 v[8:9], 1.0, 0.5",
             "v_mov_b32 v10, null", "v_fma_f32 v11, 2.0, 0x40400000, 1.0"), state)  # fmt: skip
    want = {1: 100, 2: 64, 3: 0xFFFFFFF0, 4: 0x3F000000, 5: 0xDEADBEEF, 6: 0x3E22F983, 7: 2, 9: 0x3FF80000,
        8: 0, 10: 0,
            11: 0x40E00000}  # fmt: skip
    assert {n: int(state.v[n][13]) for n in want} == want


# ---- VOPD ----


def test_vopd_reads_before_either_half_writes():
    a, b = np.arange(32, dtype=np.uint32), np.arange(100, 132, dtype=np.uint32)
    for line, v2, v3 in (
        ("v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v2", b, a),  # a swap
        ("v_dual_mov_b32 v2, v5 :: v_dual_add_nc_u32 v3, v2, v2", np.full(32, 5, np.uint32), a + a),
        ("v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v5", b, np.full(32, 5, np.uint32)),
    ):
        state = State()
        state.v[2], state.v[3], state.v[5] = a, b, 5
        run(code(line), state)
        assert same(state.v[2], v2)
        assert same(state.v[3], v3)


def test_vopd_literal_and_fmac():
    state = State()
    state.v[1] = np.float32(3).view(np.uint32)
    state.v[2] = np.float32(5).view(np.uint32)
    state.v[4] = np.float32(1).view(np.uint32)
    run(code("v_dual_fmac_f32 v4, v1, v2 :: v_dual_fmaak_f32 v7, v2, v1, 0x41200000"), state)
    assert state.v[4].view(np.float32)[9] == 16
    assert state.v[7].view(np.float32)[9] == 25


# ---- 16 bits ----

F16_EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 65504.0, -65504.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8,
    6.1e-5, 2.5, 1000.0,
                      0.1, 3.0, -7.0, 2048.0, 2049.0, 1e-3, 100.25, 0.333, -0.75, 511.0, 33.0, 17.5, 8.0,
                      4e-5, 1.5, -2.0,
                      12.0], np.float16)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function"),
    [("v_add_f16", lambda a, b: a + b), ("v_mul_f16", lambda a, b: a * b), ("v_sub_f16", lambda a, b: a - b),
     ("v_min_num_f16", lambda a, b: num(np.fmin, a, b)), ("v_max_num_f16", lambda a, b: num(np.fmax, a, b))],
)  # fmt: skip
def test_f16_in_either_half(name, function):
    program = code(f"{name}_e32 v0.h, v1.l, v2.h", f"{name}_e64 v3.l, v1.h, v2.l", attributes=TRUE16)
    for a, b, _ in pairings(F16_EDGES):
        x, y = a.view(np.uint16).astype(np.uint32), b.view(np.uint16).astype(np.uint32)
        state = State()
        state.v[0], state.v[3] = 0x1234, 0x56780000
        state.v[1], state.v[2] = x | y << 16, x | y << 16
        run(program, state)
        with np.errstate(all="ignore"):
            assert same((state.v[0] >> 16).astype(np.uint16).view(np.float16), function(a, b))
            assert same((state.v[3] & 0xFFFF).astype(np.uint16).view(np.float16), function(b, a))
        assert (state.v[0] & 0xFFFF == 0x1234).all()
        assert (state.v[3] >> 16 == 0x5678).all()


def test_conversions_of_f16():
    state = State()
    state.v[1] = F32_EDGES.view(np.uint32)
    state.v[2] = F16_EDGES.view(np.uint16)
    run(code("v_cvt_f16_f32 v10, v1", "v_cvt_f32_f16 v11, v2", "v_cvt_pk_rtz_f16_f32 v12, v1, v1"), state)
    with np.errstate(all="ignore"):
        assert same((state.v[10] & 0xFFFF).astype(np.uint16).view(np.float16), F32_EDGES.astype(np.float16))
    assert same(state.v[11].view(np.float32), F16_EDGES.astype(np.float32))
    toward_zero = (state.v[12] & 0xFFFF).astype(np.uint16).view(np.float16)
    finite = np.isfinite(F32_EDGES)
    assert (
        np.abs(toward_zero[finite].astype(np.float64)) <= np.abs(F32_EDGES[finite].astype(np.float64))
    ).all()
    assert toward_zero[list(F32_EDGES).index(np.float32(3.4e38))] == 65504
    assert same(state.v[12] >> 16, state.v[12] & 0xFFFF)


# ---- packed ----


def test_packed_choice_and_sign_of_halves():
    a = np.float16([1.5, -2.0]).view(np.uint16)
    b = np.float16([4.0, 0.25]).view(np.uint16)
    state = State()
    state.v[1], state.v[2] = int(a[0]) | int(a[1]) << 16, int(b[0]) | int(b[1]) << 16
    run(code("v_pk_add_f16 v10, v1, v2", "v_pk_mul_f16 v11, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]",
             "v_pk_fma_f16 v12, v1, v2, 1.0 op_sel_hi:[1,1,0] neg_lo:[1,0,0] neg_hi:[0,1,0]"),
             state)  # fmt: skip
    halves = {
        n: np.uint16([state.v[n][3] & 0xFFFF, state.v[n][3] >> 16]).view(np.float16).tolist()
        for n in (10, 11, 12)
    }
    assert halves == {10: [5.5, -1.75], 11: [-8.0, 0.375], 12: [-5.0, 1.5]}


def test_packed_integers():
    state = State()
    state.v[1], state.v[2] = U32_EDGES, U32_EDGES[::-1]
    run(code("v_pk_add_u16 v10, v1, v2", "v_pk_mul_lo_u16 v11, v1, v2", "v_pk_max_i16 v12, v1, v2",
             "v_pk_lshlrev_b16 v13, v1, v2", "v_pk_add_u16 v14, v1, v2 clamp"), state)  # fmt: skip
    a, b = (
        U32_EDGES.view(np.uint16).reshape(32, 2),
        np.ascontiguousarray(U32_EDGES[::-1]).view(np.uint16).reshape(32, 2),
    )
    got = {n: np.ascontiguousarray(state.v[n]).view(np.uint16).reshape(32, 2) for n in range(10, 15)}
    with np.errstate(over="ignore"):
        assert same(got[10], a + b)
        assert same(got[11], a * b)
        assert same(got[12], np.maximum(a.view(np.int16), b.view(np.int16)).view(np.uint16))
        assert same(got[13], b << (a & 15))
        assert same(got[14], np.minimum(a.astype(np.uint32) + b, 65535).astype(np.uint16))


def test_dot_products():
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32) for _ in range(3))
    state = State()
    state.v[1], state.v[2], state.v[3] = x, y, z
    run(code("v_dot4_i32_iu8 v10, v1, v2, v3 neg_lo:[1,1,0]", "v_dot4_i32_iu8 v11, v1, v2, v3 neg_lo:[1,0,0]",
             "v_dot4_u32_u8 v12, v1, v2, v3"), state)  # fmt: skip
    ua, ub = (np.ascontiguousarray(v).view(np.uint8).reshape(32, 4).astype(np.int64) for v in (x, y))
    sa, sb = (np.ascontiguousarray(v).view(np.int8).reshape(32, 4).astype(np.int64) for v in (x, y))
    for register, left, right in ((10, sa, sb), (11, sa, ub), (12, ua, ub)):
        want = (left * right).sum(axis=1) + z.astype(np.int64)
        assert same(state.v[register], want.astype(np.uint64).astype(np.uint32))


def test_dot2_of_bf16_and_f16():
    x, y = np.float32([1.5, -3.0]), np.float32([2.0, 0.5])
    for name, pack in (
        (
            "v_dot2_f32_bf16",
            lambda v: int(v.view(np.uint32)[0] >> 16) | int(v.view(np.uint32)[1] >> 16) << 16,
        ),
        (
            "v_dot2_f32_f16",
            lambda v: (
                int(v.astype(np.float16).view(np.uint16)[0])
                | int(v.astype(np.float16).view(np.uint16)[1]) << 16
            ),
        ),
    ):
        state = State()
        state.v[1], state.v[2], state.v[3] = pack(x), pack(y), np.float32(10).view(np.uint32)
        run(code(f"{name} v0, v1, v2, v3"), state)
        assert state.v[0].view(np.float32)[0] == 11.5


def test_mixed_fma():
    state = State()
    state.v[1] = int(np.float16(1.5).view(np.uint16)) | int(np.float16(-4).view(np.uint16)) << 16
    state.v[2], state.v[3], state.v[4] = (
        np.float32(3).view(np.uint32),
        np.float32(0.25).view(np.uint32),
        0xAAAABBBB,
    )
    run(code("v_fma_mix_f32 v0, v1, v2, v3 op_sel_hi:[1,0,0]",
        "v_fma_mix_f32 v5, -v1, v2, |v3| op_sel:[1,0,0] op_sel_hi:[1,0,0]",
             "v_fma_mixhi_f16 v4, v1, v2, v3 op_sel_hi:[1,0,0]"), state)  # fmt: skip
    assert state.v[0].view(np.float32)[0] == 4.75
    assert state.v[5].view(np.float32)[0] == 12.25
    assert state.v[4][0] == int(np.float16(4.75).view(np.uint16)) << 16 | 0xBBBB


# ---- division ----


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sequence the compiler emits for an IEEE division."""
    state = State()
    state.v[1], state.v[2] = a.view(np.uint32), b.view(np.uint32)
    run(code(
        "v_div_scale_f32 v3, null, v2, v2, v1", "v_rcp_f32 v4, v3", "v_fma_f32 v5, -v3, v4, 1.0",
        "v_fmac_f32 v4, v5, v4",
        "v_div_scale_f32 v6, vcc_lo, v1, v2, v1", "v_mul_f32 v7, v6, v4", "v_fma_f32 v8, -v3, v7, v6",
        "v_fmac_f32 v7, v8, v4",
        "v_fma_f32 v3, -v3, v7, v6", "v_div_fmas_f32 v3, v3, v4, v7", "v_div_fixup_f32 v0, v3, v2, v1",
    ), state)  # fmt: skip
    return state.v[0].view(np.float32)


def test_division_sequence_is_ieee():
    """Every branch of V_DIV_SCALE: tiny, huge and subnormal operands and quotients."""
    scales = np.float32(
        [2.0**e for e in (-149, -140, -127, -126, -100, -60, -1, 0, 1, 60, 97, 100, 125, 126, 127)]
    )
    rng = np.random.default_rng(1)
    tried = 0
    for p in scales:
        for q in scales:
            a = (rng.uniform(1, 1.99, 32).astype(np.float32) * p) * rng.choice(np.float32([1, -1]), 32)
            b = rng.uniform(1, 1.99, 32).astype(np.float32) * q
            with np.errstate(all="ignore"):
                want = a / b
            assert same(divide(a, b), want), (a, b, want)
            tried += 32
    for a, b, _ in pairings(F32_EDGES):
        with np.errstate(all="ignore"):
            assert same(divide(a, b), a / b)
    assert tried == 32 * len(scales) ** 2


def rounded(x: Fraction, bits: int, lowest: int) -> Fraction:
    """x to `bits` significant bits and no unit below 2**lowest, ties to even: a float format's rounding."""
    if x == 0:
        return x
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    exponent -= abs(x) < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - bits + 1, lowest)
    return round(x / unit) * unit


@pytest.mark.parametrize(
    ("name", "dtype", "bits", "lowest", "power"),
    [("f32", np.float32, 24, -149, 64), ("f64", np.float64, 53, -1074, 128)],
)
def test_div_fmas_rounds_once(name, dtype, bits, lowest, power):
    """VCC set and a result that is subnormal: a * b + c scaled down by 2**power, rounded once. Half the cases
    are half-way between two results once a * b + c is rounded, so that rounding twice would go wrong."""
    rng = np.random.default_rng(5)
    tried = wrong_if_twice = 0
    for _ in range(12):
        units = rng.integers(1 << 3, 1 << 20, 32).astype(dtype)
        half = rng.choice(dtype([0.5, 0.25, 0.375]), 32)
        c = ((units + half) * dtype(2.0) ** (lowest + power)).astype(dtype)
        a = (rng.choice(dtype([1, -1, 0]), 32) * dtype(2.0) ** (lowest + power - 40)).astype(dtype)
        b = rng.uniform(0.5, 1, 32).astype(dtype)
        state, text = State(), f"v_div_fmas_{name}"
        state.s[VCC] = 0xFFFFFFFF
        if name == "f32":
            state.v[2], state.v[4], state.v[6] = (x.view(np.uint32) for x in (a, b, c))
            run(code(f"{text} v0, v2, v4, v6"), state)
            got = state.v[0].view(dtype)
        else:
            for register, x in ((2, a), (4, b), (6, c)):
                state.set_u64(register, x)
            run(code(f"{text} v[0:1], v[2:3], v[4:5], v[6:7]"), state)
            got = state.u64(0).view(dtype)
        for lane in range(32):
            exact = Fraction(float(a[lane])) * Fraction(float(b[lane])) + Fraction(float(c[lane]))
            want = rounded(exact / 2**power, bits, lowest)
            assert Fraction(float(got[lane])) == want, (lane, a[lane], b[lane], c[lane])
            wrong_if_twice += rounded(rounded(exact, bits, lowest) / 2**power, bits, lowest) != want
            tried += 1
    assert wrong_if_twice > 20


def test_scalar_transcendental():
    state = State()
    state.s[3] = np.float32(3).view(np.uint32)
    run(code("v_s_exp_f32 s4, s3", "v_s_rcp_f32 s5, s3"), state)
    assert state.s[4:5].view(np.float32)[0] == 8
    assert state.s[5:6].view(np.float32)[0] == np.float32(1) / np.float32(3)
