"""Two arms of paged attention in the small decode: near ties, distributions, goldens, and the default's gate.

Everything a default owes before it flips (T15), on any board: the arms' logits over the same prefixes,
each arm's free run against its own golden, and the flag switched off against the base arm byte by byte.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hipbook import boards, paths
from hipbook.boards.base import Board
from hipbook.build import toolchain_identity
from hipbook.errors import BadArgument, HipbookError
from hipbook.measure.counts import CountVerdict
from hipbook.measure.near_ties import (
    Distribution,
    FlipGate,
    Greedy,
    byte_identical,
    compare_greedy,
    distribution,
    flip_gate,
    meets_golden,
)
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.attention_dispatch import FLAG
from hipbook.ops.paged_attention import run_call
from hipbook.oracle.paged_attention import reference
from hipbook.records.store import write_atomically
from hipbook.studies.tie_model import VOCABULARY, Attend, Decode, decode, make_model

PROMPT_TOKENS = 5
STEPS = 60  # a seed: 64 keys at the end, four blocks
GOLDEN_FILE = "goldens/decode_loop.json"  # under data/


@dataclass(frozen=True)
class TieStudy:
    """What the comparison of two arms gave."""

    base: str
    new: str
    choices: Greedy
    apart: Distribution
    flag_off: CountVerdict
    goldens: dict[str, list[int]]  # this run's free-running tokens, by arm
    golden: CountVerdict  # of the new arm, against the tree's

    @property
    def gate(self) -> FlipGate:
        return flip_gate(self.choices, self.apart, self.flag_off, self.golden)

    def rows(self) -> list[dict[str, object]]:
        """For a table: quantity, value, and what it is held against."""
        flips = self.choices.flips
        worst = max((flip.margin_ulps for flip in flips), default=0.0)
        return [
            {"quantity": "tokens on the same prefixes", "value": self.choices.tokens},
            {"quantity": "exact ties of the top two (bf16)", "value": self.choices.exact_ties},
            {"quantity": "flips", "value": len(flips)},
            {"quantity": "flips beyond the arms' errors", "value": len(self.choices.unexplained)},
            {"quantity": "widest margin of a flip, bf16 ulps", "value": worst},
            {"quantity": "widest distance of logits / both errors", "value": self.choices.worst_distance},
            {"quantity": "mean KL divergence, nats", "value": self.apart.mean_kl_nats},
            {"quantity": "top-k agreement", "value": self.apart.top_k_agreement},
            {"quantity": "flag off against the base arm", "value": self.flag_off.detail},
            {"quantity": "golden of the new arm", "value": self.golden.detail},
        ]


def study(
    base: str = "online",
    new: str = "decode_gqa",
    board: Board | str | None = None,
    *,
    tokens: int = STEPS,
    seed: int = 0,
) -> TieStudy:
    """Compare two arms over at least `tokens` tokens, from as many seeded models as that takes."""
    if tokens < 1 or base == new:
        raise BadArgument("tokens, arms", (tokens, base, new), "at least one token and two arms")
    where = boards.get(board) if board is None or isinstance(board, str) else board
    seeds = range(seed, seed + -(-tokens // STEPS))
    free = {arm: [] for arm in (base, new)}
    forced, flag_off = [], []
    for each in seeds:
        ours = _run(each, _arm(base, where))
        free[base].append(ours)
        free[new].append(_run(each, _arm(new, where)))
        forced.append(_run(each, _arm(new, where), forced=ours.tokens))
        with flag_switched_off():
            flag_off.append(_run(each, _arm("auto", where)))
    logits, errors = _stacked(free[base])
    new_logits, new_errors = _stacked(forced)
    goldens = {arm: [token for one in runs for token in one.tokens] for arm, runs in free.items()}
    return TieStudy(
        base,
        new,
        compare_greedy(logits, new_logits, errors, new_errors),
        distribution(logits, new_logits),
        byte_identical(_outputs(free[base]), _outputs(flag_off)),
        goldens,
        meets_golden(read_goldens(where, seeds), new, goldens[new]),
    )


@contextmanager
def flag_switched_off() -> Iterator[None]:
    """The public flag off in this process: `auto` then has to run the base arm."""
    before = os.environ.get(FLAG)
    os.environ[FLAG] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FLAG]
        else:
            os.environ[FLAG] = before


# --- goldens ---------------------------------------------------------------------------------------


def read_goldens(board: Board, seeds: range) -> dict[str, list[int]]:
    """Goldens by arm for this board and compiler, over all these seeds; arms that lack a seed are absent."""
    of_seed = [_golden_file().get(_golden_key(board), {}).get(str(seed), {}) for seed in seeds]
    arms = set.intersection(*(set(arms) for arms in of_seed))
    return {arm: [token for goldens in of_seed for token in goldens[arm]] for arm in sorted(arms)}


def write_goldens(found: TieStudy, board: Board, seeds: range) -> Path:
    """Put this run's tokens into the tree as the goldens of both arms; others stay."""
    if found.choices.unexplained:
        raise HipbookError("flips beyond the arms' errors: no golden is written from a wrong arm")
    known = _golden_file()
    of_board = known.setdefault(_golden_key(board), {})
    for place, seed in enumerate(seeds):
        part = slice(place * STEPS, (place + 1) * STEPS)
        of_board.setdefault(str(seed), {}).update({arm: all_[part] for arm, all_ in found.goldens.items()})
    path = paths.data() / GOLDEN_FILE
    write_atomically(path, _one_line_an_arm(known).encode())
    return path


def _golden_key(board: Board) -> str:
    """What a golden is of: the board and the compiler decide the bits."""
    return f"{board.name}; {toolchain_identity(board.arch)}"


def _golden_file() -> dict[str, dict[str, dict[str, list[int]]]]:
    """{board and compiler: {seed: {arm: tokens}}}; empty where the tree has none."""
    path = paths.data() / GOLDEN_FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _one_line_an_arm(goldens: dict) -> str:
    """JSON with an arm a line: a changed token is then a changed line in a review."""
    keys = []
    for key, seeds in sorted(goldens.items()):
        rows = [
            f"  {json.dumps(seed)}: {{\n"
            + ",\n".join(
                f"   {json.dumps(arm)}: {json.dumps(tokens)}" for arm, tokens in sorted(arms.items())
            )
            + "\n  }"
            for seed, arms in sorted(seeds.items(), key=lambda item: int(item[0]))
        ]
        keys.append(f" {json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
    return "{\n" + ",\n".join(keys) + "\n}\n"


# --- pieces ----------------------------------------------------------------------------------------


def _arm(arm: str, board: Board) -> Attend:
    def attend(call: AttentionCall) -> torch.Tensor:
        return run_call(call, arm=arm, board=board).out

    return attend


def _run(seed: int, attend: Attend, forced: tuple[int, ...] | None = None) -> Decode:
    model = make_model(seed, capacity=PROMPT_TOKENS + STEPS)
    prompt = np.random.default_rng([seed, 1]).integers(VOCABULARY, size=PROMPT_TOKENS).tolist()
    return decode(model, attend, _bound, prompt=prompt, steps=STEPS, forced=forced)


def _bound(call: AttentionCall) -> torch.Tensor:
    return reference(call).bound


def _stacked(runs: list[Decode]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([one.logits for one in runs]), np.concatenate([one.error for one in runs])


def _outputs(runs: list[Decode]) -> bytes:
    return b"".join(one.outputs for one in runs)
