"""Did the flag reach the new kernel? One call through the dispatch rule, in this process or in a new one.

A flag that a process reads once and keeps makes an in-process A/B compare an arm with itself (T3), and
a test registered for an arm proves nothing about which kernel ran (T2). So a run here returns what the
kernel itself wrote, and the hash of every output byte.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch

from hipbook import boards
from hipbook.errors import HipbookError
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.attention_dispatch import FLAG
from hipbook.oracle.decode_step import decode_call
from hipbook.studies.arms import ArmRun, run_arm


@dataclass(frozen=True)
class Reach:
    """One run under one flag: the arm that was chosen, what its kernel wrote, and what came out."""

    flag: str
    head_dim: int
    ratio: int
    arm: str
    witness: int
    workgroups: int
    values: int
    correct: bool
    out_sha256: str


@contextmanager
def flag(value: str) -> Iterator[None]:
    """The dispatch flag set to `value` inside the block, and as it was after it."""
    before = os.environ.get(FLAG)
    os.environ[FLAG] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[FLAG]
        else:
            os.environ[FLAG] = before


def case(head_dim: int, ratio: int, keys: int, seed: int) -> AttentionCall:
    """The call every run here makes: two decode rows in bf16 over four kv heads."""
    return decode_call(
        [keys, max(1, keys // 2)], num_q_heads=4 * ratio, num_kv_heads=4, head_dim=head_dim, seed=seed
    )


def sha256(out: torch.Tensor) -> str:
    return hashlib.sha256(out.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def here(
    flag_value: str, head_dim: int, ratio: int, *, keys: int, seed: int, board: str, arm: str = "auto"
) -> tuple[Reach, ArmRun]:
    """Run the case in this process under a flag; `arm` other than "auto" overrules the dispatch rule."""
    call = case(head_dim, ratio, keys, seed)
    with flag(flag_value):
        run = run_arm(call, arm, boards.get(board))
    return (
        Reach(
            flag=flag_value,
            head_dim=head_dim,
            ratio=ratio,
            arm=run.arm,
            witness=run.result.witness,
            workgroups=len(run.witness),
            values=run.comparison.values_compared,
            correct=run.comparison.passed,
            out_sha256=sha256(run.result.out),
        ),
        run,
    )


def in_new_process(
    flag_value: str, shapes: Sequence[tuple[int, int]], *, keys: int, seed: int, board: str
) -> list[Reach]:
    """The same for each (head_dim, ratio) in one fresh interpreter that starts with the flag set."""
    question = {"flag": flag_value, "shapes": list(shapes), "keys": keys, "seed": seed, "board": board}
    done = subprocess.run(
        [sys.executable, "-m", "hipbook.studies.reach", json.dumps(question)],
        env={**os.environ, FLAG: flag_value}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise HipbookError(f"the run with {FLAG}={flag_value} in a new process failed:\n{done.stderr}")
    return [Reach(**found) for found in json.loads(done.stdout)]


def _main(question: dict) -> None:
    common = {name: question[name] for name in ("keys", "seed", "board")}
    found = [here(question["flag"], d, ratio, **common)[0] for d, ratio in question["shapes"]]
    print(json.dumps([asdict(one) for one in found]))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
