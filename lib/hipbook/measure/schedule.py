"""Who runs when (R3): blocks that hold every arm once, in mirrored pairs, recorded.

With arms (base, new, base again) and a seed, two blocks are `B A A'` then `A' A B`: the second mirrors
the first, so a straight drift adds the same to every arm, and the random order of each pair keeps any
one arm from always following the same neighbour. ABBA is the case of two arms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hipbook.errors import BadArgument

CONTROL_SUFFIX = " (A/A)"  # the control arm is the base under another label


@dataclass(frozen=True)
class Slot:
    """One run to make: the `order`-th of the session, in this block, of this arm."""

    order: int
    block: int
    arm: str


def with_control(base: str, *others: str) -> tuple[str, ...]:
    """The arms of a session: base, the others, and base once more as the A/A control (R4)."""
    return (base, *others, base + CONTROL_SUFFIX)


def is_control(arm: str) -> bool:
    return arm.endswith(CONTROL_SUFFIX)


def implementation(arm: str) -> str:
    """The arm to launch for a label: the control launches the base."""
    return arm.removesuffix(CONTROL_SUFFIX)


def interleave(arms: Sequence[str], blocks: int, seed: int) -> list[Slot]:
    """A session of `blocks` blocks (even, at least 2), each arm once a block, seeded."""
    if len(arms) < 2 or len(set(arms)) != len(arms):
        raise BadArgument("arms", list(arms), "at least two, all different")
    if blocks < 2 or blocks % 2:
        raise BadArgument("blocks", blocks, "even and at least 2: blocks come in mirrored pairs")
    rng = np.random.default_rng(seed)
    slots: list[Slot] = []
    for pair in range(blocks // 2):
        order = [arms[i] for i in rng.permutation(len(arms))]
        for block, members in ((2 * pair, order), (2 * pair + 1, order[::-1])):
            slots += [Slot(len(slots) + i, block, arm) for i, arm in enumerate(members)]
    return slots


def is_interleaved(order: Sequence[str]) -> bool:
    """Whether a recorded run order splits into blocks that hold every arm exactly once.

    A-then-B does not, whatever its length; a single block (one run a side) proves nothing either.
    """
    arms = sorted(set(order))
    size = len(arms)
    if size < 2 or len(order) % size or len(order) < 2 * size:
        return False
    return all(sorted(order[at : at + size]) == arms for at in range(0, len(order), size))


def positions_of(order: Sequence[str], arm: str) -> np.ndarray:
    """Places of one arm's runs in the recorded order, first run first."""
    return np.array([place for place, name in enumerate(order) if name == arm], dtype=float)
