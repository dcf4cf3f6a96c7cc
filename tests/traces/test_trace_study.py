"""Notebook 12's cells on other input than its defaults: a real pair, one without markers, bad parameters."""

import pytest
from trace_makers import calls, copies, schema_markers, trace

from hipbook.errors import BadArgument
from hipbook.studies import decode_attribution as study
from hipbook.traces.reconstruction import reconstruct
from hipbook.traces.trace import TraceError
from hipbook.traces.write import write_csv


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for tokens in (2, 5):
        write_csv(reconstruct(tokens, seed=3), folder / str(tokens), "app")
    return str(folder / "2"), str(folder / "5")


def test_paths_give_the_same_answers_as_the_tables_behind_them(files):
    runs = study.pair(*files, 2, 5, 0)
    assert not runs.reconstructed
    assert runs.label == "2 and 5"
    found = study.subtract(runs)
    assert study.one_token(found).startswith("a token: 1738 dispatches, GPU 59.99 ms, wall 88.7 ms")
    assert study.against_report(runs, found) == []
    rows = study.class_rows(found, study.rules("by_kind"))
    assert rows[-1]["class"] == "total"
    assert sum(row["ms"] for row in rows[:-1]) == pytest.approx(rows[-1]["ms"])


def test_one_path_alone_is_refused(files):
    with pytest.raises(BadArgument, match="two paths"):
        study.pair(files[0], "", 2, 5, 0)


def test_a_changed_total_is_not_recovered():
    runs = study.pair("", "", 4, 36, 1294)
    longer = runs.high.dispatches.with_columns(runs.high.dispatches["End_Timestamp"] + 500)
    changed = study.Pair(runs.low, runs.high.replace_tables(dispatches=longer), 4, 36, reconstructed=True)
    rows = study.against_report(changed, study.subtract(changed))
    assert len(rows) == 24
    assert any(not row["equal"] for row in rows)


def test_a_run_without_markers_says_so_instead_of_a_number():
    rows = [("k", 100 * n, 100 * n + 50, n) for n in range(1, 5)]
    runs = study.Pair(trace(*rows[:2]), trace(*rows), 1, 3, reconstructed=False)
    methods = study.method_rows(runs, study.subtract(runs), "step", 0)
    assert methods[-1]["GPU ms a token"] is None
    assert "no marker matches" in methods[-1]["why"]
    with pytest.raises(TraceError, match="no marker"):
        study.step_wall(runs.high, "step", 0)


def test_the_parts_of_a_step_add_up():
    made = trace(
        ("own", 100, 200, 1),
        copies=copies(("HOST_TO_DEVICE", 300, 350, 2, 1)),
        api_calls=calls(("hipMemcpy", 250, 400, 2)),
        markers=schema_markers(("step", 90, 200), ("step", 590, 700)),
    )
    wall = study.step_wall(made, "step", 0)
    rows = study.wall_rows(made, study.rules("by_kind"), wall)
    assert wall == (90, 590)
    assert rows[-1] == {"part": "total", "wall ms": 0.0005, "% of wall": pytest.approx(100)}
    assert sum(row["wall ms"] for row in rows[:-1]) == pytest.approx(0.0005)


def test_amdahl_names_a_kernel_that_is_not_there():
    runs = study.pair("", "", 1, 2, 1)
    with pytest.raises(BadArgument, match="a pattern of one of"):
        study.amdahl_rows(study.subtract(runs), ["NoSuchKernel"])
