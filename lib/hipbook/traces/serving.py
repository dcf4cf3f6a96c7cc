"""`vllm bench serve` result files, and what two benchmark harnesses may be compared on.

One file is one repetition. A figure stands for several only when they agree (the stability gate of
hipbook.measure), and two harnesses are compared only on quantities for which both pay the same costs.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hipbook.errors import BadArgument
from hipbook.measure import comparable, stability
from hipbook.traces.trace import TraceError

# quantity -> (key in the file, unit, last digit that vLLM prints)
QUANTITIES = {
    "tpot": ("mean_tpot_ms", "ms", 0.01),
    "tpot_median": ("median_tpot_ms", "ms", 0.01),
    "tpot_p99": ("p99_tpot_ms", "ms", 0.01),
    "ttft": ("mean_ttft_ms", "ms", 0.01),
    "ttft_median": ("median_ttft_ms", "ms", 0.01),
    "itl": ("mean_itl_ms", "ms", 0.01),
    "e2el": ("mean_e2el_ms", "ms", 0.01),
    "request_throughput": ("request_throughput", "requests/s", 0.01),
    "output_throughput": ("output_throughput", "tokens/s", 0.01),
    "total_throughput": ("total_token_throughput", "tokens/s", 0.01),
}
# What a workload is: two files that differ in one of these measured different things.
WORKLOAD = (
    "model_id", "num_prompts", "max_concurrency", "request_rate", "burstiness", "total_input_tokens",
    "total_output_tokens", "backend", "endpoint_type",
)  # fmt: skip


@dataclass(frozen=True)
class Harness:
    """What a quantity costs in a harness: `pays` maps it to the costs inside it ("gpu", "http", ...)."""

    name: str
    pays: dict[str, frozenset[str]] = field(default_factory=dict)


_SERVED = frozenset({"gpu", "scheduler", "http", "tokenizer"})
# vllm bench serve is a client over HTTP. Time per output token is taken between tokens of one stream: the
# request's own HTTP and tokenizing come before the first of them.
VLLM_SERVE = Harness(
    "vllm bench serve",
    {
        "tpot": frozenset({"gpu", "scheduler"}),
        "itl": frozenset({"gpu", "scheduler"}),
        "ttft": _SERVED,
        "e2el": _SERVED,
        "output_throughput": _SERVED,
        "request_throughput": _SERVED,
    },
)
# A benchmark linked into the engine: no server, tokens handed in as numbers.
IN_PROCESS = Harness(
    "in-process bench",
    {
        "tpot": frozenset({"gpu", "scheduler"}),
        "ttft": frozenset({"gpu", "scheduler"}),
        "e2el": frozenset({"gpu", "scheduler"}),
        "output_throughput": frozenset({"gpu", "scheduler"}),
    },
)


@dataclass(frozen=True)
class Repetition:
    """One result file: its figures by quantity, the workload's identity, and requests that failed."""

    path: str
    figures: dict[str, float]
    workload: dict[str, object]
    completed: int
    failed: int


def read_result(path: Path) -> Repetition:
    """One `vllm bench serve --save-result` file. TraceError: not such a file, or no request completed."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TraceError(f"{path}: not a JSON file: {error}") from error
    if (
        not isinstance(data, dict)
        or "completed" not in data
        or not any(key in data for key, *_ in QUANTITIES.values())
    ):
        raise TraceError(
            f"{path}: not a vllm bench serve result: it has no `completed` and no figure of it",
            fix="write one with `vllm bench serve --save-result`",
        )
    completed = int(data["completed"])
    if completed <= 0:
        raise TraceError(f"{path}: no request completed: its figures are about nothing")
    prompts = data.get("num_prompts")
    figures = {
        name: float(data[key])
        for name, (key, *_) in QUANTITIES.items()
        if isinstance(data.get(key), int | float) and not isinstance(data.get(key), bool)
    }
    workload = {key: data[key] for key in WORKLOAD if key in data}
    return Repetition(path.name, figures, workload, completed, int(prompts) - completed if prompts else 0)


@dataclass(frozen=True)
class Series:
    """Repetitions of one workload: each quantity's values and whether one number may stand for them."""

    repetitions: tuple[Repetition, ...]

    def values(self, quantity: str) -> list[float]:
        if quantity not in QUANTITIES:
            raise BadArgument("quantity", quantity, f"one of {', '.join(QUANTITIES)}")
        return [one.figures[quantity] for one in self.repetitions if quantity in one.figures]

    def stability(self, quantity: str) -> stability.Stability:
        return stability.stability(self.values(quantity), resolution=QUANTITIES[quantity][2])

    def figure(self, quantity: str) -> float:
        """The median over repetitions; Refused where they disagree or there is only one."""
        _, unit, resolution = QUANTITIES[quantity]
        return stability.figure(self.values(quantity), what=quantity, unit=unit, resolution=resolution)

    def rows(self) -> list[dict[str, object]]:
        """One row a quantity that every repetition has, for a table."""
        rows = []
        for quantity, (_, unit, _) in QUANTITIES.items():
            values = self.values(quantity)
            if len(values) != len(self.repetitions):
                continue
            seen = self.stability(quantity)
            rows.append(
                {
                    "quantity": quantity,
                    "unit": unit,
                    "repetitions": ", ".join(f"{value:g}" for value in values),
                    "figure": self.figure(quantity) if seen.stable else None,
                    "stability": str(seen),
                }
            )
        return rows


def read_series(paths: Sequence[Path]) -> Series:
    """Repetitions in the order given. BadArgument when they are not of one workload, naming what differs."""
    if not paths:
        raise BadArgument("paths", "[]", "at least one result file")
    repetitions = [read_result(path) for path in paths]
    first = repetitions[0]
    for other in repetitions[1:]:
        found = comparable.differences(first.workload, other.workload)
        # token counts of a repetition may differ by what the model chose to stop at, within a per cent
        found = [one for one in found if not _nearly(one)]
        if found:
            raise BadArgument(
                "paths", other.path, f"another workload than {first.path}: {'; '.join(map(str, found))}",
                fix="give the repetitions of one workload",
            )  # fmt: skip
    return Series(tuple(repetitions))


def _nearly(one: comparable.Difference) -> bool:
    if not one.name.startswith("total_") or not all(isinstance(v, int | float) for v in (one.base, one.new)):
        return False
    return abs(one.base - one.new) <= 0.01 * max(one.base, one.new)


def shared(base: Harness, new: Harness) -> tuple[list[str], dict[str, str]]:
    """(quantities both harnesses measure at the same costs, the others with what only one of them pays)."""
    same, others = [], {}
    for quantity in sorted(set(base.pays) | set(new.pays)):
        if quantity not in base.pays or quantity not in new.pays:
            only = base.name if quantity in base.pays else new.name
            others[quantity] = f"measured by {only} alone"
        elif base.pays[quantity] != new.pays[quantity]:
            extra = {
                one.name: ", ".join(sorted(one.pays[quantity] - other.pays[quantity]))
                for one, other in ((base, new), (new, base))
            }
            told = "; ".join(f"{name} also pays {costs}" for name, costs in extra.items() if costs)
            others[quantity] = told
        else:
            same.append(quantity)
    return same, others


def require_shared(quantity: str, base: Harness, new: Harness) -> str:
    """The quantity, or comparable.NotComparable with what the two harnesses do share (T8)."""
    same, others = shared(base, new)
    if quantity in same:
        return quantity
    raise comparable.NotComparable(
        f"{quantity}: {others.get(quantity, 'measured by neither')}",
        fix=f"compare on what both pay alike: {', '.join(same) or 'nothing'}",
    )
