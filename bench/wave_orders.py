"""Run every case of `hipbook check` under many wave orders: no fault, and the same bytes each time.

`python bench/wave_orders.py`: the "test" level on every emulated board, 20 seeds of the order in which the
waves of a workgroup run. `make test` does one case of some arms. Exit code 1 when an arm is accused, wrong or
leaves other bytes. About 20 minutes a board on two cores.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hipbook import boards, checks
from hipbook.boards.inventory import EMULATED
from hipbook.checks.runner import build_all
from hipbook.report import tables

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import recording_board


def one_case(case_id: str, board: str, seeds: int) -> tuple[str, int, str]:
    """(case, launches, what is wrong or nothing) of one case under all orders."""
    recording, digests = recording_board.RecordingBoard(boards.get(board)), set()
    case = checks.parse_case(case_id)
    for seed in range(seeds):
        (result,) = checks.run_checks([case], recording, wave_order_seed=seed, threads=1)
        if not result.ok:
            return case_id, recording.launches, f"seed {seed}: {result.status} {result.reason}"
        digests.add(recording.taken())
    return case_id, recording.launches, "" if len(digests) == 1 else f"{len(digests)} different outcomes"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--board", action="append", choices=[f"{arch}-emu" for arch in EMULATED])
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    cases, rows, wrong = checks.select("test"), [], []
    for board in chosen.board or [f"{arch}-emu" for arch in EMULATED]:
        began = time.perf_counter()
        build_all(cases, boards.get(board))
        with ProcessPoolExecutor(chosen.workers) as pool:
            work = [pool.submit(one_case, case.id, board, chosen.seeds) for case in cases]
            done = [one.result() for one in work]
        bad = [(board, case, why) for case, _, why in done if why]
        wrong += bad
        rows.append(
            {
                "board": board,
                "cases": len(done),
                "launches": sum(launches for _, launches, _ in done),
                "seeds": chosen.seeds,
                "wrong": len(bad),
                "seconds": round(time.perf_counter() - began),
            }
        )
    print(tables.text(rows))
    for board, case, why in wrong:
        print(f"{board} {case}: {why}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
