"""The launch ABI, scheduling, counters: on small kernels whose answers are known."""

import itertools

import numpy as np
import pytest
import torch

from hipbook.boards import Buffer
from hipbook.emulator import load
from hipbook.errors import BadArgument, EmulatorError

ONE = (1, 1, 1)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int32)


@pytest.mark.parametrize(
    ("grid", "block"),
    [((3, 2, 4), (5, 3, 2)), ((7, 1, 1), (33, 1, 1)), ((1, 5, 1), (1, 64, 1)), ((2, 1, 3), (8, 4, 4))],
)
def test_every_work_item_knows_its_place(launch, grid, block):
    """1-D to 3-D grids, blocks that are no multiple of a wave, hidden arguments."""
    out = zeros(int(np.prod(grid) * np.prod(block)), 12)
    done = launch("where", grid, block, (out, "w"))
    want = [
        [x, y, z, i, j, k, *grid, *block]
        for z, y, x in itertools.product(*(range(n) for n in reversed(grid)))
        for k, j, i in itertools.product(*(range(n) for n in reversed(block)))
    ]
    assert out.tolist() == want
    assert done.unwritten == {"arg0": 0}
    assert done.counters.totals["SQ_WAVES"] == np.prod(grid) * -(-int(np.prod(block)) // 32)


def test_empty_grid_runs_nothing(launch):
    done = launch("where", (0, 1, 1), (32, 1, 1), (zeros(1), "w"))
    assert done.counters.totals["SQ_INSTS"] == 0


def test_dynamic_lds(launch):
    out = zeros(100)
    launch("dynamic_lds", ONE, (100, 1, 1), (out, "w"), lds_bytes=400)
    assert out.tolist() == [(99 - t) * 3 for t in range(100)]
    with pytest.raises(Exception, match="lds-out-of-bounds"):
        launch("dynamic_lds", ONE, (100, 1, 1), (out, "w"), lds_bytes=396)


def test_calls_constants_and_private_arrays(launch):
    out = zeros(64)
    launch("calls", ONE, (64, 1, 1), (out, "w"), 1)
    assert out.tolist() == [2 * (2 * t + 1) + 1 for t in range(64)]
    launch("constants", ONE, (64, 1, 1), (out, "w"))
    assert out.tolist() == [2, 3, 5, 7, 11, 13, 17, 19] * 8
    table = torch.arange(40, dtype=torch.int32) * 7 % 40
    launch("spills", ONE, (64, 1, 1), table, (out, "w"), 33)
    want = table.numpy().copy()[None] + np.arange(64)[:, None]
    for i in range(33):
        want[:, int(table[i]) % 40] += i
    assert out.tolist() == want[:, 33].tolist()


# ---- the schedule does not show ----


def test_threads_and_wave_order_change_nothing(launch):
    x = torch.randint(0, 1 << 30, (64 * 96,), dtype=torch.int32)
    seen = set()
    for threads, seed in itertools.product((1, 2, 5), (0, 1, 2)):
        bins = zeros(16)
        done = launch(
            "histogram", (64, 1, 1), (96, 1, 1), x, (bins, "rw"), threads=threads, wave_order_seed=seed
        )
        assert torch.equal(bins, torch.bincount(x & 15, minlength=16).int())
        seen.add(repr(sorted(done.counters.totals.items())) + repr(done.counters.buffers))
    assert len(seen) == 1


def test_atomics_that_show_an_order_run_in_order(launch):
    order = zeros(64)
    launch("ticket", (64, 1, 1), (32, 1, 1), (zeros(1), "rw"), (order, "w"), threads=4)
    assert order.tolist() == list(range(64))


# ---- counters ----


def test_traffic_of_a_copy(launch):
    out = torch.zeros(100)
    done = launch("copy", (4, 1, 1), (32, 1, 1), torch.rand(100), (out, "w"), 100, 0, 0)
    x, y = done.counters.buffers["arg0"], done.counters.buffers["arg1"]
    assert (x.bytes_read, x.loads, x.live_lanes, x.bytes_written) == (400, 100, 100, 0)
    assert (y.bytes_written, y.stores, y.bytes_read, y.live_lanes) == (400, 100, 0, 0)
    totals = done.counters.totals
    assert totals["BYTES_READ"] == totals["BYTES_WRITTEN"] == 400
    # 100 floats from an aligned address, read and written once: 13 pieces of 32 bytes, 7 of 64, 4 of 128
    assert [totals[f"SEGMENTS_{n}B"] for n in (32, 64, 128)] == [26, 14, 8]
    assert totals["SQ_INSTS_VMEM_RD"] == totals["SQ_INSTS_VMEM_WR"] == 4
    assert totals["VMEM_ACTIVE_LANES"] == 200
    assert totals["SQ_INSTS"] == sum(done.counters.opcodes.values())


def test_segments_of_a_shifted_and_of_a_scattered_access(launch):
    out = zeros(32)
    done = launch("gather", ONE, (32, 1, 1), zeros(1 << 16), torch.arange(32) * 1024, (out, "w"))
    # 32 separate words, the index (256 bytes) and the result (128 bytes)
    assert [done.counters.totals[f"SEGMENTS_{n}B"] for n in (32, 64, 128)] == [
        32 + 8 + 4,
        32 + 4 + 2,
        32 + 2 + 1,
    ]
    base = zeros(64)
    done = launch(
        "copy", ONE, (32, 1, 1), base.view(torch.float32)[3:35], (out.view(torch.float32), "w"), 32, 0, 0
    )
    assert [done.counters.totals[f"SEGMENTS_{n}B"] for n in (32, 64, 128)] == [5 + 4, 3 + 2, 2 + 1]


@pytest.mark.parametrize(
    ("stride", "conflicts"), [(0, 0), (1, 0), (2, 1), (4, 3), (8, 7), (32, 31), (33, 0), (3, 0), (6, 1)]
)
def test_bank_conflicts(launch, stride, conflicts):
    """32 banks of 4 bytes: a stride of s words costs gcd(s, 32) passes; one word for all is a broadcast."""
    out = zeros(32)
    done = launch("strided_lds", ONE, (32, 1, 1), (out, "w"), stride)
    assert out.tolist() == [t * stride % 1024 for t in range(32)]
    assert done.counters.totals["LDS_BANK_CONFLICTS"] == conflicts


def test_barriers_are_counted_by_wave(launch):
    out = zeros(64)
    few = launch("many_epochs", ONE, (64, 1, 1), (out, "w"), 10).counters
    more = launch("many_epochs", ONE, (64, 1, 1), (out, "w"), 11).counters
    assert few.totals["BARRIERS"] == 2 * (2 * 10 + 1)
    assert more.barriers_per_wave - few.barriers_per_wave == 2


def test_counts_per_instruction_add_up(small):
    program = load(small)
    ready = program.kernel("where")
    assert len(ready.instructions) > len(ready.records) / 2
    assert int(ready.counted_at.max()) < len(ready.records)


# ---- arguments ----


def args_of(**changes):
    args = {"in": Buffer("in", torch.rand(32)), "out": Buffer("out", torch.zeros(32), "w"),
        "n": np.int32(32), "r": np.int32(0),
            "w": np.int32(0)}  # fmt: skip
    return list({**args, **changes}.values())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n": np.int64(32)}, r"args\[2\].*4 bytes here, int64 has 8"),
        ({"n": 32}, r"args\[2\].*a Buffer, a numpy scalar or None"),
        ({"n": Buffer("n", torch.zeros(1))}, r"args\[2\].*by value"),
        ({"in": np.int64(5)}, r"args\[0\].*takes a pointer"),
        ({"in": Buffer("in", torch.zeros(4, device="meta"))}, r"args\[0\].*live on the CPU"),
        ({"in": Buffer("in", torch.zeros(4), "x")}, r"access = x: one of r, w, rw"),
        ({"more": np.int32(1)}, r"args = 6 arguments: kernel 'copy' takes 5"),
    ],
)
def test_arguments_that_do_not_fit(board, small, change, says):
    args = args_of(**change)
    with pytest.raises(BadArgument, match=says):
        board.launch(small, "copy", ONE, (32, 1, 1), args)


@pytest.mark.parametrize(
    ("grid", "block", "options", "says"),
    [
        ((1, 1), (32, 1, 1), {}, "grid"),
        ((1, 1, 1), (2048, 1, 1), {}, "block.*work-items a workgroup"),
        ((1, 1, 1), (0, 1, 1), {}, "block"),
        ((1, 70000, 1), (32, 1, 1), {}, "65,535"),
        ((1, 1, 1), (32, 1, 1), {"lds_bytes": 1 << 20}, "lds_bytes"),
        ((1, 1, 1), (32, 1, 1), {"threads": 0}, "threads"),
        ((1, 1, 1), (32, 1, 1), {"max_wave_instructions": 0}, "max_wave_instructions"),
        ((1, 1, 1), (32, 1, 1), {"cheks": False}, "cheks.*not an option"),
    ],
)
def test_geometry_and_options_that_do_not_fit(board, small, grid, block, options, says):
    with pytest.raises(BadArgument, match=says):
        board.launch(small, "copy", grid, block, args_of(), **options)


def test_unknown_kernel_lists_those_there_are(board, small):
    with pytest.raises(BadArgument, match=r"(?s)kernel = nothing.*add_into.*where"):
        board.launch(small, "nothing", ONE, (32, 1, 1), [])


def test_another_architecture_is_refused(board):
    from hipbook.build import build

    other = build(__file__.replace("test_launch.py", "small.hip"), "gfx1100")
    with pytest.raises(EmulatorError, match="built for gfx1100, the board is gfx1200"):
        board.launch(other, "copy", ONE, (32, 1, 1), args_of())
