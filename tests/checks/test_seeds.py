"""Three seeds of a sample of the families, and what the record of many seeds holds."""

import json

from hipbook import boards, checks
from hipbook.checks import seeds
from hipbook.checks.attention import TILED_FAMILIES
from hipbook.oracle.paged_attention import FAMILIES

SAMPLE = ("windows", "few_keys", "rounding_extremes")


def test_every_arm_takes_every_family_it_serves():
    chosen = seeds.cases(2)
    assert len({case.id for case in chosen}) == len(chosen)
    assert {case.seed for case in chosen} == {0, 1}
    pairs = {(case.arm, case.family) for case in chosen}
    wanted = {(arm, family) for arm in seeds.ARMS for family in FAMILIES if arm != "tiled_ref"}
    assert pairs == wanted | {("tiled_ref", family) for family in TILED_FAMILIES}
    assert set(seeds.ARMS) >= {
        "online",
        "online_shuffle",
        "online_wide",
        "online_tile",
        "decode",
        "decode_gqa",
    }


def test_three_seeds_of_a_sample(tmp_path):
    board = boards.get(boards.DEFAULT)
    chosen = [case for case in seeds.cases(3) if case.family in SAMPLE]
    results = checks.run_checks(chosen, board)
    values = seeds.record(results, board, 3)
    assert values["passed"], values["failed"]
    assert values["cases"] == len(chosen) == 3 * len(SAMPLE) * len(seeds.ARMS)
    assert set(values["arms"]) == set(seeds.ARMS)
    for of_arm in values["arms"].values():
        assert of_arm["statuses"] == {"CORRECT": 9}
        assert of_arm["values_compared"] > 30_000
        assert of_arm["worst_error_over_bound"] <= 1
    path = seeds.write(values, tmp_path / "deep" / "seeds.json")
    assert json.loads(path.read_text()) == json.loads(json.dumps(values))


def test_a_failure_is_named():
    board = boards.get(boards.DEFAULT)
    good = checks.run_checks(seeds.cases(1, ["online"])[:2], board)
    bad = checks.CheckResult(
        "paged_attention/x", "paged_attention", "online", checks.Status.INCORRECT, False, "off"
    )
    values = seeds.record([*good, bad], board, 1)
    assert values["passed"] is False
    assert values["failed"] == [["paged_attention/x", "INCORRECT", "off"]]
