"""Code objects that cannot be run: one clear error each, before anything executes."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hipbook import boards
from hipbook.boards import Buffer
from hipbook.build import load
from hipbook.emulator import image, isa
from hipbook.emulator import load as emulate
from hipbook.errors import EmulatorError, HipbookError

SMALL = Path(__file__).parent / "small.hip"


# ---- files that are no code object we can run ----


@pytest.fixture
def damaged(small, tmp_path):
    """damaged(bytes) -> the code object of `small` with its file replaced."""

    def make(content: bytes):
        path = tmp_path / "damaged.hsaco"
        path.write_bytes(content)
        return replace(small, path=path)

    return make


@pytest.mark.parametrize("content", [b"", b"not an ELF file at all", b"\x7fELF", bytes(4096)])
def test_not_an_elf(damaged, content):
    with pytest.raises(EmulatorError, match=r"damaged\.hsaco is not a readable code object"):
        emulate(damaged(content))


def test_truncated_anywhere(damaged, small, board):
    data = small.path.read_bytes()
    refused = 0
    for size in range(64, len(data), max(1, len(data) // 97)):
        try:
            program = emulate(damaged(data[:size]))
            for name in small.kernels:  # a file cut behind its code may still run
                program.kernel(name)
        except HipbookError as error:
            refused += "damaged.hsaco" in str(error) or "kernel" in str(error)
    assert refused > 40


def test_another_machines_elf(damaged):
    with pytest.raises(EmulatorError, match="not an AMD GPU code object"):
        emulate(damaged(Path(shutil.which("ls")).read_bytes()))


def test_no_metadata_is_refused_when_the_facts_are_read(tmp_path, small):
    path = tmp_path / "bare.hsaco"
    path.write_bytes(small.path.read_bytes().replace(b"amdhsa.kernels", b"amdhsa.kernelz"))
    with pytest.raises(HipbookError, match="metadata"):
        load(path)


@pytest.mark.parametrize("arch", sorted(isa.FAMILIES))
def test_an_uncovered_opcode_is_named_before_anything_runs(arch):
    """Opcode, kernel and address in one error; the store before it has not happened. Other kernels of the
    same code object run."""
    board = boards.get(f"{arch}-emu")
    built, out = board.build(SMALL, ["-g"]), torch.zeros(64, dtype=torch.int32)
    with pytest.raises(
        EmulatorError, match=r"kernel 'uncovered' uses what .* V_MOVRELS_B32_E32 at 0x"
    ) as caught:
        board.launch(built, "uncovered", (1, 1, 1), (32, 1, 1), [Buffer("out", out, "w")])
    assert len(str(caught.value).splitlines()) == 2  # what, and the fix
    assert (out == 0).all()
    board.launch(built, "dynamic_lds", (1, 1, 1), (64, 1, 1), [Buffer("out", out, "w")], lds_bytes=256)
    assert int(out[0]) == 63 * 3


def test_another_architecture(damaged, small):
    with pytest.raises(EmulatorError, match="built for gfx942, which is not emulated"):
        emulate(replace(damaged(small.path.read_bytes() + b"\0"), arch="gfx942"))


def test_random_bytes_for_code_are_refused_or_fault_but_never_crash(damaged, small, board):
    """The code of one kernel replaced by noise: an error each time, whatever the noise."""
    data = bytearray(small.path.read_bytes())
    loaded = image.read(bytes(data), "small")
    at = data.find(loaded.text[:256])
    entry = loaded.descriptors["copy"].entry - loaded.text_address
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(200):
        noise = rng.integers(0, 256, 64).astype(np.uint8).tobytes()
        data[at + entry : at + entry + 64] = noise
        args = [
            Buffer("in", torch.zeros(32)),
            Buffer("out", torch.zeros(32), "w"),
            np.int32(1),
            np.int32(0),
            np.int32(0),
        ]
        try:
            board.launch(
                damaged(bytes(data)), "copy", (1, 1, 1), (32, 1, 1), args, max_wave_instructions=10_000
            )
            outcomes.add("ran")
        except HipbookError as error:
            outcomes.add(type(error).__name__)
    assert "EmulatorError" in outcomes


def descriptor_at(small, kernel: str) -> int:
    """File offset of a kernel's descriptor."""
    loaded = image.read(small.path.read_bytes(), "small")
    d = loaded.descriptors[kernel]
    head = (
        d.lds_bytes.to_bytes(4, "little")
        + d.scratch_bytes.to_bytes(4, "little")
        + d.kernarg_bytes.to_bytes(4, "little")
    )
    data = small.path.read_bytes()
    places = [m.start() for m in re.finditer(re.escape(head), data)]
    return next(
        at
        for at in places
        if data[at + 48 : at + 56] == d.rsrc1.to_bytes(4, "little") + d.rsrc2.to_bytes(4, "little")
    )


@pytest.mark.parametrize(
    ("offset", "mask", "says"),
    [(56 + 1, 0x04, "waves of 64 lanes"), (48 + 2, 0x03, "flush subnormals"), (48 + 1, 0x00, None)],
)
def test_modes_that_are_not_modelled(damaged, small, offset, mask, says):
    data = bytearray(small.path.read_bytes())
    data[descriptor_at(small, "dynamic_lds") + offset] &= 0xFF ^ mask
    program = emulate(damaged(bytes(data)))
    if says is None:
        assert program.kernel("dynamic_lds").records.size
    else:
        with pytest.raises(EmulatorError, match=says):
            program.kernel("dynamic_lds")
