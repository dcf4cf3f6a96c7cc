"""Notebook 03 on a GPU board: each arm's kernel by the vendor's profiler, and what profiling costs.

On AMD rocprofv3 runs a child process of ours, on NVIDIA the child runs torch.profiler on itself and Nsight
Compute runs it once more for counters. An emulated board has no clock: there it is only said what would be
profiled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipbook import paths
from hipbook.boards.base import Board
from hipbook.errors import BadArgument
from hipbook.measure import bandwidth
from hipbook.measure.bound import Bandwidth, Bounded, bounded
from hipbook.measure.thresholds import CONFIDENCE
from hipbook.ops import models
from hipbook.ops.attention_call import DTYPES
from hipbook.profile import nvidia, overhead, rocprofv3
from hipbook.profile.counted import Counted
from hipbook.profile.job import Job, subject
from hipbook.report import tables

if TYPE_CHECKING:
    from hipbook.notebooks.investigation import Investigation

Row = dict[str, object]
Rates = tuple[Bandwidth, Bandwidth, int]  # of memory, of the last-level cache, and that cache's bytes
COUNTING = {"warmup": 1, "batches": 1, "launches": 2}  # of a run under counters, which are not timed
PERCENT = f"{CONFIDENCE:.0%}".replace("%", " %")


@dataclass(frozen=True, eq=False)
class Profiled:
    """What was profiled; on an emulated board `session` and `counted` are None and `said` tells all."""

    job: Job
    floor_bytes: dict[str, int]  # K and V of a subject, each read once
    said: str
    session: overhead.Session | None = None
    counted: Counted | None = None
    rates: Rates | None = None  # None: the size of the last-level cache is unknown, so no bound is sound

    def bound(self, time: overhead.KernelTime) -> Bounded | None:
        """The kernel's time with the least time its floor bytes need. FasterThanBound above 1.03 (R11)."""
        if self.rates is None:
            return None
        memory, cache, size = self.rates
        return bounded(
            time.us, self.floor_bytes[time.subject], memory, cache=cache, cache_bytes=size, warm=True
        )


def measured_rates(board: Board) -> Rates | None:
    """Read bandwidths of the board, measured now; None where torch does not know its last-level cache."""
    size = board.identity().get("last_level_cache_bytes")
    return (bandwidth.read_memory(board), bandwidth.read_cache(board), size) if size else None


def job_of(
    board: Board, model: str, arms: Sequence[str], keys: Sequence[int], *, dtype: str, seed: int
) -> Job:
    """Every arm at every context length, on one layer of a model."""
    shape = models.get(model)
    q_heads, kv_heads = shape.heads()
    return Job(
        board=board.name, arms=list(arms), keys=list(keys), num_q_heads=q_heads, num_kv_heads=kv_heads,
        head_dim=shape.head_dim, dtype=dtype, seed=seed,
    )  # fmt: skip


def profile(
    board: Board,
    model: str,
    arms: Sequence[str],
    keys: Sequence[int],
    *,
    dtype: str = "bf16",
    seed: int = 0,
    runs: int = overhead.DEFAULT_RUNS,
    folder: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Profiled:
    """Profile the arms on a GPU board, `runs` processes a side; on an emulated board say what would be.

    The profiler's files stay in `folder` (default: runs/profile/BOARD-TIME of the checkout). Raises
    ProfileError when the profiler is missing or its output is not about the launches that were made.
    """
    job = job_of(board, model, arms, keys, dtype=dtype, seed=seed)
    floor = {
        subject(arm, n): models.get(model).floor_bytes_per_key(DTYPES[dtype].itemsize) * n
        for n in keys
        for arm in arms
    }
    if board.kind != "gpu":
        return Profiled(job, floor, foretold(job, runs))
    where = folder or paths.root() / "runs" / "profile" / f"{board.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    counting = job.model_copy(update=COUNTING)
    vendor = board.identity()["vendor"]
    if vendor == "amd":
        tool = rocprofv3.find()
        profiler, counter = partial(rocprofv3.kernel_trace, tool=tool), partial(rocprofv3.count, tool=tool)
    elif vendor == "nvidia":
        profiler, counter = nvidia.torch_profile, nvidia.ncu
    else:
        raise BadArgument("board", board.name, f"a board of {vendor}: its profiler is not known here")
    session = overhead.session(job, where / "times", profiler, runs=runs, seed=seed, progress=progress)
    counted = counter(counting, where / "counters")
    return Profiled(job, floor, _how(session, counted), session, counted, measured_rates(board))


def foretold(job: Job, runs: int) -> str:
    """What a GPU board would be asked, in one line."""
    return (
        f"nothing is profiled on {job.board}, which has no clock; on a GPU board rocprofv3 (AMD) or "
        f"torch.profiler and ncu (NVIDIA) would watch {job.launches_each} launches of each of "
        f"{len(job.subjects)} subjects in {runs} processes, beside {2 * runs} processes without a profiler"
    )


def _how(session: overhead.Session, counted: Counted) -> str:
    first, launches = session.traced[0], session.job.launches_each
    lost = sum(one.unusable for one in session.traced)
    return (
        f"{first.tool}: {len(session.traced)} processes of {launches} launches a subject, picked by "
        f"{first.how}; {first.others} dispatches a process were not ours, {lost} of ours had no usable "
        f"times; counters: {counted.tool}, {counted.passes} processes"
    )


def kernel_rows(seen: Profiled) -> list[Row]:
    """The kernels' times by the profiler's clock, with what they must read at least."""
    rows = []
    for one in seen.session.kernel_times():
        bound = seen.bound(one)
        rows.append(
            {
                "subject": one.subject,
                "kernel us (profiler, warm)": one.us,
                f"{PERCENT} interval": _interval(one.interval),
                "processes": one.runs,
                "floor bytes": seen.floor_bytes[one.subject],
                "bound us": bound.floor_us if bound else None,
                "of the bound": f"{bound.fraction:.0%}" if bound else None,
                "bound by": f"{bound.of.level}, {bound.of.gb_s:.4g} GB/s read" if bound else None,
            }
        )
    return rows


def cost_rows(seen: Profiled) -> list[Row]:
    """What the profiler costs, by the child's own clocks: profiled over unprofiled."""
    return [
        {
            "subject": one.subject,
            "figure": f"{one.figure}, {one.unit} ({one.clock})",
            "unprofiled": one.unprofiled,
            "profiled": one.profiled,
            "factor": one.factor,
            f"{PERCENT} interval": _interval(one.interval),
            "noise floor": f"{one.judgement.noise_floor:.1%}",
            "the profiled child is": str(one.judgement.verdict),
        }
        for one in seen.session.costs()
    ]


def counter_rows(seen: Profiled) -> list[Row]:
    return [
        {
            "counter": row["Counter"], "subject": row["Subject"], "median": row["Median"],
            "range": f"{row['Min']:.10g} .. {row['Max']:.10g}", "unit": row["Unit"],
            "launches": row["Launches"],
        }
        for row in seen.counted.values.iter_rows(named=True)
    ]  # fmt: skip


def told(seen: Profiled) -> str:
    """Everything as text: times, costs, counters, and why a counter has none."""
    if seen.session is None:
        return seen.said
    problems = dict.fromkeys(problem for one in seen.session.traced for problem in one.problems)
    parts = [seen.said, *(f"in the trace: {problem}" for problem in problems)]
    parts += [tables.text(kernel_rows(seen)), "what the profiler costs", tables.text(cost_rows(seen))]
    if counters := counter_rows(seen):
        parts.append(tables.text(counters))
    parts += [f"no value of {name}: {why}" for name, why in seen.counted.absent.items()]
    return "\n".join(parts)


@dataclass(frozen=True)
class _Binary:
    """A code object of which the identity alone came back from the child."""

    identity: dict[str, Any]


def keep(run: "Investigation", seen: Profiled) -> None:
    """The figures into the run's record, each with its profiler; nothing on an emulated board."""
    if seen.session is None:
        return
    for checked in seen.session.runs[0].done.subjects:
        run.built(_Binary(checked.code_object))
        reason = f"{checked.values_compared} values compared before and after timing in each process"
        run.verdict(f"{checked.name}, profiled", "CORRECT", reason, expected="CORRECT")
    tool = f"{seen.session.traced[0].tool}, {seen.session.traced[0].how}"
    for one in seen.session.kernel_times():
        source = (
            f"{tool}; {one.runs} processes of {one.launches} launches, {PERCENT} {_interval(one.interval)} us"
        )
        bound = seen.bound(one)
        least = bound and (bound.floor_us, f"K and V once, {bound.bytes_moved} B, from {bound.of.level}")
        run.fact(
            one.subject, "kernel time by the profiler", one.us, "us", kind="measured", source=source,
            bound=least,
        )  # fmt: skip
    for one in seen.session.costs():
        quantity = f"profiled over unprofiled: {one.figure} ({one.clock})"
        source = f"{tool}; {PERCENT} {_interval(one.interval)}, {one.judgement.verdict}"
        run.fact(one.subject, quantity, one.factor, "ratio", kind="measured", source=source)
    for row in seen.counted.values.iter_rows(named=True):
        source = f"{seen.counted.tool}, median of {row['Launches']} launches"
        run.fact(row["Subject"], row["Counter"], row["Median"], row["Unit"], kind="measured", source=source)
    run.not_claimed(*(f"{name}: {why}" for name, why in seen.counted.absent.items()))
    if seen.rates is None:
        run.not_claimed("a bound of the kernel times: the size of the last-level cache is not known")
    for rate in seen.rates[:2] if seen.rates else ():
        source = f"best of {rate.candidates}: {rate.kernel}; device events"
        run.fact(rate.level, "read bandwidth", rate.gb_s, "GB/s", kind="measured", source=source)


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4g} .. {ends[1]:.4g}"
