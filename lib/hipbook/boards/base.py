"""What a board is: anything that runs a code object.

A wrapper in `ops` hands a board its code object, a kernel's name, the geometry and the arguments,
and gets a `Dispatch` back: what ran, and what is known of it. Emulated boards fill `counters`;
GPU boards fill times when they are asked to measure. Neither pretends to be the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch

from hipbook.build.code_object import CodeObject

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Buffer:
    """A tensor argument and what the kernel may do with it.

    `access` is "r", "w" or "rw": a store to "r" is a fault; a "w" buffer counts as never written
    until the kernel writes it, and bytes of it left unwritten are reported (`Dispatch.unwritten`).
    `name` is the argument's name in the operation's contract; counters are kept per name.
    """

    name: str
    tensor: torch.Tensor
    access: Literal["r", "w", "rw"] = "r"


# Scalars are typed by numpy (np.int32(5), np.int64(7), np.float32(0.5)): their size is checked against the
# kernel's argument layout. Whether four bytes are an int or a float a code object does not say: the wrapper's
# business. None is a null pointer.
Arg = Buffer | np.generic | None


@dataclass(frozen=True)
class BufferCounts:
    """Exact traffic of one argument in one dispatch (bytes the kernel asked for; no cache)."""

    bytes_read: int = 0
    bytes_written: int = 0
    loads: int = 0  # lane loads
    stores: int = 0
    live_lanes: int = 0  # distinct (wave, lane) that loaded from it, over the dispatch


@dataclass(frozen=True)
class Counters:
    """Exact counts of one dispatch on an emulated board. Names as rocprofv3's where it has one."""

    totals: Mapping[str, int]  # SQ_WAVES, SQ_INSTS, SQ_INSTS_VALU, ..., BARRIERS, BYTES_READ, ...
    opcodes: Mapping[str, int]  # wave instructions by opcode, upper case as in the ISA document
    buffers: Mapping[str, BufferCounts]

    @property
    def barriers_per_wave(self) -> float:
        return self.totals["BARRIERS"] / self.totals["SQ_WAVES"]


@dataclass(frozen=True)
class Dispatch:
    """One launch: what ran where, on which binary, and what is known of it."""

    board: str
    kernel: str
    grid: Dim3  # workgroups
    block: Dim3  # work-items
    lds_bytes: int  # dynamic
    code_object: CodeObject
    counters: Counters | None = None
    unwritten: Mapping[str, int] = field(default_factory=dict)  # "w" buffers: bytes never written
    time_us: float | None = None


class Board(Protocol):
    """The protocol. `torch_device` is where tensors handed to `launch` must live."""

    name: str
    arch: str
    kind: Literal["emulated", "gpu"]
    wave_size: int
    torch_device: torch.device

    def identity(self) -> dict[str, Any]:
        """What a record keeps of the board: name, architecture, kind and where it runs."""
        ...

    def build(self, source: str, flags: Sequence[str] = ()) -> CodeObject:
        """Build `source` (a path under kernels/, or an absolute path) for this board, cached."""
        ...

    def launch(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Arg],
        *,
        lds_bytes: int = 0,
        **options: Any,
    ) -> Dispatch:
        """Run one dispatch to its end. An argument list that does not fit the kernel's layout is a
        `BadArgument` before anything runs. Emulated boards take `checks: bool = True`,
        `wave_order_seed: int = 0`, `threads: int | None = None`, `max_wave_instructions: int`.
        """
        ...
