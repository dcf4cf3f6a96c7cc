"""The rungs between `online` and `decode`: arms that change one thing at a time, for measuring.

    online -> online_shuffle -> online_wide -> online_tile -> decode

`auto` never takes a rung, and the product of factors that the main arms are held to leaves them out;
they are asked for by name. What each changes: kernels/paged_attention/ladder.hip.
"""

from collections.abc import Mapping

from hipbook.ops.attention_arms import ARMS, Arm, Geometry, online_threads
from hipbook.ops.attention_call import AttentionCall

SOURCE = "paged_attention/ladder.hip"
TILE = 16  # keys of one tile of online_tile


def _as_online(call: AttentionCall, wave_size: int) -> Geometry:
    return Geometry((call.total_q, call.num_q_heads, 1), (online_threads(call.head_dim), 1, 1))


RUNGS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm(
            name="online_shuffle",
            idea="online, the tree in LDS replaced by moves between lanes: 4 barriers a key",
            witness=0x11,
            geometry=_as_online,
            source=SOURCE,
        ),
        Arm(
            name="online_wide",
            idea="online_shuffle, the row dealt out to all threads instead of 4 elements each",
            witness=0x12,
            geometry=_as_online,
            source=SOURCE,
        ),
        Arm(
            name="online_tile",
            idea=f"online_wide, one maximum, sum and rescaling for a tile of {TILE} keys",
            witness=0x13,
            geometry=_as_online,
            source=SOURCE,
        ),
    )
}
LADDER = ("online", *RUNGS, "decode")
ALL_ARMS: Mapping[str, Arm] = {**ARMS, **RUNGS}
