"""Which boards there are, which of them this machine has, and why not the others."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from hipbook.boards.base import Board
from hipbook.boards.emulated import EmulatedBoard
from hipbook.errors import BoardUnavailable

DEFAULT = "gfx1200-emu"


@dataclass(frozen=True)
class Entry:
    """A board by name. `why_not` is empty when it is available."""

    name: str
    arch: str
    kind: Literal["emulated", "gpu"]
    available: bool
    why_not: str = ""


@dataclass(frozen=True)
class _Kind:
    """A board that can be made: its entry, looked up when asked for, and how to make it."""

    entry: Callable[[], Entry]
    make: Callable[[], Board]


def _emulated(name: str, arch: str) -> _Kind:
    return _Kind(lambda: Entry(name, arch, "emulated", True), lambda: EmulatedBoard(name, arch))


# Emulated boards; those of another architecture are one line each once the emulator has its family.
_KINDS: dict[str, _Kind] = {"gfx1200-emu": _emulated("gfx1200-emu", "gfx1200")}


def inventory() -> list[Entry]:
    """Every board known by name, those of this machine and those it lacks."""
    return [kind.entry() for kind in _KINDS.values()]


def default_name() -> str:
    """$HIPBOOK_BOARD, else the emulated gfx1200."""
    return os.environ.get("HIPBOOK_BOARD") or DEFAULT


@cache
def _made(name: str) -> Board:
    return _KINDS[name].make()


def get(board: str | Board | None = None) -> Board:
    """The board called `board`; a board itself is handed back; None is the default.

    Raises BoardUnavailable with the names there are, or with why this machine lacks it.
    """
    if board is not None and not isinstance(board, str):
        return board
    name = board or default_name()
    if name not in _KINDS:
        raise BoardUnavailable(f"no board is called {name!r}", fix=f"one of {', '.join(_KINDS)}")
    entry = _KINDS[name].entry()
    if not entry.available:
        raise BoardUnavailable(
            f"board {name} is not on this machine: {entry.why_not}", fix="`hipbook boards` lists them"
        )
    return _made(name)
