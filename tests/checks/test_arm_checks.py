"""What every operation's checks inherit, shown on each of them, and on one that is made up."""

import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from hipbook import boards
from hipbook.checks import OPERATIONS
from hipbook.checks.arm_checks import ArmCase, ArmChecks, Ran
from hipbook.checks.case import Status
from hipbook.errors import BadArgument
from hipbook.oracle.within import Compared, all_of, same_bits, within

BOARD = boards.get(boards.DEFAULT)
OURS = {name: one for name, one in OPERATIONS.items() if isinstance(one, ArmChecks)}
each = pytest.mark.parametrize("checks", OURS.values(), ids=OURS)


def test_there_are_some():
    assert set(OURS) >= {"quantize_q8k", "gdn_post_conv", "grouped_gemv"}


@each
def test_ids_name_cases(checks):
    cases = [*checks.test_cases(), *checks.full_cases()]
    assert len({case.id for case in checks.test_cases()}) == len(checks.test_cases())
    for case in cases:
        assert checks.parse(case.id) == case
        assert checks.parse(case.with_seed(7).id).seed == 7
    assert pickle.loads(pickle.dumps(cases[0])) == cases[0]


@each
def test_other_ids_are_refused(checks):
    good = checks.test_cases()[0]
    parts = good.id.split("/")
    wrong = ["", "a/b", good.id + "/", good.id + "x", "/".join(parts[:-1]), good.id.replace("s0", "s-1")]
    wrong += ["/".join((*parts[:i], "nonsense", *parts[i + 1 :])) for i in range(len(parts))]
    counts = [name for name in good.factors() if isinstance(getattr(good, name), int)]
    wrong += [replace(good, **{name: 0}).id for name in counts]
    wrong += [replace(good, k=good.k + 1).id] if "k" in counts else []  # not whole blocks
    assert len(counts) > 0
    for bad in wrong:
        with pytest.raises(BadArgument, match="no check has this id") as caught:
            checks.parse(bad)
        assert good.id in caught.value.fix


@each
def test_build_jobs_are_what_runs(checks):
    cases = [case for case in checks.test_cases() if max(map(_count, vars(case).values())) < 10_000]
    assert len(cases) > 50
    for case in cases[:: len(cases) // 7]:
        jobs = checks.build_jobs(case)
        assert checks.evaluate(case, BOARD).code_objects == tuple(BOARD.build(*job).sha256 for job in jobs)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


@each
def test_a_case_that_cannot_run_is_a_fault(checks):
    case = replace(checks.test_cases()[0], family="nothing", arm="no such arm")
    result = checks.evaluate(case, BOARD)
    assert (result.status, result.ok) == (Status.FAULT, False)
    assert result.reason


@each
def test_coverage_is_of_every_factor(checks):
    seen = checks.coverage(checks.test_cases())
    assert set(seen) == {"family", *checks.case.factors()}
    assert all(len(values) > 1 for values in seen.values())


@dataclass(frozen=True)
class MadeUpCase(ArmCase):
    operation: ClassVar[str] = "made_up"
    width: int = 3


class MadeUpChecks(ArmChecks):
    case = MadeUpCase
    arms = ("only",)
    known: ClassVar = {"family": ("plain",)}

    def __init__(self, compared: Compared) -> None:
        self.compared = compared

    def test_cases(self):
        return [MadeUpCase("only", "plain")]

    def run(self, case, board, **options):
        dispatch = OURS["quantize_q8k"].run(OURS["quantize_q8k"].test_cases()[0], board).dispatches[0]
        return Ran("only", [dispatch], self.compared)


@pytest.mark.parametrize(
    ("compared", "status"),
    [
        (Compared(5, 0, 0.5), Status.CORRECT),
        (Compared(5, 0, 1.5, "off"), Status.INCORRECT),
        (Compared(0, 0, 0.0), Status.INCORRECT),
    ],
)
def test_what_was_compared_decides(compared, status):
    checks = MadeUpChecks(compared)
    (case,) = checks.full_cases()
    assert case.id == "made_up/only/plain/w3/s0"
    result = checks.evaluate(case, BOARD)
    assert (result.status, result.ok) == (status, status is Status.CORRECT)
    assert result.reason == (compared.why or ("" if compared.values_compared else "nothing was compared"))


def test_a_value_past_its_bound_is_named():
    wanted, bound = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[0.1, 0.1], [0.1, 0.0]])
    good = within("y", torch.tensor([[1.05, 2.0], [2.95, 0.0]]), wanted, bound)
    assert (good.values_compared, good.exact_compared, good.why) == (4, 1, "")
    assert good.max_error_over_bound == pytest.approx(0.5, rel=1e-5)
    for values, at in (
        ([[1.0, 2.2], [3.0, 0.0]], "y[0, 1]: 2.2"), ([[1.0, 2.0], [3.0, 1e-30]], "y[1, 1]"),
        ([[float("nan"), 2.0], [3.0, 0.0]], "y[0, 0]: nan"), ([[1.0, 2.0]], "y is (1, 2), must be (2, 2)"),
    ):  # fmt: skip
        assert within("y", torch.tensor(values), wanted, bound).why.startswith(at)
    nothing = within("y", torch.zeros(0), np.zeros(0), np.zeros(0))
    assert nothing.why == "y: nothing was compared"


def test_bits_are_not_values():
    zero, nan = torch.tensor([0.0, 1.0]), torch.tensor([float("nan"), 1.0])
    assert same_bits("v", nan, nan.clone()).why == ""
    assert same_bits("v", -zero * torch.tensor([1.0, -1.0]), zero).why.startswith("v[0] differs in its bits")
    assert "must be" in same_bits("v", zero.double(), zero).why
    assert same_bits("v", zero[:0], zero[:0]).why == "v: nothing was compared"


def test_a_sum_of_comparisons_tells_the_first_reason():
    whole = all_of([Compared(3, 1, 0.2), Compared(4, 0, 2.0, "second"), Compared(1, 1, 0.0, "third")])
    assert whole == Compared(8, 2, 2.0, "second")
    assert all_of([]).why == "nothing was compared"
