"""Which boards there are, which of them this machine has, and why not the others."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from hipbook.boards import gpu
from hipbook.boards.base import Board
from hipbook.errors import BadArgument, BoardUnavailable

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
    def make() -> Board:
        from hipbook.boards.emulated import EmulatedBoard  # its tables are not needed on a GPU's machine

        return EmulatedBoard(name, arch)

    return _Kind(lambda: Entry(name, arch, "emulated", True), make)


def _gpu(name: str, index: int) -> _Kind:
    return _Kind(
        lambda: Entry(name, gpu.architecture(index), "gpu", True), lambda: gpu.GpuBoard(index, name=name)
    )


def _absent_gpu(vendor: str) -> _Kind:
    why = gpu.why_none() or f"this torch drives {gpu.vendor_of_torch().upper()} GPUs"
    return _Kind(lambda: Entry(f"{vendor}-0", "", "gpu", False, why), lambda: gpu.GpuBoard(0))


# Emulated boards, the default first: one for each architecture of emulator/isa.FAMILIES.
EMULATED = ("gfx1200", "gfx1201", "gfx1100", "gfx1151")
_KINDS: dict[str, _Kind] = {f"{arch}-emu": _emulated(f"{arch}-emu", arch) for arch in EMULATED}


def _kinds() -> dict[str, _Kind]:
    """The emulated boards, then the GPUs torch sees, then one of each vendor that has none here."""
    kinds = dict(_KINDS) | {name: _gpu(name, index) for name, index in gpu.visible()}
    return kinds | {f"{v}-0": _absent_gpu(v) for v in ("nvidia", "amd") if f"{v}-0" not in kinds}


def inventory() -> list[Entry]:
    """Every board known by name, those of this machine and those it lacks."""
    return [kind.entry() for kind in _kinds().values()]


def find(name: str) -> Entry:
    """The entry of the board called `name`, which may not be available. BoardUnavailable for no such name.

    Looks for GPUs only when it is not an emulated board.
    """
    kinds = _KINDS if name in _KINDS else _kinds()
    if name not in kinds:
        raise BoardUnavailable(f"no board is called {name!r}", fix=f"one of {', '.join(kinds)}")
    return kinds[name].entry()


def require(name: str) -> Entry:
    """The entry of a board this machine has. Raises BoardUnavailable, with why it has not."""
    entry = find(name)
    if not entry.available:
        raise BoardUnavailable(
            f"board {name} is not on this machine: {entry.why_not}", fix="`hipbook boards` lists them"
        )
    return entry


def default_name() -> str:
    """$HIPBOOK_BOARD, else the emulated gfx1200."""
    return os.environ.get("HIPBOOK_BOARD") or DEFAULT


@cache
def _made(name: str) -> Board:
    return _kinds()[name].make()


def get(board: str | Board | None = None) -> Board:
    """The board called `board`; a board itself is handed back; None is the default.

    Raises BoardUnavailable with the names there are, or with why this machine lacks it; BadArgument for what
    is neither a name nor a board.
    """
    if board is not None and not isinstance(board, str):
        if not all(hasattr(board, part) for part in ("wave_size", "torch_device", "build")):
            raise BadArgument(
                "board", repr(board), "must be a board or the name of one", fix="`hipbook boards` lists them"
            )
        return board
    name = board or default_name()
    require(name)
    return _made(name)
