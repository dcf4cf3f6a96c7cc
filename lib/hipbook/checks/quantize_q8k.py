"""Checks of the Q8_K quantizer: every arm byte for byte against the oracle.

The factors are arm, dtype, K, rows, layout of x and family of inputs.
  test_cases  K by rows for every arm and dtype on random blocks, layouts in turn; every edge, and every
              block that is not finite, for every arm, dtype and layout; more rows than grid y or z could
              have, for every arm and dtype
  full_cases  the whole product, and the many rows
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import ClassVar

import torch

from hipbook.boards.base import Board
from hipbook.checks.arm_checks import ArmCase, ArmChecks, Ran
from hipbook.ops.placement import placed
from hipbook.ops.quantize_q8k import ARMS, BLOCK, BLOCK_BYTES, DTYPES, SOURCE, quantize_q8k
from hipbook.oracle.quantize_q8k import FAMILIES, make, reference
from hipbook.oracle.within import Compared

KS = (256, 512, 2048, 4096, 12288)
ROWS = (1, 2, 3, 4, 5)
MANY = 70_000  # rows, of 256
LAYOUTS = ("contiguous", "padded", "odd")


def lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values with rows apart: a stride of K + 8, or of K + 1 with an odd first element."""
    if layout == "contiguous":
        return x
    pad, start = (8, 0) if layout == "padded" else (1, 1)
    rows, k = x.shape
    raw = torch.full((start + rows * (k + pad),), float("nan"), dtype=x.dtype)
    view = raw[start:].view(rows, k + pad)[:, :k]
    view.copy_(x)
    return view


@dataclass(frozen=True)
class QuantizeCase(ArmCase):
    """One arm on one tensor."""

    operation: ClassVar[str] = "quantize_q8k"
    x: str = "bf16"
    k: int = 2048
    rows: int = 1
    layout: str = "contiguous"

    def tensor(self) -> torch.Tensor:
        return lay_out(
            make(self.family, self.seed, rows=self.rows, k=self.k, dtype=DTYPES[self.x]), self.layout
        )


class QuantizeChecks(ArmChecks):
    """The operation as the check engine sees it."""

    case = QuantizeCase
    arms = (*ARMS, "auto")
    known: ClassVar = {"family": FAMILIES, "x": DTYPES, "layout": LAYOUTS}

    def test_cases(self) -> list[QuantizeCase]:
        shapes = [(k, rows, LAYOUTS[i % 3]) for i, (k, rows) in enumerate(product(KS, ROWS))]
        cases = [
            QuantizeCase(arm, "random", x, k, rows, layout)
            for arm in ARMS
            for x in DTYPES
            for k, rows, layout in shapes
        ]
        cases += [
            QuantizeCase(arm, family, x, 4096, 4, layout)  # 64 blocks: more than any family has
            for arm in ARMS
            for family in ("edges", "non_finite")
            for x in DTYPES
            for layout in LAYOUTS
        ]
        return cases + self.many_rows() + [QuantizeCase("auto", family) for family in FAMILIES]

    def many_rows(self) -> list[QuantizeCase]:
        return [QuantizeCase(arm, "random", x, BLOCK, MANY, "padded") for arm in ARMS for x in DTYPES]

    def full_cases(self) -> list[QuantizeCase]:
        whole = product(ARMS, FAMILIES, DTYPES, KS, ROWS, LAYOUTS)
        return [QuantizeCase(*row) for row in whole] + self.many_rows()

    def allows(self, case: QuantizeCase) -> bool:
        return case.k % BLOCK == 0

    def build_jobs(self, case: QuantizeCase) -> list[tuple[str, tuple[str, ...]]]:
        arm = ARMS["wave" if case.arm == "auto" else case.arm]
        some = torch.zeros(min(case.rows, 2), BLOCK, dtype=DTYPES[case.x])  # K is a multiple: aligned alike
        return [(SOURCE, arm.flags(lay_out(some, case.layout)))]

    def run(self, case: QuantizeCase, board: Board, **options: object) -> Ran:
        x, wanted = _inputs(replace(case, arm=""))
        checked = case.family != "non_finite"  # the wrapper refuses those
        done = quantize_q8k(
            placed(x, board.torch_device), arm=case.arm, board=board, checked=checked, **options
        )
        why = first_difference(done.out.cpu(), wanted)
        return Ran(done.arm, [done.dispatch], Compared(wanted.numel(), wanted.numel(), 0.0, why))


@lru_cache(maxsize=1)
def _inputs(case: QuantizeCase) -> tuple[torch.Tensor, torch.Tensor]:
    """x and its blocks, kept for the next case, which mostly differs in its arm."""
    x = case.tensor()
    return x, reference(x)


def first_difference(out: torch.Tensor, wanted: torch.Tensor) -> str:
    """ "" when equal, else the first byte that differs and the field it belongs to."""
    if out.shape != wanted.shape or out.dtype != wanted.dtype:
        return f"the result is {tuple(out.shape)} {out.dtype}, the oracle's {tuple(wanted.shape)}"
    differ = (out != wanted).nonzero()
    if not len(differ):
        return ""
    row, block, byte = (int(i) for i in differ[0])
    field = "d" if byte < 4 else f"qs[{byte - 4}]" if byte < 260 else f"bsums[{(byte - 260) // 2}]"
    return (
        f"row {row} block {block} {field}: byte {byte} of {BLOCK_BYTES} is {int(out[row, block, byte])}, "
        f"must be {int(wanted[row, block, byte])}; {len(differ)} of {wanted.numel()} bytes differ"
    )
