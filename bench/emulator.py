"""Print the emulated board's speed on this machine: `python bench/emulator.py`, or `make bench`.

One layer of a Qwen3-0.6B decode step at 1024 keys, eight sequences, one thread: wave instructions a second,
counting always on, with the sanitizers off and on. The best of several runs, since other work on the machine
can only slow it down. The targets: at least 10 and 2 million a core.
"""

import argparse
import time

from hipbook import boards
from hipbook.emulator.native import cpu_model
from hipbook.ops.paged_attention import run_call
from hipbook.report import tables
from hipbook.studies.profile import model_call

TARGETS = {False: 10e6, True: 2e6}  # sanitizers off, on: wave instructions a second and core
RUNS = 5


def speed(arm: str, keys: int, sequences: int, checks: bool) -> tuple[int, float]:
    """(wave instructions, seconds of the best run) of one arm on one thread."""
    call = model_call("Qwen3-0.6B", [keys] * sequences)
    best = float("inf")
    for _ in range(RUNS + 1):  # the first one also translates and loads
        began = time.perf_counter()
        result = run_call(call, arm=arm, board=boards.get("gfx1200-emu"), checks=checks, threads=1)
        best = min(best, time.perf_counter() - began)
    return result.dispatch.counters.totals["SQ_INSTS"], best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keys", type=int, default=1024)
    options.add_argument("--sequences", type=int, default=8)
    chosen = options.parse_args()
    rows = []
    for arm in ("online", "decode", "decode_gqa"):
        for checks in (False, True):
            instructions, seconds = speed(arm, chosen.keys, chosen.sequences, checks)
            rows.append(
                {
                    "arm": arm,
                    "sanitizers": "on" if checks else "off",
                    "wave instructions": instructions,
                    "seconds": round(seconds, 3),
                    "million a second": round(instructions / seconds / 1e6, 1),
                    "target": f"{TARGETS[checks] / 1e6:g}" if arm == "decode" else "-",
                }
            )
    print(f"{cpu_model()}, one thread, {chosen.keys} keys")
    print(tables.text(rows))


if __name__ == "__main__":
    main()
