"""GDN post-conv under the check engine, for real; and that the engine sees a wrong value."""

from dataclasses import replace

import pytest

from hipbook import boards
from hipbook.checks.built_once import BuiltOnce
from hipbook.checks.case import Status
from hipbook.checks.gdn_post_conv import SIZES, PostConvCase, PostConvChecks
from hipbook.ops.gdn_post_conv import ARMS, DTYPES
from hipbook.oracle.gdn_post_conv import FAMILIES, LAYOUTS

CHECKS = PostConvChecks()
CASES = CHECKS.test_cases()


def _inputs_first(case):
    """As the engine runs them: cases with the same inputs one after another."""
    return repr(case.inputs_key), case.id


@pytest.fixture(scope="module")
def results():
    board = BuiltOnce(boards.get(boards.DEFAULT))
    return {case: CHECKS.evaluate(case, board, threads=1) for case in sorted(CASES, key=_inputs_first)}


def test_every_arm_is_within_the_bounds(results, capsys):
    for case, result in results.items():
        assert result.status is Status.CORRECT, (case.id, result.reason)
        hk, dk, hv, dv = SIZES[case.size]
        assert result.values_compared == case.tokens * (2 * hk * dk + hv * dv + 2 * hv)
        assert result.exact_compared >= case.tokens * hv * dv
        assert case.arm == "auto" or result.arms_run == (case.arm,)
    worst = {arm: max(r.max_error_over_bound for r in results.values() if r.arm == arm) for arm in ARMS}
    with capsys.disabled():
        print(f"\nGDN post-conv, worst error over bound: {worst}")
    assert all(0.2 < value <= 1 for value in worst.values())


def test_the_test_level_holds_what_it_promises():
    for arm in ARMS:
        mine = [case for case in CASES if case.arm == arm]
        assert {(c.dtype, c.size, c.tokens) for c in mine} >= {
            (d, s, t) for d in DTYPES for s in SIZES for t in (1, 3)
        }
        assert {(c.family, c.dtype, c.layout) for c in mine} >= {
            (f, d, layout) for f in FAMILIES for d in DTYPES for layout in LAYOUTS
        }
        for size, tokens in (("model", 1), ("small", 4096)):
            assert {(c.family, c.dtype) for c in mine if (c.size, c.tokens) == (size, tokens)} == {
                (f, d) for f in FAMILIES for d in DTYPES
            }
    assert any(dk != dv for _, dk, _, dv in SIZES.values())
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta"])
def test_one_wrong_value_is_incorrect_and_named(name, monkeypatch):
    from hipbook.checks import gdn_post_conv as module

    run = module.run_call

    def spoiled(call, **options):
        result = run(call, **options)
        getattr(result.outputs, name).view(-1)[-1] *= 1.02
        return replace(result)

    monkeypatch.setattr(module, "run_call", spoiled)
    result = CHECKS.evaluate(PostConvCase("wave", "random", tokens=3), boards.get(boards.DEFAULT))
    assert (result.status, result.ok) == (Status.INCORRECT, False)
    assert result.reason.startswith(f"{name}[2, ")
