"""Run an arm, check it against the oracle, and only then say what it cost.

Every attention notebook goes through here, so that no count is shown for a result nobody compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipbook.boards.base import Board, Counters
from hipbook.errors import BadArgument
from hipbook.measure import counts
from hipbook.measure.counts import CountVerdict
from hipbook.ops import tiled_ref
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.ops.paged_attention import AttentionCall, AttentionResult, run_call
from hipbook.ops.placement import placed
from hipbook.oracle import traffic
from hipbook.oracle.compare import Comparison, compare
from hipbook.oracle.paged_attention import Reference, reference
from hipbook.oracle.traffic import Traffic


@dataclass(frozen=True, eq=False)
class ArmRun:
    """One arm on one call of at least one token: its result and how it compares with the oracle."""

    call: AttentionCall
    result: AttentionResult
    comparison: Comparison

    @property
    def arm(self) -> str:
        return self.result.arm

    @property
    def witness(self) -> list[int]:
        """What each workgroup wrote: the wrapper has seen that they are all the same."""
        x, y, z = self.result.dispatch.grid
        return [self.result.witness] * (x * y * z)

    @property
    def counters(self) -> Counters:
        """The dispatch's exact counts. BadArgument on a board that does not count."""
        counters = self.result.dispatch.counters
        if counters is None:
            raise BadArgument("board", self.result.dispatch.board, "does not count; use an emulated board")
        return counters

    @property
    def expected(self) -> Traffic:
        """What the arm must load and synchronise, from shapes alone."""
        return traffic.expected(self.arm, self.call)

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V the kernel asked for."""
        buffers = self.counters.buffers
        return buffers["k_cache"].bytes_read + buffers["v_cache"].bytes_read

    @property
    def live_lanes(self) -> int:
        """Lanes of one workgroup that ever load from K."""
        x, y, z = self.result.dispatch.grid
        return self.counters.buffers["k_cache"].live_lanes // (x * y * z)

    @property
    def lanes(self) -> int:
        """Lanes a workgroup is launched with."""
        x, y, z = self.result.dispatch.block
        return x * y * z

    @property
    def correctness(self) -> CountVerdict:
        """CORRECT with the number of values compared, or INCORRECT with the oracle's first objection."""
        verdict = counts.correctness(self.comparison.values_compared, 0, what="values")
        if self.comparison.passed:
            return verdict
        return CountVerdict(counts.CountWord.INCORRECT, self.comparison.why, verdict.compared)

    @property
    def reach(self) -> CountVerdict:
        return counts.reached(self.witness, ALL_ARMS[self.arm].witness)


def run_arm(
    call: AttentionCall, arm: str, board: Board, *, expected: Reference | None = None, **options: object
) -> ArmRun:
    """Run `arm` ("auto" for the dispatch rule's choice) on `call` and hold it to the float64 oracle.

    `expected` saves computing the reference again for the next arm; `options` go to `Board.launch`.
    """
    result = run_call(placed(call, board.torch_device), arm=arm, board=board, **options)
    expected = expected or reference(call)
    if arm == tiled_ref.NAME:
        expected = expected.for_rounded_weights(call.v_cache.dtype)
    return ArmRun(call, result, compare(result.out.cpu(), expected))


def run_arms(call: AttentionCall, arms: Sequence[str], board: Board, **options: object) -> list[ArmRun]:
    """`run_arm` for each arm on one call, with one reference."""
    expected = reference(call)
    return [run_arm(call, arm, board, expected=expected, **options) for arm in arms]


def barriers_per_key(
    arm: str, board: Board, keys: int, make_call: Callable[[int], AttentionCall], **options: object
) -> int:
    """The slope: barriers a wave passes at keys + 1 less those at keys, both runs held to the oracle.

    `make_call(n)` is a call of one token that sees n keys. A run that the oracle calls INCORRECT has no
    slope: it is a BadArgument.
    """
    per_wave = []
    for n in (keys, keys + 1):
        run = run_arm(make_call(n), arm, board, **options)
        if not run.comparison.passed:
            raise BadArgument("arm", arm, f"is wrong at {n} keys: {run.comparison.why}")
        totals = run.counters.totals
        if totals["BARRIERS"] % totals["SQ_WAVES"]:
            raise BadArgument("arm", arm, "its waves do not all pass the same number of barriers")
        per_wave.append(totals["BARRIERS"] // totals["SQ_WAVES"])
    return per_wave[1] - per_wave[0]
