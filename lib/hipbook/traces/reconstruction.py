"""Two runs made up from the totals of a public report: its method, without its files.

RECONSTRUCTION, not a measurement. The source (mudler/vllm.cpp#1294, in data/reported) gives per-token totals
from (36 tokens - 4 tokens) / 32; its trace files were not published. Here a run of any number of
tokens is generated whose decode steps have exactly those totals, with what every real run has around
them: model load, a warm-up and a prefill in which the same kernels run, and jitter of single calls. What
the report does not say (order, the split of copies, names inside a class, launch times) is made up and
named so.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from hipbook.errors import BadArgument
from hipbook.records import reported
from hipbook.traces import schema
from hipbook.traces.trace import SourceFile, Trace

LABEL = "RECONSTRUCTION from reported totals (mudler/vllm.cpp#1294); not a measurement"
SOURCE, WORKLOAD = "mudler/vllm.cpp#1294", "decode, per token"
MS = 1_000_000  # ns

# Made up, each in one place: the report does not say.
CALL_JITTER = 0.08  # sigma of ln(duration) of single calls
LAUNCH_NS = 4_000  # an asynchronous launch on the CPU
SHORT_COPY_CALL_NS = 12_000  # a memcpy call that does not wait; the last one of a step waits for the rest
SUBMIT_MS = 20.0  # from a step's first call to its last
GAP_NS = 1_500  # between two dispatches of a busy queue
LATENCY_NS = 5_000  # from a launch call to the kernel at an empty queue
LOAD_COPIES, LOAD_COPY_MS = 200, 6.0
PASSES = (("warm-up", 1.7), ("prefill", 8.0))  # each runs every kernel once, this many times slower
# Whole phases repeat from run to run within this much per kernel. The reported digits leave 0.16 ms for
# all kernels over 32 tokens, so noise beyond that would show in the last of them.
RUN_NOISE_NS = 2_000
_FUNCTIONS = np.array(
    ["hipLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync", "hipMemcpy", "hipDeviceSynchronize"]
)
CLOCK_START_NS = 1_000 * 1_000_000_000


@dataclass(frozen=True)
class Group:
    """Calls and device time of one token in one kernel (or in the copies)."""

    name: str
    calls: int
    total_ns: int


@dataclass(frozen=True)
class Totals:
    """The report's per-token figures that the generator is built from, in ns and calls."""

    kernels: tuple[Group, ...]
    copies: Group
    memcpy_calls: int
    memcpy_ns: int
    wall_ns: int


@cache
def totals() -> Totals:
    """Read from data/reported; what a class has beyond its named kernels becomes one unnamed kernel."""

    def figure(arm: str, quantity: str) -> float:
        return reported.find(source=SOURCE, workload=WORKLOAD, arm=arm, quantity=quantity)[0].value

    def group(name: str, arm: str, calls: str = "dispatches") -> Group:
        return Group(name, int(figure(arm, calls)), round(figure(arm, "gpu_time") * MS))

    quantizer = group("vt::QuantizeQ8KK", "QuantizeQ8KK", "calls")
    post_conv = group("vt::GdnPostConvK", "GdnPostConvK", "calls")
    own = group("own", "vt kernels")
    rest = Group(
        "vt::KernelsNotNamedInTheReport",
        own.calls - quantizer.calls - post_conv.calls,
        own.total_ns - quantizer.total_ns - post_conv.total_ns,
    )
    gemm = group("Cijk_GemmNotNamedInTheReport", "hipBLASLt GEMM")
    fill = group("__amd_rocclr_copyOrFillBuffer", "copy/fill")
    return Totals(
        (quantizer, post_conv, rest, gemm, fill),
        Group("copies", int(figure("total", "copies")), round(figure("total", "real_h2d_d2h_time") * MS)),
        int(figure("total", "hipMemcpyAsync_api_calls")),
        round(figure("total", "hipMemcpyAsync_api_time") * MS),
        round(figure("total", "wall") * MS),
    )


def reconstruct(tokens: int, *, seed: int = 1294, run_noise_ns: int = RUN_NOISE_NS) -> Trace:
    """One run that generates `tokens` tokens (1 to 10,000), as if profiled with kernel, copy and API tracing.

    Two runs of one seed share nothing but the structure: their jitter differs (it is drawn per run).
    """
    if not 1 <= tokens <= 10_000:
        raise BadArgument("tokens", tokens, "1 to 10,000")
    run = _Run(np.random.default_rng([seed, tokens]), np.random.default_rng(seed), run_noise_ns)
    run.load()
    for label, slower in PASSES:
        run.steps(1, slower, label)
    run.steps(tokens, 1.0, "decode_step")
    run.finish()
    return run.trace(tokens, seed)


def pair(tokens_low: int = 4, tokens_high: int = 36, *, seed: int = 1294) -> tuple[Trace, Trace]:
    """The report's pair: runs of 4 and of 36 tokens."""
    return reconstruct(tokens_low, seed=seed), reconstruct(tokens_high, seed=seed)


def spread(total: int, weights: np.ndarray) -> np.ndarray:
    """`total` split in proportion to `weights` into int64 parts that add up to it exactly."""
    edges = np.floor(np.cumsum(weights) * (total / weights.sum())).astype(np.int64)
    edges[-1] = total
    return np.diff(edges, prepend=0)


class _Run:
    """The growing timeline: `now` is the CPU's clock; arrays of every phase are collected in order."""

    def __init__(self, jitter: np.random.Generator, order: np.random.Generator, noise_ns: int) -> None:
        self.jitter, self.noise_ns = jitter, noise_ns
        self.now = CLOCK_START_NS
        self.device_free = CLOCK_START_NS
        self.figures = totals()
        # operation numbers: the kernels' places, then "copy"; one order for every step, a copy at its end
        groups = [*self.figures.kernels, self.figures.copies]
        operations = np.repeat(np.arange(len(groups)), [one.calls for one in groups])
        self.copy = len(groups) - 1
        operations = np.delete(operations, np.flatnonzero(operations == self.copy)[-1:])
        self.operations = np.append(order.permutation(operations), self.copy)
        # memcpy calls: the copies, and as many of the copy kernels as the report has calls
        fills = np.flatnonzero(self.operations == self.copy - 1)
        by_kernel = self.figures.memcpy_calls - self.figures.copies.calls
        self.is_memcpy = self.operations == self.copy
        self.is_memcpy[fills[:by_kernel]] = True
        self.is_memset = np.zeros(len(self.operations), bool)
        self.is_memset[fills[by_kernel:]] = True
        self.device: list[dict[str, np.ndarray]] = []
        self.calls: list[dict[str, np.ndarray]] = []
        self.markers: list[tuple[str, int, int]] = []
        self.correlation = 0

    def _weights(self, count: int) -> np.ndarray:
        return np.exp(self.jitter.normal(0, CALL_JITTER, count))

    def _noise(self) -> int:
        return int(self.jitter.integers(-self.noise_ns, self.noise_ns + 1)) if self.noise_ns else 0

    def load(self) -> None:
        """Weights to the device, one blocking copy after another."""
        total = round(LOAD_COPIES * LOAD_COPY_MS * MS)
        lengths = spread(total + self._noise(), self._weights(LOAD_COPIES))
        starts = self.now + np.concatenate(([0], np.cumsum(lengths[:-1] + 50_000)))
        numbers = self._numbers(LOAD_COPIES)
        self.calls.append(
            {
                "start": starts,
                "end": starts + lengths + 20_000,
                "number": numbers,
                "what": np.full(LOAD_COPIES, 3),
            }
        )
        self.device.append(
            {"start": starts + 10_000, "end": starts + 10_000 + lengths, "number": numbers,
             "what": np.full(LOAD_COPIES, self.copy + 1)}
        )  # fmt: skip
        self.now = int(starts[-1] + lengths[-1]) + 5 * MS
        self.device_free = self.now

    def _numbers(self, count: int) -> np.ndarray:
        first = self.correlation + 1
        self.correlation += count
        return np.arange(first, first + count)

    def finish(self) -> None:
        """The program's last call, at the end of the last step's own work."""
        begins = np.array([self.now])
        length = 10_000 + self._noise()
        self.calls.append(
            {"start": begins, "end": begins + length, "number": self._numbers(1), "what": np.array([4])}
        )

    def steps(self, count: int, slower: float, label: str) -> None:
        """`count` steps whose totals are `count` times the per-token figures times `slower`, exactly for
        decode steps and within the run noise for the other phases."""
        figures, what = self.figures, np.tile(self.operations, count)
        exact = slower == 1.0
        device = np.zeros(len(what), np.int64)
        for number, group in enumerate([*figures.kernels, figures.copies]):
            here = np.flatnonzero(what == number)
            total = round(group.total_ns * slower) * count + (0 if exact else self._noise())
            device[here] = spread(total, self._weights(len(here)))
        calls, host_gap, rest = self._host(count, slower, exact)
        # the CPU: calls with gaps between them, then the step's own work until the next step
        step = np.concatenate([calls + host_gap], axis=None).reshape(count, -1)
        step[:, -1] += rest
        begins = self.now + np.concatenate(([0], np.cumsum(step.ravel())[:-1]))
        self.now += int(step.sum())
        # the device: in order, not before its launch, not before the one ahead of it
        ahead = np.concatenate(([0], np.cumsum(device[:-1] + GAP_NS)))
        earliest = np.maximum(begins + LATENCY_NS, self.device_free) - ahead
        starts = np.maximum.accumulate(earliest) + ahead
        self.device_free = int(starts[-1] + device[-1]) + GAP_NS
        numbers = self._numbers(len(what))
        kind = np.where(np.tile(self.is_memcpy, count), 1, np.where(np.tile(self.is_memset, count), 2, 0))
        self.calls.append({"start": begins, "end": begins + calls.ravel(), "number": numbers, "what": kind})
        self.device.append({"start": starts, "end": starts + device, "number": numbers, "what": what})
        width = len(self.operations)
        for one in range(count):  # a marker spans a step's submission, up to its last, waiting call
            self.markers.append((label, int(begins[one * width]), int(begins[one * width + width - 1]) - 1))

    def _host(self, count: int, slower: float, exact: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(call lengths, gaps behind each call, what is left of each step), ns; totals as reported."""
        figures, width = self.figures, len(self.operations)
        memcpy = np.tile(self.is_memcpy, (count, 1))
        calls = np.zeros((count, width), np.int64)
        launches = (~memcpy).sum()
        calls[~memcpy] = spread(LAUNCH_NS * launches, self._weights(launches))
        short = memcpy.copy()
        short[:, -1] = False
        calls[short] = spread(SHORT_COPY_CALL_NS * short.sum(), self._weights(short.sum()))
        waited = (
            round(figures.memcpy_ns * slower) * count - calls[short].sum() + (0 if exact else self._noise())
        )
        calls[:, -1] = spread(int(waited), np.exp(self.jitter.normal(0, 0.005, count)))
        submit = round(SUBMIT_MS * MS) - calls[:, :-1].sum(axis=1)
        gaps = np.zeros_like(calls)
        gaps[:, :-1] = submit[:, None] // (width - 1)
        period = spread(round(figures.wall_ns * slower) * count, np.exp(self.jitter.normal(0, 0.005, count)))
        rest = period - calls.sum(axis=1) - gaps.sum(axis=1)
        if (rest < 0).any():
            raise BadArgument("totals", "a step", "its calls do not fit its wall")
        return calls, gaps, rest

    def trace(self, tokens: int, seed: int) -> Trace:
        """The arrays as tables, labelled."""
        source = f"reconstruction_{tokens}_tokens"
        origin = {"Source": source, "Process": f"reconstruction/{tokens}"}
        trace = Trace(path=Path(source))
        device = {key: np.concatenate([one[key] for one in self.device]) for key in self.device[0]}
        calls = {key: np.concatenate([one[key] for one in self.calls]) for key in self.calls[0]}
        kernel = device["what"] < self.copy
        names = np.array([one.name for one in self.figures.kernels])
        rows = int(kernel.sum())
        trace.dispatches = _frame(schema.DISPATCHES, rows, origin, device, kernel, {
            "Agent_Id": 1, "Queue_Id": 1, "Stream_Id": 1, "Thread_Id": 1,
            "Dispatch_Id": np.arange(1, rows + 1),
            "Kernel_Id": device["what"][kernel] + 1,
            "Kernel_Name": names[device["what"][kernel]],
        })  # fmt: skip
        copied = np.flatnonzero(~kernel)
        into = (np.arange(len(copied)) % 2 == 0) | (device["what"][copied] > self.copy)
        trace.copies = _frame(schema.COPIES, len(copied), origin, device, ~kernel, {
            "Direction": np.where(into, "HOST_TO_DEVICE", "DEVICE_TO_HOST"), "Stream_Id": 1,
        })  # fmt: skip
        everything = np.full(len(calls["what"]), True)
        functions = {"Domain": "HIP_RUNTIME_API_EXT", "Function": _FUNCTIONS[calls["what"]]}
        thread = {"Process_Id": 1, "Thread_Id": 1}
        trace.api_calls = _frame(
            schema.API_CALLS, len(everything), origin, calls, everything, {**functions, **thread}
        )
        names, starts, ends = zip(*self.markers, strict=True)
        ranges = {"start": np.array(starts), "end": np.array(ends), "number": np.zeros(len(names), np.int64)}
        marks = {"Domain": "MARKER_CORE_RANGE_API", "Function": list(names)}
        everything = np.full(len(names), True)
        trace.markers = _frame(schema.MARKERS, len(names), origin, ranges, everything, {**marks, **thread})
        trace.facts = {"label": LABEL, "tokens": tokens, "seed": seed}
        trace.note(source, "reconstruction", LABEL)
        trace.sources.append(SourceFile(source, "reconstruction", "", "dispatches", rows))
        return trace


def _frame(table, rows, origin, arrays, mask, columns) -> pl.DataFrame:
    data = {
        **{name: pl.repeat(value, rows, eager=True) for name, value in origin.items()},
        "Row": np.arange(1, rows + 1),
        "Correlation_Id": arrays["number"][mask],
        "Start_Timestamp": arrays["start"][mask],
        "End_Timestamp": arrays["end"][mask],
    }
    for name, value in columns.items():
        data[name] = pl.repeat(value, rows, eager=True) if np.isscalar(value) else value
    return table.conform(pl.DataFrame(data))
