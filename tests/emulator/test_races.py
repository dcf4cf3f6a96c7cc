"""Races between workgroups in global memory: found whatever the threads, and no ordered kernel accused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hipbook import boards
from hipbook.boards import Buffer
from hipbook.errors import KernelFault

SOURCE = Path(__file__).parent / "races.hip"
LINES = SOURCE.read_text().splitlines()


@pytest.fixture(params=["gfx1200-emu", "gfx1100-emu"])
def race(request):
    """race(kernel, workgroups, *args, **options): tensors are rw unless given as (tensor, access)."""
    board = boards.get(request.param)
    built = board.build(SOURCE, ["-g"])

    def go(kernel, workgroups, *args, threads_in_group=32, **options):
        wrapped = []
        for n, arg in enumerate(args):
            tensor, access = arg if isinstance(arg, tuple) else (arg, "rw")
            is_tensor = isinstance(tensor, torch.Tensor)
            wrapped.append(Buffer(f"arg{n}", tensor, access) if is_tensor else np.int32(tensor))
        return board.launch(built, kernel, (workgroups, 1, 1), (threads_in_group, 1, 1), wrapped, **options)

    return go


def zeros(n: int, dtype=torch.int32) -> torch.Tensor:
    return torch.zeros(n, dtype=dtype)


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(LINES, 1) if text in line)


# ---- plain stores and loads ----


def test_rows_that_overlap_by_one_element(race):
    race("rows", 64, (zeros(64 * 32), "w"), 32)
    with pytest.raises(KernelFault) as caught:
        race("rows", 64, (zeros(64 * 32), "w"), 31)
    text, report = str(caught.value), caught.value.report
    assert (
        "global-race: store of 4 bytes at 0x100000007c, which workgroup (0, 0, 0) wrote in this launch"
        in text
    )
    assert "in arg0: byte 124 of its 8192" in text
    assert (report.kind, report.workgroup, report.lane, report.buffer) == (
        "global-race",
        (1, 0, 0),
        0,
        "arg0",
    )
    assert report.source == ("races.hip", line_of("out[blockIdx.x * stride"))
    race("rows", 64, (zeros(64 * 32), "w"), 31, checks=False)


@pytest.mark.parametrize("kernel", ["rows", "next_row"])
def test_the_report_and_the_result_do_not_depend_on_threads(race, kernel):
    """Buffers are put back before the run in order that makes the report."""
    told, left = set(), set()
    for threads in (1, 2, 4, 2, 2):
        x = torch.arange(300 * 32, dtype=torch.int32)
        with pytest.raises(KernelFault, match="global-race") as caught:
            race(kernel, 200, x, *([1] if kernel == "rows" else []), threads=threads)
        told.add(str(caught.value))
        left.add(x.numpy().tobytes())
    assert len(told) == len(left) == 1


def test_a_load_of_what_another_workgroup_stores(race):
    with pytest.raises(KernelFault, match=r"global-race: load of 4 bytes .* workgroup \(0, 0, 0\) wrote|"
                       r"global-race: store of 4 bytes .* workgroup \(0, 0, 0\) read"):  # fmt: skip
        race("next_row", 2, zeros(96))
    race("next_row", 1, zeros(96))  # a workgroup cannot race with another that is not there


def test_a_buffer_that_is_both_input_and_output(race):
    """The same memory as an "r" and a "w" argument: one element is read by one workgroup and written by the
    next."""
    x = zeros(4 * 32 + 1)
    with pytest.raises(KernelFault, match=r"global-race: store of 4 bytes at 0x1000000080"):
        race("shift_left", 4, (x, "r"), (x[: 4 * 32], "w"), threads=1)
    race("shift_left", 4, (zeros(4 * 32 + 1), "r"), (x[: 4 * 32], "w"))
    with pytest.raises(KernelFault, match="global-race"):
        race("shift_left", 4, (x, "r"), (x[: 4 * 32], "w"), threads=4)


def test_neighbouring_bytes_and_equal_values_do_not_race(race):
    out = zeros(100, torch.uint8)
    race("bytes", 100, (out, "w"))
    assert out.tolist() == list(range(1, 101))
    out = zeros(32)
    race("flags", 50, (out, "w"))
    assert (out == 7).all()


def test_more_than_a_chunk_of_shadow_in_many_threads(race):
    """Far apart and close together, four threads: nobody is accused, whoever ran what."""
    out = zeros(3000 * 32)
    race("rows", 3000, (out, "w"), 32, threads=4)
    assert torch.equal(out, torch.arange(3000 * 32, dtype=torch.int32))


# ---- atomics ----


@pytest.mark.parametrize("threads", [1, 4])
def test_atomics_do_not_race_with_each_other_but_with_plain_accesses(race, threads):
    bins = zeros(5)
    race("count", 40, bins, 0, threads=threads)
    assert bins.tolist() == [320, 320, 320, 320, 0]
    with pytest.raises(KernelFault, match=r"global-race: (load|atomic) of 4 bytes .* (updated|read)"):
        race("count", 40, zeros(5), 1, threads=threads)
    with pytest.raises(KernelFault, match=r"global-race: store of 4 bytes .* workgroup \(0, 0, 0\) updated"):
        race("add_and_store", 2, zeros(1), threads=threads)


@pytest.mark.parametrize("seed", range(3))
def test_a_last_arrival_merge_is_ordered_by_its_ticket(race, seed):
    for block in (32, 128):
        parts, ticket, out = (zeros(n, torch.float32) for n in (20 * block, 1, block))
        ticket = ticket.int()
        for _ in range(2):  # the ticket is put back
            race("last_adds", 20, parts, ticket, (out, "w"), 0, threads_in_group=block, wave_order_seed=seed)
            assert out.tolist() == [20.0 * t for t in range(block)]


def test_a_ticket_taken_before_the_store_orders_nothing(race):
    for threads in (1, 4):
        with pytest.raises(
            KernelFault, match=r"global-race: load of 4 bytes .* workgroup \(0, 0, 0\) wrote"
        ) as caught:
            race("last_adds", 4, zeros(128, torch.float32), zeros(1), (zeros(32, torch.float32), "w"), 1,
                 threads=threads)  # fmt: skip
        assert caught.value.report.workgroup == (3, 0, 0)
        assert caught.value.report.source[1] == line_of("sum += parts")


def test_a_ticket_without_fences_orders_nothing(race):
    with pytest.raises(KernelFault, match="global-race"):
        race("last_adds_unfenced", 4, zeros(128, torch.float32), zeros(1), (zeros(32, torch.float32), "w"), 0)


def test_a_chain_of_flags_is_ordered(race):
    values = zeros(8 * 32)
    race("chain", 8, values, zeros(8), 1)
    assert values.tolist() == [n // 32 + 1 for n in range(8 * 32)]
    with pytest.raises(KernelFault, match="global-race"):
        race("chain", 8, zeros(8 * 32), zeros(8), 0)


def test_order_is_handed_on(race):
    out = zeros(2)
    race("relay", 3, zeros(1), zeros(1), zeros(1), out)
    assert out.tolist() == [42, 1]
