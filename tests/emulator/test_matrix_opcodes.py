"""Matrix instructions of both families against numpy on random matrices, with the lane layouts written out
anew from the ISA documents."""

import gfx_encodings as encodings
import numpy as np
import pytest

from hipbook.emulator import coverage, isa
from hipbook.emulator.single import EXEC, State, run

A, B, C, D = 16, 32, 48, 64  # first registers


def fp8_value(bits: int, mantissa: int, bias: int, has_infinity: bool) -> float:
    sign = -1.0 if bits & 128 else 1.0
    exponent, fraction = (bits & 127) >> mantissa, bits & (1 << mantissa) - 1
    if has_infinity and exponent == 31:
        return sign * np.inf if fraction == 0 else np.nan
    if not has_infinity and bits & 127 == 127:
        return np.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - mantissa)
    return sign * (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)


def to_value(kind: str, bits: int, signed: bool) -> float:
    if kind == "F16":
        return float(np.uint16(bits).view(np.float16))
    if kind == "BF16":
        return float(np.uint32(bits << 16).view(np.float32))
    if kind == "FP8":
        return fp8_value(bits, 3, 7, False)
    if kind == "BF8":
        return fp8_value(bits, 2, 15, True)
    size = {"IU8": 8, "IU4": 4}[kind]
    return bits - (bits >> size - 1 << size) if signed else bits


SIZES = {"F16": 16, "BF16": 16, "FP8": 8, "BF8": 8, "IU8": 8, "IU4": 4}


def random_bits(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Raw elements; floats between -2 and 2."""
    if kind == "F16":
        return rng.uniform(-2, 2, shape).astype(np.float16).view(np.uint16).astype(int)
    if kind == "BF16":
        return (rng.uniform(-2, 2, shape).astype(np.float32).view(np.uint32) >> 16).astype(int)
    if kind == "FP8":
        return rng.integers(0, 0x41, shape) | rng.integers(0, 2, shape) << 7
    if kind == "BF8":
        return rng.integers(0, 0x41, shape) | rng.integers(0, 2, shape) << 7
    return rng.integers(0, 1 << SIZES[kind], shape)


def put(state: State, register: int, raw: np.ndarray, kind: str, family: str) -> None:
    """raw[row or column, k]. RDNA4: the lower half of the wave has the first half of k, the upper the second;
    RDNA3: both halves have all of it."""
    size, k_all = SIZES[kind], raw.shape[1]
    per_word = 32 // size
    for lane in range(32):
        line = raw[lane % 16]
        if family == "rdna4":
            line = line[k_all // 2 * (lane // 16) :][: k_all // 2]
        for n, bits in enumerate(line):
            state.v[register + n // per_word][lane] |= np.uint32(int(bits) << size * (n % per_word))


def places(family: str, halves: bool):
    """(row, column, register, lane, shift) of the elements of C and D."""
    for row in range(16):
        for column in range(16):
            if family == "rdna3":
                yield row, column, row // 2, column + 16 * (row % 2), 0
            elif halves:
                yield row, column, row % 8 // 2, column + 16 * (row // 8), 16 * (row % 2)
            else:
                yield row, column, row % 8, column + 16 * (row // 8), 0


CASES = [
    (family, op, name)
    for family in ("rdna3", "rdna4")
    for op, name in isa.opcodes(family)["VOP3P"].items()
    if name.startswith("V_WMMA") and coverage.is_covered(name)
]


@pytest.mark.parametrize(("family", "op", "name"), CASES, ids=[f"{f}-{n}" for f, _, n in CASES])
def test_matrices(family, op, name):
    """Random matrices, several times; EXEC is ignored. Integers exactly, signed and unsigned, wrapping and
    saturating; floats to the accumulator's rounding."""
    _, _, out, shape, *kinds = name.split("_")
    a_kind, b_kind = kinds[0], kinds[-1]
    k_all = int(shape.split("X")[2])
    halves, integers = out in ("F16", "BF16"), out == "I32"
    rng = np.random.default_rng(len(name))
    for round_ in range(4):
        negate = round_ % 4 if integers else 0  # neg bits: A signed, B signed
        saturate = integers and round_ >= 2
        state = State()
        state.s[EXEC] = 0x0000FFF0
        a, b = random_bits(a_kind, (16, k_all), rng), random_bits(b_kind, (16, k_all), rng)
        put(state, A, a, a_kind, family)
        put(state, B, b, b_kind, family)
        c = np.zeros((16, 16))
        for row, column, register, lane, shift in places(family, halves):
            if integers:
                value = int(rng.choice([0, 5, -(1 << 31), (1 << 31) - 1, -77]))
                bits = value & 0xFFFFFFFF
            elif halves:
                bits = int(random_bits(out, (1, 1), rng)[0, 0])
                value = to_value(out, bits, False)
            else:
                value = np.float32(rng.uniform(-1, 1))
                bits = int(value.view(np.uint32))
            c[row, column] = value
            state.v[C + register][lane] |= np.uint32(bits << shift)
        before = state.v.copy()
        registers = encodings.Registers(256 + A, B, 256 + C, D)
        code = encodings.vector("VOP3P", op, registers, extra=negate << 61 | saturate << 15)
        run(code, state, family=family)
        left = np.array([[to_value(a_kind, int(x), bool(negate & 1)) for x in row] for row in a])
        right = np.array([[to_value(b_kind, int(x), bool(negate & 2)) for x in row] for row in b])
        want = left @ right.T + c
        for row, column, register, lane, shift in places(family, halves):
            got = int(state.v[D + register][lane])
            if integers:
                exact = int(want[row, column])
                exact = min(max(exact, -(1 << 31)), (1 << 31) - 1) if saturate else exact
                assert got == exact & 0xFFFFFFFF, (row, column)
                continue
            if halves and family == "rdna3":
                assert got >> 16 == int(before[D + register][lane]) >> 16, "the other half"
            value = to_value(out, got >> shift & 0xFFFF, False) if halves else np.uint32(got).view(np.float32)
            bound = {"F32": 1e-5, "F16": 2e-2, "BF16": 2e-1}[out] * max(1, abs(want[row, column]) / 16)
            assert abs(float(value) - want[row, column]) <= bound, (row, column)


def test_a_constant_for_c_and_opsel_of_halves():
    """RDNA3 keeps C and D of halves in the half that opsel names; an inline constant is every element."""
    ops = {n: op for op, n in isa.opcodes("rdna3")["VOP3P"].items()}
    rng = np.random.default_rng(3)
    a, b = random_bits("F16", (16, 16), rng), random_bits("F16", (16, 16), rng)
    want = np.array([[to_value("F16", int(x), False) for x in r] for r in a]) @ np.array(
        [[to_value("F16", int(x), False) for x in r] for r in b]
    ).T  # fmt: skip
    for opsel, shift in ((0, 0), (4, 16)):
        state = State()
        put(state, A, a, "F16", "rdna3")
        put(state, B, b, "F16", "rdna3")
        state.v[D : D + 8] = 0x12345678
        registers = encodings.Registers(256 + A, B, 242, D)  # 1.0
        run(
            encodings.vector("VOP3P", ops["V_WMMA_F16_16X16X16_F16"], registers, extra=opsel << 11),
            state,
            family="rdna3",
        )
        for row, column, register, lane, _ in places("rdna3", True):
            got = int(state.v[D + register][lane])
            assert abs(to_value("F16", got >> shift & 0xFFFF, False) - want[row, column] - 1) < 2e-2
            assert got >> (16 - shift) & 0xFFFF == 0x12345678 >> (16 - shift) & 0xFFFF


def test_rdna3_multiplies_each_halfs_own_copies():
    """What lanes 16 to 31 hold is not taken for granted: a kernel that forgets to repeat shows itself."""
    ops = {n: op for op, n in isa.opcodes("rdna3")["VOP3P"].items()}
    state = State()
    rng = np.random.default_rng(4)
    a, b = random_bits("F16", (16, 16), rng), random_bits("F16", (16, 16), rng)
    put(state, A, a, "F16", "rdna3")
    put(state, B, b, "F16", "rdna3")
    state.v[A : A + 8, 16:] = 0
    registers = encodings.Registers(256 + A, B, 128, D)
    run(encodings.vector("VOP3P", ops["V_WMMA_F32_16X16X16_F16"], registers), state, family="rdna3")
    result = state.v[D : D + 8].view(np.float32)
    assert (result[:, 16:] == 0).all()  # odd rows
    assert (result[:, :16] != 0).any()
