"""What the verdict is worth, by simulation: false differences, coverage and power, and three wrong methods.

Each simulated session goes through `read_signs` and `decide`, the code that judges a real one: three
arms (base, new, the base again), interleaved by `interleave`, each run with its own iterations. A cell
is one world and one number of runs; its sessions share SCHEDULES seeded run orders.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import mannwhitneyu

from hipbook.measure.intervals import student
from hipbook.measure.judge import Runs, read_signs
from hipbook.measure.schedule import interleave, positions_of, with_control
from hipbook.measure.thresholds import DEFAULT_RUNS
from hipbook.measure.verdict import TREE, decide, is_difference

RUN_COUNTS = (4, 6, 10, 20)
SESSIONS = 4000  # a cell: the standard error of a 95 % coverage is then 0.34 points
SCHEDULES = 20  # seeded run orders a cell's sessions are spread over
ITERATIONS = 30  # a run
POWER_EFFECT = 0.03

ARMS = with_control("base", "new")


@dataclass(frozen=True)
class World:
    """How times come about on a simulated board; standard deviations and sizes are log, 0.01 = 1 %."""

    name: str
    between: float = 0.0  # sd between runs (processes)
    within: float = 0.005  # sd between iterations of a run
    drift: float = 0.0  # straight change over the session
    mode_gap: float = 0.0  # distance of two clock levels
    mode_per: str = "run"  # whether the level is drawn for each "run" or "iteration"
    covers: bool = False  # 95 % intervals must cover 93 .. 97 % here


WORLDS = (
    World("iid", within=0.01, covers=True),
    World("run-to-run 1 %, within 0.5 %", between=0.01, covers=True),
    World("2 % drift", between=0.002, drift=0.02),
    World("bimodal clocks, by run", mode_gap=0.05),
    World("bimodal clocks, inside runs", mode_gap=0.05, mode_per="iteration"),
)
RUN_TO_RUN = WORLDS[1]


@dataclass(frozen=True)
class Cell:
    """Rates over a cell's sessions, all between 0 and 1."""

    world: World
    runs: int
    sessions: int
    difference: float  # share that said FASTER or SLOWER
    difference_bare: float  # the same with a minimum effect of 0: interval and noise floor alone
    coverage: float  # share of intervals that hold the true ratio
    words: dict[str, float]  # share of each outcome of the tree


def times(
    world: World, places: np.ndarray, last_place: int, sessions: int, effect: float, rng: np.random.Generator
) -> np.ndarray:
    """Simulated times [sessions, runs, iterations] of one arm whose true log time is `effect`."""
    shape = (sessions, len(places), ITERATIONS)
    logs = effect + world.drift * places[None, :, None] / last_place
    logs = logs + world.between * rng.standard_normal((sessions, len(places), 1))
    if world.mode_gap:
        drawn = shape if world.mode_per == "iteration" else (*shape[:2], 1)
        logs = logs + world.mode_gap * (rng.random(drawn) < 0.5)
    return np.exp(logs + world.within * rng.standard_normal(shape))


def cell(world: World, runs: int, *, sessions: int = SESSIONS, effect: float = 0.0, seed: int = 0) -> Cell:
    """Simulate one cell. `effect` is the true ln(base / new): 0 is an A/A comparison."""
    rng = np.random.default_rng((seed, runs, *world.name.encode()))
    outcomes: Counter[str] = Counter()
    differences = bare = covered = done = 0
    for schedule in range(SCHEDULES):
        share = sessions // SCHEDULES + (schedule < sessions % SCHEDULES)
        if not share:
            continue
        order = [slot.arm for slot in interleave(ARMS, runs, seed=int(rng.integers(2**31)))]
        sides = []
        for arm in ARMS:
            places = positions_of(order, arm)
            true = -effect if arm == "new" else 0.0
            sides.append(Runs.of_samples(times(world, places, len(order) - 1, share, true, rng), places))
        signs, estimate = read_signs(*sides)
        branches = decide(signs)
        differences += int(is_difference(branches).sum())
        bare += int(is_difference(decide(replace(signs, minimum_effect=np.zeros(share)))).sum())
        covered += int(((estimate.low <= effect) & (effect <= estimate.high)).sum())
        done += share
        for branch, count in zip(*np.unique(branches, return_counts=True), strict=True):
            outcomes[_label(int(branch))] += int(count)
    words = {label: count / done for label, count in outcomes.most_common()}
    return Cell(world, runs, done, differences / done, bare / done, covered / done, words)


def _label(branch: int) -> str:
    word, reason = TREE[branch].word, TREE[branch].reason
    return f"{word}({reason})" if reason else str(word)


# --- three methods that fail (R2, R3, R4) --------------------------------------------------------


def iteration_rank_test(*, sessions: int = SESSIONS, seed: int = 0) -> float:
    """Share of A/A sessions a rank test on iterations calls different: one process a side, R2's trap."""
    rng = np.random.default_rng(seed)
    base, new = (times(RUN_TO_RUN, np.zeros(1), 1, sessions, 0.0, rng)[:, 0] for _ in range(2))
    return float((mannwhitneyu(base, new, axis=-1, method="asymptotic").pvalue < 0.05).mean())


def a_then_b(runs: int = DEFAULT_RUNS, *, sessions: int = SESSIONS, seed: int = 0) -> float:
    """Share of A/A sessions called different when A runs before B under 2 % drift, R3's trap."""
    rng = np.random.default_rng(seed)
    world = WORLDS[2]
    sides = [
        np.log(np.median(times(world, np.arange(runs) + first, 2 * runs - 1, sessions, 0.0, rng), axis=-1))
        for first in (0, runs)
    ]
    return float((student(sides[0] - sides[1]).p < 0.05).mean())


def percentile_bootstrap(
    runs: int, *, sessions: int = SESSIONS, resamples: int = 999, seed: int = 0
) -> float:
    """Coverage of a percentile bootstrap over few runs, R4's trap."""
    rng = np.random.default_rng(seed)
    ratios = rng.standard_normal((sessions, runs))
    drawn = rng.integers(runs, size=(resamples, runs))
    means = np.stack([ratios[:, row].mean(axis=-1) for row in drawn], axis=-1)
    low, high = np.percentile(means, (2.5, 97.5), axis=-1)
    return float(((low <= 0) & (high >= 0)).mean())


# --- the report ----------------------------------------------------------------------------------


def report(*, sessions: int = SESSIONS, seed: int = 0, say: Callable[[str], None] = print) -> list[Cell]:
    """Run every cell, print the table line by line, return the A/A cells and, last, the power cell."""
    say(
        f"{sessions:,} simulated sessions a cell, {ITERATIONS} iterations a run, "
        f"minimum effect 1 %, seed {seed}"
    )
    say(
        f"{'A/A in a world of':<30} {'runs':>4} {'FASTER/SLOWER':>14} {'at minimum 0':>13} {'coverage':>9}"
        "   most often"
    )
    cells = []
    for world in WORLDS:
        for runs in RUN_COUNTS:
            one = cell(world, runs, sessions=sessions, seed=seed)
            cells.append(one)
            often = ", ".join(f"{label} {share:.0%}" for label, share in list(one.words.items())[:2])
            say(
                f"{world.name:<30} {runs:>4} {one.difference:>14.2%} {one.difference_bare:>13.2%} "
                f"{one.coverage:>9.1%}   {often}"
            )
    power = cell(RUN_TO_RUN, DEFAULT_RUNS, sessions=sessions, effect=POWER_EFFECT, seed=seed)
    say(
        f"power for a {POWER_EFFECT:.0%} effect at the default {DEFAULT_RUNS} runs, {RUN_TO_RUN.name}: "
        f"FASTER in {power.words.get('FASTER', 0):.1%}, interval holds the truth in {power.coverage:.1%}"
    )
    say("methods that fail, for comparison:")
    rank = iteration_rank_test(sessions=sessions, seed=seed)
    say(f"  one process a side, rank test on iterations: {rank:.0%} of A/A sessions called different")
    blocked = a_then_b(sessions=sessions, seed=seed)
    say(f"  all of A, then all of B, under 2 % drift: {blocked:.0%} called different")
    boot = ", ".join(
        f"{percentile_bootstrap(n, sessions=sessions, seed=seed):.0%} at {n}" for n in (4, 6, 10)
    )
    say(f"  percentile bootstrap, coverage of its 95 % interval: {boot} runs")
    return [*cells, power]
