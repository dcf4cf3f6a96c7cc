"""A board that remembers what every launch left in the buffers it could write, and one case of each arm to
run on it. bench/wave_orders.py uses it too."""

import hashlib
from typing import Any

import torch

from hipbook import checks
from hipbook.boards import Buffer


class RecordingBoard:
    """`board`, with a digest of all bytes that launches could write, in order."""

    def __init__(self, board: Any) -> None:
        self._board = board
        self._bytes = hashlib.sha256()
        self.launches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._board, name)

    def launch(self, code_object, kernel, grid, block, args, **options):
        done = self._board.launch(code_object, kernel, grid, block, args, **options)
        for arg in args:
            untouched = isinstance(arg, Buffer) and done.unwritten.get(arg.name) == arg.tensor.nbytes
            if isinstance(arg, Buffer) and arg.access != "r" and not untouched:
                content = arg.tensor.contiguous().reshape(-1).view(torch.uint8)
                self._bytes.update(content.numpy().tobytes())
        self.launches += 1
        return done

    def taken(self) -> str:
        """The digest so far; starts a new one."""
        digest, self._bytes = self._bytes.hexdigest(), hashlib.sha256()
        return digest


def one_case_an_arm() -> list[checks.Case]:
    """The first case of each arm that is not about a refusal, a short one where there is one."""
    chosen = {}
    for case in sorted(checks.select("test"), key=lambda case: case.family not in ("few_keys", "ties")):
        if case.family not in ("misaligned", "head_dims", "far_block"):
            chosen.setdefault((case.operation, case.arm), case)
    return list(chosen.values())
