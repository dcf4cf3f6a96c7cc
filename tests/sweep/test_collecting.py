"""The collected table: every figure and verdict once, coverage beside it, refused records named."""

import json

import polars as pl
import pytest
from measured_records import a_record, a_session
from sweep_makers import BEGIN, BOARDS, FACTS, PARAMETERS, FakeEngine

from hipbook import records
from hipbook.errors import HipbookError
from hipbook.records import Status
from hipbook.sweep import collecting, sweeping
from hipbook.sweep.spec import Sweep


@pytest.fixture
def swept(make_notebook, tmp_path):
    """A sweep over two boards of which one job failed: the plan, run to its end."""
    make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")
    (tmp_path / "s.yaml").write_text("")
    sweep = Sweep(
        name="s",
        notebook="tiny.ipynb",
        boards=list(BOARDS[:2]),
        swept={"product": {"size": [1, 2]}},
        seeds=[5],
    )
    engine = FakeEngine(ends={(BOARDS[1], 2): [Status.DEAD_KERNEL]})
    planned = sweeping.plan(tmp_path / "s.yaml", engine, sweep, tmp_path / "out")
    sweeping.go(planned, engine, failed_again=True)
    return planned


def test_every_figure_and_verdict_is_a_row_with_where_it_is_from(swept):
    made = collecting.collect(swept.folder)
    assert made.coverage_rows == [
        {"board": BOARDS[0], "jobs": 5, "done": 5, "failed": 0, "missing": 0, "outcomes of the failed": ""},
        {"board": BOARDS[1], "jobs": 5, "done": 4, "failed": 1, "missing": 0,
         "outcomes of the failed": "1 DEAD_KERNEL"},
        {"board": "all", "jobs": 10, "done": 9, "failed": 1, "missing": 0,
         "outcomes of the failed": "1 DEAD_KERNEL"},
    ]  # fmt: skip
    table = collecting.read(swept.folder / "collected" / "records.parquet")
    assert len(table) == 9 * 4
    assert dict(table["kind"].value_counts().iter_rows()) == {"exact": 18, "verdict": 18}
    for row in table.filter(pl.col("kind") == "exact").iter_rows(named=True):
        record = records.read(swept.folder / row["record"])
        assert row["value"] == 2 * row["parameter.size"] == 2 * record.parameters["size"]
        assert row["board"] == record.board["name"]
        assert row["content_sha256"] == record.content_sha256
        assert (row["unit"], row["bound"], row["parameter.seed"]) == ("keys", row["parameter.size"], 5)
    assert set(table["control"]) == {"", "start", "middle", "end"}
    assert "parameter.board" not in table.columns
    coverage = pl.read_csv(swept.folder / "collected" / "coverage.csv")
    assert len(coverage) == 10
    [failed] = coverage.filter(pl.col("state") == "failed").iter_rows(named=True)
    assert (failed["status"], failed["board"]) == ("DEAD_KERNEL", BOARDS[1])
    assert json.loads(failed["parameters"])["size"] == 2


def test_csv_and_parquet_hold_the_same(swept):
    collecting.collect(swept.folder)
    one, other = (collecting.read(swept.folder / "collected" / f"records.{s}") for s in ("parquet", "csv"))
    assert one.columns == other.columns
    assert one.rows() == other.cast(one.schema).rows()


def test_a_record_that_is_not_believed_is_missing_and_named(swept):
    path = next((swept.folder / "jobs").glob("*/*.record.json"))
    path.write_text(path.read_text().replace('"keys"', '"kays"'))
    made = collecting.collect(swept.folder)
    assert made.coverage_rows[-1]["missing"] == 1
    [note] = made.notes
    assert "edited after it was written" in note
    table = collecting.read(swept.folder / "collected" / "records.parquet")
    assert path.parent.name not in set(table["job"])


def test_a_verdict_about_time_carries_the_figures_behind_it():
    record = a_record(a_session(1.1))
    job = {"key": "k", "point": "p", "repeat": 0, "control": ""}
    table = collecting.table(collecting.rows_of(record, job, "r.json"))
    [row] = table.filter(pl.col("word") == "FASTER").iter_rows(named=True)
    assert row["low"] < row["ratio"] < row["high"]
    assert row["ratio"] == pytest.approx(1.1, rel=0.01)
    assert row["p"] < 0.05


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_what_is_no_table_is_named(tmp_path, text):
    for name in ("records.csv", "records.parquet"):
        (tmp_path / name).write_text(text)
        with pytest.raises(HipbookError, match=r"records\.\w+: not a table"):
            collecting.read(tmp_path / name)
    with pytest.raises(HipbookError, match="no such table"):
        collecting.read(tmp_path / "none.parquet")
