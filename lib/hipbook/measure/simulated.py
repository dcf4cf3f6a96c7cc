"""A measuring session that nobody measured: for worked examples and tests, labelled so in its board.

Times come from a `World` of the calibration, run order and arms from the plan, so everything after the
clock is the real thing.
"""

import numpy as np

from hipbook.measure.calibration import World
from hipbook.measure.schedule import implementation
from hipbook.measure.session import Plan, Run, Session

BOARD = {"name": "simulated", "kind": "simulated"}
WITNESS = {"base": 0x10, "new": 0x20}


def simulated_session(
    plan: Plan, world: World, *, ratio: float = 1.0, level: float = 100.0, iterations: int = 20, seed: int = 0
) -> Session:
    """A session of the plan's schedule in which `new` is truly `ratio` times faster than `base`.

    The negative case, where the plan names one, runs beside every slot at half the level and does not
    move. One process a slot.
    """
    rng = np.random.default_rng(seed)
    slots = plan.schedule()
    cases = [plan.case] + ([plan.negative_case] if plan.negative_case else [])
    runs: list[Run] = []
    for slot in slots:
        arm = implementation(slot.arm)
        side = "base" if arm == plan.base else "new"
        for case in cases:
            true = level / ratio if side == "new" else level
            true = true if case == plan.case else level / 2
            samples = true * _times(world, slot.order / (len(slots) - 1), iterations, rng)
            runs.append(
                Run(
                    order=len(runs),
                    process=f"simulated process {slot.order}",
                    arm=slot.arm,
                    case=case,
                    kernel=f"simulated_{side}",
                    witness=WITNESS[side],
                    samples=samples.tolist(),
                    warmup_dropped=0,
                    settled=True,
                    clock_mhz=2000.0,
                    correct_before=True,
                    correct_after=True,
                )
            )
    return Session(
        plan=plan,
        plan_id=plan.plan_id,
        resolution=1e-3,
        board_start=dict(BOARD),
        board_end=dict(BOARD),
        runs=runs,
    )


def _times(world: World, elapsed: float, iterations: int, rng: np.random.Generator) -> np.ndarray:
    """One run's iterations around 1, `elapsed` (0 .. 1) into the session."""
    logs = world.drift * elapsed + world.between * rng.standard_normal()
    if world.mode_gap:
        drawn = iterations if world.mode_per == "iteration" else 1
        logs = logs + world.mode_gap * (rng.random(drawn) < 0.5)
    return np.exp(logs + world.within * rng.standard_normal(iterations))
