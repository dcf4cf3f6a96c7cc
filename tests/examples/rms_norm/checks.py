"""Checks of RMSNorm: widths around a wave's, rows apart, both dtypes."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from examples.rms_norm.op import ARMS, DTYPES, SOURCE, flags, rms_norm
from examples.rms_norm.oracle import FAMILIES, make, reference

from hipbook.boards.base import Board
from hipbook.checks.arm_checks import ArmCase, ArmChecks, Ran
from hipbook.ops.placement import placed
from hipbook.oracle.within import within


@dataclass(frozen=True)
class RmsNormCase(ArmCase):
    operation: ClassVar[str] = "rms_norm"
    dtype: str = "f32"
    width: int = 256
    rows: int = 1


class RmsNormChecks(ArmChecks):
    case, arms = RmsNormCase, (*ARMS, "auto")
    known: ClassVar = {"family": FAMILIES, "dtype": DTYPES}

    def test_cases(self) -> list[RmsNormCase]:
        return [RmsNormCase(*row) for row in product(self.arms, FAMILIES, DTYPES, (1, 31, 33, 1000), (1, 3))]

    def build_jobs(self, case: RmsNormCase) -> list[tuple[str, tuple[str, ...]]]:
        return [(SOURCE, flags(DTYPES[case.dtype]))]

    def run(self, case: RmsNormCase, board: Board, **options: object) -> Ran:
        x, weight = make(case.family, case.seed, case.rows, case.width, DTYPES[case.dtype])
        there = (placed(tensor, board.torch_device) for tensor in (x, weight))
        done = rms_norm(*there, arm=case.arm, board=board, **options)
        return Ran(done.arm, [done.dispatch], within("y", done.results["y"], *reference(x, weight, 1e-6)))
