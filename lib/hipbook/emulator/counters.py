"""From raw counts to what a dispatch reports. Names are rocprofv3's where it has one.

SQ_INSTS counts every wave instruction executed, waits, delays and s_endpgm included.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from hipbook.emulator.isa import Inst
from hipbook.emulator.kernel import Kernel
from hipbook.emulator.launch import Outcome
from hipbook.emulator.lower import row_name
from hipbook.emulator.semantics import memory
from hipbook.emulator.semantics.native import BRANCHES, NOPS

_CLASSES = (
    "SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_INSTS_LDS", "SQ_INSTS_VMEM", "SQ_INSTS_VMEM_RD",
    "SQ_INSTS_VMEM_WR", "SQ_INSTS_FLAT", "SQ_INSTS_BRANCH", "INSTS_INTERNAL", "INSTS_CACHE",
    "VALU_ACTIVE_LANES", "VMEM_ACTIVE_LANES",
)  # fmt: skip
VIEW_FIELDS = ("bytes_read", "bytes_written", "loads", "stores", "live_lanes")


def classes(inst: Inst) -> tuple[str, ...]:
    """The totals an executed instruction adds 1 to, SQ_INSTS aside."""
    name = inst.name
    if name.startswith("V_"):
        return ("SQ_INSTS_VALU",)
    if inst.encoding == "DS":
        return ("SQ_INSTS_LDS",)
    if inst.encoding == "SMEM":
        return ("SQ_INSTS_SMEM",)
    if inst.encoding in ("VGLOBAL", "VFLAT", "VSCRATCH", "VBUFFER"):
        kind = ("SQ_INSTS_FLAT",) if inst.encoding != "VBUFFER" else ()
        op = memory.MEMORY.get(row_name(inst))
        if op is None:
            return ("INSTS_CACHE",)
        return ("SQ_INSTS_VMEM", "SQ_INSTS_VMEM_RD" if op.kind == "load" else "SQ_INSTS_VMEM_WR", *kind)
    if name in BRANCHES or name in ("S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64"):
        return ("SQ_INSTS_BRANCH",)
    if name in NOPS or inst.encoding == "SOPP":
        return ("INSTS_INTERNAL",)
    return ("SQ_INSTS_SALU",)


@dataclass(frozen=True)
class Counted:
    """Exact counts of one dispatch. `buffers`: by argument name, fields VIEW_FIELDS.

    `executions` and `lanes` are per static instruction of `kernel.instructions` (active lanes summed). Of a
    profiled run also `moved` [instructions, MOVED] and `events`, whose `record` is an instruction's number.
    """

    kernel: Kernel = field(repr=False)
    totals: dict[str, int]
    opcodes: dict[str, int]
    buffers: dict[str, dict[str, int]]
    unwritten: dict[str, int]
    executions: np.ndarray = field(repr=False)
    lanes: np.ndarray = field(repr=False)
    moved: np.ndarray | None = field(repr=False, default=None)
    events: np.ndarray | None = field(repr=False, default=None)


def collect(kernel: Kernel, outcome: Outcome) -> Counted:
    """Adds the records' counts up by instruction, opcode and class."""
    executions = outcome.counts[kernel.counted_at, 0].astype(np.int64)
    lanes = outcome.counts[kernel.counted_at, 1].astype(np.int64)
    opcodes: Counter[str] = Counter()
    totals: Counter[str] = Counter(dict.fromkeys(_CLASSES, 0))
    for inst, n, active in zip(kernel.instructions, executions.tolist(), lanes.tolist(), strict=True):
        if not n:
            continue
        opcodes[inst.name] += n
        for name in classes(inst):
            totals[name] += n
            if name in ("SQ_INSTS_VALU", "SQ_INSTS_VMEM"):
                totals[name.removeprefix("SQ_INSTS_") + "_ACTIVE_LANES"] += active
    buffers: dict[str, dict[str, int]] = {}
    for region, row in zip(
        outcome.memory.regions[: outcome.arguments], outcome.view_counts.tolist(), strict=False
    ):
        into = buffers.setdefault(region.name, dict.fromkeys(VIEW_FIELDS, 0))
        for key, value in zip(VIEW_FIELDS, row, strict=True):
            into[key] += int(value)
    raw = outcome.totals
    totals = dict(totals) | {
        "SQ_WAVES": raw["waves"],
        "SQ_INSTS": int(executions.sum()),
        "BARRIERS": raw["barriers"],
        "BYTES_READ": sum(b["bytes_read"] for b in buffers.values()),
        "BYTES_WRITTEN": sum(b["bytes_written"] for b in buffers.values()),
        "SEGMENTS_32B": raw["segments32"],
        "SEGMENTS_64B": raw["segments64"],
        "SEGMENTS_128B": raw["segments128"],
        "LDS_BYTES_READ": raw["lds_bytes_read"],
        "LDS_BYTES_WRITTEN": raw["lds_bytes_written"],
        "LDS_BANK_CONFLICTS": raw["lds_conflicts"],
    }
    return Counted(
        kernel, totals, dict(sorted(opcodes.items())), buffers, outcome.unwritten, executions, lanes,
        *_profile(kernel, outcome),
    )  # fmt: skip


def _profile(kernel: Kernel, outcome: Outcome) -> tuple[np.ndarray | None, np.ndarray | None]:
    """A profiled run's figures by instruction: an instruction may be several records."""
    if outcome.moved is None:
        return None, None
    number = np.array(kernel.instruction_of)
    moved = np.zeros((len(kernel.instructions), outcome.moved.shape[1]), np.int64)
    np.add.at(moved, number, outcome.moved.astype(np.int64))
    events = outcome.events.copy()
    events["record"] = number[events["record"]]
    return moved, events
