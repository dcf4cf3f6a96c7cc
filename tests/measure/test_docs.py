"""docs/measuring.md is held to the code: the tree, the thresholds with reasons, the calibration's rows."""

import re

import pytest

from hipbook import paths
from hipbook.measure import thresholds
from hipbook.measure.calibration import RUN_COUNTS, WORLDS
from hipbook.measure.verdict import explain

DOC = (paths.root() / "docs" / "measuring.md").read_text(encoding="utf-8")
SOURCE = (paths.root() / "lib/hipbook/measure/thresholds.py").read_text(encoding="utf-8")
NAMES = [name for name in vars(thresholds) if name.isupper()]


def test_the_tree_in_the_docs_is_the_tree():
    assert explain() in DOC


@pytest.mark.parametrize("name", NAMES)
def test_every_threshold_stands_in_the_docs_with_its_value_and_reason(name):
    (row,) = [
        line for line in DOC.splitlines() if line.startswith("| ") and f"`{name}`" in line.split(" | ")[0]
    ]
    names, values, reason = (part.strip("| ") for part in row.split(" | ", 2))
    place = [one.strip("` ") for one in names.split(",")].index(name)
    assert float(values.split(", ")[place]) == getattr(thresholds, name)
    comment = re.search(rf"((?:^# .*\n)+)(?:^[A-Z_]+ = .*\n)*^{name} = ", SOURCE, re.M).group(1)
    told = " ".join(line[2:] for line in comment.splitlines() if not line.startswith("# ---"))
    assert reason.replace("\\|", "|") == told
    assert len(told) > 40


def test_there_are_thresholds():
    assert len(NAMES) > 25


def test_the_calibration_in_the_docs_has_every_cell():
    for world in WORLDS:
        rows = re.findall(rf"^{re.escape(world.name)}\s+(\d+)\s+([\d.]+)%\s+([\d.]+)%\s+([\d.]+)%", DOC, re.M)
        assert [int(runs) for runs, *_ in rows] == list(RUN_COUNTS)
        for _, difference, _, coverage in rows:
            assert float(difference) <= 5
            assert not world.covers or 93 <= float(coverage) <= 97
