"""What may be compared with what: boards, environments, axes, substitutions (R9, T8, T9, T13).

All functions take plain mappings (a record's `environment` and `board`, a harness's axes), so they
serve records, sessions and traces alike.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from hipbook.errors import HipbookError, Refused
from hipbook.measure.verdict import Verdict, Word

# What differs between any two runs and explains nothing.
ALWAYS_DIFFERENT = frozenset({"started", "finished", "wall_s", "seal_sha256", "content_sha256", "pid"})


class NotComparable(Refused):
    """Two sides differ in something that is not the factor under study."""


class BoardChanged(HipbookError):
    """The board at the end of a run is not the one at its start (T13)."""


@dataclass(frozen=True)
class Difference:
    """One thing in which two sides differ; dotted name, the sides' values (None: absent)."""

    name: str
    base: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.base!r} against {self.new!r}"


def differences(base: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Every leaf in which two nested mappings differ, by dotted name; times and seals excepted."""
    left, right = dict(_leaves(base)), dict(_leaves(new))
    return [
        Difference(name, left.get(name), right.get(name))
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name) and name.rpartition(".")[2] not in ALWAYS_DIFFERENT
    ]


def require_comparable(
    base: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    factor: str,
    inert: Mapping[str, Verdict] | None = None,
) -> list[Difference]:
    """The differences that the factor under study explains; NotComparable for any other (R9).

    `factor` is the dotted name (or its beginning) of what is meant to differ. `inert` maps another name
    to the verdict of an A/B that substituted it alone: only EQUIVALENT makes it harmless (T9).
    """
    found = differences(base, new)
    inert = inert or {}
    others = [one for one in found if not _under(one.name, factor)]
    for one in others:
        cited = next((verdict for name, verdict in inert.items() if _under(one.name, name)), None)
        if cited is None:
            raise NotComparable(
                f"{one}: not the factor under study ({factor})",
                fix="measure both sides in one environment, or measure this substitution as an A/B first",
            )
        if cited.word is not Word.EQUIVALENT:
            raise NotComparable(
                f"{one}: its own A/B says {cited}, not EQUIVALENT",
                fix="measure both sides in one environment",
            )
    return found


def same_board(start: Mapping[str, Any], end: Mapping[str, Any]) -> None:
    """BoardChanged unless the board's identity is the same at the start and the end of a run (T13)."""
    changed = differences(start, end)
    if changed:
        raise BoardChanged(
            f"board {start.get('name', '?')} changed during the run: {'; '.join(map(str, changed))}",
            fix="pin the device (one process, one board) and run again",
        )


def shared_axes(base: Collection[str], new: Collection[str]) -> tuple[list[str], list[str]]:
    """(axes both harnesses pay, axes only one does), sorted. An axis is a quantity such as TPOT or TTFT."""
    both = set(base) & set(new)
    return sorted(both), sorted((set(base) | set(new)) - both)


def require_axis(axis: str, base: Collection[str], new: Collection[str]) -> str:
    """The axis, if both harnesses pay it; NotComparable, naming what they do share, if not (T8)."""
    both, _ = shared_axes(base, new)
    if axis not in both:
        payer = "base" if axis in base else "new" if axis in new else "neither"
        raise NotComparable(
            f"{axis} is paid by {payer} alone"
            if payer != "neither"
            else f"{axis} is measured by neither side",
            fix=f"compare on what both pay: {', '.join(both) or 'nothing'}",
        )
    return axis


def _leaves(tree: Mapping[str, Any], prefix: str = ""):
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _under(name: str, root: str) -> bool:
    return name == root or name.startswith(root + ".")
