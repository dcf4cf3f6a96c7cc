"""The small kernels, built once, and a way to launch them in one line."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hipbook.boards import Buffer
from hipbook.boards.emulated import EmulatedBoard

SMALL = Path(__file__).parent / "small.hip"


@pytest.fixture(scope="session")
def board() -> EmulatedBoard:
    return EmulatedBoard()


@pytest.fixture(scope="session")
def small(board):
    """The code object of small.hip, with line numbers."""
    return board.build(SMALL, ["-g"])


@pytest.fixture(scope="session")
def launch(board, small):
    """launch(kernel, grid, block, *args, **options): tensors are r unless given as (tensor, access)."""

    def go(kernel, grid, block, *args, **options):
        wrapped = []
        for n, arg in enumerate(args):
            tensor, access = arg if isinstance(arg, tuple) else (arg, "r")
            if isinstance(tensor, torch.Tensor):
                wrapped.append(Buffer(f"arg{n}", tensor, access))
            else:
                wrapped.append(np.int32(tensor) if isinstance(tensor, int) else tensor)
        return board.launch(small, kernel, grid, block, wrapped, **options)

    return go
