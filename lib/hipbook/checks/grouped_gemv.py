"""Checks of the grouped K-quant GEMV: quantize on the board, multiply, hold to the oracle's bound.

The factors are arm, weight format, dtype of activations and result, shape (N, K) and rows of activations.
  test_cases  every arm, format and dtype on narrow matrices of each K, activations a row each or one for all,
              and on the reported shapes, in turn
  full_cases  the whole product, the reported shapes with it
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import ClassVar

import numpy as np
import torch

from hipbook.boards.base import Board
from hipbook.checks.arm_checks import ArmCase, ArmChecks, Ran
from hipbook.ops.grouped_gemv import ARMS, FORMATS, SOURCE, grouped_gemv
from hipbook.ops.placement import placed
from hipbook.ops.quantize_q8k import ARMS as QUANTIZER_ARMS
from hipbook.ops.quantize_q8k import BLOCK
from hipbook.ops.quantize_q8k import SOURCE as QUANTIZER
from hipbook.oracle.grouped_gemv import make_weights, reference
from hipbook.oracle.quantize_q8k import make
from hipbook.oracle.quantize_q8k import reference as quantized
from hipbook.oracle.within import all_of, same_bits, within

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
EXPERTS = 8
NARROW = ((10, 2048), (12, 512), (7, 768), (5, 256))
REPORTED = ((512, 2048), (2048, 512), (768, 4096))
ACTS = ("each", "one")  # Pa = P, or 1


@dataclass(frozen=True)
class GemvCase(ArmCase):
    """One arm on one product: each of 8 experts once, in another order than theirs."""

    operation: ClassVar[str] = "grouped_gemv"
    family: str = "each"  # of ACTS
    weight_format: str = "Q4_K"
    dtype: str = "f32"
    n: int = 10
    k: int = 2048

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


class GemvChecks(ArmChecks):
    """The operation as the check engine sees it."""

    case = GemvCase
    arms = (*ARMS, "auto")
    known: ClassVar = {"family": ACTS, "weight_format": FORMATS, "dtype": DTYPES}

    def test_cases(self) -> list[GemvCase]:
        rows = product(ARMS, ACTS, FORMATS, DTYPES, NARROW)
        cases = [GemvCase(arm, act, form, dtype, n, k) for arm, act, form, dtype, (n, k) in rows]
        return cases + self.reported() + [GemvCase("auto", act) for act in ACTS]

    def reported(self) -> list[GemvCase]:
        """Every reported shape for every arm, format and dtype, activations a row each and one for all in
        turn."""
        rows = enumerate(product(ARMS, FORMATS, DTYPES, REPORTED))
        return [
            GemvCase(arm, ACTS[i % 2], form, dtype, n, k) for i, (arm, form, dtype, (n, k)) in rows
        ]  # fmt: skip

    def full_cases(self) -> list[GemvCase]:
        rows = product(ARMS, ACTS, FORMATS, DTYPES, NARROW + REPORTED)
        return [GemvCase(arm, act, form, dtype, n, k) for arm, act, form, dtype, (n, k) in rows]

    def allows(self, case: GemvCase) -> bool:
        return case.k % BLOCK == 0

    def build_jobs(self, case: GemvCase) -> list[tuple[str, tuple[str, ...]]]:
        arm = ARMS["spread" if case.arm == "auto" else case.arm]
        some = torch.zeros(1, BLOCK, dtype=DTYPES[case.dtype])
        return [
            (QUANTIZER, QUANTIZER_ARMS["wave"].flags(some)),
            (SOURCE, arm.flags(case.weight_format, DTYPES[case.dtype])),
        ]

    def run(self, case: GemvCase, board: Board, **options: object) -> Ran:
        tensors, blocks, value, bound = _inputs(replace(case, arm=""))
        act, weights, ids = (placed(tensor, board.torch_device) for tensor in tensors)
        asked = {"weight_format": case.weight_format, "arm": case.arm, "out_dtype": DTYPES[case.dtype]}
        done = grouped_gemv(act, weights, ids, **asked, board=board, **options)
        parts = [same_bits("act_q8k", done.act_q8k, blocks), within("out", done.out, value, bound)]
        return Ran(done.arm, [done.quantized, done.dispatch], all_of(parts))


@lru_cache(maxsize=1)
def _inputs(case: GemvCase) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, np.ndarray, np.ndarray]:
    """(act, weights, ids), the oracle's blocks, values and bounds; kept for the next case, which mostly
    differs in its arm."""
    tensors = case.tensors()
    blocks = quantized(tensors[0])
    return tensors, blocks, *reference(blocks, *tensors[1:], case.weight_format, DTYPES[case.dtype])
