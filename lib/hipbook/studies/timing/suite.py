"""What a suite of timed cases is, and the suites there are by name.

A suite opens a case on a board: inputs made there, one `Candidate` for each arm that can run it, a reason
for each that cannot. Peers are candidates like our own arms. Parameters are plain values, so that a
session can hand them to its processes and a record can keep them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hipbook.boards.gpu import GpuBoard
from hipbook.errors import BadArgument

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """An arm that is ready to be timed on an open case.

    `run` enqueues one launch. `check` poisons the output, runs and compares: "" or what is wrong.
    `kernel` names what is launched; `witness` is what our kernels wrote in a checked launch, None for a
    peer, which writes none.
    """

    run: Callable[[], None]
    check: Callable[[], str]
    kernel: str
    witness: int | None = None


@dataclass(frozen=True)
class Case:
    """An open case. `moved_bytes`: the least an arm must move, what its bound counts; `bound` says over
    which rate, "read" or "copy", and None when a launch does too little for a rate to bound it."""

    name: str
    moved_bytes: int
    bound: str | None
    candidates: Mapping[str, Candidate]
    absent: Mapping[str, str] = field(default_factory=dict)  # arm: why


@dataclass(frozen=True)
class Suite:
    """`names(parameters)` are the cases, `open(name, parameters, arms, board)` opens one; `ours` are arms
    of the project, `operation` their operation."""

    operation: str
    names: Callable[[Parameters], Sequence[str]]
    open: Callable[[str, Parameters, Sequence[str], GpuBoard], Case]


def suites() -> Mapping[str, Suite]:
    """Suites by name (imported here: each pulls in an operation)."""
    from hipbook.studies.timing import attention, rows

    return {
        "attention_decode": attention.SUITE,
        "quantize_q8k": rows.QUANTIZE,
        "gdn_post_conv": rows.POST_CONV,
    }


def find_suite(name: str) -> Suite:
    known = suites()
    if name not in known:
        raise BadArgument("suite", repr(name), f"one of: {', '.join(known)}")
    return known[name]
