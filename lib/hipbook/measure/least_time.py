"""A bound, not a time: the least a dispatch can take on a board, resource by resource.

Exact counts of the emulated board over published peak rates. A kernel that keeps a resource busy all the time
and waits for nothing else would take that long; no kernel takes less. It is never a measurement, and says
nothing of latencies, caches, launches or clocks below the boost clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hipbook.boards.base import Counters
from hipbook.errors import BadArgument
from hipbook.measure.data_sheet import DataSheet

TRANSCENDENTAL = ("V_EXP_", "V_LOG_", "V_RCP_", "V_RSQ_", "V_SQRT_", "V_SIN_", "V_COS_")
LANES = 32


@dataclass(frozen=True)
class Least:
    """One resource: what is counted of it, and the least time it needs; None when its rate is not public."""

    resource: str
    amount: float
    unit: str
    least_us: float | None
    why: str


def least_times(counters: Counters, memory_bytes: int, sheet: DataSheet) -> list[Least]:
    """Every resource. `memory_bytes`: bytes that must come from memory at least once (each key once).

    The memory row holds when nothing lies in the last-level cache; no bandwidth is published for that one.
    """
    totals, opcodes = counters.totals, counters.opcodes
    mhz = sheet.rate("boost_clock_mhz")
    simds = sheet.rate("compute_units") * sheet.rate("simds_per_compute_unit")
    special = sum(n for name, n in opcodes.items() if name.startswith(TRANSCENDENTAL))
    lds = totals["LDS_BYTES_READ"] + totals["LDS_BYTES_WRITTEN"]
    if not totals["SQ_WAVES"]:
        raise BadArgument("counters", totals["SQ_WAVES"], "of a dispatch with at least one wave")
    per_wave = (totals["SQ_INSTS"] - totals["INSTS_INTERNAL"]) / totals[
        "SQ_WAVES"
    ]  # waits and hints may be free

    def clocks(count: float, per_clock: float) -> float:
        return count / per_clock / mhz

    valu = simds * sheet.rate("valu_instructions_per_clock_and_simd")
    salu = simds * sheet.rate("salu_instructions_per_clock_and_simd")
    quarter = simds * sheet.rate("transcendental_lanes_per_clock_and_simd")
    shared = sheet.rate("compute_units") * sheet.rate("lds_bytes_per_clock_and_compute_unit")
    gb_s = sheet.rate("memory_bandwidth_gb_s")
    return [
        Least("memory", memory_bytes, "bytes", memory_bytes / gb_s / 1e3, "each key once, caches cold"),
        Least("vector ALU", totals["SQ_INSTS_VALU"], "instructions", clocks(totals["SQ_INSTS_VALU"], valu),
              "spread over all SIMDs"),
        Least("scalar ALU", totals["SQ_INSTS_SALU"], "instructions", clocks(totals["SQ_INSTS_SALU"], salu),
              "spread over all SIMDs"),
        Least("transcendental", special, "instructions", clocks(special * LANES, quarter), "32 lanes each"),
        Least("LDS", lds, "bytes", clocks(lds, shared), "spread over all compute units"),
        Least("one wave's issue", round(per_wave), "instructions",
              clocks(per_wave, sheet.rate("instructions_per_clock_and_wave")), "the mean wave, start to end"),
        Least("barriers", totals["BARRIERS"], "barriers", None, sheet.not_public.get("barriers", "")),
    ]  # fmt: skip


def binding(least: Sequence[Least]) -> Least:
    """The resource that needs longest: the bound of the whole."""
    return max((one for one in least if one.least_us is not None), key=lambda one: one.least_us)
