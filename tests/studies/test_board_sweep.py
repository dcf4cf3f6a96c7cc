"""Notebook 20: controls, counts board against board, verdicts as one family, boards as a random factor."""

import polars as pl
import pytest
from measured_records import a_record, a_session
from sweep_makers import BEGIN, BOARDS, FACTS, PARAMETERS, FakeEngine, write_record

from hipbook.errors import BadArgument
from hipbook.records import store
from hipbook.report import board_plots
from hipbook.studies import board_sweep
from hipbook.sweep import collecting, sweeping
from hipbook.sweep.spec import Sweep


class Uneven(FakeEngine):
    """Counts of one board are others in its last control, and in every job of size 2."""

    def _outcome(self, task):
        outcome = super()._outcome(task)
        job = task.job
        if job.board == BOARDS[1] and (job.control == "end" or job.parameters["size"] == 2):
            write_record(task, value=3)
        return outcome


@pytest.fixture
def table(make_notebook, tmp_path):
    """A collected table of three boards, two sizes."""
    make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")
    (tmp_path / "s.yaml").write_text("")
    sweep = Sweep(
        name="s", notebook="tiny.ipynb", boards=list(BOARDS[:3]), swept={"product": {"size": [1, 2]}}
    )
    engine = Uneven()
    planned = sweeping.plan(tmp_path / "s.yaml", engine, sweep, tmp_path / "out")
    sweeping.go(planned, engine, failed_again=True)
    collecting.collect(planned.folder)
    return planned.folder / "collected" / "records.parquet"


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_coverage_is_read_from_beside_the_table(table, suffix):
    _, covered = board_sweep.read(str(table.with_suffix(suffix)))
    assert covered == [{"board": b, "jobs": 5, "done": 5, "failed": 0, "missing": 0} for b in BOARDS[:3]]


def test_a_control_that_counts_otherwise_is_found(table):
    frame, _ = board_sweep.read(str(table))
    rows = {row["board"]: row for row in board_sweep.controls(frame)}
    assert [rows[board]["counts agree"] for board in BOARDS[:3]] == [True, False, True]
    assert rows[BOARDS[1]]["largest difference"] == pytest.approx(2 / 3)
    assert [rows[board]["steady"] for board in BOARDS[:3]] == [True, False, True]
    assert all(row["A/A jobs"] == 3 for row in rows.values())


def test_counts_are_held_to_the_first_board_row_by_row(table):
    frame, _ = board_sweep.read(str(table))
    rows = board_sweep.by_board(frame, "double")
    words = {(row["subject"], row["point"]): row["against the first"] for row in rows}
    assert words == {
        ("online", "size=1"): "COUNTS_EQUAL",
        ("decode", "size=1"): "COUNTS_EQUAL",
        ("online", "size=2"): f"COUNTS_DIFFER({BOARDS[1]} 0.6667)",
        ("decode", "size=2"): f"COUNTS_DIFFER({BOARDS[1]} 0.6667)",
    }
    assert board_sweep.equal_and_different(rows) == (2, 2, 0)
    with pytest.raises(BadArgument, match="quantity = 'treble': one of double"):
        board_sweep.by_board(frame, "treble")


def test_a_board_that_lacks_a_job_is_named_and_not_compared(table):
    frame, _ = board_sweep.read(str(table))
    less = frame.filter((pl.col("board") != BOARDS[2]) | (pl.col("control") != ""))
    rows = board_sweep.by_board(less, "double")
    assert {row["against the first"] for row in rows} == {f"not on {BOARDS[2]}"}
    assert board_sweep.equal_and_different(rows) == (0, 0, 4)


def test_two_values_of_one_count_are_refused(table):
    frame, _ = board_sweep.read(str(table))
    again = frame.with_columns(value=pl.col("value") + 1)
    with pytest.raises(BadArgument, match="two values of double"):
        board_sweep.by_board(pl.concat([frame, again]), "double")


def timed_table(ratios, arch="gfx1200", cases=1):
    """Records of measuring sessions, one a board and case."""
    rows = []
    for number, ratio in enumerate(ratios):
        board = {"name": f"card-{number}", "kind": "gpu", "arch": arch, "uuid": f"u{number}"}
        for case in range(cases):
            record = store.sealed(a_record(a_session(ratio, board, case=f"{case}", seed=case), board=board))
            job = {"key": f"{number}-{case}", "point": "p", "repeat": 0, "control": ""}
            rows += collecting.rows_of(record, job, "r")
    return collecting.table(rows)


def test_three_boards_make_an_architecture_and_two_do_not():
    three = board_sweep.across(board_sweep.timed(timed_table([1.10, 1.12, 1.11])))
    [(subject, combined)] = three
    assert subject == "decode against online, 0, warm"
    assert combined.about == "gfx1200 (3 boards)"
    assert combined.interval[0] < combined.ratio < combined.interval[1]
    [(_, two)] = board_sweep.across(board_sweep.timed(timed_table([1.10, 1.12])))
    assert two.interval is None
    assert two.about == "u0, u1 only: gfx1200 needs 3 boards"


def test_a_board_that_ran_twice_is_one_board():
    frame = timed_table([1.10, 1.12])
    again = frame.with_columns(job=pl.col("job") + "again", repeat=pl.lit(1, dtype=pl.Int64))
    [(_, combined)] = board_sweep.across(board_sweep.timed(pl.concat([frame, again])))
    assert list(combined.ratios) == ["u0", "u1"]
    assert combined.interval is None


def test_verdicts_about_time_are_corrected_as_one_family():
    frame = timed_table([1.1], cases=3)
    alone = board_sweep.timed(frame)
    assert [row["corrected"] for row in alone] == ["FASTER"] * 3
    # the same three among many that show nothing: p values that only just stood no longer do
    weak = frame.with_columns(p=pl.when(pl.col("p").is_not_null()).then(0.04))
    null = weak.with_columns(p=pl.when(pl.col("p").is_not_null()).then(0.9), word=pl.lit("EQUIVALENT"))
    many = board_sweep.timed(pl.concat([weak, *[null] * 20]))
    assert [row["corrected"] for row in many[:3]] == ["INCONCLUSIVE"] * 3
    assert {row["corrected"] for row in many[3:]} == {"EQUIVALENT"}
    assert many[0]["p"] > 0.05


def test_the_figure_shows_every_value_and_refuses_two_units(table):
    frame, _ = board_sweep.read(str(table))
    rows = board_sweep.figure_rows(frame, "double")
    figure = board_plots.on_boards(rows, quantity="double", title="double")
    points = sum(len(one.get_offsets()) for one in figure.axes[0].collections)
    assert points == len(rows) == 12
    with pytest.raises(BadArgument, match="one unit in a figure"):
        board_plots.on_boards([*rows, {**rows[0], "unit": "us"}], quantity="double", title="double")


def test_the_demonstration_holds_every_output_to_the_oracle():
    frame, covered = board_sweep.demonstration(["gfx1200-emu"], ["decode_gqa"], "Qwen3-0.6B", [16], 0)
    assert covered == [{"board": "gfx1200-emu", "jobs": 4, "done": 4, "failed": 0, "missing": 0}]
    verdicts = frame.filter(pl.col("kind") == "verdict")
    assert verdicts["word"].to_list() == ["CORRECT"] * 4
    [row] = board_sweep.by_board(frame, "K and V bytes asked for")
    assert row["gfx1200-emu"] == 2 * 16 * 8 * 128 * 2
    assert row["against the first"] == "one board"
