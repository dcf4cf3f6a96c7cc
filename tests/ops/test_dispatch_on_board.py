"""The flag on the real board: off and on run different kernels, by witness, in one process and in two."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from hipbook import boards, paths
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_dispatch import FLAG
from hipbook.ops.paged_attention import run_call
from hipbook.oracle.paged_attention import make

BOARD = boards.get(boards.DEFAULT)
(CALL,) = make("sparse_pool", 0)


def run(monkeypatch, value: str, arm: str = "auto"):
    monkeypatch.setenv(FLAG, value)
    return run_call(CALL, arm=arm, board=BOARD)


def test_off_and_on_in_one_process(monkeypatch):
    off, on, again = (run(monkeypatch, value) for value in ("0", "1", "0"))
    assert (off.arm, on.arm, again.arm) == ("online", "decode_gqa", "online")
    assert (off.witness, on.witness) == (ARMS["online"].witness, ARMS["decode_gqa"].witness)
    assert off.dispatch.kernel != on.dispatch.kernel
    assert off.dispatch.code_object.sha256 != on.dispatch.code_object.sha256


def test_off_is_online_to_the_byte(monkeypatch):
    off, named = run(monkeypatch, "0"), run(monkeypatch, "1", arm="online")
    assert torch.equal(off.out.view(torch.int16), named.out.view(torch.int16))


def test_the_arms_are_not_byte_exact_against_each_other():
    """Another order of summation: in f32 it shows, so equal bytes above mean the same arm ran."""
    wide = replace(CALL, out_dtype=torch.float32)
    online, decode = (run_call(wide, arm=arm, board=BOARD).out for arm in ("online", "decode"))
    assert not torch.equal(online, decode)


@pytest.mark.parametrize(("value", "code"), [("0", "0x10"), ("1", "0x30")])
def test_off_and_on_in_two_processes(value, code):
    program = (
        "from hipbook.ops.paged_attention import run_call\n"
        "from hipbook.oracle.paged_attention import make\n"
        "(call,) = make('sparse_pool', 0)\n"
        "print(hex(run_call(call).witness))"
    )
    env = {**os.environ, FLAG: value, "PYTHONPATH": str(paths.root() / "lib")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == code


def test_a_wrapper_that_launches_another_arm_is_found_out():
    """The decode specialisation handed to the board under online's name and geometry, and the reverse:
    the witness the kernel leaves gives it away."""
    from hipbook.errors import KernelFault

    class Swaps:
        def __getattr__(self, name):
            return getattr(BOARD, name)

        def build(self, source, flags=()):
            return BOARD.build(source, ARMS["decode"].flags(CALL))

        def launch(self, code_object, kernel, grid, block, args, **options):
            return BOARD.launch(code_object, "paged_attention_decode", grid, (256, 1, 1), args, **options)

    with pytest.raises(KernelFault, match="wrote witness 0x20, expected 0x10"):
        run_call(CALL, arm="online", board=Swaps())
    # the same kernel under its own name is right
    assert run_call(replace(CALL), arm="decode", board=Swaps()).witness == ARMS["decode"].witness
