"""Every load, store and atomic of every space and both families, lane by lane, against bytes in Python."""

import numpy as np
import pytest
from gfx_expected_memory import LOADS, STORES, atomic, loaded

from hipbook.emulator import coverage, isa
from hipbook.emulator.single import EXEC, MEMORY, State, run

NULL = 124
PARTIAL = 0xF00F_5AFF
SPACES = ("VGLOBAL", "VFLAT", "VSCRATCH", "VBUFFER", "DS", "SMEM")
LANES = range(32)


def code(family: str, encoding: str, op: int, returns: bool) -> bytes:
    """Address in v[2:3] (of a buffer and LDS the offset in v2), data in v4 .. v7 (LDS: second in v6), result
    in v8 .., a buffer's descriptor in s[8:11], a scalar address in s[8:9] and result in s[16:..]."""
    if encoding == "DS":
        return (0b110110 << 26 | op << 18 | 2 << 32 | 4 << 40 | 6 << 48 | 8 << 56).to_bytes(8, "little")
    if encoding == "SMEM":
        return (0b111101 << 26 | op << (18 if family == "rdna3" else 13) | NULL << 57 | 4 | 16 << 6).to_bytes(
            8, "little"
        )
    if family == "rdna3":
        if encoding == "VBUFFER":
            word = (
                0b111000 << 26 | op << 18 | 1 << 54 | 2 << 32 | 4 << 40 | 2 << 48 | 128 << 56 | returns << 14
            )
        else:
            segment = {"VFLAT": 0, "VSCRATCH": 1, "VGLOBAL": 2}[encoding]
            word = (
                0b110111 << 26
                | op << 18
                | segment << 16
                | 2 << 32
                | 4 << 40
                | NULL << 48
                | 8 << 56
                | returns << 14
            )
            word |= (encoding == "VSCRATCH") << 55
        return word.to_bytes(8, "little")
    if encoding == "VBUFFER":
        word = 0b110001 << 26 | op << 14 | NULL | 4 << 32 | 8 << 41 | 1 << 62 | 2 << 64 | returns << 52
    else:
        eight = {"VFLAT": 0xEC, "VSCRATCH": 0xED, "VGLOBAL": 0xEE}[encoding]
        word = eight << 24 | op << 14 | NULL | 8 << 32 | 4 << 55 | 2 << 64 | returns << 52
        word |= (encoding == "VSCRATCH") << 49
    return word.to_bytes(12, "little")


class Machine:
    """A wave, its memory, and the same memory in Python."""

    def __init__(self, family: str, encoding: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.family, self.encoding = family, encoding
        self.state = State()
        self.state.v[:16] = rng.integers(0, 1 << 32, (16, 32), dtype=np.uint64).astype(np.uint32)
        self.bytes = rng.integers(0, 256, 4096).astype(np.uint8)
        self.state.lds[:] = self.bytes
        self.state.s[8:12] = MEMORY & 0xFFFFFFFF, MEMORY >> 32, 4096, 0
        self.state.s[EXEC] = PARTIAL

    def at(self, places: list[int]) -> None:
        """Each lane's place in memory, into the address registers."""
        places = np.array(places, np.uint64)
        if self.encoding in ("VGLOBAL", "VFLAT"):
            self.state.set_u64(2, places + np.uint64(MEMORY))
        else:
            self.state.v[2] = places.astype(np.uint32)

    def run(self, text: bytes) -> np.ndarray:
        memory = self.bytes.copy()
        run(text, self.state, family=self.family, memory=memory)
        return self.state.lds.copy() if self.encoding == "DS" else memory


def ending(name: str, table: dict, verb: str) -> tuple | None:
    return table.get(name.partition(f"_{verb}_")[2]) if f"_{verb}_" in name else None


def load(m: Machine, op: int, size: int, how: str, places: list[int], data_at: int) -> None:
    m.at(places)
    before = m.state.v.copy()
    m.run(code(m.family, m.encoding, op, False))
    for lane in LANES:
        for k in range(max(1, size // 4)):
            old, got = int(before[data_at + k][lane]), int(m.state.v[data_at + k][lane])
            if not PARTIAL >> lane & 1:
                assert got == old, "an inactive lane was written"
                continue
            memory = m.bytes[places[lane] : places[lane] + size].tobytes()
            assert got == loaded(memory, how, old)[k], (lane, k)


def scratch_load(m: Machine, op: int, size: int, how: str, store_op: int) -> None:
    """Private memory starts unwritten: each lane first stores 16 bytes of its own."""
    m.state.v[2] = 32
    data = m.state.v[4:8].copy()
    before = m.state.v.copy()
    run(
        code(m.family, "VSCRATCH", store_op, False) + code(m.family, "VSCRATCH", op, False),
        m.state, family=m.family, scratch_bytes=64,
    )  # fmt: skip
    for lane in LANES:
        memory = b"".join(int(word).to_bytes(4, "little") for word in data[:, lane])
        for k in range(max(1, size // 4)):
            old, got = int(before[8 + k][lane]), int(m.state.v[8 + k][lane])
            assert got == (loaded(memory[:size], how, old)[k] if PARTIAL >> lane & 1 else old), (lane, k)


def store(m: Machine, op: int, size: int, first: int, places: list[int]) -> None:
    m.at(places)
    want = m.bytes.copy()
    for lane in LANES:
        if PARTIAL >> lane & 1:
            words = b"".join(int(m.state.v[4 + k][lane]).to_bytes(4, "little") for k in range(4))
            want[places[lane] : places[lane] + size] = list(words[first : first + size])
    assert (m.run(code(m.family, m.encoding, op, False)) == want).all()


def update(m: Machine, op: int, name: str, shared: bool) -> None:
    function, size, floats, two = atomic(name)
    returns = "_RTN" in name or (m.encoding != "DS" and len(name) % 2 == 0)
    if m.encoding != "DS" and m.family == "rdna3" and "CSUB" in name:
        returns = True  # it has no other form
    places = [64 + size * (lane // 4 if shared else lane) for lane in LANES]
    m.at(places)
    if floats:  # values that are no NaN, so that bits are decided
        m.bytes[:] = np.tile(
            np.array([1.5, -2.25, 0.0, 3e5], f"f{size if 'PK' not in name else 2}").view(np.uint8), 4096
        )[:4096]
        m.state.lds[:] = m.bytes
        values = np.resize(np.array([1.5, 2.0, -0.5, 7.0, -2.25, 100.0], f"f{size}"), 32)
        bits = (
            np.resize(np.array([1.5, -2, 0.25], np.float16).view(np.uint16), 64).view(np.uint32)
            if "PK" in name
            else None
        )
        m.state.v[4] = values.view(f"u{size}").astype(np.uint64).astype(np.uint32) if bits is None else bits
        m.state.v[5] = (values.view(f"u{size}").astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
    registers = size // 4
    if two:  # half of the lanes find what they compare with
        at = 6 if m.encoding == "DS" else 4 + registers
        for lane in LANES[::2]:
            found = m.bytes[places[lane] : places[lane] + size].view(np.uint32)
            for k in range(registers):
                m.state.v[at + k][lane] = found[k]
    before, want = m.state.v.copy(), m.bytes.copy()
    text = code(m.family, m.encoding, op, returns)
    result = 4 if m.encoding == "VBUFFER" else 8
    with np.errstate(all="ignore"):
        got = m.run(text)
        for lane in LANES:
            if not PARTIAL >> lane & 1:
                assert (
                    m.state.v[result : result + registers, lane] == before[result : result + registers, lane]
                ).all()
                continue
            old = int.from_bytes(want[places[lane] : places[lane] + size].tobytes(), "little")
            second = 6 if m.encoding == "DS" else 4 + registers
            x, y = (sum(int(before[r + k][lane]) << 32 * k for k in range(registers)) for r in (4, second))
            new = function(old, x, y, size) & (1 << 8 * size) - 1
            want[places[lane] : places[lane] + size] = list(new.to_bytes(size, "little"))
            if returns:
                had = sum(int(m.state.v[result + k][lane]) << 32 * k for k in range(registers))
                assert had == old, (name, lane, hex(had), hex(old))
    assert (got == want).all(), (name, np.flatnonzero(got != want)[:8])


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
@pytest.mark.parametrize("encoding", SPACES[:-1])
def test_every_vector_memory_opcode(family, encoding):
    ops = isa.opcodes(family)[encoding]
    store128 = next((op for op, n in ops.items() if n == "SCRATCH_STORE_B128"), None)
    done = set()
    for op, name in ops.items():
        if (
            not coverage.is_covered(name)
            or "2ADDR" in name
            or name.startswith("GLOBAL_") != (encoding == "VGLOBAL")
        ):
            continue
        m = Machine(family, encoding, op)
        odd = 3 if encoding != "DS" else 4
        if (found := ending(name, LOADS, "LOAD")) is not None:
            if encoding == "VSCRATCH":
                scratch_load(m, op, *found, store128)
            else:
                load(m, op, *found, [odd + 17 * lane for lane in LANES], 4 if encoding == "VBUFFER" else 8)
        elif (found := ending(name, STORES, "STORE")) is not None and encoding != "VSCRATCH":
            store(m, op, *found, [odd + 20 * lane for lane in LANES])
        elif encoding != "VSCRATCH" and atomic(name):
            for shared in (False, True):
                update(Machine(family, encoding, op), op, name, shared)
        else:
            continue
        done.add(name)
    assert len(done) >= {"VGLOBAL": 45, "VFLAT": 45, "VSCRATCH": 12, "VBUFFER": 44, "DS": 85}[encoding]


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_scratch_stores(family):
    """Read back with whole words: bytes beside a narrow store stay."""
    ops = {n: op for op, n in isa.opcodes(family)["VSCRATCH"].items()}
    for name, op in ops.items():
        found = ending(name, STORES, "STORE")
        if found is None:
            continue
        size, first = found
        m = Machine(family, "VSCRATCH", op)
        m.state.v[2] = 16
        data = m.state.v[4:8].copy()
        fill = code(family, "VSCRATCH", ops["SCRATCH_STORE_B128"], False)
        back = code(family, "VSCRATCH", ops["SCRATCH_LOAD_B128"], False)
        state = m.state
        run(fill, state, family=family, scratch_bytes=64)  # each run starts afresh: all in one
        mov = (0x3F << 25 | 1 << 9).to_bytes(4, "little")  # v_mov_b32 v0, ...: something between
        state.v[4:8] = data
        changed = b"".join(
            (0x3F << 25 | (4 + k) << 17 | 1 << 9 | 256 + 12 + k).to_bytes(4, "little") for k in range(4)
        )
        state.v[12:16] = ~data
        before = state.v.copy()
        run(
            fill + changed + code(family, "VSCRATCH", op, False) + back + mov[:0],
            state,
            family=family,
            scratch_bytes=64,
        )
        for lane in LANES:
            memory = bytearray(b"".join(int(w).to_bytes(4, "little") for w in data[:, lane]))
            new = b"".join(int(w).to_bytes(4, "little") for w in before[12:16, lane])
            memory[:size] = new[first : first + size]
            if PARTIAL >> lane & 1:
                assert [int(x) for x in state.v[8:12, lane]] == loaded(bytes(memory), "w", 0), (name, lane)


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_every_scalar_load(family):
    done = set()
    for op, name in isa.opcodes(family)["SMEM"].items():
        found = ending(name, LOADS, "LOAD")
        if found is None or not coverage.is_covered(name):
            continue
        size, how = found
        m = Machine(family, "SMEM", op)
        before = m.state.s.copy()
        m.run(code(family, "SMEM", op, False))
        want = loaded(m.bytes[:size].tobytes(), how, 0)
        assert m.state.s[16 : 16 + len(want)].tolist() == want, name
        assert (m.state.s[16 + len(want) : 100] == before[16 + len(want) : 100]).all(), name
        done.add(name)
    assert len(done) >= {"rdna3": 10, "rdna4": 18}[family]


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_buffers_out_of_range(family):
    """Loads and atomics give zero back, stores and atomics change nothing, past num_records."""
    for op, name in isa.opcodes(family)["VBUFFER"].items():
        if not coverage.is_covered(name) or not (
            ending(name, LOADS, "LOAD") or ending(name, STORES, "STORE") or atomic(name)
        ):
            continue
        m = Machine(family, "VBUFFER", op)
        m.state.s[10] = 64
        m.at([128 + 16 * lane for lane in LANES])
        before = m.state.v.copy()
        assert (m.run(code(family, "VBUFFER", op, True)) == m.bytes).all(), name
        if "LOAD" in name and "D16" not in name:
            for lane in LANES:
                want = 0 if PARTIAL >> lane & 1 else int(before[4][lane])
                assert int(m.state.v[4][lane]) == want, name
