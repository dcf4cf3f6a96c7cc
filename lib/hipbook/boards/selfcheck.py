"""Does a board execute machine code? A kernel with exact answers, compared with numpy to the bit."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from hipbook.boards.base import Board, Buffer, Dispatch
from hipbook.errors import BadArgument

SOURCE = "board_check/board_check.hip"
KERNEL = "board_check"
THREADS = 128  # the kernel's workgroup
BREAKS = {"none": 0, "reads_past_the_end": 1, "no_barrier": 2, "last_element_unwritten": 3}
Break = Literal["none", "reads_past_the_end", "no_barrier", "last_element_unwritten"]


@dataclass(frozen=True)
class SelfCheck:
    """What came back: how many 32-bit values were compared, how many differed, and the dispatch."""

    values_compared: int
    mismatches: int
    dispatch: Dispatch

    @property
    def passed(self) -> bool:
        return self.values_compared > 0 and self.mismatches == 0


def _mix(v: np.ndarray) -> np.ndarray:
    """The kernel's integer chain on uint32 arrays."""
    v = v ^ (v >> np.uint32(16))
    v = v * np.uint32(0x7FEB352D)
    v = (v << np.uint32(13)) | (v >> np.uint32(19))
    return v + np.uint32(0x9E3779B9)


def expected(x: np.ndarray, wave_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For x uint32 [n], n a multiple of 128: out uint32 [n], votes uint64 and sums float32 [n / wave]."""
    mirrored = _mix(x).reshape(-1, THREADS)[:, ::-1].reshape(-1)
    out = _mix(mirrored) ^ x
    waves = out.reshape(-1, wave_size)
    lanes = np.uint64(1) << np.arange(wave_size, dtype=np.uint64)
    votes = np.where(waves & np.uint32(1), lanes, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    # Sums of at most 64 bytes are exact in float32, whatever the order.
    sums = (x & np.uint32(0xFF)).reshape(-1, wave_size).sum(axis=1).astype(np.float32)
    return out, votes, sums


def run(
    board: Board, *, workgroups: int = 4, seed: int = 0, broken: Break = "none", **options: object
) -> SelfCheck:
    """Build the board check for `board`, run it and compare every value it writes.

    `broken` builds a variant with one deliberate fault; a board with checks raises KernelFault for
    "reads_past_the_end" and "no_barrier", and reports `dispatch.unwritten` for the third.
    Further options go to `Board.launch`.
    """
    if workgroups < 1:
        raise BadArgument("workgroups", workgroups, "at least one workgroup must run")
    if broken not in BREAKS:
        raise BadArgument("broken", broken, f"one of {', '.join(BREAKS)}")
    n = THREADS * workgroups
    x = np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint32)
    place = board.torch_device
    source = torch.from_numpy(x.view(np.int32)).to(place)
    out = torch.full((n,), -1, dtype=torch.int32, device=place)
    votes = torch.full((n // board.wave_size,), -1, dtype=torch.int64, device=place)
    sums = torch.full((n // board.wave_size,), float("nan"), dtype=torch.float32, device=place)
    flags = [
        f"-DHIPBOOK_BREAK={BREAKS[broken]}",
        *(["-g"] if broken != "none" and board.kind == "emulated" else []),
    ]
    args = [
        Buffer("x", source),
        Buffer("out", out, "w"),
        Buffer("votes", votes, "w"),
        Buffer("sums", sums, "w"),
        np.int32(n),
    ]
    code = board.build(SOURCE, flags)
    dispatch = board.launch(code, KERNEL, (workgroups, 1, 1), (THREADS, 1, 1), args, **options)
    got = (out.cpu().numpy().view(np.uint32), votes.cpu().numpy().view(np.uint64), sums.cpu().numpy())
    compared = mismatches = 0
    for ours, theirs in zip(got, expected(x, board.wave_size), strict=True):
        compared += theirs.size
        mismatches += int((ours != theirs).sum())
    return SelfCheck(compared, mismatches, dispatch)
