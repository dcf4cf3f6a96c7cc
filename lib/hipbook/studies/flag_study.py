"""Notebook 11: did the flag reach the new kernel, and does the old path stay byte for byte as it was?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from hipbook.boards.base import Board
from hipbook.measure import counts
from hipbook.notebooks.investigation import Investigation
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.attention_dispatch import publicly_fused
from hipbook.records import reported as reports
from hipbook.studies import reach
from hipbook.studies.arms import ArmRun, run_arm
from hipbook.studies.reach import Reach

REPORT = "mudler/vllm.cpp#767"
OFF, ON = "0", "1"


@dataclass(frozen=True)
class Side:
    """One run under one flag, with the arm that was foretold."""

    seen: Reach
    run: ArmRun
    foretold: str


@dataclass(frozen=True)
class Case:
    """The same call with the flag off, with it on, and by `online` asked for by name."""

    head_dim: int
    ratio: int
    off: Side
    on: Side
    online: ArmRun

    @property
    def expected_distinct(self) -> str:
        """Whether the two sides should run different kernels: only where the flag is looked at."""
        return "NOT_REACHED" if self.off.foretold == self.on.foretold else "REACHED"


@dataclass(frozen=True)
class Study:
    board: Board
    keys: int
    seed: int
    cases: tuple[Case, ...]


def foretold(flag: str, head_dim: int, ratio: int) -> str:
    """The arm that the public rule names, written down here apart from the dispatcher."""
    if head_dim == 128 and flag == OFF:
        return "online"
    return "decode_gqa" if publicly_fused(head_dim, ratio) else "decode"


def reported() -> list[dict[str, object]]:
    """The report's figures about the flag: TPOT off and on, the control's, and the assertions that ran."""
    wanted = (
        {"quantity": "tpot", "model": "Qwen3-0.6B", "workload": "1024 in / 128 out, 8 prompts"},
        {"quantity": "tpot", "model": "Qwen3.5-0.8B"},
        {"quantity": "assertions"},
    )
    rows = [row for filters in wanted for row in reports.find(source=REPORT, **filters)]
    return [{**vars(row)} for row in rows if row.arm in ("d128 off", "d128 on", "all")]


def run(board: Board, *, ratios: Sequence[int], keys: int, control_head_dim: int, seed: int) -> Study:
    """Off and on at D 128 for each ratio, and at the control's head size for the first."""
    shapes = [(128, ratio) for ratio in ratios] + [(control_head_dim, ratios[0])]
    cases = []
    for head_dim, ratio in shapes:
        sides = []
        for flag in (OFF, ON):
            seen, arm_run = reach.here(flag, head_dim, ratio, keys=keys, seed=seed, board=board.name)
            sides.append(Side(seen, arm_run, foretold(flag, head_dim, ratio)))
        online = run_arm(reach.case(head_dim, ratio, keys, seed), "online", board)
        cases.append(Case(head_dim, ratio, *sides, online))
    return Study(board, keys, seed, tuple(cases))


def _sides(study: Study):
    for case in study.cases:
        for side in (case.off, case.on):
            yield case, side, "off" if side.seen.flag == OFF else "on"


def keep(record: Investigation, study: Study) -> None:
    """Launches, reach and correctness into the record; the arm foretold is the one that must be reached."""
    for case, side, flag in _sides(study):
        where = f"D {case.head_dim} ratio {case.ratio}, flag {flag}"
        code = ARMS[side.foretold].witness
        record.ran(
            side.run.result.dispatch,
            subject=where,
            arm=side.foretold,
            expected=code,
            witness=side.run.witness,
        )
        record.verdict(where, counts.reached(side.run.witness, code), expected="REACHED")
        record.verdict(where, side.run.correctness, expected="CORRECT")
        record.fact(where, "values compared", side.run.comparison.values_compared, "values")


def rows(study: Study) -> list[dict[str, object]]:
    return [
        {
            "D": case.head_dim,
            "ratio": case.ratio,
            "flag": flag,
            "arm": side.seen.arm,
            "witness": hex(side.seen.witness),
            "expected": hex(ARMS[side.foretold].witness),
            "workgroups": side.seen.workgroups,
            "values": side.seen.values,
            "result": str(side.run.correctness.word),
        }
        for case, side, flag in _sides(study)
    ]


def in_two_processes(study: Study) -> list[dict[str, object]]:
    """All off sides in one fresh interpreter, all on sides in another, compared with this one's."""
    shapes = [(case.head_dim, case.ratio) for case in study.cases]
    again = {
        flag: reach.in_new_process(flag, shapes, keys=study.keys, seed=study.seed, board=study.board.name)
        for flag in (OFF, ON)
    }
    found = []
    for number, (case, side, flag) in enumerate(_sides(study)):
        other = again[side.seen.flag][number // 2]
        found.append(
            {
                "D": case.head_dim,
                "ratio": case.ratio,
                "flag": flag,
                "arm": other.arm,
                "witness": hex(other.witness),
                "same kernel": other.witness == side.seen.witness,
                "same bytes": other.out_sha256 == side.seen.out_sha256,
            }
        )
    return found


def differing_bytes(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many bytes of two outputs of one shape and dtype differ."""
    left, right = (x.contiguous().view(torch.uint8) for x in (a, b))
    return int((left != right).sum())


def byte_identity(study: Study) -> list[dict[str, object]]:
    """Outputs compared byte by byte: flag off with `online`, flag off with on, and the latter in f32.

    What must be equal or differ is predicted where the design says so. A 16-bit output of two arms
    that add in different orders mostly rounds to the same bytes: nothing is predicted of it.
    """
    found = []
    for case in study.cases:
        off, on = case.off.run, case.on.run
        same_arm = case.off.foretold == case.on.foretold
        equal, differ = "COUNTS_EQUAL", "COUNTS_DIFFER"
        if not same_arm:
            found.append(_compared(case, "off against online", off, case.online, equal))
        found.append(_compared(case, "off against on", off, on, equal if same_arm else None))
        wide = replace(off.call, out_dtype=torch.float32)
        off, on = (run_arm(wide, run.arm, study.board) for run in (off, on))
        found.append(_compared(case, "off against on, f32 output", off, on, equal if same_arm else differ))
    return found


def _compared(case: Case, what: str, left: ArmRun, right: ArmRun, predicted: str | None) -> dict[str, object]:
    bytes_apart = differing_bytes(left.result.out, right.result.out)
    return {
        "D": case.head_dim,
        "ratio": case.ratio,
        "compared": what,
        "bytes": left.result.out.numel() * left.result.out.element_size(),
        "bytes that differ": bytes_apart,
        "verdict": str(counts.counts("bytes that differ", 0, bytes_apart).word),
        "predicted": predicted,
    }


def bought(study: Study) -> list[dict[str, object]]:
    """Counts of both sides, a case a row."""
    found = []
    for case in study.cases:
        sides = (case.off.run, case.on.run)
        barriers = [int(run.counters.barriers_per_wave) for run in sides]
        instructions = [run.counters.totals["SQ_INSTS"] for run in sides]
        found.append(
            {
                "D": case.head_dim,
                "ratio": case.ratio,
                "arm off": case.off.seen.arm,
                "arm on": case.on.seen.arm,
                "barriers per wave, off": barriers[0],
                "barriers per wave, on": barriers[1],
                "K+V bytes, off": sides[0].kv_bytes,
                "K+V bytes, on": sides[1].kv_bytes,
                "wave instructions, off": instructions[0],
                "wave instructions, on": instructions[1],
                "off / on": instructions[0] / instructions[1],
            }
        )
    return found
