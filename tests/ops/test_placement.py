"""Inputs elsewhere: a copy keeps strides and misalignment."""

from dataclasses import dataclass

import pytest
import torch

from hipbook.errors import BadArgument
from hipbook.ops.placement import on, placed


@dataclass(frozen=True)
class Call:
    x: torch.Tensor
    count: int


def test_a_copy_keeps_strides_and_its_distance_from_a_boundary():
    raw = torch.arange(400, dtype=torch.bfloat16)
    for start in (0, 1, 3, 64):
        view = raw[start:].as_strided((4, 20), (40, 1))
        there = on(view, torch.device("cpu"))
        assert there.data_ptr() != view.data_ptr()
        assert there.data_ptr() % 128 == view.data_ptr() % 128
        assert there.stride() == view.stride()
        assert torch.equal(there, view)


def test_what_is_there_stays():
    x, here = torch.zeros(3), torch.device("cpu")
    call = Call(x, 3)
    assert placed(x, here) is x
    assert placed(call, here) is call
    with pytest.raises(BadArgument, match="a tensor, or a dataclass"):
        placed(5, here)
