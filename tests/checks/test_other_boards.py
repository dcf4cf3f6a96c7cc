"""Every arm of every operation on the emulated boards of other architectures, against its oracle. All cases:
`hipbook check --board gfx1100-emu`."""

import pytest
from recording_board import one_case_an_arm

from hipbook import boards, checks
from hipbook.checks.case import Status
from hipbook.checks.runner import OPERATIONS
from hipbook.ops.attention_arms import ARMS


@pytest.mark.parametrize("board", ["gfx1100-emu"])
def test_every_arm_is_correct_on_rdna3(board):
    cases = one_case_an_arm()
    results = checks.run_checks(cases, boards.get(board), workers=0)
    wrong = [
        (r.case_id, r.reason) for r in results if r.status is not Status.CORRECT or not r.values_compared
    ]
    assert wrong == []
    assert {r.case_id.split("/")[0] for r in results} == set(OPERATIONS)
    assert {case.arm for case in cases} >= set(ARMS)
