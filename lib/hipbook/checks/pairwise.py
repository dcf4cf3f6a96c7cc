"""Covering designs: few cases in which every allowed pair of levels of any two factors occurs.

Most faults of kernels show themselves at one level or at a pair of levels (a dtype with a head size, a
ratio with a window). A pairwise design meets all of them with a few dozen cases instead of the whole
product. Greedy: again and again the case of the product that covers most pairs not covered yet.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from hipbook.errors import BadArgument

Levels = Mapping[str, Sequence[object]]
Row = dict[str, object]
Constraint = Callable[[Row], bool]
MAX_PRODUCT = 2_000_000


@dataclass(frozen=True)
class Design:
    """`rows` cover all `pairs` allowed pairs; `product` is how many allowed cases there are."""

    rows: tuple[Row, ...]
    pairs: int
    product: int

    def __str__(self) -> str:
        return f"{len(self.rows)} cases cover all {self.pairs} allowed pairs of a product of {self.product}"


def allowed_product(factors: Levels, constraints: Sequence[Constraint] = ()) -> Iterator[Row]:
    """Every combination of levels that all constraints allow, in the factors' order."""
    for values in product(*factors.values()):
        row = dict(zip(factors, values, strict=True))
        if all(constraint(row) for constraint in constraints):
            yield row


def pairs_of(row: Row) -> set[tuple[tuple[str, object], tuple[str, object]]]:
    """The pairs ((factor, level), (factor, level)) that a row covers."""
    return set(combinations(row.items(), 2))


def pairwise(factors: Levels, constraints: Sequence[Constraint] = (), seed: int = 0) -> Design:
    """A design in which every pair of levels that some allowed case holds occurs at least once.

    A constraint takes a whole row and says whether it is allowed. `seed` breaks ties; the same
    arguments give the same design.
    """
    if len(factors) < 2 or any(not levels for levels in factors.values()):
        raise BadArgument("factors", list(factors), "at least two factors, each with at least one level")
    size = int(np.prod([len(levels) for levels in factors.values()]))
    if size > MAX_PRODUCT:
        raise BadArgument("factors", size, f"a product of at most {MAX_PRODUCT} cases")
    rows = list(allowed_product(factors, constraints))
    if not rows:
        raise BadArgument("constraints", len(constraints), "at least one case must be allowed")
    np.random.default_rng(seed).shuffle(rows)
    levels = _level_numbers(factors, rows)
    chosen, pairs = _greedy(levels)
    return Design(tuple(rows[i] for i in chosen), pairs, len(rows))


def _level_numbers(factors: Levels, rows: list[Row]) -> np.ndarray:
    """uint8 [factors, rows]: each row's level of each factor by its place in the factor."""
    place = {name: {level: i for i, level in enumerate(levels)} for name, levels in factors.items()}
    return np.array([[place[name][row[name]] for row in rows] for name in factors], dtype=np.uint8)


def _greedy(levels: np.ndarray) -> tuple[list[int], int]:
    """Indices of the chosen rows, and how many distinct pairs there are."""
    count = levels.shape[1]
    axes = list(combinations(range(levels.shape[0]), 2))
    open_pairs = [set(zip(levels[a].tolist(), levels[b].tolist(), strict=True)) for a, b in axes]
    pairs = sum(len(pairs) for pairs in open_pairs)
    gain = np.full(count, len(axes), dtype=np.int32)  # pairs a row would newly cover
    chosen, left = [], pairs
    while left:
        best = int(gain.argmax())
        chosen.append(best)
        for (a, b), todo in zip(axes, open_pairs, strict=True):
            pair = int(levels[a, best]), int(levels[b, best])
            if pair in todo:
                todo.remove(pair)
                left -= 1
                gain -= (levels[a] == pair[0]) & (levels[b] == pair[1])
    return chosen, pairs
