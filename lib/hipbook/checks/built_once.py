"""A board for one run of checks: each code object is looked up once, not before every launch."""

from collections.abc import Sequence

from hipbook.boards.base import Board
from hipbook.build.code_object import CodeObject


class BuiltOnce:
    """The board it wraps, but for `build`, which remembers.

    The build cache looks at every header before it trusts an entry, a few milliseconds each time. A
    run of checks is about one state of the sources (results carry its hash), so once is enough.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self._built: dict[tuple[str, tuple[str, ...]], CodeObject] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._board, name)

    def build(self, source: str, flags: Sequence[str] = ()) -> CodeObject:
        key = source, tuple(flags)
        if key not in self._built:
            self._built[key] = self._board.build(source, flags)
        return self._built[key]
