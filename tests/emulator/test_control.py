"""Control flow, lane moves and divisions of both families: opcodes whose operands or effect fit no table."""

from fractions import Fraction

import gfx_encodings as encodings
import numpy as np
import pytest
from gfx_assembler import encode
from gfx_numbers import rounded

from hipbook.emulator import coverage, isa
from hipbook.emulator.semantics import native
from hipbook.emulator.single import EXEC, SCC, VCC, State, run
from hipbook.errors import EmulatorError, KernelFault

CPUS = {"rdna3": "gfx1100", "rdna4": "gfx1200"}
BOTH = pytest.mark.parametrize("family", ["rdna3", "rdna4"])
LANE = np.arange(32, dtype=np.uint32)


def op(family: str, encoding: str, name: str) -> int:
    return next(n for n, known in isa.opcodes(family)[encoding].items() if isa.base_name(known) == name)


def has(family: str, encoding: str, name: str) -> bool:
    return name in map(isa.base_name, isa.opcodes(family)[encoding].values())


def go(family: str, lines: list[str], state: State, **options) -> None:
    run(b"".join(encode(tuple(lines), cpu=CPUS[family])), state, family=family, **options)


def program(family: str, name: str, immediate: int = 0) -> bytes:
    """A SOPP instruction."""
    return (0x17F << 23 | op(family, "SOPP", name) << 16 | immediate).to_bytes(4, "little")


def set_s(register: int, value: int, family: str) -> bytes:
    """s_movk_i32"""
    return encodings.scalar("SOPK", op(family, "SOPK", "S_MOVK_I32"), register, value)


# ---- control ----


@BOTH
def test_waits_and_hints_change_nothing(family):
    tried = 0
    for encoding in ("SOPP", "SOPK", "SOP1", "SMEM", "VOP1", "VOP3", "VBUFFER", "VGLOBAL", "DS"):
        for number, name in isa.opcodes(family)[encoding].items():
            base = isa.base_name(name)
            if base not in native.NOPS or not coverage.is_covered(name):
                continue
            state = State()
            state.v[:] = LANE
            state.s[:100] = np.arange(100)
            before = state.v.copy(), state.s.copy()
            form = "bare" if encoding != "SOPP" else "full"
            code = encodings.words(family, encoding, number, name, form)
            run(code + set_s(101, 7, family), state, family=family)
            assert int(state.s[101]) == 7
            state.s[101] = before[1][101]
            assert (state.v == before[0]).all(), name
            assert (state.s == before[1]).all(), name
            tried += 1
    assert tried >= 15


@BOTH
def test_branches(family):
    """Taken and not taken, forwards over an instruction; and backwards, to a loop's end."""
    for name in native.BRANCHES:
        for scc in (0, 1):
            for vcc in (0, 4):
                for exec_mask in (0, 9):
                    state = State()
                    state.s[SCC], state.s[VCC], state.s[EXEC] = scc, vcc, exec_mask
                    taken = {
                        "S_BRANCH": True, "S_CBRANCH_SCC0": not scc, "S_CBRANCH_SCC1": scc,
                        "S_CBRANCH_VCCZ": not vcc, "S_CBRANCH_VCCNZ": vcc, "S_CBRANCH_EXECZ": not exec_mask,
                        "S_CBRANCH_EXECNZ": exec_mask,
                    }[name]  # fmt: skip
                    code = program(family, name, 1) + set_s(4, 1, family) + set_s(5, 2, family)
                    run(code, state, family=family)
                    assert (int(state.s[4]), int(state.s[5])) == (0 if taken else 1, 2), name
    state = State()
    state.s[4] = 10
    go(family, ["s_add_i32 s5, s5, s4", "s_addk_i32 s4, -1" if family == "rdna3" else "s_addk_co_i32 s4, -1",
                "s_cmp_lg_u32 s4, 0", "s_cbranch_scc1 65532"], state)  # fmt: skip
    assert int(state.s[5]) == 55


@BOTH
def test_the_ends_of_a_program(family):
    for name in ("S_ENDPGM", "S_ENDPGM_SAVED"):
        state = State()
        run(set_s(4, 3, family) + program(family, name) + set_s(4, 5, family), state, family=family)
        assert int(state.s[4]) == 3


@BOTH
def test_traps(family):
    for name in ("S_TRAP", "S_SETHALT", "S_SENDMSGHALT"):
        state = State()
        with pytest.raises(KernelFault, match="trap: "):
            run(set_s(4, 3, family) + program(family, name, 2) + set_s(4, 5, family), state, family=family)
        assert int(state.s[4]) == 3


@BOTH
def test_modes_and_messages(family):
    """The modes that are modelled change nothing; others, and messages to the host, are refused."""
    fine = [("S_SENDMSG", 3), ("S_ROUND_MODE", 0), ("S_DENORM_MODE", 0xF)]
    for name, immediate in fine:
        state = State()
        run(program(family, name, immediate) + set_s(4, 5, family), state, family=family)
        assert int(state.s[4]) == 5
    for name, immediate in (("S_SENDMSG", 1), ("S_ROUND_MODE", 3), ("S_DENORM_MODE", 0)):
        with pytest.raises(EmulatorError, match=name):
            run(program(family, name, immediate), State(), family=family)
    if has(family, "SOP1", "S_SLEEP_VAR"):
        state = State()
        code = encodings.scalar("SOP1", op(family, "SOP1", "S_SLEEP_VAR"), 0, 4)
        run(code + set_s(4, 5, family), state, family=family)
        assert int(state.s[4]) == 5


@BOTH
def test_jumps_through_registers(family):
    """s_getpc, s_call, s_setpc and s_swappc: to a place, and back to where it was called."""
    add = "s_add_co_u32" if family == "rdna4" else "s_add_u32"
    addk = "s_addk_co_i32" if family == "rdna4" else "s_addk_i32"
    state = State()
    callee = [f"{addk} s4, 1", "s_branch 2", f"{addk} s4, 16"]
    go(family, ["s_call_b64 s[10:11], 2", *callee, "s_setpc_b64 s[10:11]", "s_nop 0"], state)
    assert int(state.s[4]) == 17
    state = State()
    go(family, ["s_getpc_b64 s[10:11]", f"{add} s10, s10, 16", "s_swappc_b64 s[12:13], s[10:11]", *callee,
                "s_setpc_b64 s[12:13]", "s_nop 0"], state)  # fmt: skip
    assert int(state.s[4]) == 17
    state = State()
    with pytest.raises(KernelFault, match="bad-jump"):
        go(family, ["s_setpc_b64 s[10:11]"], state)


@BOTH
def test_barriers_of_one_wave(family):
    """A workgroup of one wave passes its barriers; the first to signal is told so."""
    lines = ["s_barrier"]
    if family == "rdna4":
        lines = [
            "s_barrier_signal -1",
            "s_barrier_wait -1",
            "s_barrier_signal_isfirst -1",
            "s_barrier_wait -1",
        ]
    state = State()
    go(family, [*lines, "s_movk_i32 s4, 0x9"], state)
    assert int(state.s[4]) == 9
    if family == "rdna4":
        assert int(state.s[SCC]) == 1
        for lines in (["s_barrier_signal 3"], ["s_barrier_wait 1"]):
            with pytest.raises(EmulatorError, match="named barrier"):
                go(family, lines, State())


# ---- lanes ----


@BOTH
def test_lanes_and_scalars(family):
    state = State()
    state.v[1], state.v[2], state.v[3] = LANE * 3 + 1, LANE + 100, 0x5555AAAA
    state.s[4], state.s[5], state.s[EXEC] = 37, 77, 0xFFF0
    go(family, ["v_readfirstlane_b32 s8, v1", "v_readlane_b32 s9, v1, s4", "v_readlane_b32 s10, v1, 31",
                "v_writelane_b32 v2, s5, 1", "v_mbcnt_lo_u32_b32 v4, v3, 7",
                "v_mbcnt_hi_u32_b32 v5, v3, 7"], state)  # fmt: skip
    assert [int(state.s[n]) for n in (8, 9, 10)] == [13, 5 * 3 + 1, 94]  # lane numbers wrap at 32
    assert state.v[2].tolist() == [77 if n == 1 else n + 100 for n in range(32)]  # EXEC does not matter
    below = [bin(0x5555AAAA & (1 << n) - 1).count("1") + 7 for n in range(32)]
    assert state.v[4].tolist() == [below[n] if 4 <= n < 16 else 0 for n in range(32)]
    assert state.v[5].tolist() == [
        7 if 4 <= n < 16 else 0 for n in range(32)
    ]  # a wave of 32 has no upper half
    state.s[EXEC] = 0
    go(family, ["v_readfirstlane_b32 s8, v1"], state)
    assert int(state.s[8]) == 1  # with no lane active, lane 0's
    state.v[1], state.v[2], state.s[EXEC] = LANE, LANE + 100, 0xF
    go(family, ["v_swap_b32 v1, v2"], state)
    assert state.v[1].tolist() == [n + 100 if n < 4 else n for n in range(32)]
    assert state.v[2].tolist() == [n if n < 4 else n + 100 for n in range(32)]
    number = op(family, "VOP1", "V_SWAP_B16")
    state.v[1], state.v[2] = 0x11112222, 0x33334444
    run(
        encodings.vector("VOP1", number, encodings.Registers(first=256 + 128 + 2, destination=1)),
        state,
        family=family,
    )
    assert state.v[1].tolist() == [
        0x11113333 if n < 4 else 0x11112222 for n in range(32)
    ]  # low half and v2's high
    assert state.v[2].tolist() == [0x22224444 if n < 4 else 0x33334444 for n in range(32)]


@BOTH
def test_permutations_within_rows(family):
    """Selectors of four bits a lane; X: from the other row. opsel 1: inactive lanes too, 2: zero."""
    rng = np.random.default_rng(2)
    picks = rng.integers(0, 16, 16)
    low = sum(int(p) << 4 * n for n, p in enumerate(picks[:8]))
    high = sum(int(p) << 4 * n for n, p in enumerate(picks[8:]))
    for name, other in (("V_PERMLANE16", 0), ("V_PERMLANEX16", 16)):
        for form in ("_B32", "_VAR_B32"):
            if not has(family, "VOP3", name + form):
                continue
            for opsel in (0, 1, 2):
                state = State()
                state.v[1], state.v[2], state.v[6] = LANE + 1000, picks[LANE % 16], LANE + 5
                state.s[4], state.s[5], state.s[EXEC] = low, high, 0x0FF3FF5F
                second, third = (2, 256) if form == "_VAR_B32" else (4 - 256, 5)
                registers = encodings.Registers(256 + 1, second, third, 6)
                number = op(family, "VOP3", name + form)
                run(encodings.vector("VOP3", number, registers, extra=opsel << 11), state, family=family)
                for lane in range(32):
                    source = lane & 16 ^ other | int(picks[lane % 16])
                    active = 0x0FF3FF5F >> source & 1
                    want = source + 1000 if active or opsel == 1 else 0 if opsel == 2 else lane + 5
                    if not 0x0FF3FF5F >> lane & 1:
                        want = lane + 5
                    assert int(state.v[6][lane]) == want, (name, form, opsel, lane)


@BOTH
def test_permutations_through_lds(family):
    rng = np.random.default_rng(6)
    places = rng.integers(0, 200, 32).astype(np.uint32)  # past lane 31 they wrap
    exec_mask = 0xFF0FF0F7
    state = State()
    state.v[1], state.v[2], state.s[EXEC] = places * 4 + 3, LANE + 100, exec_mask
    go(family, ["ds_bpermute_b32 v3, v1, v2 offset:8", "ds_permute_b32 v4, v1, v2 offset:4"], state)
    active = [n for n in range(32) if exec_mask >> n & 1]
    for lane in active:
        source = (int(places[lane]) + 2) % 32
        assert int(state.v[3][lane]) == (source + 100 if source in active else 0)
    want = [0] * 32
    for lane in active:  # of several, the highest lane's
        want[(int(places[lane]) + 1) % 32] = lane + 100
    assert [int(state.v[4][n]) for n in active] == [want[n] for n in active]
    if family == "rdna4":
        go(family, ["ds_bpermute_fi_b32 v5, v1, v2"], state)
        assert all(int(state.v[5][n]) == int(places[n]) % 32 + 100 for n in active)
    for offset, source in (
        (0x8000 | 0b00_01_10_11, lambda n: n & ~3 | 3 - n % 4),  # a permutation of four neighbours
        (0x041F, lambda n: n ^ 1), (0x0010, lambda n: n & 16), (0x7C1F, lambda n: n ^ 31),
        (0xC000 | 3 << 5, lambda n: (n + 3) % 32), (0xC000 | 1 << 10 | 3 << 5, lambda n: (n - 3) % 32),
    ):  # fmt: skip
        state = State()
        state.v[2] = LANE + 100
        go(family, [f"ds_swizzle_b32 v3, v2 offset:{offset}"], state)
        assert state.v[3].tolist() == [source(n) + 100 for n in range(32)], hex(offset)


@BOTH
def test_two_addresses_of_lds(family):
    for bits in (32, 64):
        for stride, unit in (("", bits // 8), ("stride64_", 8 * bits)):
            state = State()
            size = bits // 8
            state.v[0] = LANE * size
            state.v[2:6] = (
                np.random.default_rng(1).integers(0, 1 << 32, (4, 32), dtype=np.uint64).astype(np.uint32)
            )
            data = [state.v[r : r + size // 4].T.copy() for r in (2, 4)]
            wide = "v[2:3], v[4:5]" if bits == 64 else "v2, v4"
            into = "v[8:11]" if bits == 64 else "v[8:9]"
            first, second = (0, 40) if not stride else (0, 1)
            go(family, [f"ds_store_2addr_{stride}b{bits} v0, {wide} offset0:{first} offset1:{second}",
                        f"ds_load_2addr_{stride}b{bits} {into}, v0 offset0:{second} offset1:{first}"],
               state)  # fmt: skip
            for lane in range(32):
                for place, value in ((first, data[0]), (second, data[1])):
                    at = lane * size + place * unit
                    assert state.lds[at : at + size].view(np.uint32).tolist() == value[lane].tolist()
                got = state.v[8 : 8 + size // 2, lane].tolist()
                assert got == [*data[1][lane].tolist(), *data[0][lane].tolist()]


# ---- division ----


def divide64(family: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sequence the compiler emits for a division of doubles."""
    state = State()
    state.set_u64(2, a)
    state.set_u64(4, b)
    go(family, [
        "v_div_scale_f64 v[6:7], null, v[4:5], v[4:5], v[2:3]", "v_rcp_f64 v[8:9], v[6:7]",
        "v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0", "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]",
        "v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0", "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]",
        "v_div_scale_f64 v[12:13], vcc_lo, v[2:3], v[4:5], v[2:3]", "v_mul_f64 v[14:15], v[12:13], v[8:9]",
        "v_fma_f64 v[6:7], -v[6:7], v[14:15], v[12:13]",
        "v_div_fmas_f64 v[6:7], v[6:7], v[8:9], v[14:15]", "v_div_fixup_f64 v[0:1], v[6:7], v[4:5], v[2:3]",
    ], state)  # fmt: skip
    return state.u64(0).view(np.float64)


@BOTH
def test_division_of_doubles(family):
    """Every branch of the scaling: tiny, huge, subnormal operands and quotients; and the special values."""
    rng = np.random.default_rng(3)
    scales = [
        2.0**e for e in (-1074, -1060, -1023, -1022, -1000, -500, -1, 0, 1, 500, 770, 1000, 1021, 1022, 1023)
    ]
    for p in scales:
        for q in scales:
            a = rng.uniform(1, 1.99, 32) * p * rng.choice([1.0, -1.0], 32)
            b = rng.uniform(1, 1.99, 32) * q
            with np.errstate(all="ignore"):
                want = a / b
            got = divide64(family, a, b)
            assert (got.view(np.uint64) == want.view(np.uint64)).all(), (p, q)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 5e-324])
    for shift in range(8):
        a, b = np.resize(special, 32), np.resize(np.roll(special, shift), 32)
        with np.errstate(all="ignore"):
            want = a / b
        got = divide64(family, a, b)
        assert ((got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))).all()


@BOTH
def test_division_of_halves(family):
    """As the compiler divides halves: in f32, rounded, and fixed up for the special values."""
    rng = np.random.default_rng(8)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 6e-8, 65504], np.float16)
    number = op(family, "VOP3", "V_DIV_FIXUP_F16")
    for n in range(12):
        a, b = (rng.normal(0, 10.0 ** rng.integers(-4, 4), 32).astype(np.float16) for _ in range(2))
        if n < 9:
            a, b = np.resize(special, 32), np.resize(np.roll(special, n), 32)
        with np.errstate(all="ignore"):
            quotient = (a.astype(np.float32) / b.astype(np.float32)).astype(np.float16)
            want = a / b
        state = State()
        for register, x in ((0, quotient), (2, b), (4, a)):
            state.v[register] = x.view(np.uint16)
        run(encodings.vector("VOP3", number, encodings.Registers(256, 2, 260, 6)), state, family=family)
        got = state.v[6].astype(np.uint16).view(np.float16)
        assert ((got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(got) & np.isnan(want))).all(), n
        for x, y, z in zip(a, b, got, strict=True):  # and exactly
            if np.isfinite(x) and np.isfinite(y) and y != 0 and x != 0 and np.isfinite(z):
                assert (
                    abs(float(rounded(Fraction(float(x)) / Fraction(float(y)), np.float16)) - float(z))
                    <= 6e-8
                )
