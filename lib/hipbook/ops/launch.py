"""What every operation's wrapper needs around a launch: poison, witness, a private output.

A checked launch writes into a poisoned tensor of the wrapper's own, is verified there, and only
then copied to the caller's. So a launch that fails or faults leaves the caller's output as it was.
"""

import torch

from hipbook.boards.base import Buffer, Dispatch
from hipbook.errors import KernelFault

# NaNs with a payload no arithmetic produces (it makes quiet NaNs with an empty payload or passes an
# operand's on), so that "never written" and "computed NaN" are told apart by their bits.
POISON_BITS = {torch.bfloat16: 0xFFA5, torch.float16: 0xFDA5, torch.float32: 0xFFA5A5A5}
_INT_VIEW = {2: torch.int16, 4: torch.int32}
WITNESS_POISON = -1


def _signed(bits: int, size: int) -> int:
    return bits - (1 << 8 * size) if bits >> (8 * size - 1) else bits


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a bf16, f16 or f32 tensor with its poison pattern, in place."""
    size = tensor.element_size()
    tensor.view(_INT_VIEW[size]).fill_(_signed(POISON_BITS[tensor.dtype], size))
    return tensor


def is_poison(tensor: torch.Tensor) -> torch.Tensor:
    """bool, same shape: which elements still hold the poison pattern, bit for bit."""
    size = tensor.element_size()
    return tensor.view(_INT_VIEW[size]) == _signed(POISON_BITS[tensor.dtype], size)


def empty_aligned_as(shape: tuple[int, ...], dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor whose address is as far from a 128-byte boundary as `like`'s.

    A staged output must not be better aligned than the caller's, or a checked launch would hide
    the fault that an unchecked one hits.
    """
    count = 1
    for extent in shape:
        count *= extent
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.empty(count * size + 256, dtype=torch.uint8, device=like.device)
    shift = (like.data_ptr() - raw.data_ptr()) % 128
    return raw[shift : shift + count * size].view(dtype).view(shape)


def buffer(name: str, tensor: torch.Tensor, access: str = "r") -> Buffer | None:
    """An argument for `Board.launch`; an empty tensor has no address and becomes a null pointer."""
    return Buffer(name, tensor, access) if tensor.numel() else None


def check_witness(witness: torch.Tensor, expected: int, kernel: str, arm: str) -> int:
    """Every workgroup must have written `expected`, the code of the arm that was asked for.

    Returns the code. Raises `KernelFault` naming the first workgroup that did not write, or that
    wrote another arm's code: then another kernel ran than the one that was asked for.
    """
    wrong = (witness != expected).nonzero()
    if not wrong.numel():
        return expected
    first = int(wrong[0])
    seen = int(witness.view(-1)[first])
    what = "wrote no witness" if seen == WITNESS_POISON else f"wrote witness {seen:#x}"
    raise KernelFault(
        f"arm {arm}: workgroup {first} of {witness.numel()} of {kernel} {what}, expected {expected:#x} "
        f"({wrong.shape[0]} workgroups differ)",
        fix="the code object holds another arm's kernel, or the kernel returns before its witness store",
    )


def check_written(out: torch.Tensor, owned: torch.Tensor, kernel: str) -> None:
    """Rows `owned` [rows] must be written in full, the other rows not at all.

    `out` [rows, ...] was poisoned before the launch. Raises `KernelFault` naming the first row.
    """
    untouched = is_poison(out).reshape(out.shape[0], -1)
    missing = untouched.any(dim=1) & owned
    if missing.any():
        row = int(missing.nonzero()[0])
        raise KernelFault(
            f"{kernel}: {int(untouched[row].sum())} of {untouched.shape[1]} values of output row {row} "
            f"were never written ({int(missing.sum())} rows in all)"
        )
    touched = ~untouched.all(dim=1) & ~owned
    if touched.any():
        row = int(touched.nonzero()[0])
        raise KernelFault(
            f"{kernel}: output row {row} belongs to no request and was written "
            f"({int(touched.sum())} padding rows in all)"
        )


def check_unwritten_bytes(dispatch: Dispatch, name: str, expected: int) -> None:
    """Boards that track stores must agree on how many bytes of `name` were never written."""
    if dispatch.counters is None and name not in dispatch.unwritten:
        return
    seen = dispatch.unwritten.get(name, 0)
    if seen != expected:
        raise KernelFault(
            f"{dispatch.kernel}: {seen} bytes of {name} were never written, "
            f"expected {expected} (the rows that no request owns)"
        )
