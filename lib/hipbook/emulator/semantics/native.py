"""Instructions written by hand in runtime/{control,lanes,matrix}.c: their operands, for the decoder.

Result kinds: `s32`, `s64` an SGPR (pair), `u32`, `u16` a VGPR. Source kinds beyond those of the vector
table: `any` (a VGPR or scalar), `s32`, `s64`, `v` (must be a VGPR), `ab` and `int` (a matrix in a run of
VGPRs; of `int` the neg bit says that it is signed), `c` (a matrix, or one inline constant), `...lane` (its
opsel bit is a flag of the lane permutes).
"""

from hipbook.emulator.semantics import parse

NATIVE = parse("""
S_SETPC_B64           -    s64          native
S_SWAPPC_B64          s64  s64          native
S_GETPC_B64           s64  -            native
S_CALL_B64            s64  -            native
S_BARRIER_SIGNAL      -    -            native
S_BARRIER_SIGNAL_ISFIRST  -  -          native
V_READFIRSTLANE_B32   s32  any          native
V_READLANE_B32        s32  any s32      native
V_WRITELANE_B32       u32  s32 s32      native
V_SWAP_B32            u32  v            native
V_SWAP_B16            u16  u16          native
V_PERMLANE16_B32      u32  u16lane s32lane s32   native
V_PERMLANEX16_B32     u32  u16lane s32lane s32   native
V_PERMLANE16_VAR_B32  u32  u16lane u16lane       native
V_PERMLANEX16_VAR_B32  u32  u16lane u16lane      native
V_WMMA_F32_16X16X16_F16        u32  ab ab c   native
V_WMMA_F32_16X16X16_BF16       u32  ab ab c   native
V_WMMA_F16_16X16X16_F16        u32  ab ab c   native
V_WMMA_BF16_16X16X16_BF16      u32  ab ab c   native
V_WMMA_I32_16X16X16_IU8        u32  int int c  native
V_WMMA_I32_16X16X16_IU4        u32  int int c  native
V_WMMA_I32_16X16X32_IU4        u32  int int c  native
V_WMMA_F32_16X16X16_FP8_FP8    u32  ab ab c   native
V_WMMA_F32_16X16X16_FP8_BF8    u32  ab ab c   native
V_WMMA_F32_16X16X16_BF8_FP8    u32  ab ab c   native
V_WMMA_F32_16X16X16_BF8_BF8    u32  ab ab c   native
""")

# Executed and counted, and without effect here: waits and hints (memory is coherent and in order), caches.
NOPS = frozenset({
    "S_NOP", "S_CLAUSE", "S_DELAY_ALU", "S_WAIT_ALU", "S_WAITCNT", "S_WAIT_IDLE", "S_WAIT_EVENT", "S_SLEEP",
    "S_WAKEUP", "S_SETPRIO", "S_ICACHE_INV", "S_INCPERFLEVEL", "S_DECPERFLEVEL", "S_TTRACEDATA",
    "S_TTRACEDATA_IMM", "S_WAIT_LOADCNT", "S_WAIT_STORECNT", "S_WAIT_SAMPLECNT", "S_WAIT_BVHCNT",
    "S_WAIT_EXPCNT", "S_WAIT_DSCNT", "S_WAIT_KMCNT", "S_WAIT_LOADCNT_DSCNT", "S_WAIT_STORECNT_DSCNT",
    "S_DCACHE_INV", "S_PREFETCH_INST", "S_PREFETCH_INST_PC_REL", "S_PREFETCH_DATA",
    "S_BUFFER_PREFETCH_DATA", "S_PREFETCH_DATA_PC_REL", "GLOBAL_INV", "GLOBAL_WB", "GLOBAL_WBINV",
    "V_NOP", "V_PIPEFLUSH", "V_PERMLANE64_B32", "DS_NOP", "S_WAITCNT_VSCNT", "S_WAITCNT_VMCNT",
    "S_WAITCNT_EXPCNT", "S_WAITCNT_LGKMCNT", "S_WAITCNT_DEPCTR", "S_SET_INST_PREFETCH_DISTANCE",
    "BUFFER_GL0_INV", "BUFFER_GL1_INV", "S_GL1_INV",
})  # fmt: skip

BRANCHES = frozenset({
    "S_BRANCH", "S_CBRANCH_SCC0", "S_CBRANCH_SCC1", "S_CBRANCH_VCCZ", "S_CBRANCH_VCCNZ", "S_CBRANCH_EXECZ",
    "S_CBRANCH_EXECNZ",
})  # fmt: skip

# Matrix instructions that RDNA3 has too, in another layout: a handler each of its own.
RDNA3_MATRICES = tuple(
    f"V_WMMA_{kinds[0]}_16X16X16_{kinds[1]}_RDNA3"
    for kinds in (
        ("F32", "F16"),
        ("F32", "BF16"),
        ("F16", "F16"),
        ("BF16", "BF16"),
        ("I32", "IU8"),
        ("I32", "IU4"),
    )
)

# Handlers without an opcode of their own, and control flow whose operands the decoder fills in itself.
HELPERS = ("NOP", "DEVICE_FENCE", "COPY", "DPP16", "DPP8", "DPP_END", "S_ENDPGM", "S_TRAP", "S_BARRIER",
           "S_BARRIER_WAIT", *RDNA3_MATRICES, "DS_BPERMUTE_B32", "DS_BPERMUTE_FI_B32", "DS_PERMUTE_B32",
           "DS_SWIZZLE_B32", *sorted(BRANCHES))  # fmt: skip
