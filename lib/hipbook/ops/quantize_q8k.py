"""Q8_K quantization of activations: the contract, the arms, the wrapper.

    x    f32 | f16 | bf16  [rows, K], last stride 1, any row stride; K a multiple of 256
    out  uint8             [rows, K / 256, 292], contiguous, aligned to 4 bytes

A block of 256 elements becomes f32 d (at 0), int8 qs[256] (at 4), int16 bsums[16] (at 260), each the sum
of 16 consecutive qs. mx is the signed value of the first element of largest |x|; iscale = -127 / mx,
q = min(127, round to even(iscale * x)), d = 1 / iscale, each operation rounded once to f32. A block of
zeros, and one whose iscale overflows (|mx| below about 3.7e-37), is 292 zero bytes. A block that holds a
NaN or an infinity is refused when checked, and otherwise written with d = 0x7fc00000 and zeros.
The contract: docs/contracts.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import torch

from hipbook import boards
from hipbook.boards.base import Board, Dim3, Dispatch
from hipbook.errors import BadArgument, KernelFault
from hipbook.ops import validate
from hipbook.ops.one_launch import OneLaunch, Output

SOURCE = "quantize_q8k/quantize_q8k.hip"  # under kernels/
BLOCK = 256  # elements
BLOCK_BYTES = 292
DTYPE_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
# Byte-exact: no contraction of a product and a sum into one rounding.
EXACT_FLAGS = ("-ffp-contract=off",)
# More workgroups than any board runs at once; past it each takes several blocks.
MAX_WORKGROUPS = 1 << 20


@dataclass(frozen=True)
class Arm:
    """One way of quantizing. `threads(blocks, wave_size)` is the workgroup's size, `blocks_each(threads,
    wave_size)` how many blocks it takes at once."""

    name: str
    idea: str
    witness: int
    threads: Callable[[int, int], int]
    blocks_each: Callable[[int, int], int]
    vectors: bool = False

    @property
    def kernel(self) -> str:
        return f"quantize_q8k_{self.name}"

    def flags(self, x: torch.Tensor) -> tuple[str, ...]:
        """Build macros of the specialisation that serves `x`; the board adds the wave width."""
        flags = [*EXACT_FLAGS, f"-DHIPBOOK_X={DTYPE_NAMES[x.dtype]}", f"-DHIPBOOK_ARM_{self.name.upper()}=1"]
        if self.vectors:
            flags.append(f"-DHIPBOOK_VECTOR={vector_elements(x)}")
        return tuple(flags)

    def geometry(self, blocks: int, wave_size: int) -> tuple[Dim3, Dim3]:
        """(workgroups, work-items) for `blocks` blocks; never on y or z, whose extents end at 65535."""
        threads = self.threads(blocks, wave_size)
        workgroups = -(-blocks // self.blocks_each(threads, wave_size))
        return (min(workgroups, MAX_WORKGROUPS), 1, 1), (threads, 1, 1)


ARMS = {
    arm.name: arm
    for arm in (
        Arm("serial", "one thread a block", 0x10, lambda blocks, wave: 128, lambda threads, wave: threads),
        Arm("block", "one workgroup a block", 0x20, lambda blocks, wave: BLOCK, lambda threads, wave: 1),
        Arm(
            "wave",
            "one wave a block",
            0x30,
            # as many waves, up to four, as leave none without a block
            lambda blocks, wave: wave * gcd(blocks, 4),
            lambda threads, wave: threads // wave,
            vectors=True,
        ),
    )
}


def vector_elements(x: torch.Tensor) -> int:
    """Elements a load may take: the largest power of two, up to 16 bytes, that every row is aligned to."""
    size = x.element_size()
    steps = x.data_ptr() if x.shape[0] < 2 else gcd(x.data_ptr(), x.stride(0) * size)
    return gcd(steps, 16) // size


@dataclass(frozen=True, eq=False)
class QuantizeResult:
    """`out` uint8 [rows, K / 256, 292]; `dispatch` is None when there was no block to launch for.

    `witness` is the code that every workgroup wrote (None: unchecked, or nothing was launched).
    """

    out: torch.Tensor
    arm: str
    witness: int | None
    dispatch: Dispatch | None


def quantize_q8k(
    x: torch.Tensor,
    *,
    arm: str = "auto",
    board: Board | str | None = None,
    out: torch.Tensor | None = None,
    checked: bool = True,
    **launch_options: Any,
) -> QuantizeResult:
    """Quantize `x` with `arm` ("auto": wave) on `board`, into `out` or a fresh tensor.

    `checked` refuses values that are not finite, launches into a poisoned output, verifies every
    workgroup's witness and that every byte was written, and only then touches `out`. Raises
    `BadArgument` for an argument that breaks the contract, `KernelFault` when the launch misbehaves.
    """
    where = boards.get(board)
    validate.one_of("arm", arm, ("auto", *ARMS))
    validate.boolean("checked", checked)
    chosen = ARMS["wave" if arm == "auto" else arm]
    shape = check_arguments(x, out, where.torch_device)
    if checked:
        check_finite(x)
    result = Output(shape, torch.uint8, poison_blocks_, check_blocks_written)
    launch = OneLaunch(where, {"out": result}, None if out is None else {"out": out}, checked=checked)
    blocks = shape[0] * shape[1]
    if not blocks:
        return QuantizeResult(launch.handed_over()["out"], chosen.name, None, None)
    geometry = chosen.geometry(blocks, where.wave_size)
    scalars = [np.int64(x.stride(0)), np.uint32(blocks), np.uint32(shape[1])]
    done = launch.run(chosen, SOURCE, chosen.flags(x), geometry, {"x": x}, scalars, launch_options)
    return QuantizeResult(done.results["out"], chosen.name, done.witness, done.dispatch)


def check_arguments(x: torch.Tensor, out: torch.Tensor | None, device: torch.device) -> tuple[int, int, int]:
    """The shape of the result, or `BadArgument`; looks at no element."""
    validate.tensor("x", x, tuple(DTYPE_NAMES), 2, device)
    validate.last_stride_one("x", x)
    rows, k = x.shape
    if k % BLOCK:
        raise BadArgument(
            "x.shape[1]",
            k,
            f"must be a multiple of the block's {BLOCK} elements",
            fix="pad the rows with zeros",
        )
    shape = rows, k // BLOCK, BLOCK_BYTES
    validate.integer("rows * K / 256", rows * shape[1], 0)
    if out is not None:
        validate.tensor("out", out, (torch.uint8,), 3, device)
        validate.shape("out", out, shape, "a block of 292 bytes for each 256 elements of x")
        validate.contiguous("out", out)
        if out.data_ptr() % 4:
            raise BadArgument(
                "out.data_ptr()",
                hex(out.data_ptr()),
                "must be a multiple of 4: a block starts with an f32",
                fix="out.clone() starts at one",
            )
        validate.apart("out", out, "x", x)
        validate.writable("out", out)
    return shape


def check_finite(x: torch.Tensor) -> None:
    """`BadArgument` that names the first value that is not finite."""
    bad = ~x.isfinite()
    if bad.any():
        row, column = (int(i) for i in bad.nonzero()[0])
        raise BadArgument(
            f"x[{row}, {column}]",
            float(x[row, column]),
            "must be finite: a block has one scale",
            fix="checked=False writes such a block with d = NaN and zeros",
        )


def poison_blocks_(out: torch.Tensor) -> torch.Tensor:
    """Fill uint8 [..., 292] with bytes no result has: a NaN with a payload, q = -128, bsum = 32767."""
    flat = out.view(-1, BLOCK_BYTES)
    flat[:] = torch.tensor(
        list((0xFFA5A5A5).to_bytes(4, "little")) + [0x80] * BLOCK + [0xFF, 0x7F] * 16, dtype=torch.uint8
    ).to(out.device)
    return out


def check_blocks_written(out: torch.Tensor, kernel: str) -> None:
    """`KernelFault` that names the first block with a field that still holds its poison."""
    flat = out.view(-1, BLOCK_BYTES)
    left = {
        "d": (flat[:, :4] == torch.tensor([0xA5, 0xA5, 0xA5, 0xFF], device=out.device)).all(dim=1),
        "qs": (flat[:, 4:260] == 0x80).any(dim=1),
        "bsums": (flat[:, 260::2].eq(0xFF) & flat[:, 261::2].eq(0x7F)).any(dim=1),
    }
    for field, missing in left.items():
        if missing.any():
            block = int(missing.nonzero()[0])
            raise KernelFault(
                f"{kernel}: {field} of block {block} of {len(flat)} was never written "
                f"({int(missing.sum())} blocks in all)"
            )
