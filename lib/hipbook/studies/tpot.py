"""What notebook 12's table predicts for TPOT when one kernel changes: Amdahl over a token's wall.

The table is the reconstruction of a report, so a prediction here stands on reported times, not on ours.
"""

from collections.abc import Mapping

import polars as pl

from hipbook.errors import BadArgument
from hipbook.studies import decode_attribution
from hipbook.traces.attribute import amdahl
from hipbook.traces.reconstruction import MS

TOKENS = (4, 36)  # of the two runs that notebook 12 subtracts by default
SEED = 1294
Row = dict[str, object]


def predicted(kernel: str, factors: Mapping[str, float]) -> list[Row]:
    """A row for each change: wall of a token (ms) when `kernel`'s time a token is divided by its factor.

    `kernel` is a pattern of one kernel's name; a factor is at least 1, inf for a kernel that costs nothing.
    """
    found = decode_attribution.subtract(decode_attribution.pair("", "", *TOKENS, SEED))
    match = found.kernels.filter(pl.col("Name").str.contains(kernel))
    if match.height != 1:
        raise BadArgument(
            "kernel", repr(kernel), f"{match.height} kernels of the table match, one must",
            fix=f"one of {', '.join(found.kernels['Name'].head(8))}",
        )  # fmt: skip
    now = match["Ns_Per_Token"].sum()
    walls = amdahl(found.wall_ns_per_token, now, tuple(factors.values()))["Wall_Ns"].to_list()
    return [
        {
            "change": change,
            "kernel ms now": now / MS,
            "divided by": factor,
            "kernel ms then": now / factor / MS,
            "TPOT ms now": found.wall_ns_per_token / MS,
            "TPOT ms predicted": wall / MS,
            "now / predicted": found.wall_ns_per_token / wall,
        }
        for (change, factor), wall in zip(factors.items(), walls, strict=True)
    ]
