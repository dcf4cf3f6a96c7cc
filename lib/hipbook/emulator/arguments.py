"""A kernel's arguments: held to its layout, tensors placed in memory, packed into the argument segment."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hipbook.build.code_object import KernelArg, KernelFacts
from hipbook.emulator.memory_map import MemoryMap
from hipbook.emulator.operands import PRIVATE_BASE, SHARED_BASE
from hipbook.errors import BadArgument


@dataclass(frozen=True)
class Pointer:
    """A tensor argument; access as in boards.base.Buffer."""

    name: str
    tensor: torch.Tensor
    access: str


Value = Pointer | np.generic | None


def explicit(facts: KernelFacts) -> list[KernelArg]:
    return [arg for arg in facts.args if not arg.kind.startswith("hidden_")]


def check_arguments(facts: KernelFacts, args: Sequence[Value]) -> None:
    """Raises BadArgument unless `args` fit the kernel's layout one by one."""
    wanted = explicit(facts)
    if len(args) != len(wanted):
        raise BadArgument(
            "args", f"{len(args)} arguments", f"kernel {facts.name!r} takes {len(wanted)}",
            fix=", ".join(f"{arg.name or n}: {arg.kind}, {arg.size} bytes" for n, arg in enumerate(wanted)),
        )  # fmt: skip
    for n, (arg, value) in enumerate(zip(wanted, args, strict=True)):
        name = f"args[{n}]" + (f" ({arg.name})" if arg.name else "")
        pointer = arg.kind in ("global_buffer", "dynamic_shared_pointer") and arg.size == 8
        if isinstance(value, Pointer) or value is None:
            if not pointer and not (arg.kind == "by_value" and arg.size == 8):
                raise BadArgument(
                    name, "a buffer" if value else "None", f"the kernel takes {arg.size} bytes by value here"
                )
            if value is not None:
                _check_tensor(name, value)
        elif isinstance(value, np.generic):
            if pointer:
                raise BadArgument(
                    name, repr(value), "the kernel takes a pointer here", fix="hand a Buffer, or None"
                )
            if value.dtype.itemsize != arg.size:
                raise BadArgument(
                    name,
                    repr(value),
                    f"the kernel takes {arg.size} bytes here, {value.dtype} has {value.dtype.itemsize}",
                )
        else:
            raise BadArgument(name, repr(value), "an argument is a Buffer, a numpy scalar or None")


def _check_tensor(name: str, value: Pointer) -> None:
    tensor = value.tensor
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        raise BadArgument(name, type(tensor).__name__, "a buffer holds a strided torch tensor")
    if tensor.device.type != "cpu":
        raise BadArgument(name, str(tensor.device), "the emulated board's tensors live on the CPU")
    if value.access not in ("r", "w", "rw"):
        raise BadArgument(f"{name} access", value.access, "one of r, w, rw")


def _hidden(arg: KernelArg, grid: Sequence[int], block: Sequence[int], lds_bytes: int) -> bytes:
    """The bytes of a hidden argument (LLVM AMDGPUUsage, code object v5). Pointers we have not are null."""
    axis = "xyz".find(arg.kind[-1])
    dims = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
    value = {
        "hidden_block_count": lambda: grid[axis],
        "hidden_group_size": lambda: block[axis],
        "hidden_grid_dims": lambda: dims,
        "hidden_dynamic_lds_size": lambda: lds_bytes,
        "hidden_private_base": lambda: PRIVATE_BASE >> 32,
        "hidden_shared_base": lambda: SHARED_BASE >> 32,
    }.get(arg.kind.rsplit("_", 1)[0] if arg.kind[-2:] in ("_x", "_y", "_z") else arg.kind)
    return (value() if value else 0).to_bytes(arg.size, "little")


def pack_arguments(
    facts: KernelFacts,
    args: Sequence[Value],
    memory: MemoryMap,
    grid: Sequence[int],
    block: Sequence[int],
    lds_bytes: int,
) -> bytes:
    """The kernel argument segment; places the tensors of `args` in `memory`."""
    values = iter(args)
    end = max((arg.offset + arg.size for arg in facts.args), default=0)
    segment = bytearray(max(facts.kernarg_bytes, end))
    for arg in facts.args:
        if arg.kind.startswith("hidden_"):
            content = _hidden(arg, grid, block, lds_bytes)
        else:
            value = next(values)
            if value is None:
                content = bytes(arg.size)
            elif isinstance(value, Pointer):
                content = struct.pack("<Q", memory.add_tensor(value.name, value.tensor, value.access))
            else:
                content = value.tobytes()
        segment[arg.offset : arg.offset + arg.size] = content
    return bytes(segment)
