"""Records: sealed, atomic, refused by name when they cannot be believed."""

import json
import os
from pathlib import Path

import pytest

from hipbook import records
from hipbook.records import BadRecord, Record, Status, store
from hipbook.records.schema import Environment, Fact, Times, Verdict


def make(**changes) -> Record:
    fields = {
        "made_by": "10_gap",
        "question": "How many?",
        "status": Status.PASSED,
        "parameters": {"seed": 1, "name": "6.10"},
        "board": {"name": "gfx1200-emu", "kind": "emulated"},
        "toolchain": "clang 22",
        "code_objects": [],
        "witnesses": [],
        "facts": [
            Fact(subject="online", quantity="barriers per key", value=11, unit="barriers", kind="exact")
        ],
        "verdicts": [],
        "not_claimed": ["a time"],
        "environment": Environment(
            hipbook="0.1.0",
            commit=None,
            dirty=None,
            python="3.11.2",
            platform="Linux x86_64",
            processor="x",
            cores=2,
            packages={},
            variables={},
        ),
        "times": Times(started="2026-01-01T00:00:00+00:00", finished="2026-01-01T00:00:01+00:00", wall_s=1.0),
    }
    return Record(**{**fields, **changes})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return records.write(make(), tmp_path / "deep" / "a.record.json")


def test_what_is_written_is_read(path):
    record = records.read(path)
    assert record.facts[0].value == 11
    assert record.parameters == {"seed": 1, "name": "6.10"}
    assert path.stat().st_mode & 0o777 == 0o644
    assert records.write(record, path.with_name("b.record.json")).read_bytes() == path.read_bytes()


def test_two_runs_differ_only_in_times_and_environment(tmp_path):
    later = Times(started="2027-01-01T00:00:00+00:00", finished="2027-01-01T00:00:09+00:00", wall_s=9.0)
    texts = []
    for name, record in (("a", make()), ("b", make(times=later))):
        data = json.loads(records.write(record, tmp_path / f"{name}.record.json").read_text())
        texts.append(json.dumps({k: v for k, v in data.items() if k not in ("times", "environment")}))
    assert texts[0] == texts[1]
    assert '"content_sha256": "' in texts[0]


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["facts"][0].update(value=12),
        lambda d: d["parameters"].update(seed=2),
        lambda d: d["times"].update(wall_s=0.5),
        lambda d: d["environment"].update(commit="0" * 40),
        lambda d: d["not_claimed"].clear(),
        lambda d: d.update(content_sha256="0" * 64),
        lambda d: d["times"].update(seal_sha256="0" * 64),
    ],
)
def test_an_edit_by_hand_is_refused(path, edit):
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    with pytest.raises(BadRecord, match=r"a\.record\.json: edited after it was written"):
        records.read(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a record"),
        ("{}", "schema_version None; this hipbook reads version 1"),
        ('{"schema_version": 2}', "schema_version 2"),
        ('{"schema_version": 1}', "made_by: Field required"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path, text, why):
    path = tmp_path / "a.record.json"
    path.write_text(text)
    with pytest.raises(BadRecord, match=why):
        records.read(path)
    with pytest.raises(BadRecord, match="No such file"):
        records.read(tmp_path / "none.record.json")


def test_an_unknown_field_is_refused(path):
    data = json.loads(path.read_text())
    data["extra"] = 1
    path.write_text(json.dumps(data))
    with pytest.raises(BadRecord, match="extra: Extra inputs"):
        records.read(path)


TIME = Fact(subject="online", quantity="median", value=41.1, unit="us", kind="measured")
WRONG = Verdict(word="INCORRECT", subject="online", reason="1 of 9 values failed")


def test_a_performance_number_needs_passed():
    assert make(facts=[TIME]).facts[0].value == 41.1
    with pytest.raises(ValueError, match=r"performance number \(online: median\); only PASSED"):
        make(facts=[TIME], status=Status.INCORRECT, verdicts=[WRONG])


def test_a_performance_number_with_incorrect_is_refused_when_read(tmp_path):
    """Somebody who recomputes the seal still cannot keep the time."""
    record = make(facts=[TIME]).model_copy(update={"status": Status.INCORRECT, "verdicts": [WRONG]})
    path = tmp_path / "a.record.json"
    path.write_text(json.dumps(store.sealed(record).model_dump(mode="json")))
    with pytest.raises(BadRecord, match="only PASSED may carry one"):
        records.read(path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdicts": [WRONG]}, "PASSED beside INCORRECT"),
        ({"verdicts": [Verdict(word="NOT_REACHED", subject="a", reason="b")]}, "PASSED beside NOT_REACHED"),
        ({"facts": []}, "shows nothing"),
        ({"verdicts": [Verdict(word="FASTER", subject="a", reason="b")]}, "an emulated board has no times"),
    ],
)
def test_a_record_must_not_contradict_itself(changes, why):
    with pytest.raises(ValueError, match=why):
        make(**changes)


def test_a_negative_control_predicts_not_reached():
    control = Verdict(word="NOT_REACHED", subject="D 256", reason="by design", expected="NOT_REACHED")
    assert make(verdicts=[control]).status is Status.PASSED


@pytest.mark.parametrize("unit", ["us", "ms", "s", "GB/s", "tokens/s", "instructions per us"])
def test_an_exact_figure_is_never_a_time(unit):
    with pytest.raises(ValueError, match="never exact"):
        Fact(subject="a", quantity="b", value=1, unit=unit, kind="exact")


@pytest.mark.parametrize(
    "unit", ["bytes", "barriers", "barriers/key", "segments", "keys", "lanes of 128", "1"]
)
def test_other_units_are_no_times(unit):
    assert Fact(subject="a", quantity="b", value=1, unit=unit, kind="exact").unit == unit


def test_a_figure_needs_a_unit_a_source_and_a_finite_value():
    with pytest.raises(ValueError, match="unit"):
        Fact(subject="a", quantity="b", value=1, unit="", kind="exact")
    with pytest.raises(ValueError, match="names its source"):
        Fact(subject="a", quantity="b", value=1, unit="us", kind="reported")
    with pytest.raises(ValueError, match="finite"):
        Fact(subject="a", quantity="b", value=float("nan"), unit="1", kind="exact")


def test_a_failed_write_leaves_the_old_record_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        records.write(make(parameters={"seed": 9}), path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_the_key_names_maker_and_parameters():
    assert records.key("a", {"x": 1, "y": 2}) == records.key("a", {"y": 2, "x": 1})
    assert len({records.key("a", {"x": 1}), records.key("b", {"x": 1}), records.key("a", {"x": 1.0})}) == 3
    assert records.file_name("a", {}).startswith("a-")
