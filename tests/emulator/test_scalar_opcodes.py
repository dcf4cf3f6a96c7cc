"""Every scalar ALU opcode of both families on edge values, SCC clear and set, against exact arithmetic."""

import itertools

import gfx_encodings as encodings
import numpy as np
import pytest
from gfx_expected_scalar import SAVEEXEC, SCALAR
from gfx_expected_vector import FLOATS

from hipbook.emulator import coverage, isa
from hipbook.emulator.single import EXEC, SCC, State, run

ENCODINGS = ("SOP1", "SOP2", "SOPC", "SOPK")
U32 = [
    0,
    1,
    2,
    31,
    32,
    63,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x12345678,
    0x00200005,
    0x00400010,
    0xFFFF8000,
]
U64 = [0, 1, 0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 63, (1 << 64) - 1, 0x123456789ABCDEF0, 0x00F0000000000300]
S16 = [0, 1, 5, 0x7FFF, 0x8000, 0xFFFF, 0x1234]
F32 = np.array(
    [0.0, -0.0, 1.0, -1.5, 2.5, 1e-45, 3.4e38, np.inf, -np.inf, np.nan, 2147483648.0, -0.4, 65520.0],
    np.float32,
)
F16 = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 6e-8, 65504, np.inf, -np.inf, np.nan, 0.1, 2049], np.float16)
LITERAL = np.float32(1.25)
OLD = 0xDEADBEEF_8000_0001


def values(kind: str) -> list:
    """(bits, what the expectation is handed)."""
    if kind in FLOATS:
        table = F32 if kind == "f32" else F16
        return [(int(x.view(f"u{x.nbytes}")), x) for x in table]
    if kind == "literal":
        return [(0, LITERAL)]
    size = int(kind[1:])
    table = {16: S16, 32: U32, 64: U64}[size]
    return [(x, x - (x >> size - 1 << size) if kind[0] in "is" else x) for x in table]


def result_bits(value, kind: str) -> int:
    if kind in FLOATS:
        return int(np.asarray(FLOATS[kind](value)).view(f"u{FLOATS[kind]().nbytes}"))
    return int(value) & (1 << int(kind[1:])) - 1


def same(got: int, want: int, kind: str) -> bool:
    if kind in FLOATS:
        got &= (1 << int(kind[1:])) - 1
        unsigned = f"u{FLOATS[kind]().nbytes}"
        x, y = (np.array(v, unsigned).view(FLOATS[kind]) for v in (got, want))
        return got == want or bool(np.isnan(x) and np.isnan(y))
    return got == want


def check(family: str, encoding: str, op: int, name: str) -> int:
    result, kinds, function = SCALAR[name]
    tried = 0
    chosen = [kind for kind in kinds if kind != "old"]
    pairings = list(itertools.product(*(values(kind) for kind in chosen)))
    pairings = pairings[:: max(1, len(pairings) // 26)]  # a step that is no multiple of a row's length
    for n, row in enumerate(pairings):
        for scc in (0, 1) if n % 3 == 0 or encoding == "SOP1" else (n & 1,):
            state = State()
            state.s[SCC], state.s[4], state.s[5] = scc, OLD & 0xFFFFFFFF, OLD >> 32
            fields, at, immediate = [], 8, None
            for kind, (bits, _) in zip(chosen, row, strict=True):
                if kind in ("s16", "u16") and encoding == "SOPK":
                    immediate = bits
                elif kind != "literal":
                    state.s[at], state.s[at + 1] = bits & 0xFFFFFFFF, bits >> 32
                    fields.append(at)
                    at += 2
            if encoding == "SOPK":  # a comparison's register is its destination field
                code = encodings.scalar("SOPK", op, fields[0] if fields else 4, immediate)
            else:
                code = encodings.scalar(encoding, op, 4, *fields)
            if "literal" in kinds:
                code += int(LITERAL.view(np.uint32)).to_bytes(4, "little")
            run(code, state, family=family)
            inputs = [x for _, x in row]
            if "old" in kinds:
                wide = int(result[1:])
                old = OLD & (1 << wide) - 1
                inputs.append(
                    np.array(old, f"u{wide // 8}").view(FLOATS[result])[()] if result in FLOATS else old
                )
            with np.errstate(all="ignore"):
                want, want_scc = function(scc, *inputs)
            where = (family, name, inputs, scc)
            assert int(state.s[SCC]) == int(scc if want_scc is None else bool(want_scc)), (*where, "SCC")
            if result:
                got = int(state.s[4]) | int(state.s[5]) << 32
                got &= 0xFFFFFFFF if not result.endswith("64") else (1 << 64) - 1
                assert same(got, result_bits(want, result), result), (*where, hex(got), want)
            if not result.endswith("64"):
                assert int(state.s[5]) == OLD >> 32, (*where, "the next register")
            tried += 1
    return tried


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_scalar_opcode_on_edge_values(family, encoding):
    done = {
        name: check(family, encoding, op, name)
        for op, name in isa.opcodes(family)[encoding].items()
        if coverage.is_covered(name) and name in SCALAR
    }
    assert len(done) >= {"SOP1": 42, "SOP2": 60, "SOPC": 44, "SOPK": 4}[encoding]
    assert min(done.values()) >= 7


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_exec_is_saved_and_replaced(family):
    seen = set()
    for op, name in isa.opcodes(family)["SOP1"].items():
        if name not in SAVEEXEC:
            continue
        for a, e in itertools.product((0, 0xFFFFFFFF, 0xF0F0A5A5, 1), (0, 0xFFFFFFFF, 0x0FF05A5A)):
            state = State()
            state.s[8], state.s[EXEC] = a, e
            run(encodings.scalar("SOP1", op, 4, 8), state, family=family)
            new = SAVEEXEC[name](a, e) & 0xFFFFFFFF
            assert int(state.s[EXEC]) == new, name
            assert int(state.s[4]) == (new if "WREXEC" in name else e), name
            assert int(state.s[SCC]) == (new != 0), name
        seen.add(name)
    assert seen == set(SAVEEXEC)
