"""Print the emulated board's speed on this machine: `python bench/emulator.py`, or `make bench`.

Every arm of paged attention on one layer of a Qwen3-0.6B decode step at 1024 keys, eight sequences, one
thread: wave instructions a second, counting always on, with the sanitizers off and on. The best of several
runs, since other work on the machine can only slow it down. The slowest arm is what the targets are for.
"""

import argparse
import time

from hipbook import boards
from hipbook.emulator.native import cpu_model
from hipbook.ops import models
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.paged_attention import run_call
from hipbook.report import tables
from hipbook.studies.profile import step_call

TARGETS = {False: 20e6, True: 5e6}  # sanitizers off, on: wave instructions a second and core
RUNS = 4


def speed(call: AttentionCall, arm: str, board: str, checks: bool) -> tuple[int, float]:
    """(wave instructions, seconds of the best run) of one arm on one thread."""
    best = float("inf")
    for _ in range(RUNS + 1):  # the first one also translates and loads
        began = time.perf_counter()
        result = run_call(call, arm=arm, board=boards.get(board), checks=checks, threads=1)
        best = min(best, time.perf_counter() - began)
    return result.dispatch.counters.totals["SQ_INSTS"], best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keys", type=int, default=1024)
    options.add_argument("--sequences", type=int, default=8)
    options.add_argument("--board", default=boards.DEFAULT)
    options.add_argument("--arm", action="append", choices=list(ARMS), help="only this one")
    chosen = options.parse_args()
    call = step_call(models.get("Qwen3-0.6B"), [chosen.keys] * chosen.sequences)
    rows, slowest = [], {}
    for arm in chosen.arm or ARMS:
        for checks in (False, True):
            instructions, seconds = speed(call, arm, chosen.board, checks)
            rate = instructions / seconds
            slowest[checks] = min(slowest.get(checks, (rate, arm)), (rate, arm))
            rows.append(
                {
                    "arm": arm,
                    "sanitizers": "on" if checks else "off",
                    "wave instructions": instructions,
                    "seconds": round(seconds, 3),
                    "million a second": round(rate / 1e6, 1),
                }
            )
    print(f"{cpu_model()}, {chosen.board}, one thread, {chosen.keys} keys")
    print(tables.text(rows))
    for checks, (rate, arm) in slowest.items():
        print(
            f"slowest with sanitizers {'on' if checks else 'off'}: {arm}, {rate / 1e6:.1f} million a second "
            f"(target {TARGETS[checks] / 1e6:g})"
        )


if __name__ == "__main__":
    main()
