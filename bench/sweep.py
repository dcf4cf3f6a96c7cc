"""What sweeps cost: 60 jobs over the four emulated boards against the same jobs one after another, and 1,000
records collected and reported.

    python bench/sweep.py             both; about 15 minutes on two idle cores
    python bench/sweep.py records     the second alone, under a minute

Every job has one thread. The two ways take turns, a quarter of the jobs at a time, so that a machine that
slows down meanwhile favours neither. Targets: at least 1.8 times as fast on 2 cores; 1,000 records collected
in at most 5 s, and reported in at most 60 s and 30 MB.
"""

import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from hipbook import paths, records
from hipbook.records import Status, store
from hipbook.report import gather, site
from hipbook.sweep import collecting, jobs, spec, state
from hipbook.sweep.conductor import conduct
from hipbook.sweep.engine import LocalEngine, cores
from hipbook.sweep.runner import Outcome, write_outcome
from hipbook.sweep.spec import Limits, Sweep

BOARDS = ["gfx1200-emu", "gfx1201-emu", "gfx1100-emu", "gfx1151-emu"]
AT_ONCE = 2


def sixty_jobs(folder: Path) -> None:
    """12 points and 3 controls on each of four boards: at once on two cores, and one after another."""
    sweep = Sweep(
        name="sixty", notebook="00_board", boards=BOARDS, limits=Limits(threads=1),
        swept={"product": {"workgroups": [1, 2, 4]}}, seeds=[0, 1, 2, 3],
    )  # fmt: skip
    notebook = spec.notebook_of(sweep, folder / "sixty.yaml")
    engine = LocalEngine(Limits(at_once=1))
    made = jobs.plan(sweep, notebook, engine.offers(BOARDS))
    engine.close()
    assert len(made) == 60
    spent = {AT_ONCE: 0.0, 1: 0.0}
    for number, part in enumerate(_quarters(made)):
        for at_once in (AT_ONCE, 1) if number % 2 == 0 else (1, AT_ONCE):
            spent[at_once] += _run(sweep, notebook, part, at_once, folder / f"{at_once}")
            print(
                f"  quarter {number + 1} of 4, {at_once} at once: {spent[at_once]:.0f} s so far", flush=True
            )
    for at_once in spent:
        here = state.State(folder / f"{at_once}")
        outcomes = [here.outcome(job) for job in made]
        valid = [records.read(outcome.record).status for outcome in outcomes if outcome and outcome.record]
        assert Counter(valid) == Counter({Status.PASSED: 60}), valid
    ratio = spent[1] / spent[AT_ONCE]
    print(
        f"60 jobs on {len(BOARDS)} emulated boards, one thread a job, {cores()} cores: "
        f"{spent[AT_ONCE]:.0f} s with {AT_ONCE} at once, {spent[1]:.0f} s one after another, "
        f"{ratio:.2f} times as fast (target 1.8); all 120 records valid"
    )


def _quarters(made: list[jobs.Job]) -> list[list[jobs.Job]]:
    """The jobs in four parts, each with as many of every board, in their order."""
    queues = {board: [job for job in made if job.board == board] for board in BOARDS}
    cuts = [0, 4, 8, 12, 15]
    return [[job for q in queues.values() for job in q[a:b]] for a, b in pairwise(cuts)]


def _run(sweep: Sweep, notebook: Path, part: list[jobs.Job], at_once: int, folder: Path) -> float:
    """Seconds that a part of the jobs takes."""
    limits = sweep.limits.model_copy(update={"at_once": at_once})
    engine = LocalEngine(limits)
    began = time.monotonic()
    try:
        with state.open_for_writing(folder, sweep.name, folder / "sixty.yaml") as here:
            here.write_plan(sweep.name, folder / "sixty.yaml", notebook, part)
            conduct(here, notebook, part, engine, limits)
    finally:
        engine.close()
    return time.monotonic() - began


def thousand_records(folder: Path) -> None:
    """Records as notebook 10 leaves them, 250 points on four boards: collected, then reported."""
    source = records.read(paths.data() / "measured" / "10_paged_attention_gap.record.json")
    here, planned = state.State(folder), []
    for number in range(1000):
        board = BOARDS[number % 4]
        arch = board.removesuffix("-emu")
        parameters = {**source.parameters, "board": board, "seed": number // 4}
        job = jobs.Job(f"{number:016x}", board, parameters, parameters)
        planned.append(job)
        record = source.model_copy(
            update={"parameters": parameters, "board": {"name": board, "arch": arch, "kind": "emulated"}}
        )
        where = here.job_folder(job)
        path = store.write(record, where / store.file_name(record.made_by, parameters))
        write_outcome(Outcome(record.made_by, parameters, Status.PASSED, "", where, path, None, 1.0))
    here.write_plan("thousand", folder / "thousand.yaml", paths.notebooks() / "10.ipynb", planned)
    began, cpu = time.monotonic(), time.process_time()
    made = collecting.collect(folder)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    assert made.coverage_rows[-1]["done"] == 1000
    rows = len(collecting.read(folder / "collected" / "records.parquet"))
    print(f"1,000 records collected in {seconds:.1f} s (target 5; CPU {cpu:.1f} s): {rows:,} rows")
    began, cpu = time.monotonic(), time.process_time()
    index = site.write_site(gather.runs_under(folder), folder / "html", title="1,000 records", lead="")
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    size = sum(path.stat().st_size for path in index.parent.rglob("*") if path.is_file())
    print(
        f"1,000 records reported in {seconds:.1f} s (target 60; CPU {cpu:.1f} s), "
        f"{size / 1e6:.1f} MB (target 30)"
    )


def main(what: str = "") -> None:
    with tempfile.TemporaryDirectory(prefix="hipbook-bench-") as folder:
        thousand_records(Path(folder) / "thousand")
        if what != "records":
            sixty_jobs(Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
