"""Boards that an engine can run jobs on, and what they say of themselves.

`python -m hipbook.sweep.offers BOARD` prints the offer of one board as JSON: a GPU is asked in a process of
its own, since opening it leaves a context on it as long as the process lives.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hipbook import paths
from hipbook.errors import BoardUnavailable, HipbookError


@dataclass(frozen=True)
class Offer:
    """A board's name, architecture, identity, and the compiler behind its code (None: there is none).

    Two machines may each have an `amd-0`: then `board` tells them apart and `local` is what each is called
    where it is.
    """

    board: str
    arch: str
    identity: Mapping[str, Any]
    toolchain: str | None = None
    local: str = ""

    @property
    def called(self) -> str:
        """What the board is called on its own machine: the value of the parameter `board`."""
        return self.local or self.board


def of_this_machine(wanted: Sequence[str]) -> list[Offer]:
    """The boards of this machine; only those `wanted`, by name or architecture, are asked who they are.

    Raises BoardUnavailable for a board that is known by name and not here.
    """
    from hipbook import boards
    from hipbook.boards.inventory import inventory

    try:
        entries = [boards.require(boards.find(name).name) for name in wanted]
    except BoardUnavailable:
        entries = inventory()  # an architecture among them, or a board that is absent
        for entry in entries:
            if entry.name in wanted:
                boards.require(entry.name)
    return [
        of(entry.name, in_process=entry.kind == "emulated")
        if {entry.name, entry.arch} & set(wanted)
        else Offer(entry.name, entry.arch, {})
        for entry in entries
        if entry.available
    ]


def of(board: str, *, in_process: bool = False) -> Offer:
    """What one board of this machine says of itself. Raises BoardUnavailable."""
    if in_process:
        return _opened(board)
    done = subprocess.run(
        [sys.executable, "-m", "hipbook.sweep.offers", board],
        capture_output=True,
        text=True,
        cwd=paths.root(),
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise BoardUnavailable(f"board {board}: {said}", fix="`hipbook boards` lists them")
    return Offer(**json.loads(done.stdout.splitlines()[-1]))


def _opened(name: str) -> Offer:
    from hipbook import boards
    from hipbook.build import toolchain_identity

    board = boards.get(name)
    try:
        toolchain = toolchain_identity(board.arch)
    except HipbookError:
        toolchain = None
    return Offer(board.name, board.arch, dict(board.identity()), toolchain)


if __name__ == "__main__":
    try:
        print(json.dumps(asdict(_opened(sys.argv[1]))))
    except BoardUnavailable as error:
        sys.exit(error.what)
