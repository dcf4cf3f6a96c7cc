"""One launch of an operation's arm: results staged, witness and stores verified, then handed over.

    launch = OneLaunch(board, {"out": Output((rows, n), torch.float32)}, out, checked=checked)
    done = launch.run(arm, SOURCE, flags, (grid, block), {"x": x}, [np.int32(rows)], launch_options)
    done.results["out"], done.witness, done.dispatch

The kernel's parameters are, in this order: the inputs, the results, the witness, the scalars. A checked
launch writes into poisoned tensors of its own, which are verified before the caller's are touched.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import torch

from hipbook.boards.base import Board, Dim3, Dispatch
from hipbook.errors import BadArgument, KernelFault
from hipbook.ops.launch import (
    WITNESS_POISON,
    buffer,
    check_unwritten_bytes,
    check_witness,
    check_written,
    empty_aligned_as,
    poison_,
)

OWN_OPTIONS = frozenset({"code_object", "kernel", "grid", "block", "args"})  # of a launch: the wrapper's


class Arm(Protocol):
    """What a launch needs to know of an arm. `kernel` is its function, `witness` the code it writes."""

    name: str
    witness: int

    @property
    def kernel(self) -> str: ...


@dataclass(frozen=True)
class PlainArm:
    """An arm about which there is nothing more to say: its kernel is called OPERATION_NAME."""

    operation: str
    name: str
    witness: int

    @property
    def kernel(self) -> str:
        return f"{self.operation}_{self.name}"


def every_row_written(result: torch.Tensor, kernel: str) -> None:
    check_written(result, torch.ones(len(result), dtype=torch.bool, device=result.device), kernel)


@dataclass(frozen=True)
class Output:
    """One result: shape, dtype, and how to see afterwards that all of it was written."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    poison: Callable[[torch.Tensor], torch.Tensor] = poison_
    check: Callable[[torch.Tensor, str], None] = every_row_written


@dataclass(frozen=True, eq=False)
class Launched:
    """`results` are the caller's tensors where there were some. `witness` is None when unchecked."""

    arm: str
    results: dict[str, torch.Tensor]
    witness: int | None
    dispatch: Dispatch


class OneLaunch:
    """A launch on its way. `results` (name -> tensor) is where the kernel will write: flags and geometry may
    depend on how they are aligned, which is as the caller's are."""

    def __init__(
        self,
        board: Board,
        outputs: Mapping[str, Output],
        out: Mapping[str, torch.Tensor] | None,
        *,
        checked: bool,
    ) -> None:
        self.board, self.checked, self.out = board, checked, out
        self._outputs = outputs
        aligned = torch.empty(0, device=board.torch_device)
        if out is not None and not checked:
            self.results = dict(out)
        else:
            self.results = {
                name: one.poison(empty_aligned_as(one.shape, one.dtype, out[name] if out else aligned))
                for name, one in outputs.items()
            }

    def handed_over(self) -> dict[str, torch.Tensor]:
        """The caller's tensors, filled; or the results themselves."""
        if self.out is None:
            return self.results
        for name, tensor in self.out.items():
            if tensor is not self.results[name]:
                tensor.copy_(self.results[name])
        return dict(self.out)

    def run(
        self,
        arm: Arm,
        source: str,
        flags: Sequence[str],
        geometry: tuple[Dim3, Dim3],
        inputs: Mapping[str, torch.Tensor],
        scalars: Sequence[np.generic],
        options: Mapping[str, Any],
    ) -> Launched:
        """Build, launch, verify, hand over. `options` are `Board.launch`'s. Raises `KernelFault` for a wrong
        witness or a value that was never written, and leaves the caller's tensors as they were."""
        if own := OWN_OPTIONS & set(options):
            name = min(own)
            raise BadArgument(
                f"option {name}", options[name], "is the wrapper's own", fix=f"leave {name} out"
            )
        (grid, block), device = geometry, self.board.torch_device
        witness = None
        if self.checked:
            witness = torch.full((prod(grid),), WITNESS_POISON, dtype=torch.int32, device=device)
        args = [
            *(buffer(name, tensor) for name, tensor in inputs.items()),
            *(buffer(name, tensor, "w") for name, tensor in self.results.items()),
            None if witness is None else buffer("witness", witness, "w"),
            *scalars,
        ]
        code_object = self.board.build(source, flags)
        dispatch = self.board.launch(code_object, arm.kernel, grid, block, args, **options)
        code = None
        if witness is not None:
            code = check_witness(witness, arm.witness, arm.kernel, arm.name)
            for name, one in self._outputs.items():
                self._verify(name, one, arm.kernel, dispatch)
        return Launched(arm.name, self.handed_over(), code, dispatch)

    def _verify(self, name: str, output: Output, kernel: str, dispatch: Dispatch) -> None:
        try:
            output.check(self.results[name], kernel)
        except KernelFault as fault:
            raise KernelFault(f"{name}: {fault.what}", fix=fault.fix) from fault
        check_unwritten_bytes(dispatch, name, 0)
