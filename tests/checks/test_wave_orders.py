"""Good kernels are accused of nothing and leave the same bytes, in whatever order a workgroup's waves run:
arms with an order among waves or workgroups. All cases on every board: bench/wave_orders.py."""

from pathlib import Path

import pytest
import torch
from recording_board import RecordingBoard, one_case_an_arm

from hipbook import boards, checks
from hipbook.boards import Buffer
from hipbook.checks.case import Status

ARMS = {"online", "split_kv", "block"}
SMALL = Path(__file__).parents[1] / "emulator" / "small.hip"


@pytest.mark.parametrize(("name", "seeds"), [("gfx1200-emu", range(20)), ("gfx1100-emu", range(3))])
def test_wave_orders_leave_the_same_bytes(name, seeds):
    board, seen = RecordingBoard(boards.get(name)), {}
    cases = [case for case in one_case_an_arm() if case.arm in ARMS]
    assert {case.arm for case in cases} == ARMS
    for case in cases:
        for seed in seeds:
            (result,) = checks.run_checks([case], board, wave_order_seed=seed)
            assert result.status is Status.CORRECT, (case.id, seed, result.reason)
            seen.setdefault(case.id, set()).add(board.taken())
    assert board.launches >= len(seeds) * len(cases)
    assert [case for case, digests in seen.items() if len(digests) != 1] == []


def test_an_order_that_shows_is_seen():
    """The digest itself: a kernel whose last writer wins leaves other bytes in another order."""
    board = RecordingBoard(boards.get(boards.DEFAULT))
    built, digests = board.build(SMALL, ["-g"]), set()
    for seed in range(8):
        out = [Buffer("out", torch.zeros(1, dtype=torch.int32), "w")]
        board.launch(built, "last_writer", (1, 1, 1), (128, 1, 1), out, checks=False, wave_order_seed=seed)
        digests.add(board.taken())
    assert len(digests) > 1
