"""A measuring session as data: the plan first (R15), the processes (R2), the refusals (R1, T3, T13)."""

import numpy as np
import pytest
from pydantic import ValidationError

from hipbook.errors import BadArgument, Refused
from hipbook.measure.bound import FasterThanBound
from hipbook.measure.calibration import World
from hipbook.measure.comparable import BoardChanged
from hipbook.measure.schedule import implementation
from hipbook.measure.session import Plan, Session, SessionBound, joint_schedule, judge_session, sessions_of
from hipbook.measure.simulated import BOARD, simulated_session
from hipbook.measure.verdict import Word

WORLD = World("quiet", between=0.003, within=0.002)


def plan(**changes):
    fields = {
        "hypothesis": "decode beats online at 1 x 1024",
        "base": "online",
        "new": "decode",
        "case": "1x1024",
        "metric": "time of one launch",
        "unit": "us",
        "prediction": Word.FASTER,
    }
    return Plan(**{**fields, **changes})


def make_runs(fixed, **changes):
    """Runs as a runner would make them, `decode` 1.11 times faster, with fields changed in all of them."""
    runs = simulated_session(fixed, WORLD, ratio=100 / 90).runs
    return [run.model_copy(update=changes) for run in runs]


def session(fixed=None, runs=None, **changes):
    fixed = fixed or plan()
    fields = simulated_session(fixed, WORLD, ratio=100 / 90).model_dump()
    fields["runs"] = [run.model_dump() for run in runs or make_runs(fixed)]
    return Session.model_validate({**fields, **changes})


def edited(runs, place, **changes):
    return [run.model_copy(update=changes) if i == place else run for i, run in enumerate(runs)]


def test_a_whole_session_is_judged_and_survives_json():
    one = session()
    found = judge_session(one)
    assert str(found.verdict) == "FASTER"
    assert found.ratio == pytest.approx(100 / 90, rel=0.01)
    assert found.noise_floor is not None
    assert found.notes == ()
    again = Session.model_validate_json(one.model_dump_json())
    assert judge_session(again) == found


def test_r1_an_incorrect_run_removes_every_time():
    runs = make_runs(plan())
    with pytest.raises(Refused, match=r"run 5 .* was incorrect after timing"):
        judge_session(session(runs=edited(runs, 5, correct_after=False)))
    with pytest.raises(Refused, match="incorrect before timing"):
        judge_session(session(runs=edited(runs, 0, correct_before=False)))


def test_r2_two_runs_of_one_process_are_one_run():
    with pytest.raises(ValidationError, match="share a process"):
        session(runs=make_runs(plan(), process="p"))


def test_t3_an_arm_against_itself_is_refused():
    runs = make_runs(plan(), kernel="paged_attention_online", witness=0x10)
    with pytest.raises(Refused, match="an arm against itself"):
        judge_session(session(runs=runs))


def test_t13_another_card_at_the_end_is_refused():
    with pytest.raises(BoardChanged, match=r"name: 'simulated' against 'another'"):
        judge_session(session(board_end={**BOARD, "name": "another"}))


def test_r15_the_plan_is_fixed_and_later_runs_are_exploratory():
    fixed = plan()
    with pytest.raises(ValidationError, match="it was changed"):
        session(
            fixed.model_copy(update={"minimum_effect": 0.5}), plan_id=fixed.plan_id, runs=make_runs(fixed)
        )
    assert plan(minimum_effect=0.02).plan_id != fixed.plan_id
    short = plan(runs=4)
    longer = make_runs(plan(runs=6))
    found = judge_session(session(short, runs=longer))
    assert str(found.verdict).endswith("(exploratory)")
    marked = judge_session(session(runs=edited(make_runs(fixed), 29, exploratory=True)))
    assert marked.verdict.exploratory


def test_r12_a_moving_control_case_takes_the_verdict():
    fixed = plan(negative_case="D 256")
    still = make_runs(fixed)
    assert str(judge_session(session(fixed, still)).verdict) == "FASTER"
    moved = [
        run.model_copy(update={"samples": [value * 0.9 for value in run.samples]})
        if run.case == "D 256" and run.arm == "decode"
        else run
        for run in still
    ]
    assert str(judge_session(session(fixed, moved)).verdict) == "INCONCLUSIVE(control_moved)"
    with pytest.raises(Refused, match="negative control D 256: 0 and 0 runs"):
        judge_session(session(fixed, make_runs(plan())))


def test_r11_faster_than_the_bound_is_an_error():
    bound = {"value": 60.0, "what": "bytes over bandwidth"}
    assert judge_session(session(bound=bound)).verdict.word is Word.FASTER
    with pytest.raises(FasterThanBound, match=r"decode, 1x1024, us: 89.* times faster than its bound 95"):
        judge_session(session(bound={**bound, "value": 95.0}))


def test_a_then_b_is_inconclusive_whatever_it_shows():
    runs = sorted(make_runs(plan()), key=lambda run: run.arm)
    reordered = [run.model_copy(update={"order": place}) for place, run in enumerate(runs)]
    assert str(judge_session(session(runs=reordered)).verdict) == "INCONCLUSIVE(drift)"


def test_throttling_and_unsettled_runs_are_read_off_the_runs():
    runs = make_runs(plan())
    throttled = [
        run.model_copy(update={"clock_mhz": 1500.0}) if run.order in (4, 13) else run for run in runs
    ]
    assert str(judge_session(session(runs=throttled)).verdict) == "INCONCLUSIVE(throttled)"
    unsampled = judge_session(session(runs=edited(runs, 3, clock_mhz=None)))
    assert any("clocks were not sampled" in note for note in unsampled.notes)
    unsettled = [run.model_copy(update={"settled": run.order > 3}) for run in runs]
    assert str(judge_session(session(runs=unsettled)).verdict) == "INCONCLUSIVE(drift)"


def test_a_second_clock_is_compared():
    runs = [
        run.model_copy(update={"second_samples": [100.0 + 0.01 * run.order]}) for run in make_runs(plan())
    ]
    assert str(judge_session(session(runs=runs)).verdict) == "INCONCLUSIVE(clock_disagrees)"
    same = [run.model_copy(update={"second_samples": run.samples}) for run in make_runs(plan())]
    assert str(judge_session(session(runs=same)).verdict) == "FASTER"


def test_runs_of_different_lengths_are_judged_by_their_medians():
    runs = make_runs(plan())
    assert str(judge_session(session(runs=edited(runs, 0, samples=runs[0].samples[:7]))).verdict) == "FASTER"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"unit": "unknown"}, "no unit"),
        ({"new": "online"}, "A/A control"),
        ({"runs": 5}, "multiple of 2"),
        ({"minimum_effect": 0.0}, "greater than 0"),
        ({"surprise": 1}, "Extra inputs"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changes, says):
    with pytest.raises((ValidationError, Refused), match=says):
        plan(**changes)


def test_several_arms_share_one_session():
    plans = [plan(), plan(new="decode_gqa", hypothesis="decode_gqa beats online")]
    slots = joint_schedule(plans)
    assert len(slots) == 10 * 4
    assert {slot.arm for slot in slots} == {"online", "online (A/A)", "decode", "decode_gqa"}
    level = {"online": 100.0, "online (A/A)": 100.0, "decode": 90.0, "decode_gqa": 120.0}
    one = make_runs(plan())[0]
    rng = np.random.default_rng(0)
    runs = [
        one.model_copy(
            update={
                "order": slot.order,
                "process": f"p{slot.order}",
                "arm": slot.arm,
                "kernel": implementation(slot.arm),
                "samples": (level[slot.arm] * np.exp(0.004 * rng.standard_normal()) * np.ones(20)).tolist(),
            }
        )
        for slot in slots
    ]
    shared = {"resolution": 0.001, "board_start": BOARD, "board_end": BOARD}
    bounds = {"1x1024": SessionBound(value=60.0, what="bytes over bandwidth")}
    sessions = sessions_of(plans, runs, bounds, **shared)
    assert [str(judge_session(each).verdict) for each in sessions] == ["FASTER", "SLOWER"]
    assert {run.arm for run in sessions[1].runs} == {"online", "online (A/A)", "decode_gqa"}
    assert sessions[0].bound.value == 60.0
    with pytest.raises(BadArgument, match="share base, runs and seed"):
        joint_schedule([plan(), plan(new="x", runs=4)])


def test_runs_out_of_order_or_missing_are_refused():
    runs = make_runs(plan())
    with pytest.raises(ValidationError, match="each place once"):
        session(runs=runs[::-1])
    with pytest.raises(Refused, match="no run of decode"):
        judge_session(session(runs=[run for run in runs if run.arm != "decode"]))
