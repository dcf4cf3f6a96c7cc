"""Memory instructions: each opcode's handler as a C call into runtime/{memory,lds,spaces,atomics}.h.

Names are those of RDNA4; `kind` tells the decoder which operands to prepare and the counters what to count.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryOp:
    """`kind`: load, store, atomic. `space`: global, flat, scratch, buffer, lds, scalar, scalar_buffer.
    `registers`: data registers read or written. `code`: the complete handler in C."""

    name: str
    space: str
    kind: str
    registers: int
    code: str
    ordered: bool = False  # its result shows the order in which workgroups ran


_LOADS = {  # suffix: bytes, mode
    "U8": (1, "ZERO8"), "I8": (1, "SIGN8"), "U16": (2, "ZERO16"), "I16": (2, "SIGN16"),
    "B32": (4, "WORDS"), "B64": (8, "WORDS"), "B96": (12, "WORDS"), "B128": (16, "WORDS"),
    "D16_U8": (1, "LOW_Z8"), "D16_I8": (1, "LOW_S8"), "D16_B16": (2, "LOW_16"),
    "D16_HI_U8": (1, "HIGH_Z8"), "D16_HI_I8": (1, "HIGH_S8"), "D16_HI_B16": (2, "HIGH_16"),
}  # fmt: skip
_STORES = {  # suffix: bytes, from the upper half
    "B8": (1, 0), "B16": (2, 0), "B32": (4, 0), "B64": (8, 0), "B96": (12, 0), "B128": (16, 0),
    "D16_HI_B8": (1, 1), "D16_HI_B16": (2, 1),
}  # fmt: skip
_LDS_NAMES = {  # LDS spells the half-register forms the other way round
    "D16_U8": "U8_D16", "D16_I8": "I8_D16", "D16_B16": "U16_D16", "D16_HI_U8": "U8_D16_HI",
    "D16_HI_I8": "I8_D16_HI", "D16_HI_B16": "U16_D16_HI", "D16_HI_B8": "B8_D16_HI",
}  # fmt: skip
_LDS_STORE_NAMES = {"D16_HI_B8": "B8_D16_HI", "D16_HI_B16": "B16_D16_HI"}

# opcode: C type, new value from `old` (the memory), x and y (the data)
_ATOMICS = {
    "SWAP_B32": ("u32", "now = x"), "SWAP_B64": ("u64", "now = x"),
    "CMPSWAP_B32": ("u32", "now = old == y ? x : old"), "CMPSWAP_B64": ("u64", "now = old == y ? x : old"),
    "ADD_U32": ("u32", "now = old + x"), "ADD_U64": ("u64", "now = old + x"),
    "SUB_U32": ("u32", "now = old - x"), "SUB_U64": ("u64", "now = old - x"),
    "SUB_CLAMP_U32": ("u32", "now = old < x ? 0 : old - x"),
    "COND_SUB_U32": ("u32", "now = old >= x ? old - x : old"),
    "MIN_I32": ("i32", "now = MIN(old, x)"), "MIN_I64": ("i64", "now = MIN(old, x)"),
    "MAX_I32": ("i32", "now = MAX(old, x)"), "MAX_I64": ("i64", "now = MAX(old, x)"),
    "MIN_U32": ("u32", "now = MIN(old, x)"), "MIN_U64": ("u64", "now = MIN(old, x)"),
    "MAX_U32": ("u32", "now = MAX(old, x)"), "MAX_U64": ("u64", "now = MAX(old, x)"),
    "AND_B32": ("u32", "now = old & x"), "AND_B64": ("u64", "now = old & x"),
    "OR_B32": ("u32", "now = old | x"), "OR_B64": ("u64", "now = old | x"),
    "XOR_B32": ("u32", "now = old ^ x"), "XOR_B64": ("u64", "now = old ^ x"),
    "INC_U32": ("u32", "now = old >= x ? 0 : old + 1"), "INC_U64": ("u64", "now = old >= x ? 0 : old + 1"),
    "DEC_U32": ("u32", "now = old == 0 || old > x ? x : old - 1"),
    "DEC_U64": ("u64", "now = old == 0 || old > x ? x : old - 1"),
    "ADD_F32": ("u32", "now = AS(u32, (f32)(AS(f32, old) + AS(f32, x)))"),
    "MIN_NUM_F32": ("u32", "now = AS(u32, minnum_f32(AS(f32, old), AS(f32, x)))"),
    "MAX_NUM_F32": ("u32", "now = AS(u32, maxnum_f32(AS(f32, old), AS(f32, x)))"),
    "MIN_F32": ("u32", "now = AS(f32, x) < AS(f32, old) ? x : old"),  # RDNA3; its NaN never wins
    "MAX_F32": ("u32", "now = AS(f32, x) > AS(f32, old) ? x : old"),
    "CMPSWAP_F32": ("u32", "now = AS(f32, old) == AS(f32, y) ? x : old"),
    "PK_ADD_F16": ("u32", "now = pk_add_f16(old, x)"), "PK_ADD_BF16": ("u32", "now = pk_add_bf16(old, x)"),
}  # fmt: skip
_LDS_ATOMICS = {
    **{k: v for k, v in _ATOMICS.items() if not k.startswith(("SWAP", "CMPSWAP"))},
    "RSUB_U32": ("u32", "now = x - old"), "RSUB_U64": ("u64", "now = x - old"),
    "MSKOR_B32": ("u32", "now = (old & ~x) | y"), "MSKOR_B64": ("u64", "now = (old & ~x) | y"),
    "CMPSTORE_B32": ("u32", "now = old == y ? x : old"), "CMPSTORE_B64": ("u64", "now = old == y ? x : old"),
    "CMPSTORE_F32": ("u32", "now = AS(f32, old) == AS(f32, y) ? x : old"),
    "CMPSTORE_F64": ("u64", "now = AS(f64, old) == AS(f64, y) ? x : old"),
    "MIN_F64": ("u64", "now = AS(f64, x) < AS(f64, old) ? x : old"),
    "MAX_F64": ("u64", "now = AS(f64, x) > AS(f64, old) ? x : old"),
    "MIN_NUM_F64": ("u64", "now = AS(u64, minnum_f64(AS(f64, old), AS(f64, x)))"),
    "MAX_NUM_F64": ("u64", "now = AS(u64, maxnum_f64(AS(f64, old), AS(f64, x)))"),
}  # fmt: skip


def _vector_memory() -> list[MemoryOp]:
    ops = []
    for prefix, space in (
        ("GLOBAL", "global"),
        ("FLAT", "flat"),
        ("SCRATCH", "scratch"),
        ("BUFFER", "buffer"),
    ):
        for suffix, (size, mode) in _LOADS.items():
            code = f"return {space}_load(w, r, {size}, {mode});"
            ops.append(_op(f"{prefix}_LOAD_{suffix}", space, "load", size, code))
        for suffix, (size, high) in _STORES.items():
            code = f"return {space}_store(w, r, {size}, {high});"
            ops.append(_op(f"{prefix}_STORE_{suffix}", space, "store", size, code))
        if space == "scratch":
            continue
        for suffix, (kind, now) in _ATOMICS.items():
            name = f"{prefix}_ATOMIC_{suffix}"
            size = 8 if kind.endswith("64") else 4
            ops.append(
                MemoryOp(
                    name,
                    space,
                    "atomic",
                    size // 4 * (2 if "CMPSWAP" in suffix else 1),
                    f"GLOBAL_ATOMIC({name}, {kind}, {space}_atomic, {now})",
                    ordered=_shows_order(suffix),
                )
            )
    return ops


def _shows_order(suffix: str) -> bool:
    """Whether the final value depends on the order of the atomics (they round, wrap or replace)."""
    return any(part in suffix for part in ("F32", "F16", "SWAP", "SUB_CLAMP", "COND", "INC", "DEC"))


def _lds() -> list[MemoryOp]:
    ops = []
    for suffix, (size, mode) in _LOADS.items():
        name = f"DS_LOAD_{_LDS_NAMES.get(suffix, suffix)}"
        ops.append(_op(name, "lds", "load", size, f"return lds_load(w, r, {size}, {mode});"))
    for suffix, (size, high) in _STORES.items():
        name = f"DS_STORE_{_LDS_STORE_NAMES.get(suffix, suffix)}"
        ops.append(_op(name, "lds", "store", size, f"return lds_store(w, r, {size}, {high});"))
    for size in (4, 8):
        for stride, unit in (("", size), ("STRIDE64_", 64 * size)):
            name = f"2ADDR_{stride}B{8 * size}"
            ops.append(
                _op(f"DS_LOAD_{name}", "lds", "load", 2 * size, f"return lds_load2(w, r, {size}, {unit});")
            )
            ops.append(
                _op(f"DS_STORE_{name}", "lds", "store", size, f"return lds_store2(w, r, {size}, {unit});")
            )
    for suffix, (kind, now) in _LDS_ATOMICS.items():
        stem, _, size = suffix.rpartition("_")
        registers = 2 if kind.endswith("64") else 1
        for name, returns in ((f"DS_{suffix}", 0), (f"DS_{stem}_RTN_{size}", 1)):
            ops.append(
                MemoryOp(name, "lds", "atomic", registers, f"LDS_ATOMIC({name}, {kind}, {returns}, {now})")
            )
    for size in (32, 64):
        name = f"DS_STOREXCHG_RTN_B{size}"
        ops.append(MemoryOp(name, "lds", "atomic", size // 32, f"LDS_ATOMIC({name}, u{size}, 1, now = x)"))
    return ops


def _scalar() -> list[MemoryOp]:
    ops = []
    sizes = {"B32": 4, "B64": 8, "B96": 12, "B128": 16, "B256": 32, "B512": 64}
    small = {"I8": (1, "SIGN8"), "U8": (1, "ZERO8"), "I16": (2, "SIGN16"), "U16": (2, "ZERO16")}
    for prefix, space in (("S_LOAD", "scalar"), ("S_BUFFER_LOAD", "scalar_buffer")):
        for suffix, (size, mode) in {**{s: (n, "WORDS") for s, n in sizes.items()}, **small}.items():
            code = f"return {space}_load(w, r, {size}, {mode});"
            ops.append(_op(f"{prefix}_{suffix}", space, "load", size, code))
    return ops


def _op(name: str, space: str, kind: str, size: int, body: str) -> MemoryOp:
    return MemoryOp(
        name, space, kind, max(1, size // 4), f"const Rec *{name}(Wave *w, const Rec *r) {{ {body} }}"
    )


MEMORY = {op.name: op for op in (*_vector_memory(), *_lds(), *_scalar())}

# RDNA3 names of the same operations
ALIASES = {
    f"{space}_ATOMIC_CSUB_U32": f"{space}_ATOMIC_SUB_CLAMP_U32" for space in ("GLOBAL", "FLAT", "BUFFER")
}
