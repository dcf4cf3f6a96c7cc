"""From a sweep file to jobs: every point checked against the notebook, ordered by seed, named by its key.

A job's key is a hash of everything its result depends on: all parameters, the notebook's code, the package,
the kernels, and the board's identity and compiler. A valid record under that key need not be made again.
"""

import hashlib
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from hipbook.errors import BoardUnavailable
from hipbook.notebooks.known import check_names
from hipbook.notebooks.parameters import BadParameters, Parameter, check
from hipbook.records.store import canonical
from hipbook.sweep import digests
from hipbook.sweep.offers import Offer
from hipbook.sweep.runner import declared_in
from hipbook.sweep.spec import MAX_JOBS, BadSweep, Sweep

Control = Literal["", "start", "middle", "end"]
NO_BOARD = ""  # the queue of a notebook that takes no board


@dataclass(frozen=True)
class Job:
    """One run of the sweep. `given` goes over the notebook's defaults, `parameters` are all of them."""

    key: str
    board: str
    given: Mapping[str, Any]
    parameters: Mapping[str, Any]
    repeat: int = 0
    control: Control = ""
    identity: Mapping[str, Any] | None = None

    @property
    def point(self) -> str:
        """The same for jobs that differ in nothing but the board."""
        without = {name: value for name, value in self.parameters.items() if name != "board"}
        return hashlib.sha256(canonical([without, self.repeat, self.control])).hexdigest()[:12]


def points(sweep: Sweep) -> list[dict[str, Any]]:
    """The swept values, in the order of the file; BadSweep for none, for two alike, and for too many."""
    swept = sweep.swept
    rows = len(next(iter(swept.zip.values()), [0]))
    size = prod(len(values) for values in swept.product.values()) * rows * max(1, len(swept.entries))
    size *= max(1, len(sweep.seeds)) * sweep.repeats * max(1, len(sweep.boards))
    if size > MAX_JOBS:
        raise BadSweep(f"{sweep.name}: {size:,} jobs; at most {MAX_JOBS:,}", fix="split it")
    products = itertools.product(*swept.product.values())
    found = [
        dict(zip(swept.product, values, strict=True)) | row | entry | seed
        for values in products
        for row in [dict(zip(swept.zip, row, strict=True)) for row in zip(*swept.zip.values(), strict=True)]
        or [{}]
        for entry in swept.entries or [{}]
        for seed in [{"seed": seed} for seed in sweep.seeds] or [{}]
    ]
    kept = [point for point in found if not any(_matches(point, one) for one in swept.exclude)]
    for one in swept.exclude:
        if not any(_matches(point, one) for point in found):
            raise BadSweep(f"{sweep.name}: exclude: {one} matches no point", fix="a misspelt name or value?")
    if not kept:
        raise BadSweep(f"{sweep.name}: no point is left: everything is excluded")
    seen = set()
    for point in kept:
        text = canonical(point)
        if text in seen:
            raise BadSweep(
                f"{sweep.name}: the point {point} is there twice", fix="use `repeats` to repeat it"
            )
        seen.add(text)
    return kept


def _matches(point: Mapping[str, Any], pattern: Mapping[str, Any]) -> bool:
    return all(
        name in point and canonical(point[name]) == canonical(value) for name, value in pattern.items()
    )


def boards_of(sweep: Sweep, offers: Sequence[Offer], *, takes_board: bool) -> list[Offer]:
    """The offers a sweep asks for, by board name or by architecture, each once in the order of the file."""
    if not takes_board:
        if sweep.boards:
            raise BadSweep(
                f"{sweep.name}: boards: the notebook has no parameter `board`", fix="remove boards"
            )
        return [Offer(NO_BOARD, "", {})]
    if not sweep.boards:
        raise BadSweep(f"{sweep.name}: boards: none is listed", fix="`hipbook boards` names them")
    chosen: dict[str, Offer] = {}
    for wanted in sweep.boards:
        found = [one for one in offers if wanted in (one.board, one.called)]
        found = found or [one for one in offers if one.arch == wanted]
        if not found:
            there = ", ".join(
                dict.fromkeys([*(o.board for o in offers), *(o.arch for o in offers if o.arch)])
            )
            raise BadSweep(
                f"{sweep.name}: boards: no board or architecture {wanted!r}", fix=f"there are {there}"
            )
        chosen |= {one.board: one for one in found}
    return list(chosen.values())


def plan(sweep: Sweep, notebook: Path, offers: Sequence[Offer]) -> list[Job]:
    """All jobs, board by board in the order they are to run.

    Raises BadSweep or BadParameters with every fault found, before anything runs.
    """
    declared = declared_in(notebook)
    names = {parameter.name for parameter in declared}
    if sweep.seeds and "seed" not in names:
        raise BadSweep(f"{sweep.name}: seeds: {notebook.stem} has no parameter `seed`", fix="remove seeds")
    boards = boards_of(sweep, offers, takes_board="board" in names)
    swept = points(sweep)
    _refuse_bad_values(sweep, declared, swept, boards)
    made = _Maker(sweep, notebook, declared)
    jobs: list[Job] = []
    for offer in boards:
        queue = [made.job(offer, point, repeat) for point in swept for repeat in range(sweep.repeats)]
        random.Random(f"{sweep.order_seed}/{offer.board}").shuffle(queue)
        middle = len(queue) // 2
        point = swept[0] if sweep.control is None else sweep.control
        start, mid, end = (made.job(offer, point, 0, control) for control in ("start", "middle", "end"))
        jobs += [start, *queue[:middle], mid, *queue[middle:], end]
    return jobs


class _Maker:
    """Makes jobs; holds what all keys of a sweep share."""

    def __init__(self, sweep: Sweep, notebook: Path, declared: Sequence[Parameter]) -> None:
        self.sweep, self.declared = sweep, declared
        self.shared = [notebook.stem, digests.notebook(notebook), digests.package(), digests.kernels()]

    def job(self, offer: Offer, point: Mapping[str, Any], repeat: int, control: Control = "") -> Job:
        given = {**self.sweep.fixed, **point} | ({"board": offer.called} if offer.board else {})
        parameters = check(self.declared, given)
        what = [*self.shared, parameters, dict(offer.identity), offer.toolchain, repeat, control]
        key = hashlib.sha256(canonical(what)).hexdigest()[:16]
        return Job(key, offer.board, given, parameters, repeat, control, dict(offer.identity) or None)


def _refuse_bad_values(
    sweep: Sweep, declared: Sequence[Parameter], swept: Sequence[Mapping[str, Any]], boards: Sequence[Offer]
) -> None:
    """Check every point on every board, and say all that is wrong in one message."""
    offered = {offer.called for offer in boards}

    def exists(name: str) -> None:
        if name not in offered:
            raise BadParameters(f"board = {name!r}: not offered")

    faults: dict[str, None] = {}
    for point in [*swept, *([sweep.control] if sweep.control is not None else [])]:
        for offer in boards:
            given = {**sweep.fixed, **point} | ({"board": offer.called} if offer.board else {})
            try:
                check_names(declared, check(declared, given), board_exists=exists)
            except (BadParameters, BoardUnavailable) as error:
                faults |= dict.fromkeys(line.strip() for line in error.what.splitlines()[:20])
    faults.pop("bad parameters", None)
    if faults:
        allowed = "\n".join(f"    {parameter}" for parameter in declared)
        more = [f"... and {len(faults) - 20} more"] if len(faults) > 20 else []
        told = "\n  ".join([f"{sweep.name}: bad parameters", *list(faults)[:20], *more])
        raise BadParameters(told, fix=f"allowed are\n{allowed}")
