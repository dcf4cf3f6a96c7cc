"""A board that keeps every dispatch that went through it: what was launched is counted, not derived."""

from collections.abc import Sequence
from typing import Any

from hipbook.boards.base import Arg, Board, Dim3, Dispatch
from hipbook.build.code_object import CodeObject


class Recording:
    """`board`, with `dispatches` in the order in which they ran. Everything else is the board's own."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.dispatches: list[Dispatch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._board, name)

    def launch(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Arg],
        **options: Any,
    ) -> Dispatch:
        """As the board's; a launch that raises is not kept."""
        done = self._board.launch(code_object, kernel, grid, block, args, **options)
        self.dispatches.append(done)
        return done

    def take(self) -> list[Dispatch]:
        """The dispatches since the last call, which are then forgotten here."""
        taken, self.dispatches = self.dispatches, []
        return taken
