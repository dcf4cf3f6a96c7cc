"""Each check fires on a kernel that deserves it, says where, and stays silent on its faultless kin."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from hipbook.boards import Buffer
from hipbook.errors import KernelFault

ONE = (1, 1, 1)
SMALL = Path(__file__).parent / "small.hip"


def line_of(text: str) -> int:
    """The line of small.hip that holds `text`."""
    lines = SMALL.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def i32(n: int) -> torch.Tensor:
    return torch.arange(n, dtype=torch.int32)


# ---- bounds ----


def test_copy_is_silent(launch):
    x, out = torch.rand(100), torch.zeros(100)
    done = launch("copy", (4, 1, 1), (32, 1, 1), x, (out, "w"), 100, 0, 0)
    assert torch.equal(x, out)
    assert done.unwritten == {"arg1": 0}


@pytest.mark.parametrize("checks", [True, False])
def test_read_one_element_past_the_end(launch, checks):
    with pytest.raises(KernelFault) as caught:
        launch(
            "copy", (4, 1, 1), (32, 1, 1), torch.rand(100), (torch.zeros(100), "w"), 100, 1, 0, checks=checks
        )
    text = str(caught.value)
    assert "out-of-bounds: load of 4 bytes at 0x1000000190" in text
    assert "in kernel copy, at +0x" in text
    assert "global_load_b32" in text
    assert f"source small.hip:{line_of('in[i + read_at]')}" in text
    assert "workgroup (3, 0, 0), wave 0, lane 3" in text
    assert "nearest buffer: arg0 (400 bytes at 0x1000000000), 1 byte(s) past its last byte" in text
    report = pickle.loads(pickle.dumps(caught.value)).report
    assert (report.kind, report.source, report.lane, report.buffer, report.distance) == (
        "out-of-bounds", ("small.hip", line_of("in[i + read_at]")), 3, "arg0", 1,
    )  # fmt: skip


@pytest.mark.parametrize("checks", [True, False])
def test_write_before_the_first_element(launch, checks):
    with pytest.raises(
        KernelFault, match=r"(?s)store of 4 bytes.*lane 0\n.*arg1 .* 4 byte\(s\) before its first byte"
    ):
        launch("copy", ONE, (32, 1, 1), torch.rand(32), (torch.zeros(32), "w"), 32, 0, -1, checks=checks)


def test_access_to_a_view_of_a_larger_tensor_stays_inside_it(launch):
    whole = torch.rand(300)
    with pytest.raises(KernelFault, match="out-of-bounds"):
        launch("copy", ONE, (32, 1, 1), whole[100:131], (torch.zeros(32), "w"), 32, 0, 0)


def test_gap_between_interleaved_views_is_a_fault(launch):
    """K and V views of one [blocks, 2, n] allocation: an index into the other's half is not mine."""
    cache = torch.arange(8 * 2 * 16, dtype=torch.int32).view(8, 2, 16)
    keys, values = cache[:, 0], cache[:, 1]
    assert keys.stride(0) == 32
    out = torch.zeros(32, dtype=torch.int32)
    index = torch.arange(32) // 16 * 32 + torch.arange(32) % 16
    launch("gather", ONE, (32, 1, 1), keys, index, (out, "w"))
    assert torch.equal(out, keys[:2].reshape(-1))
    with pytest.raises(KernelFault, match=r"out-of-bounds.*\n(.*\n)*.*in arg0: byte 64 of its 960"):
        launch("gather", ONE, (32, 1, 1), keys, torch.arange(32), (out, "w"))
    with pytest.raises(KernelFault, match="past its last byte"):
        launch("gather", ONE, (32, 1, 1), values, torch.full((32,), 8 * 32), (out, "w"))


def test_the_last_byte_counts(launch):
    """127 bytes are not 32 floats."""
    raw = torch.zeros(128, dtype=torch.uint8)
    launch("copy", ONE, (32, 1, 1), raw, (torch.zeros(32), "w"), 32, 0, 0)
    for buffer, where in ((raw[:127], "lane 31"), (raw[1:], "lane 31")):
        with pytest.raises(KernelFault, match=f"(?s)out-of-bounds.*{where}"):
            launch("copy", ONE, (32, 1, 1), buffer, (torch.zeros(32), "w"), 32, 0, 0)


def test_every_gap_of_a_padded_view_is_a_fault(launch):
    """Blocks, slots and heads all padded: exactly the view's own elements can be read."""
    base = torch.arange(3 * 4 * 3 * 8, dtype=torch.int32).view(3, 4, 3, 8)
    view = base[:, :3, :2, :5]
    inside = set(view.reshape(-1).tolist())
    out = torch.zeros(1, dtype=torch.int32)
    for place in range(-2, base.numel() + 3):
        index = torch.tensor([place])
        if place in inside:
            launch("gather", ONE, (1, 1, 1), view, index, (out, "w"))
            assert int(out) == place
        else:
            with pytest.raises(KernelFault, match="out-of-bounds"):
                launch("gather", ONE, (1, 1, 1), view, index, (out, "w"))


def test_store_to_a_read_only_buffer(launch):
    x = torch.ones(32)
    with pytest.raises(KernelFault, match=r"read-only: store of 4 bytes"):
        launch("add_into", ONE, (32, 1, 1), x, np.float32(1))
    assert torch.equal(x, torch.ones(32))


def test_null_pointer(launch):
    with pytest.raises(KernelFault, match=r"(?s)out-of-bounds: load of 4 bytes at 0x0.*a null pointer"):
        launch("copy", ONE, (32, 1, 1), None, (torch.zeros(32), "w"), 32, 0, 0)


def test_freed_buffer_to_the_byte(launch):
    """A tensor whose storage is gone: what it had is a fault that says so, a byte past it is nobody's."""
    gone, out = torch.rand(32), torch.zeros(32)
    launch("copy", ONE, (32, 1, 1), gone, (out, "w"), 32, 0, 0)
    gone.untyped_storage().resize_(0)
    with pytest.raises(
        KernelFault, match=r"(?s)freed: load of 4 bytes at 0x1000000000, in a buffer that was freed"
    ) as caught:
        launch("copy", ONE, (32, 1, 1), gone, (out, "w"), 32, 0, 0)
    assert (caught.value.report.buffer, caught.value.report.distance) == ("arg0", 0)
    with pytest.raises(KernelFault, match="freed: store of 4 bytes"):
        launch("copy", ONE, (32, 1, 1), out, (gone, "w"), 32, 0, 0)
    with pytest.raises(KernelFault, match=r"(?s)freed.*lane 0.*in arg0: byte 124 of its 128"):
        launch("copy", ONE, (1, 1, 1), gone, (out, "w"), 32, 31, 0)
    with pytest.raises(KernelFault, match=r"(?s)out-of-bounds.*arg0 .* 1 byte\(s\) past its last byte"):
        launch("copy", ONE, (1, 1, 1), gone, (out, "w"), 32, 32, 0)
    launch("copy", ONE, (32, 1, 1), gone, (out, "w"), 0, 0, 0)  # handed over and not touched


# ---- never written ----


def test_read_of_a_write_buffer_before_it_is_written(launch):
    with pytest.raises(KernelFault, match=r"unwritten: load of 4 bytes .* that were never written"):
        launch("add_into", ONE, (32, 1, 1), (torch.ones(32), "w"), np.float32(1))
    x = torch.ones(32)
    launch("add_into", ONE, (32, 1, 1), (x, "rw"), np.float32(1))
    assert torch.equal(x, torch.full((32,), 2.0))
    launch("add_into", ONE, (32, 1, 1), (torch.ones(32), "w"), np.float32(1), checks=False)


def test_unwritten_output_bytes_are_reported(launch):
    out = torch.zeros(100)
    done = launch("copy", (3, 1, 1), (32, 1, 1), torch.rand(100), (out, "w"), 100, 0, 0)
    assert done.unwritten == {"arg1": 16}
    strided = torch.zeros(10, 20)[:, :10]
    done = launch("copy", ONE, (32, 1, 1), torch.rand(100), (strided, "w"), 10, 0, 0)
    assert done.unwritten == {"arg1": 360}  # the gaps are not counted


def test_lds_never_written(launch):
    with pytest.raises(KernelFault, match="lds-unwritten: load of LDS byte 128") as caught:
        launch("neighbour", ONE, (64, 1, 1), i32(64), (torch.zeros(64, dtype=torch.int32), "w"), 1, 32)
    assert caught.value.report.source[1] == line_of("s[(t + 32)")


def test_lds_one_word_past_the_end(launch):
    out = torch.zeros(64, dtype=torch.int32)
    launch("far_shared", ONE, (64, 1, 1), (out, "w"), 0)
    with pytest.raises(KernelFault, match="lds-out-of-bounds: load of 4 bytes at LDS byte 256") as caught:
        launch("far_shared", ONE, (64, 1, 1), (out, "w"), 1)
    assert (caught.value.report.wave, caught.value.report.lane) == (1, 31)
    assert caught.value.report.source[1] == line_of("s[threadIdx.x + at]")


def test_private_memory_never_written(launch):
    out = torch.zeros(64, dtype=torch.int32)
    launch("private_array", ONE, (64, 1, 1), i32(40), (out, "w"), 34, 33)
    assert out.tolist() == [33 + t for t in range(64)]
    with pytest.raises(KernelFault, match=r"scratch-unwritten: load of 4 bytes at scratch byte") as caught:
        launch("private_array", ONE, (64, 1, 1), i32(40), (out, "w"), 33, 33)
    assert caught.value.report.source[1] == line_of("a[in[read]]")


def test_private_memory_out_of_bounds(launch):
    index = torch.tensor([*range(39), 1 << 20], dtype=torch.int32)
    with pytest.raises(KernelFault, match="scratch-out-of-bounds: store of 4 bytes"):
        launch("private_array", ONE, (64, 1, 1), index, (i32(64), "w"), 40, 3)


def test_misaligned_atomic(launch):
    x = torch.zeros(64, dtype=torch.uint8)
    launch("add_at", ONE, (32, 1, 1), (x, "rw"), 4)
    assert x[4] == 32
    with pytest.raises(KernelFault, match="misaligned: atomic of 4 bytes at 0x1000000006") as caught:
        launch("add_at", ONE, (32, 1, 1), (x, "rw"), 6)
    line = line_of("atomicAdd((int*)(x + at), 1)")
    assert caught.value.report.called_from == (
        ("small.hip", line),
    )  # the atomic itself is in a header of HIP
    assert re.search(rf"source amd_hip_atomic.h:\d+, inlined at small.hip:{line}\n", str(caught.value))


# ---- where it happened ----


def test_a_trap_at_the_end_of_a_kernel(launch):
    launch("traps", ONE, (32, 1, 1), torch.full((32,), 3, dtype=torch.int32))
    with pytest.raises(KernelFault, match=r"(?s)trap: trap 0x2\n.*in kernel traps, at \+0x\w+: s_trap 0x2"):
        launch("traps", ONE, (32, 1, 1), i32(32))


def test_a_fault_in_a_called_function_names_it(launch):
    out = torch.zeros(32, dtype=torch.int32)
    launch("peeks", ONE, (32, 1, 1), i32(32), (out, "w"), np.int64(0))
    assert out.tolist() == list(range(32))
    with pytest.raises(KernelFault, match=r"in kernel peeks, function _Z4peekPKil, at \+0x\w+: ") as caught:
        launch("peeks", ONE, (32, 1, 1), i32(32), (out, "w"), np.int64(1))
    report = caught.value.report
    assert (report.kernel, report.function) == ("peeks", "_Z4peekPKil")
    assert 0 <= report.offset < 64
    assert report.source[1] == line_of("return in[at];")


def test_a_report_names_the_arm_and_how_to_see_the_fault_again(board):
    built = board.build(SMALL, ["-g", "-DHIPBOOK_ARM_DECODE=1"])
    with pytest.raises(KernelFault) as caught:
        board.launch(built, "traps", (2, 1, 1), (32, 1, 1), [Buffer("x", i32(32))], wave_order_seed=9)
    assert str(caught.value).endswith(
        "arm decode\n  again: small.hip -g -DHIPBOOK_ARM_DECODE=1 on gfx1200-emu, grid (2, 1, 1), "
        "block (32, 1, 1), wave_order_seed 9"
    )
    assert caught.value.report.arm == "decode"


# ---- races and barriers ----


@pytest.mark.parametrize("seed", range(4))
def test_missing_barrier_after_a_store(launch, seed):
    """Wave 1 reads what wave 0 wrote: a race or, when it runs first, a read of unwritten LDS."""
    out = torch.zeros(64, dtype=torch.int32)
    launch("neighbour", ONE, (64, 1, 1), i32(64), (out, "w"), 1, 64, wave_order_seed=seed)
    assert torch.equal(out, (i32(64) + 32) % 64)
    with pytest.raises(KernelFault, match=r"lds-race|lds-unwritten"):
        launch("neighbour", ONE, (64, 1, 1), i32(64), (out, "w"), 0, 64, wave_order_seed=seed)


def test_race_names_the_other_wave(launch):
    with pytest.raises(
        KernelFault,
        match=r"(?s)lds-race: load of 4 bytes at LDS byte 0, which wave 0 touched.*wave 1, lane 0",
    ):
        launch("write_after_read", ONE, (64, 1, 1), (torch.zeros(64, dtype=torch.int32), "w"), 0)
    launch("write_after_read", ONE, (64, 1, 1), (torch.zeros(64, dtype=torch.int32), "w"), 1)


def test_store_over_what_another_wave_read(launch):
    """With waves in ascending order the store is what comes second."""
    out = torch.zeros(64, dtype=torch.int32)
    launch("second_wave_writes", ONE, (64, 1, 1), (out, "w"), 1)
    with pytest.raises(
        KernelFault, match=r"lds-race: store of 4 bytes at LDS byte 128, which wave 0 touched"
    ):
        launch("second_wave_writes", ONE, (64, 1, 1), (out, "w"), 0)


def test_two_waves_that_store_different_values_race_and_the_same_value_does_not(launch):
    out = torch.zeros(64, dtype=torch.int32)
    launch("write_twice", ONE, (64, 1, 1), (out, "w"), 1)
    assert (out == 7).all()
    with pytest.raises(KernelFault, match="lds-race"):
        launch("write_twice", ONE, (64, 1, 1), (out, "w"), 0)


def test_neighbouring_bytes_and_atomics_do_not_race(launch):
    out = torch.zeros(1, dtype=torch.int32)
    launch("halves", ONE, (64, 1, 1), (out, "w"))
    assert int(out) == 1 | 33 << 16
    counts = torch.zeros(2, dtype=torch.int32)
    launch("vote", ONE, (96, 1, 1), (counts, "w"))
    assert counts.tolist() == [48, 48]


def test_epochs_come_around_without_false_alarms(launch):
    """More barriers than the shadow's epochs, at several seeds."""
    out = torch.zeros(64, dtype=torch.int32)
    for seed in range(3):
        launch("many_epochs", ONE, (64, 1, 1), (out, "w"), 640, wave_order_seed=seed)
        assert torch.equal(out, i32(64))


@pytest.mark.parametrize("rounds", [1, 2, 499, 500, 501, 1000])
def test_what_was_touched_many_barriers_ago_is_no_race(launch, rounds):
    out = torch.zeros(64, dtype=torch.int32)
    launch("long_ago", ONE, (64, 1, 1), (out, "w"), rounds)
    assert (out == 2).all()


def test_a_race_is_found_in_every_epoch(launch):
    """Without checks the racing kernel shows the wave order in its result; with them it faults."""
    got = set()
    for seed in range(8):
        out = torch.zeros(1, dtype=torch.int32)
        launch("last_writer", ONE, (128, 1, 1), (out, "w"), checks=False, wave_order_seed=seed)
        got.add(int(out))
        with pytest.raises(KernelFault, match="lds-race"):
            launch("last_writer", ONE, (128, 1, 1), (out, "w"), wave_order_seed=seed)
    assert len(got) > 1


def test_barriers_in_divergent_code(launch):
    out = torch.zeros(128, dtype=torch.int32)
    launch("barrier_in_branch", ONE, (64, 1, 1), (out, "w"), 32, 2)
    with pytest.raises(
        KernelFault, match="barrier-divergent: barrier reached by lanes 0x0000ffff of 0xffffffff"
    ):
        launch("barrier_in_branch", ONE, (64, 1, 1), (out, "w"), 16, 2)
    for seed in range(4):
        with pytest.raises(KernelFault, match="barrier-ended"):
            launch("barrier_in_branch", ONE, (64, 1, 1), (out, "w"), 32, 1, wave_order_seed=seed)
    launch(
        "barrier_in_branch", ONE, (64, 1, 1), (out, "w"), 32, 1, checks=False
    )  # as the hardware: ended waves do not count


def test_endless_loop(launch):
    with pytest.raises(KernelFault, match="endless: the budget of 100,000 instructions"):
        launch("spin", ONE, (32, 1, 1), torch.zeros(1, dtype=torch.int32), (torch.zeros(1,
            dtype=torch.int32), "w"),
               max_wave_instructions=100_000)  # fmt: skip


# ---- determinism of faults ----


def test_the_lowest_workgroups_fault_is_reported_whatever_the_threads(launch):
    texts = set()
    for threads in (1, 2, 4):
        with pytest.raises(KernelFault) as caught:
            launch(
                "copy",
                (64, 1, 1),
                (32, 1, 1),
                torch.rand(700),
                (torch.zeros(2048), "w"),
                2048,
                0,
                0,
                threads=threads,
            )
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert re.search(r"workgroup \(21, 0, 0\), wave 0, lane 28", texts.pop())


def test_of_several_faults_the_lowest_workgroups_is_reported(launch):
    """Every workgroup spends its budget, several at a time."""
    for _ in range(5):
        with pytest.raises(KernelFault, match=r"(?s)endless.*workgroup \(0, 0, 0\)"):
            launch(
                "spin", (8, 1, 1), (32, 1, 1), i32(1), (i32(1), "w"),
                threads=4, max_wave_instructions=2_000_000,
            )  # fmt: skip
