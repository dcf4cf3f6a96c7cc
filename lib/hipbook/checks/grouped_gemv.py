"""Checks of the grouped K-quant GEMV: quantize on the board, multiply, hold to the oracle's bound.

The factors are arm, weight format, dtype of activations and result, shape (N, K) and rows of activations.
  test_cases  every arm, format and dtype on narrow matrices of each K, activations a row each or one for all
  full_cases  the same on the reported shapes as well
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from hipbook.boards.base import Board
from hipbook.checks.case import CheckResult, Status
from hipbook.errors import BadArgument
from hipbook.ops.grouped_gemv import ARMS, FORMATS, SOURCE, grouped_gemv
from hipbook.oracle.grouped_gemv import make_weights, reference
from hipbook.oracle.quantize_q8k import make
from hipbook.oracle.quantize_q8k import reference as quantized

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
EXPERTS = 8
NARROW = ((10, 2048), (12, 512), (7, 768), (5, 256))
REPORTED = ((512, 2048), (2048, 512), (768, 4096))
ACTS = ("each", "one")  # Pa = P, or 1


@dataclass(frozen=True)
class GemvCase:
    """One arm on one product: each of 8 experts once, in another order than theirs."""

    arm: str
    family: str = "each"  # of ACTS
    weight_format: str = "Q4_K"
    dtype: str = "f32"
    n: int = 10
    k: int = 2048
    seed: int = 0
    operation: str = "grouped_gemv"

    @property
    def id(self) -> str:
        tail = f"{self.weight_format}/{self.dtype}/n{self.n}/k{self.k}/s{self.seed}"
        return f"{self.operation}/{self.arm}/{self.family}/{tail}"

    @property
    def inputs_key(self) -> tuple:
        return (self.weight_format, self.dtype, self.n, self.k, self.family, self.seed)

    def with_seed(self, seed: int) -> "GemvCase":
        return replace(self, seed=seed)

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(act, weights, expert_ids). Weights start 2 bytes past an aligned address where that is allowed."""
        rows = EXPERTS if self.family == "each" else 1
        act = make("random", self.seed, rows=rows, k=self.k, dtype=DTYPES[self.dtype])
        weights = make_weights(self.seed, EXPERTS, self.n, self.k, self.weight_format)
        if self.weight_format == "Q6_K":
            raw = torch.empty(weights.numel() + 2, dtype=torch.uint8)
            weights = raw[2:].view(weights.shape).copy_(weights)
        ids = torch.tensor([(3 * p + 5) % EXPERTS for p in range(EXPERTS)], dtype=torch.int32)
        return act, weights, ids


class GemvChecks:
    """The operation as the check engine sees it."""

    name = "grouped_gemv"
    arms = (*ARMS, "auto")

    def test_cases(self) -> list[GemvCase]:
        rows = product(ARMS, ACTS, FORMATS, DTYPES, NARROW)
        cases = [GemvCase(arm, act, form, dtype, n, k) for arm, act, form, dtype, (n, k) in rows]
        return cases + [GemvCase("auto", act) for act in ACTS]

    def full_cases(self) -> list[GemvCase]:
        rows = product(ARMS, ACTS, FORMATS, DTYPES, NARROW + REPORTED)
        return [GemvCase(arm, act, form, dtype, n, k) for arm, act, form, dtype, (n, k) in rows]

    def parse(self, case_id: str) -> GemvCase:
        try:
            operation, arm, act, form, dtype, n, k, seed = case_id.split("/")
            case = GemvCase(arm, act, form, dtype, int(n[1:]), int(k[1:]), int(seed[1:]), operation)
        except ValueError:
            case = None
        if case is None or case.id != case_id or not self._known(case):
            example = GemvCase("spread").id
            raise BadArgument("case", case_id, "no check has this id", fix=f"one looks like {example}")
        return case

    def _known(self, case: GemvCase) -> bool:
        names = case.operation == self.name and case.arm in self.arms and case.family in ACTS
        sizes = case.n > 0 and case.k > 0 and case.k % 256 == 0 and case.seed >= 0
        return names and sizes and case.weight_format in FORMATS and case.dtype in DTYPES

    def coverage(self, cases: Sequence[GemvCase]) -> dict[str, list[object]]:
        fields = ("family", "weight_format", "dtype", "n", "k")
        return {field: sorted({getattr(case, field) for case in cases}) for field in fields}

    def build_jobs(self, case: GemvCase) -> list[tuple[str, tuple[str, ...]]]:
        arm = ARMS["spread" if case.arm == "auto" else case.arm]
        return [(SOURCE, arm.flags(case.weight_format, DTYPES[case.dtype]))]

    def evaluate(self, case: GemvCase, board: Board, **options: object) -> CheckResult:
        start = time.perf_counter()
        status, reason, seen = Status.CORRECT, "", {}
        try:
            act, weights, ids = case.tensors()
            dtype = DTYPES[case.dtype]
            asked = {"weight_format": case.weight_format, "arm": case.arm, "out_dtype": dtype}
            result = grouped_gemv(act, weights, ids, **asked, board=board, **options)
            blocks = quantized(act)
            value, bound = reference(blocks, weights, ids, case.weight_format, dtype)
            over = np.abs(result.out.cpu().double().numpy() - value) / bound
            over = np.where(np.isnan(over), np.inf, over)
            if not torch.equal(blocks, result.act_q8k.cpu()):
                reason = "the quantized activations differ from the oracle's"
            elif (over > 1).any():
                row, column = (int(i) for i in np.argwhere(over > 1)[0])
                got, wanted = float(result.out[row, column]), value[row, column]
                reason = (
                    f"out[{row}, {column}]: {got:.9g} must be {wanted:.9g}; {int((over > 1).sum())} values"
                )
            status = Status.INCORRECT if reason else status
            seen = {
                "launches": 2,
                "values_compared": value.size,
                "max_error_over_bound": float(over.max()),
                "arms_run": (result.arm,),
                "code_objects": (result.dispatch.code_object.sha256,),
                "source_sha256": result.dispatch.code_object.source_sha256 or "",
            }
        except Exception as error:  # a check reports whatever happens
            status, reason = Status.FAULT, f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        ok = status is Status.CORRECT
        return CheckResult(case.id, case.operation, case.arm, status, ok, reason, **seen, seconds=seconds)
