"""The emulated board as a board: how it is found, what it says of itself, and that a run can be stopped."""

import _thread
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from hipbook import boards
from hipbook.boards import Buffer
from hipbook.boards.emulated import EmulatedBoard
from hipbook.boards.inventory import EMULATED
from hipbook.emulator import isa
from hipbook.errors import BadArgument, BoardUnavailable, HipbookError

SMALL = Path(__file__).parents[1] / "emulator" / "small.hip"


def test_the_default_board_is_the_emulated_gfx1200(monkeypatch):
    monkeypatch.delenv("HIPBOOK_BOARD", raising=False)
    board = boards.get()
    assert (board.name, board.arch, board.kind, board.wave_size) == ("gfx1200-emu", "gfx1200", "emulated", 32)
    assert boards.get("gfx1200-emu") is board
    assert boards.get(board) is board


def test_the_environment_names_the_default(monkeypatch):
    monkeypatch.setenv("HIPBOOK_BOARD", "no-such-board")
    with pytest.raises(BoardUnavailable, match=r"(?s)no-such-board.*gfx1200-emu"):
        boards.get()


def test_inventory_says_what_there_is_and_why_not():
    entries = {entry.name: entry for entry in boards.inventory()}
    assert entries["gfx1200-emu"].available
    assert all(entry.available or entry.why_not for entry in entries.values())
    for entry in entries.values():
        if not entry.available:
            with pytest.raises(BoardUnavailable, match=entry.name):
                boards.get(entry.name)


def test_identity_is_the_same_everywhere():
    assert EmulatedBoard().identity() == {"name": "gfx1200-emu", "arch": "gfx1200", "kind": "emulated"}


@pytest.mark.parametrize("arch", EMULATED)
def test_each_emulated_board_runs_its_own_architecture(arch):
    board = boards.get(f"{arch}-emu")
    assert (board.name, board.arch, board.wave_size) == (f"{arch}-emu", arch, 32)
    built, out = board.build(SMALL, ["-g"]), torch.zeros(64, dtype=torch.int32)
    done = board.launch(built, "dynamic_lds", (1, 1, 1), (64, 1, 1), [Buffer("out", out, "w")], lds_bytes=256)
    assert (done.board, built.arch) == (board.name, arch)
    assert out.tolist() == [(63 - t) * 3 for t in range(64)]


def test_every_architecture_of_the_emulator_has_a_board():
    assert set(EMULATED) == set(isa.FAMILIES)


@pytest.fixture(scope="module")
def small():
    return EmulatedBoard().build(SMALL, ["-g"])


def test_a_dispatch_says_what_ran(small):
    out = torch.zeros(32)
    args = [Buffer("in", torch.rand(32)), Buffer("out", out, "w"), *(np.int32(n) for n in (32, 0, 0))]
    done = EmulatedBoard().launch(small, "copy", (1, 1, 1), (32, 1, 1), args)
    assert (done.board, done.kernel, done.grid, done.block) == ("gfx1200-emu", "copy", (1, 1, 1), (32, 1, 1))
    assert done.code_object is small
    assert done.time_us is None
    assert done.counters.totals["SQ_WAVES"] == 1
    assert list(done.counters.buffers) == ["in", "out"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", 0), ("threads", 1.5), ("threads", "2"), ("threads", True), ("wave_order_seed", "a"),
        ("max_wave_instructions", np.float32(1e6)), ("max_wave_instructions", 0), ("lds_bytes", -1),
        ("lds_bytes", 4.0), ("checks", "no"), ("timed", True),
    ],
)  # fmt: skip
def test_an_option_of_the_wrong_kind_is_named_before_anything_runs(name, value):
    with pytest.raises(BadArgument, match=name) as caught:
        EmulatedBoard().launch(None, "kernel", (1, 1, 1), (32, 1, 1), [], **{name: value})
    assert caught.value.fix


@pytest.mark.parametrize("board", [5, ["gfx1200-emu"], object()])
def test_what_is_no_board_is_refused(board):
    with pytest.raises(BadArgument, match="must be a board or the name of one"):
        boards.get(board)


def test_ctrl_c_stops_a_run(small):
    """A kernel that never ends, with a budget that would take minutes."""
    args = [
        Buffer("flag", torch.zeros(1, dtype=torch.int32)),
        Buffer("out", torch.zeros(1, dtype=torch.int32), "w"),
    ]
    timer = threading.Timer(0.3, _thread.interrupt_main)
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        EmulatedBoard().launch(
            small, "spin", (8, 1, 1), (32, 1, 1), args, threads=2, max_wave_instructions=1 << 40
        )
    timer.join()
    assert time.perf_counter() - began < 20


def test_launches_from_several_threads_do_not_disturb_each_other(small):
    """The runtime has no state of its own; torch users have data loaders."""
    board, wrong = EmulatedBoard(), []

    def work(seed: int) -> None:
        x = torch.rand(1000, generator=torch.Generator().manual_seed(seed))
        for _ in range(5):
            out = torch.zeros(1000)
            args = [Buffer("in", x), Buffer("out", out, "w"), *(np.int32(n) for n in (1000, 0, 0))]
            board.launch(small, "copy", (32, 1, 1), (32, 1, 1), args)
            if not torch.equal(x, out):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_a_compiler_that_fails_is_reported_in_its_own_words(tmp_path, monkeypatch):
    from hipbook.emulator import native

    bad = tmp_path / "cc"
    lines = (
        "#!/bin/sh",
        'if [ "$1" = --version ]; then echo bad 1; exit 0; fi',
        "echo 'no such luck' >&2",
        "exit 1",
    )
    bad.write_text("\n".join(lines) + "\n")
    bad.chmod(0o755)
    monkeypatch.setenv("HIPBOOK_CC", str(bad))
    monkeypatch.setenv("HIPBOOK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(HipbookError, match=r"(?s)command: .*cc .*no such luck.*fix: set HIPBOOK_CC"):
        native.library_path()
    monkeypatch.setenv("HIPBOOK_CC", "no-such-compiler")
    with pytest.raises(HipbookError, match="no C compiler"):
        native.library_path()
