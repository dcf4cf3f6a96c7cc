"""Checks of tensors and scalars that any operation's wrapper can use.

Each raises `BadArgument` with the argument, its value and the rule, before anything is launched.
"""

import math
import numbers
from collections.abc import Iterable

import numpy as np
import torch

from hipbook.errors import BadArgument

INT32_MAX = 2**31 - 1
# Factors of a score: far beyond any model's, and small enough that no arm's f32 arithmetic on them overflows
# where another's does not.
MOST_REAL = 1e30


def dtype_word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def tensor(
    name: str, value: object, dtypes: tuple[torch.dtype, ...], rank: int, device: torch.device
) -> None:
    """A strided tensor of one of `dtypes` and of `rank`, on `device`, aligned to its element."""
    if not isinstance(value, torch.Tensor):
        raise BadArgument(
            name, type(value).__name__, "must be a torch.Tensor", fix=f"torch.as_tensor({name})"
        )
    words = [dtype_word(dtype) for dtype in dtypes]
    if value.dtype not in dtypes:
        raise BadArgument(
            f"{name}.dtype",
            dtype_word(value.dtype),
            f"must be one of: {', '.join(words)}",
            fix=f"{name}.to(torch.{words[0]})",
        )
    if value.dim() != rank:
        raise BadArgument(
            f"{name}.shape",
            tuple(value.shape),
            f"must have {rank} dimensions",
            fix=f"{name}.view(...) with {rank} of them",
        )
    if value.layout is not torch.strided:
        raise BadArgument(
            f"{name}.layout", value.layout, "must be a strided tensor", fix=f"{name}.to_dense()"
        )
    if value.is_neg() or value.is_conj():  # the bytes in memory are not the values
        raise BadArgument(
            name,
            "a view that torch negates when it reads it",
            "must hold its own values",
            fix=f"{name}.resolve_neg()",
        )
    if value.device.type != device.type or device.index not in (None, value.device.index):
        raise BadArgument(
            f"{name}.device",
            str(value.device),
            f"must be {device}, the board's",
            fix=f"{name}.to('{device}')",
        )
    if value.numel() and value.data_ptr() % value.element_size():
        raise BadArgument(
            f"{name}.data_ptr()",
            hex(value.data_ptr()),
            f"must be a multiple of its element's {value.element_size()} bytes",
            fix=f"copy it: {name}.clone()",
        )


def contiguous(name: str, value: torch.Tensor) -> None:
    if not value.is_contiguous():
        raise BadArgument(
            f"{name}.stride()", value.stride(), f"must be contiguous for shape {tuple(value.shape)}",
            fix=f"{name}.contiguous()",
        )  # fmt: skip


def last_stride_one(name: str, value: torch.Tensor) -> None:
    if value.shape[-1] > 1 and value.stride(-1) != 1:
        raise BadArgument(
            f"{name}.stride()", value.stride(), "the last stride must be 1", fix=f"{name}.contiguous()"
        )


def no_overlap(name: str, value: torch.Tensor) -> None:
    """No two indices may name one element: an expanded or overlapping view is not a cache."""
    axes = sorted(
        (value.stride(axis), value.shape[axis]) for axis in range(value.dim()) if value.shape[axis] > 1
    )
    reach = 1  # elements spanned by the axes of smaller stride
    for stride, extent in axes:
        if stride < reach:
            raise BadArgument(
                f"{name}.stride()",
                value.stride(),
                f"strides must keep elements of shape {tuple(value.shape)} apart: "
                f"a stride of {stride} over {extent} steps runs into the {reach} elements inside it",
                fix=f"{name}.contiguous()",
            )
        reach += stride * (extent - 1)


def shape(name: str, value: torch.Tensor, expected: tuple[int, ...], why: str) -> None:
    if tuple(value.shape) != expected:
        raise BadArgument(
            f"{name}.shape", tuple(value.shape), f"must be {expected}: {why}", fix=f"make {name} {expected}"
        )


def bytes_spanned(value: torch.Tensor) -> tuple[int, int]:
    """[start, end) of the addresses a strided tensor reaches."""
    last = sum(stride * (extent - 1) for stride, extent in zip(value.stride(), value.shape, strict=True))
    return value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()


def apart(name: str, value: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """An output must share no address range with an input."""
    if not value.numel() or not other.numel():
        return
    (start, end), (other_start, other_end) = bytes_spanned(value), bytes_spanned(other)
    if start < other_end and other_start < end:
        raise BadArgument(
            name,
            f"memory at {start:#x}",
            f"must not overlap {other_name}'s at {other_start:#x}",
            fix=f"memory of its own: torch.empty_like({name})",
        )


def writable(name: str, value: torch.Tensor) -> None:
    """An output that a kernel may write into, and torch may copy into, without autograd in the way."""
    if value.requires_grad:
        raise BadArgument(
            name, "a tensor that requires grad", "a kernel's stores are no part of autograd's graph",
            fix=f"{name}.detach()",
        )  # fmt: skip
    if value.is_inference() and not torch.is_inference_mode_enabled():
        raise BadArgument(
            name, "an inference tensor", "torch lets nobody write to it outside inference mode",
            fix=f"{name}.clone(), or call inside torch.inference_mode()",
        )  # fmt: skip


def real(name: str, value: object, *, least: float = -math.inf) -> float:
    """A number of at most MOST_REAL in magnitude and at least `least`; returned rounded to f32."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | np.floating):
        raise BadArgument(name, repr(value), "must be a real number", fix="pass a float")
    if not abs(value) <= MOST_REAL:  # NaN compares false
        raise BadArgument(
            name, value, f"must be finite, at most {MOST_REAL:g} in magnitude", fix="scale it down"
        )
    if value < least:
        raise BadArgument(name, value, f"must be at least {least:g}", fix=f"pass {least:g} or more")
    return float(np.float32(value))


def integer(name: str, value: object, least: int, most: int = INT32_MAX) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise BadArgument(name, repr(value), "must be an integer", fix="pass an int")
    if not least <= value <= most:
        nearest = min(max(int(value), least), most)
        raise BadArgument(name, value, f"must be in {least} .. {most}", fix=f"the nearest is {nearest}")
    return int(value)


def boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise BadArgument(name, repr(value), "must be True or False", fix="pass a bool")
    return bool(value)


def one_of(name: str, value: object, choices: Iterable[str]) -> str:
    """A string that is one of `choices`; the first of them is what the error proposes."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise BadArgument(
            name, repr(value), f"must be one of: {', '.join(known)}", fix=f"{name}={known[0]!r}"
        )
    return value
