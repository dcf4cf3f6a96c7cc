"""Where the instructions go: HIP source lines with what they executed, moved and kept idle.

    counts = annotate.of_arm("online", call, board)      # or of_case("quantize_q8k/serial/...", board)
    annotate.hottest(counts, 10)

The kernel is built with line tables only, which leaves its instructions as they are, and run on the
emulated board with counts by instruction. An instruction belongs to the innermost line of the author's own
sources that it came from.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from hipbook import checks, emulator, paths
from hipbook.boards.base import Board
from hipbook.boards.emulated import EmulatedBoard
from hipbook.build.code_object import CodeObject
from hipbook.emulator.counters import Counted
from hipbook.emulator.image import Image
from hipbook.emulator.places import Place, Places
from hipbook.emulator.structures import MOVED
from hipbook.errors import BadArgument
from hipbook.ops.attention_call import AttentionCall
from hipbook.studies.arms import run_arm

LINES = "-gline-tables-only"
UNKNOWN = ("?", 0)


@dataclass
class LineCounts:
    """What the instructions of one source line did, over all waves and launches."""

    instructions: int = 0  # wave instructions executed
    vector: int = 0  # of them, vector ALU, memory and LDS: those that lanes take part in
    active_lanes: int = 0  # summed over `vector`
    bytes: int = 0  # of the arguments, asked for
    segments32: int = 0
    segments128: int = 0
    lds_bytes: int = 0
    lds_conflicts: int = 0

    @property
    def lanes(self) -> float | None:
        """Mean active lanes of the instructions that lanes take part in."""
        return self.active_lanes / self.vector if self.vector else None


@dataclass(frozen=True)
class Profile:
    """One kernel's counts by source line, and the last launch's events."""

    kernel: str
    lines: dict[Place, LineCounts]
    launches: int
    counted: Counted = field(repr=False)  # of the last launch

    @property
    def instructions(self) -> int:
        return sum(line.instructions for line in self.lines.values())


class ProfilingBoard(EmulatedBoard):
    """The emulated board, with line tables in what it builds and counts by instruction of what it runs."""

    def __init__(self, board: Board, followed: int = 0) -> None:
        if board.kind != "emulated":
            raise BadArgument(
                "board", board.name, "lines are counted on an emulated board", fix="gfx1200-emu"
            )
        super().__init__(board.name, board.arch)
        self.followed = followed
        self.ran: list[tuple[CodeObject, Counted]] = []

    def build(self, source: str, flags: Sequence[str] = ()) -> CodeObject:
        return super().build(source, (*flags, LINES))

    def _run(self, code_object: CodeObject, *launch: Any, **options: Any) -> Counted:
        counted = super()._run(code_object, *launch, **options, profile=True, followed=self.followed)
        self.ran.append((code_object, counted))
        return counted


def of_arm(arm: str, call: AttentionCall, board: Board, *, followed: int = 0) -> Profile:
    """An attention arm on one call, held to the oracle; `followed`: the workgroup whose events are kept."""
    where = ProfilingBoard(board, followed)
    run = run_arm(call, arm, where)
    if not run.comparison.passed:
        raise BadArgument("arm", arm, f"is wrong here: {run.comparison.why}")
    return profile_of(where.ran)


def of_case(case_id: str, board: Board, *, followed: int = 0) -> Profile:
    """Any operation's arm on the inputs of a check's case; all its launches added up."""
    where = ProfilingBoard(board, followed)
    result = checks.evaluate(checks.parse_case(case_id), where)
    if not result.ok or not where.ran:
        raise BadArgument("case", case_id, f"is {result.status}: {result.reason or 'nothing was launched'}")
    return profile_of(where.ran)


def profile_of(ran: Iterable[tuple[CodeObject, Counted]]) -> Profile:
    """Counts by line of launches of one kernel."""
    lines: dict[Place, LineCounts] = defaultdict(LineCounts)
    launches, names, counted = 0, set(), None
    for code_object, counted in ran:
        launches += 1
        names.add(counted.kernel.name)
        _add(lines, counted, emulator.load(code_object).image)
    if len(names) != 1:
        raise BadArgument("kernels", sorted(names), "lines are added up for one kernel at a time")
    return Profile(names.pop(), dict(lines), launches, counted)


def _add(lines: dict[Place, LineCounts], counted: Counted, image: Image) -> None:
    places = Places(image.data)
    for n, inst in enumerate(counted.kernel.instructions):
        executed = int(counted.executions[n])
        if not executed:
            continue
        path, number = places.at(image.text_address + inst.at) or UNKNOWN
        line = lines[path.removeprefix("kernels/"), number]
        line.instructions += executed
        if inst.name.startswith(("V_", "GLOBAL_", "DS_", "FLAT_", "SCRATCH_", "BUFFER_")):
            line.vector += executed
            line.active_lanes += int(counted.lanes[n])
        for name, value in zip(MOVED, counted.moved[n].tolist(), strict=True):
            setattr(line, name, getattr(line, name) + value)


def hottest(profile: Profile, count: int | None = None) -> list[dict[str, object]]:
    """One source line a row, most executed instructions first (None: all of them)."""
    text, whole = _Sources(), profile.instructions
    ordered = sorted(profile.lines.items(), key=lambda item: (-item[1].instructions, item[0]))
    return [
        {
            "line": f"{place[0]}:{place[1]}",
            "instructions": line.instructions,
            "share, %": round(100 * line.instructions / whole, 1),
            "bytes": line.bytes,
            "LDS bytes": line.lds_bytes,
            "bank conflicts": line.lds_conflicts,
            "active lanes": None if line.lanes is None else round(line.lanes, 1),
            "source": text.line(place),
        }
        for place, line in ordered[:count]
    ]


def source(profile: Profile, file: str) -> list[dict[str, object]]:
    """A whole file, line by line, with the counts of those that executed."""
    text, rows = _Sources(), []
    if not text.has(file):
        known = sorted({place[0] for place in profile.lines})
        raise BadArgument("file", file, "no such file under kernels/", fix=f"one of {', '.join(known)}")
    for number, words in enumerate(text.lines(file), 1):
        line = profile.lines.get((file, number), LineCounts())
        rows.append(
            {
                "line": number,
                "instructions": line.instructions or None,
                "bytes": line.bytes or None,
                "source": words,
            }
        )
    return rows


def difference(before: Profile, after: Profile, count: int | None = None) -> list[dict[str, object]]:
    """Two arms: the lines whose executed instructions differ most. A line of a shared header is one row."""
    text, rows = _Sources(), []
    for place in before.lines.keys() | after.lines.keys():
        a, b = (p.lines.get(place, LineCounts()) for p in (before, after))
        if a.instructions == b.instructions and a.bytes == b.bytes:
            continue
        rows.append(
            {
                "line": f"{place[0]}:{place[1]}",
                before.kernel: a.instructions,
                after.kernel: b.instructions,
                "more": b.instructions - a.instructions,
                "bytes more": b.bytes - a.bytes,
                "source": text.line(place),
            }
        )
    rows.sort(key=lambda row: (-abs(row["more"]), row["line"]))
    return rows[:count]


def lanes_over_time(profile: Profile, bins: int = 120) -> list[dict[str, object]]:
    """The followed workgroup's waves: mean active lanes of vector and memory instructions in each stretch.

    A wave's time is the number of instructions it has executed; stretches are equally many of them. None: a
    stretch without such an instruction.
    """
    events, rows = _events(profile), []
    vector = np.array(
        [inst.name.startswith(("V_", "GLOBAL_", "DS_")) for inst in profile.counted.kernel.instructions]
    )
    for wave in np.unique(events["wave"]):
        own = events[events["wave"] == wave]
        edges = np.linspace(0, len(own), min(bins, len(own)) + 1).astype(int)
        for low, high in pairwise(edges):
            part = own[low:high]
            part = part[vector[part["record"]]]
            mean = float(part["lanes"].mean()) if len(part) else None
            rows.append(
                {"wave": int(wave), "instruction": int(low), "until": int(high), "active lanes": mean}
            )
    return rows


def segments_of_loads(profile: Profile) -> list[dict[str, object]]:
    """Each memory instruction that executed: segments of 32 bytes a time, and the fewest its bytes fill."""
    rows, counted = [], profile.counted
    for n, inst in enumerate(counted.kernel.instructions):
        moved = dict(zip(MOVED, counted.moved[n].tolist(), strict=True))
        if not moved["segments32"]:
            continue
        times = int(counted.executions[n])
        rows.append(
            {
                "instruction": inst.name.lower(),
                "times": times,
                "bytes a time": moved["bytes"] / times,
                "segments a time": moved["segments32"] / times,
                "fewest": max(1.0, moved["bytes"] / times / 32),
            }
        )
    return rows


def _events(profile: Profile) -> np.ndarray:
    if profile.counted.events is None or not len(profile.counted.events):
        raise BadArgument("followed", "", "the workgroup that was followed executed nothing")
    return profile.counted.events


class _Sources:
    """Lines of files under kernels/."""

    def __init__(self) -> None:
        self._text: dict[str, list[str]] = {}

    def has(self, file: str) -> bool:
        return (paths.kernels() / file).is_file()

    def lines(self, file: str) -> list[str]:
        if file not in self._text:
            self._text[file] = (paths.kernels() / file).read_text().splitlines() if self.has(file) else []
        return self._text[file]

    def line(self, place: Place) -> str:
        lines = self.lines(place[0])
        return lines[place[1] - 1].strip() if 0 < place[1] <= len(lines) else ""
