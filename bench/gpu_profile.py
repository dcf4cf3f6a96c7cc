"""Our arms on a GPU board under the vendor's profiler, and what the profiler costs: notebook 03's last part.

    python bench/gpu_profile.py [--board nvidia-0] [--model Qwen3-0.6B] [--arms decode,decode_gqa,split_kv]
                                [--keys 1024,4096] [--runs 4] [--out FOLDER]

Every run is a process of its own. The record and the profiler's files go to --out.
"""

import argparse
import sys
from pathlib import Path

from hipbook import boards
from hipbook.errors import BadArgument, HipbookError
from hipbook.notebooks.investigation import Investigation
from hipbook.studies import gpu_profile


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--board", default="nvidia-0")
    parser.add_argument("--model", default="Qwen3-0.6B")
    parser.add_argument("--arms", default="decode,decode_gqa,split_kv")
    parser.add_argument("--keys", default="1024,4096")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=gpu_profile.overhead.DEFAULT_RUNS)
    parser.add_argument("--out", type=Path, default=Path("runs/profile/bench"))
    options = parser.parse_args()
    board = boards.get(options.board)
    if board.kind != "gpu":
        raise BadArgument("board", board.name, "a GPU board", fix="`hipbook boards` lists them")
    values = {name: value for name, value in vars(options).items() if name != "out"}
    run = Investigation("gpu_profile", "What does the profiler see of each arm, and cost?", values, board)
    seen = gpu_profile.profile(
        board,
        options.model,
        options.arms.split(","),
        [int(keys) for keys in options.keys.split(",")],
        dtype=options.dtype,
        seed=options.seed,
        runs=options.runs,
        folder=options.out / "files",
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(gpu_profile.told(seen))
    gpu_profile.keep(run, seen)
    run.write(options.out)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HipbookError as error:
        sys.exit(f"gpu_profile: {error}")
