"""Scalar opcodes against Python integers: results and SCC."""

import numpy as np
import pytest
from gfx_assembler import code

from hipbook.emulator.single import EXEC, SCC, VCC, State, run

EDGES = [
    0,
    1,
    2,
    31,
    32,
    33,
    63,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
    0x12345678,
    0x00100008,
]
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def s32(x: int) -> int:
    return x - (x >> 31 << 32)


def s64(x: int) -> int:
    return x - (x >> 63 << 64)


def two(x: int, low: int, high: int) -> int:
    """Signed overflow of an exact sum or difference x."""
    return int(not low <= x <= high)


# name: (a, b, scc before) -> (result, scc after); None: SCC stays
BINARY = {
    "s_add_co_u32": lambda a, b, c: (a + b, a + b > M32),
    "s_sub_co_u32": lambda a, b, c: (a - b, b > a),
    "s_add_co_i32": lambda a, b, c: (a + b, two(s32(a) + s32(b), -(2**31), 2**31 - 1)),
    "s_sub_co_i32": lambda a, b, c: (a - b, two(s32(a) - s32(b), -(2**31), 2**31 - 1)),
    "s_add_co_ci_u32": lambda a, b, c: (a + b + c, a + b + c > M32),
    "s_sub_co_ci_u32": lambda a, b, c: (a - b - c, b + c > a),
    "s_and_b32": lambda a, b, c: (a & b, a & b != 0),
    "s_or_b32": lambda a, b, c: (a | b, a | b != 0),
    "s_xor_b32": lambda a, b, c: (a ^ b, a ^ b != 0),
    "s_and_not1_b32": lambda a, b, c: (a & ~b, a & ~b & M32 != 0),
    "s_or_not1_b32": lambda a, b, c: (a | ~b, (a | ~b) & M32 != 0),
    "s_nand_b32": lambda a, b, c: (~(a & b), ~(a & b) & M32 != 0),
    "s_lshl_b32": lambda a, b, c: (a << (b & 31), (a << (b & 31)) & M32 != 0),
    "s_lshr_b32": lambda a, b, c: (a >> (b & 31), a >> (b & 31) != 0),
    "s_ashr_i32": lambda a, b, c: (s32(a) >> (b & 31), s32(a) >> (b & 31) != 0),
    "s_min_i32": lambda a, b, c: (min(s32(a), s32(b)), s32(a) < s32(b)),
    "s_max_u32": lambda a, b, c: (max(a, b), a >= b),
    "s_mul_i32": lambda a, b, c: (a * b, None),
    "s_mul_hi_u32": lambda a, b, c: (a * b >> 32, None),
    "s_mul_hi_i32": lambda a, b, c: (s32(a) * s32(b) >> 32, None),
    "s_bfm_b32": lambda a, b, c: (((1 << (a & 31)) - 1) << (b & 31), None),
    "s_cselect_b32": lambda a, b, c: (a if c else b, None),
    "s_lshl2_add_u32": lambda a, b, c: ((a << 2) + b, (a << 2) + b > M32),
    "s_absdiff_i32": lambda a, b, c: (abs(s32((a - b) & M32)), (a - b) & M32 != 0),
    "s_pack_ll_b32_b16": lambda a, b, c: ((a & 0xFFFF) | b << 16, None),
    "s_pack_hl_b32_b16": lambda a, b, c: (a >> 16 | b << 16, None),
    "s_bfe_u32": lambda a, b, c: bfe(a, b, 32, False),
    "s_bfe_i32": lambda a, b, c: bfe(a, b, 32, True),
}


def bfe(a: int, b: int, width: int, signed: bool) -> tuple[int, bool]:
    """The field of the (sign-extended) value: bits past the top repeat the sign."""
    at, size = b & (width - 1), b >> 16 & 127
    value = (s32(a) if width == 32 else s64(a)) if signed else a
    field = (value >> at) & ((1 << min(size, width)) - 1) if size else 0
    if signed and size and size < width and field >> (size - 1):
        field -= 1 << size
    return field, field & ((1 << width) - 1) != 0


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary(name):
    program = code(f"{name} s0, s1, s2")
    for a in EDGES:
        for b in EDGES:
            for carry in (0, 1):
                state = State()
                state.s[1], state.s[2], state.s[SCC] = a, b, carry
                run(program, state)
                want, scc = BINARY[name](a, b, carry)
                assert int(state.s[0]) == want & M32, (name, hex(a), hex(b))
                assert int(state.s[SCC]) == (carry if scc is None else int(scc)), (name, hex(a), hex(b))


WIDE = {
    "s_add_nc_u64": lambda a, b: a + b,
    "s_sub_nc_u64": lambda a, b: a - b,
    "s_mul_u64": lambda a, b: a * b,
    "s_and_b64": lambda a, b: a & b,
    "s_or_b64": lambda a, b: a | b,
    "s_xnor_b64": lambda a, b: ~(a ^ b),
}


@pytest.mark.parametrize("name", sorted(WIDE))
def test_wide(name):
    program = code(f"{name} s[0:1], s[2:3], s[4:5]")
    for a in EDGES:
        for b in EDGES:
            state = State()
            x, y = a << 32 | b ^ 0x55, b << 32 | a
            state.s[2], state.s[3], state.s[4], state.s[5] = x & M32, x >> 32, y & M32, y >> 32
            run(program, state)
            assert int(state.s[0]) | int(state.s[1]) << 32 == WIDE[name](x, y) & M64


def test_wide_shifts_take_the_low_six_bits():
    for by in (0, 1, 31, 32, 63, 64, 70):
        state = State()
        x = 0x8123456789ABCDEF
        state.s[2], state.s[3], state.s[4] = x & M32, x >> 32, by
        run(
            code(
                "s_lshl_b64 s[6:7], s[2:3], s4",
                "s_lshr_b64 s[8:9], s[2:3], s4",
                "s_ashr_i64 s[10:11], s[2:3], s4",
            ),
            state,
        )
        pairs = [int(state.s[n]) | int(state.s[n + 1]) << 32 for n in (6, 8, 10)]
        assert pairs == [x << (by & 63) & M64, x >> (by & 63), s64(x) >> (by & 63) & M64]


UNARY = {
    "s_brev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "s_clz_i32_u32": lambda a: 32 - a.bit_length() if a else M32,
    "s_ctz_i32_b32": lambda a: (a & -a).bit_length() - 1 if a else M32,
    "s_bcnt1_i32_b32": lambda a: a.bit_count(),
    "s_not_b32": lambda a: ~a & M32,
    "s_abs_i32": lambda a: abs(s32(a)),
    "s_sext_i32_i8": lambda a: ((a & 255 ^ 128) - 128) & M32,
    "s_sext_i32_i16": lambda a: ((a & 0xFFFF ^ 0x8000) - 0x8000) & M32,
}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name):
    for a in EDGES:
        state = State()
        state.s[1] = a
        run(code(f"{name} s0, s1"), state)
        assert int(state.s[0]) == UNARY[name](a)


def test_compares():
    for condition, u in (("eq", lambda a, b: a == b), ("lg", lambda a, b: a != b), ("lt", lambda a, b: a < b),
                         ("ge", lambda a, b: a >= b)):  # fmt: skip
        for a in EDGES:
            for b in EDGES:
                for kind, convert in (("u32", lambda x: x), ("i32", s32)):
                    state = State()
                    state.s[1], state.s[2] = a, b
                    run(code(f"s_cmp_{condition}_{kind} s1, s2"), state)
                    assert int(state.s[SCC]) == u(convert(a), convert(b))


def test_saveexec():
    """Saves EXEC and combines it, SCC says whether a lane is left."""
    for name, combine in (
        ("s_and_saveexec_b32", lambda a, e: a & e),
        ("s_or_saveexec_b32", lambda a, e: a | e),
        ("s_xor_saveexec_b32", lambda a, e: a ^ e),
        ("s_and_not1_saveexec_b32", lambda a, e: a & ~e),
        ("s_and_not0_saveexec_b32", lambda a, e: ~a & e),
    ):
        state = State()
        state.s[1], state.s[EXEC] = 0x00FF00FF, 0x0000FFFF
        run(code(f"{name} s0, s1"), state)
        want = combine(0x00FF00FF, 0x0000FFFF) & M32
        assert (int(state.s[0]), int(state.s[EXEC]), int(state.s[SCC])) == (0xFFFF, want, int(want != 0))


def test_scalar_float():
    state = State()
    state.s[1], state.s[2] = np.float32(1.5).view(np.uint32), np.float32(-2.25).view(np.uint32)
    run(code("s_add_f32 s10, s1, s2", "s_mul_f32 s11, s1, s2", "s_max_num_f32 s12, s1, s2",
        "s_cvt_f32_u32 s13, 7",
             "s_cvt_u32_f32 s14, s2", "s_cvt_i32_f32 s15, s2", "s_fmac_f32 s1, s2, 2.0",
             "s_cmp_lt_f32 s2, s1",
             "s_rndne_f32 s16, s2"), state)  # fmt: skip
    assert state.s[10:14].view(np.float32).tolist() == [-0.75, -3.375, 1.5, 7.0]
    assert int(state.s[14]) == 0
    assert s32(int(state.s[15])) == -2
    assert state.s[1:2].view(np.float32)[0] == -3.0
    assert int(state.s[SCC]) == 0
    assert state.s[16:17].view(np.float32)[0] == -2.0


def test_immediates_and_special_registers():
    state = State()
    state.s[SCC], state.s[20] = 1, 5
    run(code("s_movk_i32 s0, -5", "s_addk_co_i32 s20, 0x7fff", "s_mulk_i32 s20, 2", "s_mov_b32 m0, 17",
        "s_mov_b32 s1, m0",
             "s_mov_b32 null, 3", "s_mov_b32 s2, null", "s_mov_b64 s[4:5], -1", "s_mov_b32 vcc_lo, 9",
             "s_mov_b64 s[6:7], 1.0"),
        state)  # fmt: skip
    assert s32(int(state.s[0])) == -5
    assert int(state.s[20]) == (5 + 0x7FFF) * 2
    assert int(state.s[1]) == 17
    assert int(state.s[2]) == 0
    assert [int(x) for x in state.s[4:8]] == [M32, M32, 0, 0x3FF00000]
    assert int(state.s[VCC]) == 9


def test_branches_follow_each_condition():
    lines = ("s_cbranch_{} 1", "s_mov_b32 s0, 1", "s_nop 0")
    for condition, register, taken_when_zero in (
        ("scc0", SCC, True), ("scc1", SCC, False), ("vccz", VCC, True), ("vccnz", VCC, False),
        ("execz", EXEC, True), ("execnz", EXEC, False),
    ):  # fmt: skip
        for value in (0, 1):
            state = State()
            state.s[register] = value
            run(code(*(line.format(condition) for line in lines)), state)
            taken = (value == 0) == taken_when_zero
            assert int(state.s[0]) == (0 if taken else 1), (condition, value)


def test_calls():
    state = State()
    # s_getpc gives the address after itself: 4. The function at 20 returns to 16.
    run(code("s_getpc_b64 s[0:1]", "s_add_nc_u64 s[2:3], s[0:1], 16", "s_swappc_b64 s[4:5], s[2:3]",
        "s_mov_b32 s10, 1",
             "s_branch 2", "s_mov_b32 s11, 2", "s_setpc_b64 s[4:5]"), state)  # fmt: skip
    assert [int(state.s[n]) for n in (10, 11)] == [1, 2]
