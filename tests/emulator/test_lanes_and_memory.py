"""Lanes talking to lanes, every kind of memory, atomics, matrices: one instruction at a time."""

import numpy as np
import pytest
from gfx_assembler import code

from hipbook.emulator.single import EXEC, MEMORY, VCC, State, run
from hipbook.errors import EmulatorError, KernelFault

LANE = np.arange(32, dtype=np.uint32)


def fresh(**registers) -> State:
    state = State()
    for name, value in registers.items():
        (state.v if name[0] == "v" else state.s)[int(name[1:])] = value
    return state


# ---- lanes ----


def test_readlane_writelane_readfirstlane():
    state = fresh(v1=LANE * 10, s2=5, s3=77)
    state.s[EXEC] = 0xFFFFFF00
    run(code("v_readfirstlane_b32 s10, v1", "v_readlane_b32 s11, v1, 37", "v_readlane_b32 s12, v1, s2",
             "v_writelane_b32 v1, s3, 4", "s_mov_b32 exec_lo, 0", "v_readfirstlane_b32 s13, v1"),
             state)  # fmt: skip
    assert [int(x) for x in state.s[10:14]] == [80, 50, 50, 0]
    assert int(state.v[1][4]) == 77


def test_mbcnt():
    state = fresh(s1=0xF0F0F0F1)
    run(code("v_mbcnt_lo_u32_b32 v0, s1, 3", "v_mbcnt_hi_u32_b32 v1, s1, v0"), state)
    want = [3 + (0xF0F0F0F1 & ((1 << n) - 1)).bit_count() for n in range(32)]
    assert state.v[0].tolist() == want
    assert state.v[1].tolist() == want


def test_permlane16():
    state = fresh(v1=LANE, s2=0x76543210, s3=0xFEDCBA98, s4=0x0, s5=0x0)
    run(
        code(
            "v_permlane16_b32 v2, v1, s2, s3",
            "v_permlanex16_b32 v3, v1, s2, s3",
            "v_permlanex16_b32 v4, v1, s4, s5",
        ),
        state,
    )
    assert state.v[2].tolist() == LANE.tolist()
    assert state.v[3].tolist() == (LANE ^ 16).tolist()
    assert state.v[4].tolist() == [16] * 16 + [0] * 16


DPP = {
    "quad_perm:[3,2,1,0]": lambda i: i & ~3 | (3 - i & 3),
    "row_shl:1": lambda i: i + 1 if i % 16 < 15 else None,
    "row_shr:3": lambda i: i - 3 if i % 16 >= 3 else None,
    "row_ror:4": lambda i: i & 16 | (i - 4) % 16,
    "row_mirror": lambda i: i & 16 | 15 - i % 16,
    "row_half_mirror": lambda i: i & 24 | 7 - i % 8,
    "row_share:9": lambda i: i & 16 | 9,
    "row_xmask:5": lambda i: i ^ 5,
}


@pytest.mark.parametrize("control", sorted(DPP))
def test_dpp16(control):
    sources = [DPP[control](i) for i in range(32)]
    for bound, absent in ((0, 1000), (1, 0)):
        state = fresh(v0=1000, v1=LANE + 50)
        run(
            code(f"v_mov_b32_dpp v0, v1 {control} row_mask:0xf bank_mask:0xf" + " bound_ctrl:1" * bound),
            state,
        )
        assert state.v[0].tolist() == [absent if s is None else s + 50 for s in sources], control


def test_dpp_masks_inactive_sources_and_modifiers():
    state = fresh(v0=7, v1=LANE)
    run(code("v_mov_b32_dpp v0, v1 row_share:2 row_mask:0x2 bank_mask:0x5"), state)
    assert state.v[0].tolist() == [18 if i >= 16 and i % 16 // 4 in (0, 2) else 7 for i in range(32)]
    state = fresh(v0=7, v1=LANE)
    state.s[EXEC] = 0xFFFFFFFE
    run(code("v_mov_b32_dpp v0, v1 row_share:0 row_mask:0xf bank_mask:0xf",
        "v_mov_b32_dpp v2, v1 row_share:0 row_mask:0xf"
             " bank_mask:0xf fi:1"), state)  # fmt: skip
    assert state.v[0].tolist() == [7] * 16 + [16] * 16  # lane 0 is inactive: no source for row 0
    assert state.v[2].tolist() == [0] * 16 + [16] * 16
    assert int(state.s[EXEC]) == 0xFFFFFFFE
    one = np.float32(1.5).view(np.uint32)
    state = fresh(v1=one, v2=one)
    run(code("v_add_f32_dpp v0, -v1, |v2| row_ror:1 row_mask:0xf bank_mask:0xf"), state)
    assert (state.v[0] == 0).all()


def test_dpp8():
    state = fresh(v1=LANE)
    run(code("v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]"), state)
    assert state.v[0].tolist() == [i & 24 | 7 - i % 8 for i in range(32)]


def test_dpp_compare_and_e64():
    state = fresh(v1=LANE, v2=LANE)
    run(code("v_cmp_eq_u32_dpp vcc_lo, v1, v2 row_ror:0x1 row_mask:0xf bank_mask:0xf",
             "v_cmp_gt_u32_e64_dpp s4, v1, v2 row_mirror row_mask:0xf bank_mask:0xf",
             "v_add_nc_u32_e64_dpp v3, v1, v2 row_xmask:1 row_mask:0xf bank_mask:0xf"), state)  # fmt: skip
    assert int(state.s[VCC]) == 0
    assert int(state.s[4]) == 0x00FF00FF
    assert state.v[3].tolist() == [(i ^ 1) + i for i in range(32)]


def test_permutes_through_lds_hardware():
    state = fresh(v1=(LANE * 7 % 32) * 4, v2=LANE + 100, v3=0)
    state.s[EXEC] = 0xFFFFFFF0
    run(
        code("ds_bpermute_b32 v3, v1, v2", "ds_permute_b32 v4, v1, v2", "ds_bpermute_fi_b32 v5, v1, v2"),
        state,
    )
    active = range(4, 32)
    assert [int(state.v[3][i]) for i in active] == [0 if i * 7 % 32 < 4 else i * 7 % 32 + 100 for i in active]
    pushed = {i * 7 % 32: i + 100 for i in active}
    assert [int(state.v[4][i]) for i in active] == [pushed.get(i, 0) for i in active]
    assert [int(state.v[5][i]) for i in active] == [i * 7 % 32 + 100 for i in active]


def test_swizzles():
    state = fresh(v1=LANE)
    run(
        code(
            "ds_swizzle_b32 v2, v1 offset:swizzle(QUAD_PERM, 1, 0, 3, 2)",
            "ds_swizzle_b32 v3, v1 offset:swizzle(SWAP, 8)",
            "ds_swizzle_b32 v4, v1 offset:swizzle(BROADCAST, 32, 5)",
            "ds_swizzle_b32 v5, v1 offset:swizzle(REVERSE, 16)",
        ),
        state,
    )
    assert state.v[2].tolist() == [i ^ 1 for i in range(32)]
    assert state.v[3].tolist() == [i ^ 8 for i in range(32)]
    assert state.v[4].tolist() == [5] * 32
    assert state.v[5].tolist() == [i ^ 15 for i in range(32)]


def test_swaps():
    state = fresh(v1=LANE, v2=LANE + 100)
    state.s[EXEC] = 0x0000FFFF
    run(code("v_swap_b32 v1, v2"), state)
    assert state.v[1].tolist() == [i + 100 if i < 16 else i for i in range(32)]
    assert state.v[2].tolist() == [i if i < 16 else i + 100 for i in range(32)]


# ---- LDS ----


def test_lds_sizes_and_halves():
    state = fresh(v0=LANE * 16)
    state.lds[:512] = np.random.default_rng(0).integers(0, 256, 512)
    words = state.lds[:512].view(np.uint32).reshape(32, 4).copy()
    run(code("ds_load_b128 v[4:7], v0", "ds_load_b64 v[8:9], v0 offset:8", "ds_load_u8 v10, v0 offset:1",
        "ds_load_i8 v11, v0 offset:2",
             "ds_load_i16 v12, v0 offset:2", "ds_load_u16_d16 v13, v0", "ds_load_u16_d16_hi v13, v0 offset:4",
             "ds_load_b96 v[14:16], v0", "ds_load_2addr_b32 v[18:19], v0 offset0:1 offset1:3",
             "ds_store_b16_d16_hi v0, v4 offset:1024", "ds_store_b8 v0, v4 offset:1026"), state)  # fmt: skip
    assert (words == state.v[4:8].T).all()
    assert (words[:, 2:] == state.v[8:10].T).all()
    assert (state.v[10] == (words[:, 0] >> 8 & 255)).all()
    assert (state.v[11].view(np.int32) == (words[:, 0] >> 16 & 255).astype(np.uint8).view(np.int8)).all()
    assert (state.v[12].view(np.int32) == (words[:, 0] >> 16).astype(np.uint16).view(np.int16)).all()
    assert (state.v[13] == (words[:, 0] & 0xFFFF | (words[:, 1] & 0xFFFF) << 16)).all()
    assert (words[:, :3] == state.v[14:17].T).all()
    assert (state.v[18] == words[:, 1]).all()
    assert (state.v[19] == words[:, 3]).all()
    stored = state.lds[1024 : 1024 + 512].reshape(32, 16)
    assert (stored[:, :2].copy().view(np.uint16)[:, 0] == words[:, 0] >> 16).all()
    assert (stored[:, 2] == words[:, 0] & 255).all()


def test_lds_two_addresses_stride64_and_overlapping_result():
    state = fresh(v0=LANE * 4, v1=LANE + 1, v2=LANE + 500)
    run(
        code(
            "ds_store_2addr_stride64_b32 v0, v1, v2 offset0:1 offset1:2",
            "ds_load_2addr_stride64_b32 v[0:1], v0 offset0:2 offset1:1",
        ),
        state,
    )
    assert state.v[0].tolist() == (LANE + 500).tolist()
    assert state.v[1].tolist() == (LANE + 1).tolist()


def test_lds_atomics():
    state = fresh(v0=0, v1=LANE, v2=3)
    run(code("ds_add_u32 v0, v1", "ds_add_rtn_u32 v3, v0, v2", "ds_max_u32 v0, v1 offset:4",
        "ds_cmpstore_rtn_b32 v4, v0, v2, v5 offset:8",
             "ds_storexchg_rtn_b32 v6, v0, v1 offset:12"), state)  # fmt: skip
    words = state.lds.view(np.uint32)
    assert words[:4].tolist() == [496 + 96, 31, 3, 31]
    assert state.v[3].tolist() == [496 + 3 * i for i in range(32)]
    assert state.v[4].tolist() == [0] + [3] * 31
    assert state.v[6].tolist() == [0, *range(31)]


def test_lds_out_of_bounds_is_a_fault_with_and_without_checks():
    for checks in (True, False):
        with pytest.raises(KernelFault, match="lds-out-of-bounds: lane 31"):
            run(code("ds_load_b32 v1, v0 offset:3972"), fresh(v0=LANE * 4), checks=checks)


# ---- global ----


def memory(size: int = 4096) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, size).astype(np.uint8)


def test_global_addressing_forms():
    data = memory()
    state = fresh(v0=LANE * 8, s4=MEMORY & 0xFFFFFFFF, s5=MEMORY >> 32)
    state.set_u64(2, MEMORY + 64 + 4 * LANE.astype(np.uint64))
    before = data.copy()
    run(code("global_load_b32 v10, v[2:3], off offset:-64", "global_load_b64 v[12:13], v0, s[4:5] offset:16",
             "global_load_d16_hi_b16 v14, v0, s[4:5]", "global_load_u8 v15, v0, s[4:5] offset:3",
             "global_store_b32 v0, v10, s[4:5] offset:2048"), state, memory=data)  # fmt: skip
    words = before.view(np.uint32)
    assert state.v[10].tolist() == words[:32].tolist()
    assert state.u64(12).tolist() == before[16 : 16 + 256].view(np.uint64).tolist()
    assert state.v[14].tolist() == [int(x) << 16 for x in before.view(np.uint16)[: 32 * 4 : 4]]
    assert state.v[15].tolist() == before[3 : 3 + 256 : 8].tolist()
    assert data[2048:2304].view(np.uint32)[::2].tolist() == words[:32].tolist()


def test_unaligned_loads_are_allowed_and_atomics_are_not():
    data = memory()
    state = fresh(v0=LANE * 4 + 1, v1=1, s4=MEMORY & 0xFFFFFFFF, s5=MEMORY >> 32)
    run(code("global_load_b32 v2, v0, s[4:5]"), state, memory=data)
    assert state.v[2].tolist() == data[1:129].view(np.uint32).tolist()
    with pytest.raises(KernelFault, match="misaligned: lane 0"):
        run(code("global_atomic_add_u32 v0, v1, s[4:5]"), state, memory=data)


def test_global_atomics():
    data = np.zeros(256, np.uint8)
    state = fresh(v0=0, v1=LANE, s4=MEMORY & 0xFFFFFFFF, s5=MEMORY >> 32)
    state.set_u64(8, LANE.astype(np.uint64) << np.uint64(33))
    state.v[10], state.v[11] = LANE + 1, LANE  # swap in lane + 1 where lane is found
    run(code("global_atomic_add_u32 v0, v1, s[4:5]", "global_atomic_add_u64 v0, v[8:9], s[4:5] offset:8",
             "global_atomic_cmpswap_b32 v3, v0, v[10:11], s[4:5] offset:16 th:TH_ATOMIC_RETURN",
             "global_atomic_inc_u32 v4, v0, v12, s[4:5] offset:20 th:TH_ATOMIC_RETURN",
             "global_atomic_max_i32 v0, v1, s[4:5] offset:24",
             "global_atomic_swap_b32 v0, v1, s[4:5] offset:28"),
        state, memory=data)  # fmt: skip
    words = data.view(np.uint32)
    assert words[0] == 496
    assert data[8:16].view(np.uint64)[0] == 496 << 33
    assert words[4] == 32
    assert state.v[3].tolist() == list(range(32))
    assert state.v[4].tolist() == [0] * 32
    assert words[6] == 31
    assert words[7] == 31


def test_float_and_packed_atomics():
    data = np.zeros(64, np.uint8)
    half = int(np.float16(0.5).view(np.uint16))
    state = fresh(
        v0=0,
        v1=np.float32(0.25).view(np.uint32),
        v2=half | half << 16,
        s4=MEMORY & 0xFFFFFFFF,
        s5=MEMORY >> 32,
    )
    run(
        code("global_atomic_add_f32 v0, v1, s[4:5]", "global_atomic_pk_add_f16 v0, v2, s[4:5] offset:4"),
        state,
        memory=data,
    )
    assert data.view(np.float32)[0] == 8
    assert data[4:8].view(np.float16).tolist() == [16, 16]


def test_scratch_belongs_to_each_lane():
    state = fresh(v0=LANE + 1, v1=4, s2=8)
    run(code("scratch_store_b32 off, v0, s2 offset:4", "scratch_store_b32 v1, v0, off offset:16",
        "scratch_load_b32 v3, off, s2 offset:4",
             "scratch_load_b32 v4, v1, off offset:16"), state, scratch_bytes=64)  # fmt: skip
    assert state.v[3].tolist() == (LANE + 1).tolist()
    assert state.v[4].tolist() == (LANE + 1).tolist()
    with pytest.raises(KernelFault, match="scratch-unwritten"):
        run(code("scratch_load_b32 v3, off, off"), State(), scratch_bytes=64)
    with pytest.raises(KernelFault, match="scratch-out-of-bounds"):
        run(code("scratch_load_b32 v3, off, off offset:61"), State(), scratch_bytes=64)


def test_flat_chooses_lds_scratch_or_global_by_address():
    data = memory()
    state = fresh(v4=LANE + 9, v1=0, v7=LANE + 70)
    n = LANE.astype(np.uint64)
    addresses = np.where(
        n < 10, MEMORY + 4 * n, np.where(n < 20, (1 << 48) + 4 * n, np.uint64((2 << 48) + 16))
    )
    state.set_u64(2, addresses.astype(np.uint64))
    run(code("flat_store_b32 v[2:3], v4", "flat_load_b32 v5, v[2:3]"), state, memory=data, scratch_bytes=64)
    assert state.v[5].tolist() == (LANE + 9).tolist()
    assert data.view(np.uint32)[:10].tolist() == (LANE[:10] + 9).tolist()
    assert state.lds.view(np.uint32)[10:20].tolist() == (LANE[10:20] + 9).tolist()


def test_scalar_loads():
    data = memory()
    state = fresh(s4=MEMORY & 0xFFFFFFFF, s5=MEMORY >> 32, s6=8)
    run(code("s_load_b256 s[8:15], s[4:5], 0x10", "s_load_b32 s16, s[4:5], s6 offset:0x4",
        "s_load_u8 s17, s[4:5], 0x3",
             "s_load_i16 s18, s[4:5], 0x6", "s_load_b96 s[20:22], s[4:5], 0x20"), state,
             memory=data)  # fmt: skip
    words = data.view(np.uint32)
    assert state.s[8:16].tolist() == words[4:12].tolist()
    assert int(state.s[16]) == words[3]
    assert int(state.s[17]) == data[3]
    assert np.int32(state.s[18].astype(np.int32)) == data.view(np.int16)[3]
    assert state.s[20:23].tolist() == words[8:11].tolist()
    with pytest.raises(KernelFault, match="misaligned"):
        run(code("s_load_b32 s16, s[4:5], 0x2"), state, memory=data)
    with pytest.raises(KernelFault, match="out-of-bounds"):
        run(code("s_load_b64 s[16:17], s[4:5], 0xffc"), state, memory=data)


def test_buffer_reads_zero_and_drops_stores_past_its_records():
    data = memory()
    state = fresh(v0=LANE * 4, v1=LANE + 1, s8=MEMORY & 0xFFFFFFFF, s9=MEMORY >> 32, s10=64, s11=0, s2=0)
    before = data.copy()
    run(
        code("buffer_load_b32 v2, v0, s[8:11], s2 offen", "buffer_store_b32 v1, v0, s[8:11], null offen"),
        state,
        memory=data,
    )
    assert state.v[2].tolist() == before.view(np.uint32)[:16].tolist() + [0] * 16
    assert data.view(np.uint32)[:16].tolist() == (LANE[:16] + 1).tolist()
    assert (data[64:] == before[64:]).all()


# ---- matrices ----


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_wmma(kind):
    """D = A B + C, 16x16x16, with the lane layout written out anew: lane l has row (of A) or column
    (of B) l % 16 and k = 8 * (l // 16) + 0..7 in v, v+1, v+2, v+3, low half first; C and D rows likewise."""
    rng = np.random.default_rng(7)
    a, b = rng.uniform(-2, 2, (16, 16)).astype(np.float32), rng.uniform(-2, 2, (16, 16)).astype(np.float32)
    if kind == "bf16":
        a, b = ((x.view(np.uint32) & 0xFFFF0000).view(np.float32) for x in (a, b))
        pack = lambda x: (x.view(np.uint32) >> 16).astype(np.uint32)  # noqa: E731
    else:
        a, b = (x.astype(np.float16).astype(np.float32) for x in (a, b))
        pack = lambda x: x.astype(np.float16).view(np.uint16).astype(np.uint32)  # noqa: E731
    c = rng.uniform(-1, 1, (16, 16)).astype(np.float32)
    state = State()
    for lane in range(32):
        half, n = divmod(lane, 16)
        left, right = (
            pack(np.ascontiguousarray(a[n, 8 * half : 8 * half + 8])),
            pack(np.ascontiguousarray(b[8 * half : 8 * half + 8, n])),
        )
        for k in range(4):
            state.v[8 + k][lane] = left[2 * k] | left[2 * k + 1] << 16
            state.v[12 + k][lane] = right[2 * k] | right[2 * k + 1] << 16
        for k in range(8):
            state.v[16 + k][lane] = c[8 * half + k, n].view(np.uint32)
    run(code(f"v_wmma_f32_16x16x16_{kind} v[0:7], v[8:11], v[12:15], v[16:23]"), state)
    d = np.zeros((16, 16), np.float32)
    for lane in range(32):
        half, n = divmod(lane, 16)
        for k in range(8):
            d[8 * half + k, n] = state.v[k][lane].view(np.float32)
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    assert np.abs(d - want).max() < 1e-5


# ---- what is not covered ----


def test_uncovered_instruction_is_named_before_anything_runs():
    state = fresh(v0=3)
    with pytest.raises(EmulatorError, match=r"(?s)V_MOVRELS_B32_E32 at 0x4.*add an opcode"):
        run(code("v_mov_b32 v0, 1", "v_movrels_b32 v1, v2"), state)
    assert (state.v[0] == 3).all()
