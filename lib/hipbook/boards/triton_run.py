"""Any Triton kernel on an emulated board: `run_triton`.

    @triton.jit
    def double(x, out, n, BLOCK: tl.constexpr): ...

    x, out = torch.rand(1000), torch.empty(1000)
    done = run_triton(double, (1,), x=x, out=Buffer("out", out, "w"), n=1000, BLOCK=1024)
    done.counters.totals["SQ_INSTS"]

The kernel is compiled for the board's architecture by triton itself, no GPU needed, and its machine code is
executed and counted like that of any other kernel. On a GPU, launch it as triton does.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hipbook import boards
from hipbook.boards.base import Arg, Board, Buffer, Dispatch
from hipbook.build.triton_kernels import ALIGNED, Argument, TritonKernel, compile_triton
from hipbook.errors import BadArgument

TYPES = {
    torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.float64: "fp64",
    torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.bool: "i1",
}  # fmt: skip
_NUMBERS = {"int32": "i32", "int64": "i64", "float32": "fp32", "uint32": "u32", "uint64": "u64"}


def run_triton(
    kernel: Any,
    grid: Sequence[int],
    *,
    board: Board | str | None = None,
    num_warps: int = 4,
    num_stages: int = 1,
    options: dict[str, Any] | None = None,
    **arguments: Any,
) -> Dispatch:
    """Compile a `@triton.jit` kernel for these arguments and run it on an emulated board.

    grid: programs in one to three dimensions. Arguments go by the kernel's parameter names: a tensor (read
    and written) or a `Buffer` that says what may be done with it; a whole number (32 bits, or 64 when it
    needs them), a float (32 bits) or a numpy scalar of the type that is meant; the value of a tl.constexpr.
    `options` go to `Board.launch`. Raises BadArgument and BuildError before anything runs, KernelFault when
    the kernel does what it must not.
    """
    where = boards.get(board) if board is None or isinstance(board, str) else board
    if where.kind != "emulated":
        raise BadArgument(
            "board",
            where.name,
            "this runs kernels on emulated boards",
            fix="on a GPU, launch the kernel as triton does: kernel[grid](...)",
        )
    compiled, values = prepare_triton(
        kernel, where.arch, arguments, num_warps=num_warps, num_stages=num_stages
    )
    if not 1 <= len(grid) <= 3:
        raise BadArgument("grid", tuple(grid), "one to three counts of programs")
    return where.launch(
        compiled.code_object, compiled.name, (*map(int, grid), 1, 1)[:3], (compiled.threads, 1, 1), values,
        lds_bytes=compiled.lds_bytes, **(options or {}),
    )  # fmt: skip


def prepare_triton(
    kernel: Any, arch: str, arguments: dict[str, Any], *, num_warps: int = 4, num_stages: int = 1
) -> tuple[TritonKernel, list[Arg]]:
    """The kernel compiled for these arguments, and the list of them that its code object takes."""
    constexprs = {p.name for p in getattr(kernel, "params", ()) if p.is_constexpr}
    constants = {name: value for name, value in arguments.items() if name in constexprs}
    for parameter in getattr(kernel, "params", ()):
        if parameter.is_constexpr and parameter.has_default:
            constants.setdefault(parameter.name, parameter.default)
    given = {name: _argument(name, value) for name, value in arguments.items() if name not in constexprs}
    types = {name: typed for name, (typed, _) in given.items()}
    compiled = compile_triton(kernel, arch, types, constants, num_warps=num_warps, num_stages=num_stages)
    facts = compiled.code_object.kernels[compiled.name]
    taken = [arg for arg in facts.args if not arg.kind.startswith("hidden_")]
    values = [given[name][1] for name in compiled.parameters]
    return compiled, values + [None] * (len(taken) - len(values))


def _argument(name: str, value: Any) -> tuple[Argument, Arg]:
    """Triton's type of an argument, and the argument as a board takes it."""
    if isinstance(value, torch.Tensor):
        value = Buffer(name, value, "rw")
    if isinstance(value, Buffer):
        if value.tensor.dtype not in TYPES:
            raise BadArgument(name, value.tensor.dtype, f"one of {', '.join(map(str, TYPES))}")
        return Argument(f"*{TYPES[value.tensor.dtype]}", value.tensor.data_ptr() % ALIGNED == 0), value
    if isinstance(value, bool):
        return Argument("i1"), np.bool_(value)
    if isinstance(value, int):
        value = np.int32(value) if -(2**31) <= value < 2**31 else np.int64(value)
    elif isinstance(value, float):
        value = np.float32(value)
    if not isinstance(value, np.generic) or value.dtype.name not in _NUMBERS:
        raise BadArgument(
            name, repr(value), "a tensor, a Buffer, a number or a numpy scalar of 32 or 64 bits"
        )
    whole = np.issubdtype(value.dtype, np.integer)
    return Argument(_NUMBERS[value.dtype.name], bool(whole and int(value) % ALIGNED == 0)), value
