"""One run of an arm of a small operation: held to its oracle first, and only then counted.

What `studies.arms` is to attention, for the quantizer, the grouped GEMV and GDN post-conv.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hipbook.boards.base import Counters, Dispatch
from hipbook.errors import BadArgument
from hipbook.measure import counts
from hipbook.measure.counts import CountVerdict, CountWord
from hipbook.notebooks.investigation import Investigation
from hipbook.studies.profile import CLASSES, classes

Row = dict[str, object]


@dataclass(frozen=True, eq=False)
class OpRun:
    """A launch and what the oracle said of it: `why` is its first objection, "" for none."""

    arm: str
    case: str  # of the inputs, in a few words
    dispatch: Dispatch
    witness: int  # what every workgroup wrote: the wrapper has seen that they agree
    expected_witness: int
    compared: int
    unit: str  # of what was compared: "bytes", "values"
    why: str

    @property
    def counters(self) -> Counters:
        """The dispatch's exact counts. BadArgument on a board that does not count."""
        if self.dispatch.counters is None:
            raise BadArgument("board", self.dispatch.board, "does not count", fix="use an emulated board")
        return self.dispatch.counters

    @property
    def workgroups(self) -> int:
        x, y, z = self.dispatch.grid
        return x * y * z

    @property
    def lanes(self) -> int:
        """Lanes of all waves launched."""
        return self.counters.totals["SQ_WAVES"] * self.wave_size

    @property
    def wave_size(self) -> int:
        (kernel,) = self.dispatch.code_object.kernels.values()
        return kernel.wave_size

    @property
    def correctness(self) -> CountVerdict:
        if self.why:
            return CountVerdict(CountWord.INCORRECT, self.why, self.compared)
        return counts.correctness(self.compared, 0, what=self.unit)

    @property
    def witnesses(self) -> list[int]:
        """One a workgroup, as `Investigation.ran` and `counts.reached` take them."""
        return [self.witness] * self.workgroups

    def live_lanes(self, buffer: str) -> int:
        """Distinct (wave, lane) that load from it."""
        return self.counters.buffers[buffer].live_lanes

    def bytes_read(self, *buffers: str) -> int:
        return sum(self.counters.buffers[name].bytes_read for name in buffers)

    def bytes_written(self, *buffers: str) -> int:
        return sum(self.counters.buffers[name].bytes_written for name in buffers)


def keep(run: Investigation, runs: Sequence[OpRun]) -> None:
    """Launches into the record; one word on results and one on witnesses for each arm."""
    for one in runs:
        run.ran(
            one.dispatch, subject=f"{one.arm}, {one.case}", arm=one.arm,
            expected=one.expected_witness, witness=one.witnesses,
        )  # fmt: skip
    for arm in dict.fromkeys(one.arm for one in runs):
        mine = [one for one in runs if one.arm == arm]
        where = f"{arm}, {mine[0].case}" if len(mine) == 1 else f"{arm}, {len(mine)} cases"
        run.verdict(where, counts.all_good([one.correctness for one in mine]), expected="CORRECT")
        codes = [code for one in mine for code in one.witnesses]
        run.verdict(where, counts.reached(codes, mine[0].expected_witness), expected="REACHED")
        run.fact(where, f"{mine[0].unit} compared", sum(one.compared for one in mine), mine[0].unit)


def outcome(
    run: Investigation, expected: Sequence[Row], counted: Mapping[str, Row], quantities: Sequence[str]
) -> list[Row]:
    """Each foretold quantity of each arm beside the counted one, with R10's word, kept as verdicts."""
    rows = []
    for foretold in expected:
        arm = str(foretold["arm"])
        for quantity in quantities:
            wanted, seen = foretold[quantity], counted[arm][quantity]
            verdict = counts.counts(quantity, wanted, seen)
            run.verdict(f"{arm}: {quantity}", verdict, expected="COUNTS_EQUAL")
            rows.append(
                {
                    "arm": arm,
                    "quantity": quantity,
                    "expected": wanted,
                    "counted": seen,
                    "verdict": str(verdict.word),
                }
            )
    return rows


def instructions(runs: Sequence[OpRun]) -> list[Row]:
    """Wave instructions by class, and how many of a vector instruction's lanes were at work; the first run
    is the base."""
    rows, base = [], runs[0].counters.totals["SQ_INSTS"]
    for one in runs:
        totals = one.counters.totals
        vector, lanes = totals["SQ_INSTS_VALU"] + totals["SQ_INSTS_VMEM"], one.wave_size
        active = totals["VALU_ACTIVE_LANES"] + totals["VMEM_ACTIVE_LANES"]
        rows.append(
            {
                "arm": one.arm,
                "wave instructions": totals["SQ_INSTS"],
                f"of {runs[0].arm}'s": totals["SQ_INSTS"] / base,
                "% of lanes active": round(100 * active / (vector * lanes), 1),
                **classes(one),
            }
        )
    return rows


__all__ = ["CLASSES", "OpRun", "instructions", "keep", "outcome"]
