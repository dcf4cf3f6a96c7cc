"""Notebook 20: a collected table of many boards, compared one board at a time.

Counts are compared board against board, exactly, and never averaged. Times are verdicts of one board each:
as one family they are corrected (R13), and a sentence about an architecture takes three boards of it (R14).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hipbook.errors import BadArgument
from hipbook.measure import counts
from hipbook.measure.across_boards import AcrossBoards, across_boards
from hipbook.measure.counts import CountVerdict, CountWord
from hipbook.measure.families import DIFFERENCES, benjamini_hochberg, survives
from hipbook.measure.thresholds import MINIMUM_EFFECT
from hipbook.measure.verdict import Word
from hipbook.records.store import sealed
from hipbook.sweep import collecting, coverage

Row = Mapping[str, Any]
CONTROL_PLACES = ("start", "middle", "end")
STABLE = ("K and V bytes asked for", "barriers")  # follow from the source; instruction counts do not


def read(table: str) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """(records of a collected table that PASSED, rows of coverage a board). Raises HipbookError."""
    path = Path(table)
    frame = collecting.read(path)
    beside = path.with_name(f"coverage{path.suffix}")
    covered = _coverage(beside) if beside.is_file() else _coverage_of(frame)
    return collecting.passed(frame), covered


def _coverage(path: Path) -> list[dict[str, Any]]:
    frame = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    states = frame.group_by("board", maintain_order=True).agg(
        pl.len().alias("jobs"),
        *[(pl.col("state") == state).sum().alias(state) for state in coverage.STATES],
    )
    return states.to_dicts()


def _coverage_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Without the sweep's own coverage only what is there can be counted."""
    there = frame.group_by("board", maintain_order=True).agg(pl.col("job").n_unique().alias("records"))
    return there.to_dicts()


def demonstration(
    boards: Sequence[str], arms: Sequence[str], model: str, keys: Sequence[int], seed: int
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """The table of a small sweep made here: each board runs its points between three A/A controls.

    Every output is held to the oracle. Raises BadArgument for a board that does not count.
    """
    rows, covered = [], []
    for name in boards:
        queue = [("start", keys[0]), *(("", n) for n in keys), ("middle", keys[0]), ("end", keys[0])]
        for place, n in queue:
            rows += _one_run(name, arms, model, n, seed, place)
        covered.append({"board": name, "jobs": len(queue), "done": len(queue), "failed": 0, "missing": 0})
    return collecting.passed(collecting.table(rows)), covered


def _one_run(board: str, arms: Sequence[str], model: str, keys: int, seed: int, control: str) -> list[Row]:
    """The rows of one record: every arm on one decode step, correctness and counts."""
    from hipbook import boards
    from hipbook.notebooks.investigation import Investigation
    from hipbook.ops import models
    from hipbook.studies.arms import run_arms
    from hipbook.studies.profile import step_call

    where = boards.get(board)
    parameters = {"board": board, "model": model, "keys": keys, "seed": seed}
    run = Investigation("20_demonstration", "What does one decode step cost?", parameters, where)
    for one in run_arms(step_call(models.get(model), [keys], seed=seed), arms, where):
        run.verdict(one.arm, one.correctness)
        floor = (one.expected.floor_bytes, "each key read once")
        run.fact(one.arm, "K and V bytes asked for", one.kv_bytes, "B", bound=floor)
        run.fact(one.arm, "barriers", one.counters.totals["BARRIERS"], "barriers")
        run.fact(one.arm, "wave instructions", one.counters.totals["SQ_INSTS"], "instructions")
    job = {"key": f"{board}-{keys}-{control}", "point": str(keys), "repeat": 0, "control": control}
    return list(collecting.rows_of(sealed(run.record()), job, "made by this notebook"))


def controls(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """A row a board: whether its A/A jobs say the same thing, and the largest difference of a figure.

    Counts must agree exactly. Of times, what they differ by is what the board itself drifted over the sweep:
    no smaller difference between jobs means anything.
    """
    rows = []
    figures = frame.filter((pl.col("control") != "") & (pl.col("kind") != "verdict"))
    for board in dict.fromkeys(frame["board"]):
        here = figures.filter(pl.col("board") == board)
        spread = here.group_by("kind", "subject", "quantity", "unit").agg(
            pl.len().alias("n"), pl.col("value").min().alias("least"), pl.col("value").max().alias("most")
        )
        moved = [_relative(row["least"], row["most"]) for row in spread.iter_rows(named=True)]
        exact = spread.filter(pl.col("kind") == "exact")
        agree = bool((exact["least"] == exact["most"]).all())
        largest = max(moved, default=0.0)
        rows.append(
            {
                "board": board,
                "A/A jobs": here["job"].n_unique(),
                "figures": len(spread),
                "counts agree": agree,
                "largest difference": largest,
                "steady": agree and largest <= MINIMUM_EFFECT and here["job"].n_unique() > 1,
            }
        )
    return rows


def _relative(least: float, most: float) -> float:
    return 0.0 if least == most else abs(most - least) / max(abs(least), abs(most))


def quantities(frame: pl.DataFrame) -> list[str]:
    """The counted quantities, in the table's order."""
    return list(dict.fromkeys(frame.filter(pl.col("kind") == "exact")["quantity"]))


def points(frame: pl.DataFrame) -> dict[str, str]:
    """The points of a table by their key, named by the parameters in which the table's jobs differ."""
    first = frame.unique("point", keep="first", maintain_order=True)
    varied = [n for n in frame.columns if n.startswith(collecting.PARAMETER) and first[n].n_unique() > 1]
    return {
        row["point"]: ", ".join(f"{n.removeprefix(collecting.PARAMETER)}={row[n]}" for n in varied) or "one"
        for row in first.iter_rows(named=True)
    }


def by_board(frame: pl.DataFrame, quantity: str) -> list[dict[str, Any]]:
    """A row a (subject, point): the count on each board, and the word against the first board.

    Raises BadArgument when the table has no such count, or one job left two values of it.
    """
    here = frame.filter(
        (pl.col("kind") == "exact") & (pl.col("quantity") == quantity) & (pl.col("control") == "")
    )
    if here.is_empty():
        raise BadArgument("quantity", repr(quantity), f"one of {', '.join(quantities(frame))}")
    boards = list(dict.fromkeys(frame["board"]))
    named = points(frame)
    told: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in here.iter_rows(named=True):
        place = told.setdefault((row["subject"], row["point"], row["repeat"]), {})
        if place.setdefault(row["board"], row["value"]) != row["value"]:
            raise BadArgument("table", row["job"], f"two values of {quantity}, {row['subject']}")
    rows = []
    for (subject, point, repeat), values in told.items():
        row = {"subject": subject, "point": named[point] + (f", repeat {repeat}" if repeat else "")}
        row |= {board: _whole(values.get(board)) for board in boards}
        rows.append(row | {"against the first": _against_first(quantity, values, boards)})
    return rows


def _whole(value: float | None) -> int | float | None:
    return int(value) if value is not None and value.is_integer() else value


def _against_first(quantity: str, values: Mapping[str, float], boards: Sequence[str]) -> str:
    """One word for all boards, or the boards that differ with base / new; missing boards are named."""
    missing = [board for board in boards if board not in values]
    if missing:
        return f"not on {', '.join(missing)}"
    if not all(value.is_integer() and value >= 0 for value in values.values()):
        return "not counts"
    base = int(values[boards[0]])
    verdicts: dict[str, CountVerdict] = {
        board: counts.counts(quantity, base, int(values[board])) for board in boards[1:]
    }
    differ = {b: v for b, v in verdicts.items() if v.word is CountWord.COUNTS_DIFFER}
    if not differ:
        return str(CountWord.COUNTS_EQUAL) if verdicts else "one board"
    told = ", ".join(f"{board} {counts.ratio_text(v.base, v.new)}" for board, v in differ.items())
    return f"{CountWord.COUNTS_DIFFER}({told})"


def equal_and_different(rows: Sequence[Row]) -> tuple[int, int, int]:
    """(rows equal on all boards, rows that differ, rows that could not be compared)."""
    words = [str(row["against the first"]) for row in rows]
    equal = sum(word == CountWord.COUNTS_EQUAL for word in words)
    differ = sum(word.startswith(CountWord.COUNTS_DIFFER) for word in words)
    return equal, differ, len(words) - equal - differ


def timed(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """The verdicts about time as one family, corrected after Benjamini and Hochberg (R13).

    A row each: board, subject, word before and after, ratio, interval, adjusted p. Controls are left out.
    """
    here = frame.filter((pl.col("kind") == "verdict") & pl.col("p").is_not_null() & (pl.col("control") == ""))
    named = points(frame)
    adjusted = benjamini_hochberg(here["p"].to_list()) if len(here) else []
    rows = []
    for row, p in zip(here.iter_rows(named=True), adjusted, strict=True):
        word = Word(row["word"])
        lost = word in DIFFERENCES and not survives(float(p))
        rows.append(
            {
                "board": row["board"],
                "board_id": row["board_id"],
                "arch": row["arch"],
                "subject": row["subject"],
                "point": named[row["point"]],
                "alone": str(word),
                "corrected": str(Word.INCONCLUSIVE) if lost else str(word),
                "ratio": row["ratio"],
                "low": row["low"],
                "high": row["high"],
                "p": float(p),
            }
        )
    return rows


def across(rows: Sequence[Row]) -> list[tuple[str, AcrossBoards]]:
    """For each subject and point, and each architecture: one ratio a board, combined over boards (R14).

    A board that ran a point more than once counts with the geometric mean of its ratios, as one board.
    """
    groups: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in rows:
        group = groups.setdefault((row["subject"], row["point"], row["arch"]), {})
        group.setdefault(row["board_id"], []).append(row["ratio"])
    return [
        (subject, across_boards(arch, {board: _geometric(ratios) for board, ratios in group.items()}))
        for (subject, _, arch), group in groups.items()
    ]


def _geometric(ratios: Sequence[float]) -> float:
    from statistics import geometric_mean

    return geometric_mean(ratios)


def figure_rows(frame: pl.DataFrame, quantity: str) -> list[dict[str, Any]]:
    """Rows for `report.board_plots.on_boards`: every value of a counted quantity, controls left out."""
    here = frame.filter(
        (pl.col("kind") == "exact") & (pl.col("quantity") == quantity) & (pl.col("control") == "")
    )
    return here.select("board", "subject", "value", "unit").to_dicts()
