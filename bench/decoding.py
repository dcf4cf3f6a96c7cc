"""Hold the decoder to llvm-objdump on every code object we build, on every emulated board.

`python bench/decoding.py`: builds what `hipbook check` runs and the kernels of the notebooks, for each
architecture, and compares length and mnemonic of every instruction; `make test` compares a sample. Ends with
an error at the first difference. Several minutes where nothing is built yet.
"""

import argparse
import sys
import time
from pathlib import Path

from hipbook import checks
from hipbook.build import build_many
from hipbook.checks.runner import find_operation
from hipbook.emulator import isa
from hipbook.report import tables

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import gfx_objdump

SOURCES = {"board_check/board_check.hip": ("-DHIPBOOK_BREAK=0",)}


def jobs(level: str) -> list[tuple[str, tuple[str, ...]]]:
    """(source, flags) of all code objects that the checks of `level` run, and of the other sources."""
    found = {
        job: None for case in checks.select(level) for job in find_operation(case.operation).build_jobs(case)
    }
    return [*found, *SOURCES.items()]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--level", choices=("test", "full"), default="test", help="which checks' code objects"
    )
    options.add_argument("--arch", action="append", choices=sorted(isa.FAMILIES), help="only this one")
    chosen = options.parse_args()
    rows = []
    for arch in chosen.arch or isa.FAMILIES:
        began = time.perf_counter()
        built = build_many([(source, arch, flags) for source, flags in jobs(chosen.level)])
        compared = sum(gfx_objdump.compare(one.path, isa.FAMILIES[arch]) for one in built)
        rows.append(
            {
                "arch": arch,
                "code objects": len(built),
                "instructions": compared,
                "differences": 0,
                "seconds": round(time.perf_counter() - began),
            }
        )
    print(tables.text(rows))


if __name__ == "__main__":
    main()
