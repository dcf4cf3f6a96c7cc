"""Every vector opcode in every encoding of both families, lane by lane, against exact arithmetic on edge
values; under a full, a partial and an empty EXEC. That none is left out: test_opcodes_covered."""

from functools import cache

import gfx_encodings as encodings
import numpy as np
import pytest
from gfx_expected_vector import EXPECTED, FLOATS, IEEE, LITERAL, PACKED

from hipbook.emulator import coverage, isa
from hipbook.emulator.single import EXEC, VCC, State, run

ROUNDS = 15  # pairings of the edge values: registers for so many lie below v128
PARTIAL = 0x8F0F00F5
SAVED = 20  # s20 ..: lane masks that instructions leave
MASKS = 60  # s60 ..: lane masks that they read
IEEE_MODE = 1 << 23
ENCODINGS = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P")

U16 = np.array(
    [
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        15,
        16,
        17,
        31,
        100,
        127,
        128,
        255,
        256,
        1000,
        0x3C00,
        0x7BFF,
        0x7C00,
        0x7FFF,
        0x8000,
        0x8001,
        0x8400,
        0xBC00,
        0xFBFF,
        0xFC00,
        0xFE00,
        0xFF00,
        0xFFF0,
        0xFFFE,
        0xFFFF,
    ],
    np.uint16,
)
U32 = np.array(
    [
        0,
        1,
        2,
        3,
        7,
        15,
        31,
        32,
        33,
        63,
        64,
        127,
        255,
        256,
        0x7FFF,
        0x8000,
        0xFFFF,
        0x10000,
        0x7FFFFF,
        0x800000,
        0xFFFFFF,
        0x1000000,
        0x7FFFFFFF,
        0x80000000,
        0x80000001,
        0xFFFFFFFE,
        0xFFFFFFFF,
        0x12345678,
        0x9ABCDEF0,
        0x0F0C0D09,
        0xF0F10B0A,
        0x01020304,
    ],
    np.uint32,
)
F16 = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.0,
        6e-8,
        -6e-8,
        6.1e-5,
        6.104e-5,
        65504,
        -65504,
        np.inf,
        -np.inf,
        np.nan,
        0.1,
        1000,
        2048,
        2049,
        -0.4999,
        0.3333,
        7,
        10,
        -16,
        0.25,
        1e-3,
        255.9,
        -3.75,
        0,
    ],
    np.float16,
)
F16[31] = np.uint16(0x7D01).view(np.float16)  # a signalling NaN
F32 = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.0,
        1e-45,
        -1e-45,
        1.1754942e-38,
        1.17549435e-38,
        3.4e38,
        -3.4e38,
        np.inf,
        -np.inf,
        np.nan,
        0.1,
        1e10,
        2147483648.0,
        4294967296.0,
        -2147483904.0,
        65519.0,
        65520.0,
        1e-8,
        127.5,
        255.9,
        -0.4999,
        16777217.0,
        7.0,
        0,
    ],
    np.float32,
)
F32.view(np.uint32)[31] = 0x7F800001  # a signalling NaN
F64 = F32.astype(np.float64)
F64[9:15] = [5e-324, -5e-324, 2.225073858507201e-308, 2.2250738585072014e-308, 1.7e308, -1.7e308]
F64[18:25] = [0.1, 1e300, 2147483647.5, 4294967295.9, -2147483648.9, 1e-300, 4.6e-310]
F64.view(np.uint64)[31] = 0x7FF0000000000001
U64 = np.concatenate([U32.astype(np.uint64)[:16], U32.astype(np.uint64)[16:] << np.uint64(32) | U32[:16]])
EDGES = {"u16": U16, "i16": U16.view(np.int16), "u32": U32, "i32": U32.view(np.int32), "u64": U64,
         "i64": U64.view(np.int64), "f16": F16, "f32": F32, "f64": F64}  # fmt: skip
MASK = 0x5A3C_F00F


@cache
def operands(kinds: tuple[str, ...], result: str) -> list[list[np.ndarray]]:
    """Rounds of operand vectors: the edge values against themselves, shifted."""
    rounds = []
    for n in range(ROUNDS):
        row = []
        for place, kind in enumerate(kinds):
            if kind == "mask":
                row.append(np.array([MASK >> (lane + n) % 32 & 1 for lane in range(32)]))
            else:
                kind = result if kind == "old" else kind
                row.append(np.roll(EDGES[kind], (0, 2 * n, 5 * n + 3)[place]))
        rounds.append(row)
    return rounds


def lane_values(row: list[np.ndarray], lane: int) -> list:
    return [x[lane] if x.dtype.kind == "f" else int(x[lane]) for x in row]


def bits_of(value, kind: str) -> int:
    if kind in FLOATS:
        return int(np.asarray(FLOATS[kind](value)).view(f"u{FLOATS[kind]().nbytes}"))
    return int(value) & (1 << int(kind[1:])) - 1


@cache
def answers(name: str, ieee: bool = False) -> list[list[tuple[int, bool]]]:
    """[round][lane]: (bits of the result, the second result or None)."""
    result, kinds, function = (IEEE if ieee else EXPECTED)[name]
    kind = result.rstrip("~").split("+")[0].removesuffix("hi")
    out = []
    with np.errstate(all="ignore"):
        for row in operands(kinds, kind):
            lanes = []
            for lane in range(32):
                value = function(*lane_values(row, lane))
                second = None
                if "+" in result:
                    value, second = value
                if value is None:  # not decided
                    lanes.append((None, None))
                    continue
                lanes.append((bool(value) if kind == "mask" else bits_of(value, kind), second))
            out.append(lanes)
    return out


def load(state: State, register: int, kind: str, values: np.ndarray) -> None:
    if kind.endswith("64"):
        state.set_u64(register, values)
    elif kind.endswith("16"):
        state.v[register] = values.view(np.uint16).astype(np.uint32) | 0xABCD0000
    else:
        state.v[register] = values.view(np.uint32)


class Case:
    """One opcode in one encoding: its program, inputs and what must come out."""

    def __init__(self, family: str, encoding: str, op: int, name: str, ieee: bool = False) -> None:
        self.name, self.ieee, self.family, self.encoding, self.op = (
            isa.base_name(name),
            ieee,
            family,
            encoding,
            op,
        )
        result, self.kinds, _ = (IEEE if ieee else EXPECTED)[self.name]
        self.upper = result.endswith("hi")
        self.loose = result.endswith("~")
        self.kind, _, self.second = result.removesuffix("hi").rstrip("~").partition("+")
        both = LITERAL << 16 | LITERAL
        self.literal = both.to_bytes(4, "little") if "FMAMK" in name or "FMAAK" in name else b""

    def program(self, exec_mask: int, rounds: int = ROUNDS) -> tuple[State, bytes]:
        state, code = State(), b""
        rng = np.random.default_rng(len(self.name))
        state.v[:] = rng.integers(0, 1 << 32, state.v.shape, dtype=np.uint64).astype(np.uint32)
        state.s[EXEC] = exec_mask
        mov = isa_op(self.family, "SOP1", "S_MOV_B32")
        for n, row in enumerate(operands(self.kinds, self.kind)[:rounds]):
            at = 8 * n
            places = [at, at + 2, at + 4]
            third = 256 + at + 4
            for place, kind, values in zip(places, self.kinds, row, strict=False):
                if kind == "mask":
                    mask = sum(int(bit) << lane for lane, bit in enumerate(values))
                    state.s[MASKS + n], third = mask, MASKS + n
                    code += encodings.scalar("SOP1", mov, VCC, MASKS + n)
                elif kind == "old":
                    load(state, at + 6, self.kind, values)
                else:
                    load(state, place, kind, values)
            compares = self.kind == "mask"
            destination = at + 6
            if compares and self.encoding == "VOP3":
                destination = EXEC if "CMPX" in self.name else SAVED + n
            if self.name.startswith("V_S_"):
                destination = SAVED + n
                state.s[MASKS + n] = state.v[at][0] = load_scalar(row[0])
            first = MASKS + n if self.name.startswith("V_S_") else 256 + at
            registers = encodings.Registers(first, at + 2, third, destination, SAVED + n)
            code += encodings.vector(self.encoding, self.op, registers) + self.literal
            if compares and (self.encoding == "VOPC" or "CMPX" in self.name):
                code += encodings.scalar("SOP1", mov, SAVED + n, EXEC if "CMPX" in self.name else VCC)
                code += self.restore(mov, exec_mask, state)
            elif self.second and self.encoding == "VOP2":
                code += encodings.scalar("SOP1", mov, SAVED + n, VCC)
        return state, code

    @staticmethod
    def restore(mov: int, exec_mask: int, state: State) -> bytes:
        state.s[100] = exec_mask
        return encodings.scalar("SOP1", mov, EXEC, 100)

    def check(self, exec_mask: int) -> None:
        state, code = self.program(exec_mask)
        before = state.v.copy()
        run(code, state, family=self.family, rsrc1=IEEE_MODE if self.ieee else 0)
        where = f"{self.family} {self.encoding} {self.name}"
        for n, lanes in enumerate(answers(self.name, self.ieee)):
            at = 8 * n
            saved = int(state.s[SAVED + n])
            row = operands(self.kinds, self.kind)[n]
            for lane, (want, second) in enumerate(lanes):
                if want is None:
                    continue
                inputs = lane_values(row, lane)
                active = exec_mask >> lane & 1
                if self.kind == "mask":
                    assert saved >> lane & 1 == int(want and active), (where, inputs, want)
                    continue
                if self.second:
                    assert saved >> lane & 1 == int(second and active), (where, inputs, second)
                if self.name.startswith("V_S_"):
                    if lane == 0:
                        assert close(saved, want, self.kind, self.loose), (
                            where,
                            inputs,
                            hex(saved),
                            hex(want),
                        )
                    continue
                got = int(state.v[at + 6][lane]) | int(state.v[at + 7][lane]) << 32
                old = int(before[at + 6][lane]) | int(before[at + 7][lane]) << 32
                size = int(self.kind[1:])
                if size == 16:  # the other half stays
                    shift = 16 if self.upper else 0
                    assert (got ^ old) & (0xFFFF0000 >> shift) == 0, (where, "the other half")
                    got, old = got >> shift & 0xFFFF, old >> shift & 0xFFFF
                elif size == 32:
                    got, old = got & 0xFFFFFFFF, old & 0xFFFFFFFF
                if not active:
                    assert got == old, (where, "an inactive lane was written")
                else:
                    assert close(got, want, self.kind, self.loose), (where, inputs, hex(got), hex(want))


def load_scalar(values: np.ndarray) -> int:
    return int(values[:1].view({2: np.uint16, 4: np.uint32}[values.itemsize])[0])


def close(got: int, want: int, kind: str, loose: bool) -> bool:
    """Equal bits; any NaN is any NaN; one unit in the last place where that is allowed."""
    if kind == "b16" and min(got & 0x7FFF, want & 0x7FFF) > 0x7F80:
        return True
    if kind not in FLOATS or got == want:
        return got == want
    unsigned = f"u{FLOATS[kind]().nbytes}"
    x, y = (np.array(v, unsigned).view(FLOATS[kind]) for v in (got, want))
    if np.isnan(x) and np.isnan(y):
        return True
    return loose and abs(got - want) <= 1


@cache
def isa_op(family: str, encoding: str, name: str) -> int:
    return next(op for op, n in isa.opcodes(family)[encoding].items() if n == name)


def cases(family: str) -> list[Case]:
    return [
        Case(family, encoding, op, name)
        for encoding in ENCODINGS
        for op, name in isa.opcodes(family)[encoding].items()
        if coverage.is_covered(name) and isa.base_name(name) in EXPECTED
    ]


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_opcode_on_edge_values(family, encoding):
    """Full EXEC in the short encodings, a partial one in the long: inactive lanes keep what they have."""
    tried = 0
    for case in cases(family):
        if case.encoding == encoding:
            case.check(0xFFFFFFFF if encoding in ("VOP1", "VOP2") else PARTIAL)
            tried += 1
    assert tried >= {"VOP1": 70, "VOP2": 35, "VOPC": 150, "VOP3": 350, "VOP3SD": 7, "VOP3P": 8}[encoding]


@pytest.mark.parametrize("name", sorted(IEEE))
def test_minima_and_maxima_in_ieee_mode(name):
    ops = [
        (e, op)
        for e in ("VOP2", "VOP3")
        for op, n in isa.opcodes("rdna3")[e].items()
        if isa.base_name(n) == name
    ]
    assert ops
    for encoding, op in ops:
        Case("rdna3", encoding, op, name, ieee=True).check(0xFFFFFFFF)


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_packed_opcodes_do_both_halves(family):
    """Against the 16-bit expectations; opsel and opsel_hi choose the halves."""
    tried = 0
    for encoding in ("VOP3P", "VOP2"):
        for op, name in isa.opcodes(family)[encoding].items():
            base = isa.base_name(name)
            if base not in PACKED:
                continue
            _, kinds, function = EXPECTED[PACKED[base]]
            kinds = tuple("f16" if kind == "old" else kind for kind in kinds)
            for opsel, opsel_hi in ((0, 7), (1, 6), (7, 0)) if encoding == "VOP3P" else ((0, 7),):
                state, values = State(), []
                for place, kind in enumerate(kinds):
                    halves = [np.roll(EDGES[kind], s * (3 * place + 1)) for s in (1, 5)]
                    values.append(halves)
                    bits = [h.view(np.uint16).astype(np.uint32) for h in halves]
                    state.v[6 if EXPECTED[PACKED[base]][1][place] == "old" else 2 * place] = (
                        bits[0] | bits[1] << 16
                    )
                extra = opsel << 11 | ((opsel_hi >> 2 & 1) << 14) if encoding == "VOP3P" else 0
                code = encodings.vector(encoding, op, encodings.Registers(256, 2, 260, 6), 0)
                word = int.from_bytes(code, "little")
                if encoding == "VOP3P":
                    word = word & ~(1 << 14) | extra | (opsel_hi & 3) << 59
                run(word.to_bytes(len(code), "little"), state, family=family)
                with np.errstate(all="ignore"):
                    for lane in range(32):
                        want = []
                        for choice in (opsel, opsel_hi):
                            chosen = [v[choice >> p & 1][lane] for p, v in enumerate(values)]
                            chosen = [x if x.dtype.kind == "f" else int(x) for x in chosen]
                            want.append(bits_of(function(*chosen), "f16" if kinds[0] == "f16" else "u16"))
                        got = int(state.v[6][lane])
                        for half, shift in zip(want, (0, 16), strict=True):
                            where = (family, base, opsel, opsel_hi, lane)
                            assert close(
                                got >> shift & 0xFFFF, half, "f16" if kinds[0] == "f16" else "u16", False
                            ), where
            tried += 1
    assert tried >= 20


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_an_empty_exec_changes_nothing(family):
    """No vector register changes, no lane mask is set. (Scalar results of V_S_* do not depend on EXEC.)"""
    for case in cases(family):
        if case.name.startswith("V_S_"):
            continue
        state, code = case.program(0, rounds=1)
        before = state.v.copy()
        run(code, state, family=family)
        assert (state.v == before).all(), (case.encoding, case.name)
        if case.kind == "mask" or case.second:
            assert not state.s[SAVED : SAVED + ROUNDS].any(), (case.encoding, case.name)
