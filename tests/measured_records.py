"""Records with measuring sessions, made of simulated runs: what several tests of the measuring part need."""

from hipbook.measure.calibration import World
from hipbook.measure.session import Plan, judge_session
from hipbook.measure.simulated import simulated_session
from hipbook.records.recheck import verdict_of
from hipbook.records.schema import CodeObjectIdentity, Environment, Fact, Record, Status, Times

QUIET = World("quiet", between=0.003, within=0.002)
BINARY = "ab" * 32
GPU = {"name": "card-1", "kind": "gpu", "arch": "gfx1200"}


def a_session(ratio=1.1, board=GPU, world=QUIET, **changes):
    """A session of `decode` against `online`, truly `ratio` times faster, as if on a GPU."""
    plan = Plan(
        hypothesis="decode beats online",
        base="online",
        new="decode",
        **{"case": "1x1024", "metric": "time of one launch", "unit": "us", **changes},
    )
    made = simulated_session(plan, world, ratio=ratio)
    return made.model_copy(update={"board_start": dict(board), "board_end": dict(board)})


def a_record(*sessions, **changes):
    """A PASSED record of the sessions with their verdicts, or of an emulated board without any."""
    verdicts = [verdict_of(session, judge_session(session)) for session in sessions]
    fields = {
        "made_by": "10_gap",
        "question": "Is it faster?",
        "status": Status.PASSED,
        "parameters": {},
        "board": dict(sessions[0].board_start) if sessions else {"name": "gfx1200-emu", "kind": "emulated"},
        "toolchain": "clang",
        "code_objects": [
            CodeObjectIdentity(arch="gfx1200", sha256=BINARY, source_sha256=None, flags=[], compiler="clang")
        ],
        "witnesses": [],
        "facts": [Fact(subject="decode", quantity="barriers", value=3, unit="barriers", kind="exact")],
        "verdicts": verdicts,
        "not_claimed": ["anything"],
        "sessions": list(sessions),
        "environment": Environment(
            hipbook="0",
            commit=None,
            dirty=None,
            python="3",
            platform="x",
            processor="x",
            cores=1,
            packages={},
            variables={},
        ),
        "times": Times(started="a", finished="b", wall_s=1.0),
    }
    return Record(**{**fields, **changes})
