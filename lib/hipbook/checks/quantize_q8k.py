"""Checks of the Q8_K quantizer: every arm byte for byte against the oracle.

The factors are arm, dtype, K, rows, layout of x and family of inputs.
  test_cases  K by rows for every arm and dtype on random blocks, layouts in turn; every edge, and every
              block that is not finite, for every arm, dtype and layout
  full_cases  the whole product
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch

from hipbook.boards.base import Board
from hipbook.checks.case import CheckResult, Status
from hipbook.errors import BadArgument
from hipbook.ops.quantize_q8k import ARMS, BLOCK_BYTES, DTYPES, SOURCE, quantize_q8k
from hipbook.oracle.quantize_q8k import FAMILIES, make, reference

KS = (256, 512, 2048, 4096, 12288)
ROWS = (1, 2, 3, 4, 5)
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
class QuantizeCase:
    """One arm on one tensor."""

    arm: str
    family: str
    x: str = "bf16"
    k: int = 2048
    rows: int = 1
    layout: str = "contiguous"
    seed: int = 0
    operation: str = "quantize_q8k"

    @property
    def id(self) -> str:
        tail = f"{self.x}/k{self.k}/r{self.rows}/{self.layout}/s{self.seed}"
        return f"{self.operation}/{self.arm}/{self.family}/{tail}"

    @property
    def inputs_key(self) -> tuple:
        return (self.x, self.k, self.rows, self.layout, self.family, self.seed)

    def with_seed(self, seed: int) -> "QuantizeCase":
        return replace(self, seed=seed)

    def tensor(self) -> torch.Tensor:
        x = make(self.family, self.seed, rows=self.rows, k=self.k, dtype=DTYPES[self.x])
        return lay_out(x, self.layout)


class QuantizeChecks:
    """The operation as the check engine sees it."""

    name = "quantize_q8k"
    arms = (*ARMS, "auto")

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
        return cases + [QuantizeCase("auto", family) for family in FAMILIES]

    def full_cases(self) -> list[QuantizeCase]:
        return [QuantizeCase(*row) for row in product(ARMS, FAMILIES, DTYPES, KS, ROWS, LAYOUTS)]

    def parse(self, case_id: str) -> QuantizeCase:
        try:
            operation, arm, family, x, k, rows, layout, seed = case_id.split("/")
            case = QuantizeCase(arm, family, x, int(k[1:]), int(rows[1:]), layout, int(seed[1:]), operation)
        except ValueError:
            case = None
        if case is None or case.id != case_id or not self._known(case):
            example = QuantizeCase("serial", "edges").id
            raise BadArgument("case", case_id, "no check has this id", fix=f"one looks like {example}")
        return case

    def _known(self, case: QuantizeCase) -> bool:
        names = case.operation == self.name and case.arm in self.arms and case.family in FAMILIES
        sizes = case.k > 0 and case.k % 256 == 0 and case.rows > 0 and case.seed >= 0
        return names and sizes and case.x in DTYPES and case.layout in LAYOUTS

    def coverage(self, cases: Sequence[QuantizeCase]) -> dict[str, list[object]]:
        fields = ("family", "x", "k", "rows", "layout")
        return {field: sorted({getattr(case, field) for case in cases}) for field in fields}

    def build_jobs(self, case: QuantizeCase) -> list[tuple[str, tuple[str, ...]]]:
        arm = ARMS["wave" if case.arm == "auto" else case.arm]
        some = torch.zeros(case.rows, 256, dtype=DTYPES[case.x])  # K is a multiple: aligned alike
        return [(SOURCE, arm.flags(lay_out(some, case.layout)))]

    def evaluate(self, case: QuantizeCase, board: Board, **options: object) -> CheckResult:
        start = time.perf_counter()
        status, reason, seen = Status.CORRECT, "", {}
        try:
            x = case.tensor()
            wanted = reference(x)
            x = lay_out(x.to(board.torch_device), case.layout) if board.kind == "gpu" else x
            checked = case.family != "non_finite"  # the wrapper refuses those
            result = quantize_q8k(x, arm=case.arm, board=board, checked=checked, **options)
            seen = {
                "launches": 1,
                "values_compared": wanted.numel(),
                "exact_compared": wanted.numel(),
                "arms_run": (result.arm,),
                "code_objects": (result.dispatch.code_object.sha256,),
                "source_sha256": result.dispatch.code_object.source_sha256 or "",
            }
            reason = first_difference(result.out.cpu(), wanted)
            status = Status.INCORRECT if reason else status
        except Exception as error:  # a check reports whatever happens
            status, reason = Status.FAULT, f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        ok = status is Status.CORRECT
        return CheckResult(case.id, case.operation, case.arm, status, ok, reason, **seen, seconds=seconds)


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
