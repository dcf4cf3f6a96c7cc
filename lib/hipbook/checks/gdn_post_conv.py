"""Checks of GDN post-conv: every arm within the oracle's bounds, v to the bit.

The factors are arm, dtype, sizes, tokens, layout and family of inputs.
  test_cases  every size at one and a few tokens, every family in every layout, and every family at one token
              of the model and at 4096 of a small one, for every arm and dtype
  full_cases  the whole product, and the 4096 tokens
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import ClassVar

import torch

from hipbook.boards.base import Board
from hipbook.checks.arm_checks import ArmCase, ArmChecks, Ran
from hipbook.ops.gdn_post_conv import (
    ARMS,
    DTYPES,
    SOURCE,
    PostConvCall,
    PostConvOutputs,
    output_shapes,
    run_call,
    vector_elements,
)
from hipbook.ops.placement import placed
from hipbook.oracle.gdn_post_conv import FAMILIES, LAYOUTS, PostConvReference, compare, make, reference

SIZES = {  # Hk, Dk, Hv, Dv
    "model": (16, 128, 32, 128),  # the reported family's
    "uneven": (2, 64, 4, 96),
    "small": (3, 20, 5, 12),
    "primes": (2, 37, 3, 7),
}
LAYOUT_OF = {"model": "strided", "uneven": "contiguous", "small": "strided", "primes": "odd"}
TOKENS = (1, 3)
MANY = 4096
GATE_TOKENS = 16  # every x of the gates family for every head


@dataclass(frozen=True)
class PostConvCase(ArmCase):
    """One arm on one call."""

    operation: ClassVar[str] = "gdn_post_conv"
    dtype: str = "bf16"
    size: str = "uneven"
    tokens: int = 1
    layout: str = "contiguous"

    def call(self) -> PostConvCall:
        sizes = {"tokens": self.tokens, "heads": SIZES[self.size], "dtype": DTYPES[self.dtype]}
        return make(self.family, self.seed, **sizes, layout=self.layout)


class PostConvChecks(ArmChecks):
    """The operation as the check engine sees it."""

    case = PostConvCase
    arms = (*ARMS, "auto")
    known: ClassVar = {"family": FAMILIES, "dtype": DTYPES, "size": SIZES, "layout": LAYOUTS}

    def test_cases(self) -> list[PostConvCase]:
        cases = [
            PostConvCase(arm, "random", dtype, size, tokens, LAYOUT_OF[size])
            for arm, dtype, size, tokens in product(ARMS, DTYPES, SIZES, TOKENS)
        ]
        cases += [
            PostConvCase(arm, family, dtype, "uneven", GATE_TOKENS, layout)
            for arm, family, dtype, layout in product(ARMS, FAMILIES, DTYPES, LAYOUTS)
        ]
        cases += [  # 32 heads: every x of the gates family in one token
            PostConvCase(arm, family, dtype, "model", 1, LAYOUT_OF["model"])
            for arm, family, dtype in product(ARMS, FAMILIES[1:], DTYPES)
        ]
        return cases + self.many_tokens() + [PostConvCase("auto", family) for family in FAMILIES]

    def many_tokens(self) -> list[PostConvCase]:
        return [
            PostConvCase(arm, family, dtype, "small", MANY, LAYOUT_OF["small"])
            for arm, family, dtype in product(ARMS, FAMILIES, DTYPES)
        ]

    def full_cases(self) -> list[PostConvCase]:
        whole = product(ARMS, FAMILIES, DTYPES, SIZES, (1, 3, GATE_TOKENS), LAYOUTS)
        return [PostConvCase(*row) for row in whole] + self.many_tokens()

    def build_jobs(self, case: PostConvCase) -> list[tuple[str, tuple[str, ...]]]:
        call = replace(case, tokens=min(case.tokens, 2)).call()  # strides show from two rows on
        shapes = output_shapes(call).items()
        outputs = PostConvOutputs(
            **{name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes}
        )
        arm = ARMS["wave" if case.arm == "auto" else case.arm]
        return [(SOURCE, arm.flags(call, vector_elements(call, outputs)))]

    def run(self, case: PostConvCase, board: Board, **options: object) -> Ran:
        call, wanted = _inputs(replace(case, arm=""))
        done = run_call(placed(call, board.torch_device), arm=case.arm, board=board, **options)
        return Ran(done.arm, [done.dispatch], compare(done.outputs, wanted))


@lru_cache(maxsize=1)
def _inputs(case: PostConvCase) -> tuple[PostConvCall, PostConvReference]:
    """A case's call and reference, kept for the next case, which mostly differs in its arm."""
    call = case.call()
    return call, reference(call)
