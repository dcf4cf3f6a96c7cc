"""The emulated board: runs code objects on the CPU, checked and exactly counted. Needs no AMD hardware."""

import numbers
import os
import re
from collections.abc import Sequence
from typing import Any

import torch

from hipbook import emulator
from hipbook.boards.base import Arg, Buffer, BufferCounts, Counters, Dim3, Dispatch
from hipbook.build import ARCHS, build
from hipbook.build.code_object import CodeObject
from hipbook.emulator import EmulatedFault, Pointer
from hipbook.errors import BadArgument, EmulatorError

THREADS = "HIPBOOK_THREADS"  # threads of a launch that names none; a sweep gives each of its jobs a share
_ARM_FLAG = re.compile(r"-DHIPBOOK_ARM_(\w+)=1")
MAX_WAVE_INSTRUCTIONS = 500_000_000  # budget of one wave; kernels of ours need less than a hundredth


def _check_options(checks: object, seed: object, threads: object, most: object, lds_bytes: object) -> None:
    """BadArgument for an option of the wrong type, or a count below its least."""
    if not isinstance(checks, bool):
        raise BadArgument("checks", repr(checks), "must be True or False", fix="checks=True")
    for name, value, least in (
        ("wave_order_seed", seed, None),
        ("threads", 1 if threads is None else threads, 1),
        ("max_wave_instructions", most, 1),
        ("lds_bytes", lds_bytes, 0),
    ):
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not whole or (least is not None and value < least):
            rule = "must be an integer" + ("" if least is None else f" of at least {least}")
            raise BadArgument(name, repr(value), rule, fix=f"{name}={least or 0}")


class EmulatedBoard:
    """A board of `arch` that exists in software; see docs/emulator.md for what is modelled.

    Results and counts are the same on every machine, whatever the number of threads. It has no clock:
    `Dispatch.time_us` is None.
    """

    kind = "emulated"

    def __init__(self, name: str = "gfx1200-emu", arch: str = "gfx1200") -> None:
        self.name = name
        self.arch = arch
        self.wave_size = ARCHS[arch].wave_size
        self.torch_device = torch.device("cpu")

    def __repr__(self) -> str:
        return f"EmulatedBoard(name={self.name!r}, arch={self.arch!r})"

    def identity(self) -> dict[str, Any]:
        """Name, architecture and kind: an emulated board is the same on every machine."""
        return {"name": self.name, "arch": self.arch, "kind": self.kind}

    def build(self, source: str, flags: Sequence[str] = ()) -> CodeObject:
        """Builds `source` (under kernels/, or an absolute path) with the pinned toolchain, cached."""
        return build(source, self.arch, flags)

    def _how(
        self, code_object: CodeObject, grid: Dim3, block: Dim3, options: dict[str, int]
    ) -> tuple[str | None, str]:
        """(arm, what was launched and how): for the report of a fault."""
        arms = [match[1].lower() for flag in code_object.flags if (match := _ARM_FLAG.fullmatch(flag))]
        source = code_object.source.name if code_object.source else code_object.path.name
        built = " ".join((source, *code_object.flags))
        given = "".join(f", {name} {value}" for name, value in options.items() if value)
        return arms[0] if arms else None, f"{built} on {self.name}, grid {grid}, block {block}{given}"

    def _run(self, code_object: CodeObject, *launch: Any, **options: Any) -> emulator.Counted:
        return emulator.load(code_object).run(*launch, **options)

    def launch(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Arg],
        *,
        lds_bytes: int = 0,
        checks: bool = True,
        wave_order_seed: int = 0,
        threads: int | None = None,
        max_wave_instructions: int = MAX_WAVE_INSTRUCTIONS,
        **unknown: Any,
    ) -> Dispatch:
        """Runs one dispatch to its end and counts it.

        grid: workgroups, block: work-items, lds_bytes: dynamic LDS. checks: the sanitizers (bounds of
        buffers hold either way). wave_order_seed: order in which the waves of a workgroup run, 0 ascending.
        threads: of this machine, None: $HIPBOOK_THREADS, else all; never
        changes a result. max_wave_instructions: a wave that
        executes more is taken to loop for ever.
        Raises BadArgument and EmulatorError before anything runs, KernelFault when the kernel misbehaves.
        """
        if unknown:
            raise BadArgument(
                "option",
                next(iter(unknown)),
                f"not an option of an emulated board ({self.name})",
                fix="checks, wave_order_seed, threads, max_wave_instructions and lds_bytes are",
            )
        _check_options(checks, wave_order_seed, threads, max_wave_instructions, lds_bytes)
        if code_object.arch != self.arch:
            raise EmulatorError(
                f"{code_object.path.name} is built for {code_object.arch}, the board is {self.arch}",
                fix=f"build it for {self.arch}, or take another board",
            )
        values = [Pointer(a.name, a.tensor, a.access) if isinstance(a, Buffer) else a for a in args]
        try:
            counted = self._run(
                code_object, kernel, grid, block, values,
                lds_bytes=lds_bytes, checks=checks, wave_order_seed=wave_order_seed,
                threads=threads or _threads(), max_wave_instructions=max_wave_instructions,
            )  # fmt: skip
        except EmulatedFault as fault:
            options = {"lds_bytes": lds_bytes, "wave_order_seed": wave_order_seed}
            raise fault.launched(*self._how(code_object, grid, block, options)) from None
        counters = Counters(
            totals=counted.totals,
            opcodes=counted.opcodes,
            buffers={name: BufferCounts(**fields) for name, fields in counted.buffers.items()},
        )
        return Dispatch(
            board=self.name,
            kernel=kernel,
            grid=tuple(grid),
            block=tuple(block),
            lds_bytes=lds_bytes,
            code_object=code_object,
            counters=counters,
            unwritten=counted.unwritten,
        )


def _threads() -> int | None:
    """$HIPBOOK_THREADS; None where it is not set."""
    said = os.environ.get(THREADS)
    if not said:
        return None
    if not (said.isascii() and said.isdigit() and int(said) > 0):
        raise BadArgument(THREADS, repr(said), "a whole number of at least 1, or not set")
    return int(said)
