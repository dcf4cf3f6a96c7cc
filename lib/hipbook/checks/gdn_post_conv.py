"""Checks of GDN post-conv: every arm within the oracle's bounds, v to the bit.

The factors are arm, dtype, sizes, tokens, layout and family of inputs.
  test_cases  every size at one and a few tokens, every family in every layout, and 4096 tokens, for every
              arm and dtype
  full_cases  the whole product but for 4096 tokens
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch

from hipbook.boards.base import Board
from hipbook.checks.case import CheckResult, Status
from hipbook.errors import BadArgument
from hipbook.ops.gdn_post_conv import (
    ARMS,
    DTYPES,
    SOURCE,
    PostConvOutputs,
    output_shapes,
    run_call,
    vector_elements,
)
from hipbook.oracle.gdn_post_conv import FAMILIES, LAYOUTS, compare, make, reference

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
class PostConvCase:
    """One arm on one call."""

    arm: str
    family: str
    dtype: str = "bf16"
    size: str = "uneven"
    tokens: int = 1
    layout: str = "contiguous"
    seed: int = 0
    operation: str = "gdn_post_conv"

    @property
    def id(self) -> str:
        tail = f"{self.dtype}/{self.size}/t{self.tokens}/{self.layout}/s{self.seed}"
        return f"{self.operation}/{self.arm}/{self.family}/{tail}"

    @property
    def inputs_key(self) -> tuple:
        return (self.dtype, self.size, self.tokens, self.layout, self.family, self.seed)

    def with_seed(self, seed: int) -> "PostConvCase":
        return replace(self, seed=seed)

    def call(self):
        return make(
            self.family, self.seed, tokens=self.tokens, heads=SIZES[self.size], dtype=DTYPES[self.dtype],
            layout=self.layout,
        )  # fmt: skip


class PostConvChecks:
    """The operation as the check engine sees it."""

    name = "gdn_post_conv"
    arms = (*ARMS, "auto")

    def test_cases(self) -> list[PostConvCase]:
        cases = [
            PostConvCase(arm, "random", dtype, size, tokens, LAYOUT_OF[size])
            for arm, dtype, size, tokens in product(ARMS, DTYPES, SIZES, TOKENS)
        ]
        cases += [
            PostConvCase(arm, family, dtype, "uneven", GATE_TOKENS, layout)
            for arm, family, dtype, layout in product(ARMS, FAMILIES, DTYPES, LAYOUTS)
        ]
        cases += [
            PostConvCase(arm, "random", dtype, "small", MANY, LAYOUT_OF["small"])
            for arm, dtype in product(ARMS, DTYPES)
        ]
        return cases + [PostConvCase("auto", family) for family in FAMILIES]

    def full_cases(self) -> list[PostConvCase]:
        return [
            PostConvCase(*row) for row in product(ARMS, FAMILIES, DTYPES, SIZES, (1, 3, GATE_TOKENS), LAYOUTS)
        ]

    def parse(self, case_id: str) -> PostConvCase:
        try:
            operation, arm, family, dtype, size, tokens, layout, seed = case_id.split("/")
            case = PostConvCase(arm, family, dtype, size, int(tokens[1:]), layout, int(seed[1:]), operation)
        except ValueError:
            case = None
        if case is None or case.id != case_id or not self._known(case):
            example = PostConvCase("serial", "gates").id
            raise BadArgument("case", case_id, "no check has this id", fix=f"one looks like {example}")
        return case

    def _known(self, case: PostConvCase) -> bool:
        names = case.operation == self.name and case.arm in self.arms and case.family in FAMILIES
        sizes = case.size in SIZES and case.tokens > 0 and case.seed >= 0
        return names and sizes and case.dtype in DTYPES and case.layout in LAYOUTS

    def coverage(self, cases: Sequence[PostConvCase]) -> dict[str, list[object]]:
        fields = ("family", "dtype", "size", "tokens", "layout")
        return {field: sorted({getattr(case, field) for case in cases}) for field in fields}

    def build_jobs(self, case: PostConvCase) -> list[tuple[str, tuple[str, ...]]]:
        call = replace(case, tokens=min(case.tokens, 2)).call()  # strides show from two rows on
        shapes = output_shapes(call).items()
        outputs = PostConvOutputs(
            **{name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes}
        )
        arm = ARMS["wave" if case.arm == "auto" else case.arm]
        return [(SOURCE, arm.flags(call, vector_elements(call, outputs)))]

    def evaluate(self, case: PostConvCase, board: Board, **options: object) -> CheckResult:
        start = time.perf_counter()
        status, reason, seen = Status.CORRECT, "", {}
        try:
            call = case.call()
            result = run_call(call, arm=case.arm, board=board, **options)
            compared = compare(result.outputs, reference(call))
            reason = compared.why
            status = Status.INCORRECT if reason else status
            seen = {
                "launches": 1,
                "values_compared": compared.values_compared,
                "exact_compared": compared.exact_compared,
                "max_error_over_bound": compared.max_error_over_bound,
                "arms_run": (result.arm,),
                "code_objects": (result.dispatch.code_object.sha256,),
                "source_sha256": result.dispatch.code_object.source_sha256 or "",
            }
        except Exception as error:  # a check reports whatever happens
            status, reason = Status.FAULT, f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        ok = status is Status.CORRECT
        return CheckResult(case.id, case.operation, case.arm, status, ok, reason, **seen, seconds=seconds)
