"""Checks of paged attention: which cases there are, and how one is held to the oracle.

The factors are arm, the three dtypes, head size, GQA ratio, kind of rows and family of inputs. Three
sets of cases:
  test_cases  the pairwise covering design over the factors; every family for every arm (and for
              `auto`) at bf16; each head size of family 8; each ratio of family 10
  full_cases  the whole product of the main arms, and every ratio of family 10
The rungs of the ladder stay out of the product: every family at bf16, and a covering design of their own
over dtypes, head sizes and kinds of rows, both among the test cases.
Refusals are part of the contract and limited to it: a misaligned call (family 14), a head size
outside the arm's set (family 8). What an arm refuses is kept out of the covering design, where it
would cover pairs with nothing, and stands beside it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan

import torch

from hipbook.boards.base import Board
from hipbook.checks.case import CheckResult, Status
from hipbook.checks.pairwise import Design, Row, allowed_product, pairwise
from hipbook.errors import BadArgument, HipbookError, Refused
from hipbook.ops import tiled_ref
from hipbook.ops.attention_arms import ARMS, DECODE_HEAD_DIMS
from hipbook.ops.attention_call import DTYPES, AttentionCall
from hipbook.ops.attention_dispatch import choose_arm
from hipbook.ops.attention_ladder import ALL_ARMS, RUNGS
from hipbook.ops.paged_attention import refusal_of, run_call
from hipbook.ops.placement import placed
from hipbook.oracle.drafts import Shape
from hipbook.oracle.families import HEAD_DIMS_8, RATIOS_10
from hipbook.oracle.paged_attention import FAMILIES, Reference, compare, coverage, make, reference

FACTORS: dict[str, tuple] = {
    "arm": tuple(ARMS),
    "q": tuple(DTYPES),
    "kv": tuple(DTYPES),
    "out": tuple(DTYPES),
    "head_dim": (64, 128, 256, 512, *(d for d in HEAD_DIMS_8 if d != 64)),
    # one; the fused pair; a power of two; not one; the most, in slices from D = 256 on
    "ratio": (1, 2, 4, 6, 16),
    "row_kind": ("decode", "chunked", "prefill"),
    "family": tuple(FAMILIES),
}
RUNG_FACTORS: dict[str, tuple] = {
    **{name: FACTORS[name] for name in ("q", "kv", "out", "row_kind")},
    "arm": tuple(RUNGS),
    "head_dim": (64, 96, 128, 256, 512),
}
ALLOWED_REFUSALS = {"alignment": "misaligned", "head_dim": "head_dims"}  # kind: its family
# tiled_ref serves requests of one token only, blocks of 16 and more, one dtype of q and K: wherever they come
TILED_REFUSALS = {"rows", "block_size", "dtype"}
TILED_FAMILIES = tuple(
    family for family in FAMILIES if family != "mixed_batch"
)  # all its batches have longer ones
ODD_HEAD_DIMS = (1, 37, 500)  # `online` serves any; no list names these


@dataclass(frozen=True)
class AttentionCase:
    """One arm on one family of inputs. Dtypes by their short names."""

    arm: str
    family: str
    q: str = "bf16"
    kv: str = "bf16"
    out: str = "bf16"
    head_dim: int = 128
    ratio: int = 2
    row_kind: str = "decode"
    seed: int = 0
    operation: str = "paged_attention"

    @property
    def id(self) -> str:
        dtypes = f"{self.q}-{self.kv}-{self.out}"
        tail = f"d{self.head_dim}/r{self.ratio}/{self.row_kind}/s{self.seed}"
        return f"{self.operation}/{self.arm}/{self.family}/{dtypes}/{tail}"

    @property
    def inputs_key(self) -> tuple:
        # only the ties of family 12 depend on the output's dtype
        out = self.out if self.family == "rounding_extremes" else ""
        return (self.head_dim, self.q, self.kv, self.ratio, self.row_kind, self.family, self.seed, out)

    @property
    def num_kv_heads(self) -> int:
        # two, so that a wrong head shows; one is enough at ratio 16, but for the family about ratios
        return 1 if self.ratio == 16 and self.family != "gqa_contexts" else 2

    def with_seed(self, seed: int) -> "AttentionCase":
        return replace(self, seed=seed)

    def calls(self) -> list[AttentionCall]:
        return make(
            self.family,
            self.seed,
            q_dtype=DTYPES[self.q],
            kv_dtype=DTYPES[self.kv],
            out_dtype=DTYPES[self.out],
            head_dim=self.head_dim,
            num_q_heads=self.num_kv_heads * self.ratio,
            num_kv_heads=self.num_kv_heads,
            row_kind=self.row_kind,
        )


def serves(row: Row) -> bool:
    """Whether the arm computes anything of the case: it is not the one the contract lets it refuse."""
    arm = ARMS[row["arm"]]
    return arm.serves_head_dim(row["head_dim"]) and not (arm.vectors and row["family"] == "misaligned")


def sensible(row: Row) -> bool:
    """Family 8 is about its own head sizes, every other family about those all arms serve."""
    if row["family"] == "head_dims":
        return row["head_dim"] in HEAD_DIMS_8
    return row["head_dim"] in DECODE_HEAD_DIMS


def of_the_arm(row: Row) -> bool:
    """The head sizes an arm must refuse are family 8's; elsewhere it is held to those it is made for."""
    return row["family"] == "head_dims" or ARMS[row["arm"]].serves_head_dim(row["head_dim"])


def tiled_cases() -> list[AttentionCase]:
    """tiled_ref on every family it serves at bf16, in other dtypes, and at head sizes no power of two."""
    cases = [AttentionCase(tiled_ref.NAME, family) for family in TILED_FAMILIES]
    cases += [
        AttentionCase(tiled_ref.NAME, "few_keys", dtype, dtype, out)
        for dtype, out in (("f16", "f32"), ("f32", "bf16"))
    ]
    cases += [AttentionCase(tiled_ref.NAME, "head_dims", head_dim=d) for d in (32, 96)]
    return [*cases, AttentionCase(tiled_ref.NAME, "gqa_contexts", ratio=6, head_dim=256)]


class PagedAttentionChecks:
    """The operation as the check engine sees it."""

    name = "paged_attention"
    arms = (*ALL_ARMS, tiled_ref.NAME, "auto")

    def design(self, seed: int = 0) -> Design:
        return pairwise(FACTORS, (sensible, serves), seed)

    def test_cases(self) -> list[AttentionCase]:
        cases = [AttentionCase(**row) for row in self.design().rows]
        cases += [
            AttentionCase(arm, family) for family in FAMILIES for arm in self.arms if arm != tiled_ref.NAME
        ]
        cases += tiled_cases()
        for row in pairwise(RUNG_FACTORS).rows:
            cases.append(
                AttentionCase(family="strides" if row["head_dim"] in DECODE_HEAD_DIMS else "head_dims", **row)
            )
        for arm in ARMS:
            cases += [AttentionCase(arm, "head_dims", head_dim=d) for d in HEAD_DIMS_8]
            cases += [AttentionCase(arm, "gqa_contexts", ratio=ratio) for ratio in RATIOS_10]
        # slices of a group that are not equally long
        cases += [AttentionCase(arm, "few_keys", head_dim=512, ratio=5) for arm in ("decode_gqa", "split_kv")]
        cases += [AttentionCase("online", "head_dims", head_dim=d) for d in ODD_HEAD_DIMS]
        return list(dict.fromkeys(cases))

    def full_cases(self) -> list[AttentionCase]:
        """Every sensible combination, what an arm must refuse included; and each ratio of family 10."""
        cases = [AttentionCase(**row) for row in allowed_product(FACTORS, (sensible, of_the_arm))]
        cases += [
            AttentionCase(arm, "gqa_contexts", t, t, t, head_dim, ratio, row_kind)
            for t in ("bf16", "f32")
            for head_dim in DECODE_HEAD_DIMS
            for ratio in RATIOS_10
            for row_kind in FACTORS["row_kind"]
            for arm in ARMS
            if ARMS[arm].serves_head_dim(head_dim)
        ]
        return list(dict.fromkeys(cases))

    def parse(self, case_id: str) -> AttentionCase:
        try:
            operation, arm, family, dtypes, d, ratio, row_kind, seed = case_id.split("/")
            q, kv, out = dtypes.split("-")
            case = AttentionCase(
                arm, family, q, kv, out, int(d[1:]), int(ratio[1:]), row_kind, int(seed[1:]), operation
            )
        except ValueError:
            case = None
        if case is None or case.id != case_id or not self._known(case):
            raise BadArgument(
                "case",
                case_id,
                "no check has this id",
                fix=f"one looks like {AttentionCase('online', 'windows').id}",
            )
        return case

    def _known(self, case: AttentionCase) -> bool:
        names = case.operation == self.name and case.arm in self.arms and case.family in FAMILIES
        return names and {case.q, case.kv, case.out} <= set(DTYPES) and case.row_kind in FACTORS["row_kind"]

    def coverage(self, cases: Sequence[AttentionCase]) -> dict[str, list[object]]:
        distinct = {(case.inputs_key, case.out): case for case in cases}
        seen: dict[str, set] = {}
        for case in distinct.values():  # one case's calls at a time: some hold pools of gigabytes
            for name, values in coverage(case.calls()).items():
                seen.setdefault(name, set()).update(values)
        return {name: sorted(values, key=lambda v: (str(type(v)), v)) for name, values in seen.items()}

    def build_jobs(self, case: AttentionCase) -> list[tuple[str, tuple[str, ...]]]:
        shape = self._shape_of(case)
        if case.arm == tiled_ref.NAME:
            return []  # triton compiles it for the arguments of a launch
        if case.arm == "auto":
            arms = {choose_arm(shape)[0], "online"}
        else:
            arms = {case.arm} if ALL_ARMS[case.arm].supports(shape, 32) is None else set()
        return [(ALL_ARMS[arm].source, ALL_ARMS[arm].flags(shape)) for arm in sorted(arms)]

    def _shape_of(self, case: AttentionCase) -> AttentionCall:
        """A call without tokens or blocks that has the case's dtypes and extents."""
        heads, d = case.num_kv_heads, case.head_dim
        cache = torch.empty(0, Shape.block_size, heads, d, dtype=DTYPES[case.kv])
        q = torch.empty(0, heads * case.ratio, d, dtype=DTYPES[case.q])
        none = torch.empty(0, dtype=torch.int32)
        return AttentionCall(q, cache, cache, none[None], none, none, 1.0, out_dtype=DTYPES[case.out])

    def evaluate(self, case: AttentionCase, board: Board, **options: object) -> CheckResult:
        start = time.perf_counter()
        tally = _Tally(case)
        try:
            for call, expected in _inputs(case):
                tally.launch(call, expected, board, options)
        except Exception as error:  # a check reports whatever happens
            tally.fail(Status.FAULT, f"{type(error).__name__}: {error}")
        return tally.result(time.perf_counter() - start)


_last: tuple[tuple, list[tuple[AttentionCall, Reference]]] = ((), [])


def _inputs(case: AttentionCase) -> Iterator[tuple[AttentionCall, Reference]]:
    """Calls and references; kept for the next case, which mostly differs in arm or output dtype."""
    global _last
    if _last[0] != case.inputs_key:
        _last = ((), [])  # free the old ones first
        _last = (case.inputs_key, [(call, reference(call)) for call in case.calls()])
    out = DTYPES[case.out]
    for call, expected in _last[1]:
        given = None if call.out is None else torch.zeros_like(call.out, dtype=out)
        if given is not None:
            given = _as_far_off(given, call.out)
        yield replace(call, out_dtype=out, out=given), expected.for_dtype(out)


def _as_far_off(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The same zeros, as many elements past an aligned address as `like` is."""
    start = like.storage_offset()
    return torch.zeros(start + tensor.numel(), dtype=tensor.dtype)[start:].view(tensor.shape)


class _Tally:
    """Adds up the launches of one case."""

    def __init__(self, case: AttentionCase) -> None:
        self.case = case
        self.bad: tuple[Status, str] | None = None
        self.launches = self.values = self.exact = 0
        self.nmse = self.row_nmse = self.over = 0.0
        self.refused: dict[str, int] = {}
        self.first_refusal = ""
        self.arms: dict[str, None] = {}
        self.objects: dict[str, None] = {}
        self.source = ""

    def fail(self, status: Status, why: str) -> None:
        self.bad = self.bad or (status, why)

    def launch(self, call: AttentionCall, expected: Reference, board: Board, options: dict) -> None:
        call = placed(call, board.torch_device)
        try:
            result = run_call(call, arm=self.case.arm, board=board, **options)
        except Refused as refused:
            return self._refusal(call, board, refused)
        except HipbookError as error:
            return self.fail(Status.FAULT, f"launch {self.launches}: {error}")
        self.launches += 1
        if result.dispatch is not None:
            self.arms[result.arm] = None
            self.objects[result.dispatch.code_object.sha256] = None
            self.source = result.dispatch.code_object.source_sha256 or ""
        values = int(call.query_start_loc[-1]) * call.num_q_heads * call.head_dim
        if not values:
            return None  # nothing but padding: the wrapper has seen that no row was written
        if self.case.arm == tiled_ref.NAME:
            expected = expected.for_rounded_weights(call.v_cache.dtype)
        seen = compare(result.out.cpu(), expected, padding_poisoned=call.out is None)
        self.values += seen.values_compared
        self.exact += seen.exact_compared
        self.nmse = _worst(self.nmse, seen.nmse)
        self.row_nmse = _worst(self.row_nmse, seen.worst_row_nmse)
        self.over = _worst(self.over, seen.max_error_over_bound)
        if not seen.passed:
            self.fail(Status.INCORRECT, f"launch {self.launches - 1}: {seen.why}")
        elif seen.values_compared != values:
            self.fail(Status.INCORRECT, f"compared {seen.values_compared} values of {values}")
        return None

    def _refusal(self, call: AttentionCall, board: Board, refused: Refused) -> None:
        auto = self.case.arm == "auto"
        reason = None if auto else refusal_of(self.case.arm, call, board.wave_size)
        kind = reason.kind if reason is not None else "unexplained"
        self.refused[kind] = self.refused.get(kind, 0) + 1
        self.first_refusal = self.first_refusal or refused.what
        if call.out is not None and bool(call.out.any()):
            self.fail(Status.FAULT, "a refused call wrote its output")

    def _allowed(self, kind: str) -> bool:
        if self.case.arm == tiled_ref.NAME and kind in TILED_REFUSALS:
            return True
        return ALLOWED_REFUSALS.get(kind) == self.case.family

    def result(self, seconds: float) -> CheckResult:
        not_allowed = [k for k in self.refused if not self._allowed(k)]
        status, reason, ok = Status.CORRECT, "", True
        if self.bad:
            status, reason, ok = *self.bad, False
        elif not_allowed or (self.refused and not self.values):
            status, reason, ok = Status.REFUSED, self.first_refusal, not not_allowed
        elif not self.values:
            status, reason, ok = Status.INCORRECT, "nothing was compared", False
        return CheckResult(
            self.case.id,
            self.case.operation,
            self.case.arm,
            status,
            ok,
            reason,
            launches=self.launches,
            values_compared=self.values,
            exact_compared=self.exact,
            nmse=self.nmse,
            worst_row_nmse=self.row_nmse,
            max_error_over_bound=self.over,
            refused=self.refused,
            arms_run=tuple(self.arms),
            code_objects=tuple(self.objects),
            source_sha256=self.source,
            seconds=seconds,
        )


def _worst(a: float, b: float) -> float:
    return b if isnan(b) or b > a else a
