"""Notebook 14: the arms of GDN post-conv on a decode step, and on the inputs that tell them apart."""

from collections.abc import Sequence
from itertools import product

import torch

from hipbook.boards.base import Board
from hipbook.checks.gdn_post_conv import GATE_TOKENS, SIZES
from hipbook.errors import BadArgument
from hipbook.notebooks.investigation import Investigation
from hipbook.ops.gdn_post_conv import ARMS, DTYPES, PostConvCall, PostConvResult, run_call
from hipbook.ops.models import Model
from hipbook.oracle import gdn_post_conv as oracle
from hipbook.records import reported as reports
from hipbook.studies.op_runs import OpRun, Row

REPORTS = ("mudler/vllm.cpp#1294", "mudler/vllm.cpp#1402")
COLUMNS = ["source", "board", "model", "arm", "quantity", "value", "unit", "status"]
QUANTITIES = ("lanes on conv", "lanes on gates", "lanes launched", "bytes read", "bytes written")
# a_log and dt_bias, 8 bytes a head, are left aside: a loop over tokens may keep them in registers
DIFFER = "serial and chunked differ, B"
READ, WRITTEN = ("conv", "a_raw", "b_raw"), ("q", "k", "v", "g", "beta")


def reported() -> list[Row]:
    """The rows of two reports that are about the kernel."""
    found = [row for source in REPORTS for row in reports.find(source=source)]
    return [vars(row) for row in found if row.arm.startswith("GdnPostConvK")]


def chunking(model: str = "14B-A3B") -> float:
    """How many times shorter a call became by chunking, as reported for a model like notebook 12's."""
    before, after = (
        reports.values(source=REPORTS[1], model=model, arm=f"GdnPostConvK {arm}")
        for arm in ("serial", "chunked")
    )
    return before[0] / after[0]


def heads_of(shape: Model) -> tuple[int, int, int, int]:
    """(Hk, Dk, Hv, Dv) of a model's GDN layers; BadArgument for a model that has none, or not all of them."""
    gdn = shape.gdn
    if gdn is None or None in (gdn.key_heads, gdn.value_heads, gdn.head_dim):
        raise BadArgument(
            "model", shape.name, "its data sheet has no GDN heads", fix="data/models lists who has"
        )
    return gdn.key_heads, gdn.head_dim, gdn.value_heads, gdn.head_dim


def expectation(
    arms: Sequence[str], heads: tuple[int, int, int, int], tokens: int, dtype: str, wave_size: int
) -> list[Row]:
    """What sizes alone foretell of `tokens` rows, an arm a row, for heads of whole vectors in every lane."""
    hk, dk, hv, dv = heads
    size, width = DTYPES[dtype].itemsize, 2 * hk * dk + hv * dv
    floor = tokens * (width + 2 * hv) * size
    again = tokens * 2 * hk * dk * size  # a thread reads q and k a second time to divide them
    written = tokens * (width * size + 2 * hv * 4)
    chunks, vectors = -(-hv * dv // dk), hv * dv // (16 // size)
    stretches, gates = -(-vectors // wave_size), -(-hv // wave_size)

    def whole(items: int) -> int:  # workgroups of 128 threads
        return -(-tokens * items // 128) * 128

    pieces = 2 * hk + stretches + gates
    per_arm = {  # lanes that load conv and gates, of a token; lanes launched; bytes
        "serial": (hk + 1, 1, whole(hk + 1), floor + again),
        "chunked": (hk + chunks, 1, whole(hk + chunks + 1), floor + again),
        "wave": (2 * hk * wave_size + vectors, hv, tokens * pieces * wave_size, floor),
    }
    return [
        {
            "arm": arm,
            "lanes on conv": per_arm[arm][0] * tokens,
            "lanes on gates": per_arm[arm][1] * tokens,
            "lanes launched": per_arm[arm][2],
            "bytes read": per_arm[arm][3],
            "floor": floor,
            "of the floor": round(per_arm[arm][3] / floor, 3),
            "bytes written": written,
        }
        for arm in arms
    ]


def run_arm(
    arm: str, call: PostConvCall, board: Board, case: str, wanted: oracle.PostConvReference | None = None
) -> tuple[OpRun, PostConvResult]:
    """One launch, every value held to the oracle's bound and v to the bit."""
    done = run_call(call, arm=arm, board=board)
    seen = oracle.compare(done.outputs, wanted or oracle.reference(call))
    witness = ARMS[arm].witness
    return OpRun(
        arm, case, done.dispatch, done.witness, witness, seen.values_compared, "values", seen.why
    ), done  # fmt: skip


def decode_step(
    arms: Sequence[str],
    heads: tuple[int, int, int, int],
    tokens: int,
    dtype: str,
    board: Board,
    seed: int,
) -> list[OpRun]:
    """Each arm on `tokens` rows of the model's sizes."""
    call = oracle.make("random", seed, tokens=tokens, heads=heads, dtype=DTYPES[dtype])
    wanted = oracle.reference(call)
    return [run_arm(arm, call, board, f"{tokens} tokens, {dtype}", wanted)[0] for arm in arms]


def counted(runs: Sequence[OpRun]) -> dict[str, Row]:
    """By arm, the quantities that `expectation` foretells."""
    return {
        one.arm: {
            "lanes on conv": one.live_lanes("conv"),
            "lanes on gates": one.live_lanes("a_raw"),
            "lanes launched": one.lanes,
            "bytes read": one.bytes_read(*READ),
            "bytes written": one.bytes_written(*WRITTEN),
        }
        for one in runs
    }


def same_bits(one: PostConvResult, other: PostConvResult) -> int:
    """How many bytes of the five results differ."""
    pairs = zip(one.outputs.named().values(), other.outputs.named().values(), strict=True)
    return sum(int((a.view(torch.uint8) != b.view(torch.uint8)).sum()) for a, b in pairs)


def telling_inputs(arms: Sequence[str], board: Board, seed: int, many: int) -> tuple[list[Row], list[OpRun]]:
    """Every family of inputs in every layout and dtype (Dv is not Dk), and `many` tokens of a small model:
    a table row a family and dtype, and the launches."""
    cases = [(*case, "uneven", GATE_TOKENS) for case in product(oracle.FAMILIES, oracle.LAYOUTS, DTYPES)]
    cases += [("random", "strided", dtype, "small", many) for dtype in DTYPES]
    both = {"serial", "chunked"} <= set(arms)
    rows: dict[tuple[str, str, int], Row] = {}
    runs = []
    for family, layout, dtype, size, tokens in cases:
        call = oracle.make(family, seed, tokens=tokens, heads=SIZES[size], dtype=DTYPES[dtype], layout=layout)
        wanted, results = oracle.reference(call), {}
        row = rows.setdefault(
            (family, dtype, tokens),
            {"family": family, "dtype": dtype, "tokens": tokens, "layouts": 0, "values": 0,
             "within bounds": True, DIFFER: 0 if both else None},
        )  # fmt: skip
        row["layouts"] += 1
        for arm in arms:
            one, results[arm] = run_arm(arm, call, board, f"{family} {layout} {dtype} {tokens}", wanted)
            runs.append(one)
            row["values"] += one.compared
            row["within bounds"] &= not one.why
        if both:
            row[DIFFER] += same_bits(results["serial"], results["chunked"])
    return list(rows.values()), runs


def keep_identity(run: Investigation, rows: Sequence[Row]) -> None:
    """Whether chunked's bytes are serial's, as one word; nothing where one of the two did not run."""
    counted = [row[DIFFER] for row in rows if row[DIFFER] is not None]
    if counted:
        word = "INCORRECT" if sum(counted) else "COUNTS_EQUAL"
        reason = f"{sum(counted)} bytes differ, {len(counted)} kinds of inputs"
        run.verdict("chunked against serial: results", word, reason, expected="COUNTS_EQUAL")


def picture(runs: Sequence[OpRun]) -> list[Row]:
    """Rows for the notebook's figure."""
    return [
        {
            "arm": one.arm,
            "live lanes": one.live_lanes("conv"),
            "bytes read": one.bytes_read(*READ) / 1e3,
            "instructions": one.counters.totals["SQ_INSTS"] / 1e3,
        }
        for one in runs
    ]


PANELS = {
    "live lanes": "lanes that load conv",
    "bytes read": "kB read",
    "instructions": "thousand wave instructions",
}
