"""How fast traces read: a million rows of CSV and rocpd, and 40,000 dispatches of JSON, beside other tools.

    python bench/traces.py                       about two minutes, files in a temporary folder
    python bench/traces.py --folder build/big    keep the files and use them again

Everything runs in this one process, after the imports, on files in the page cache. The other tools do
less: they group by name and sum, and take every row at its word. duckdb is optional (pip install duckdb).
The peak is the process's resident memory during the step; ours run first, before anybody's memory is kept.
"""

import argparse
import gc
import json
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

from hipbook.traces import schema, stats
from hipbook.traces.read import read_trace
from hipbook.traces.trace import Trace
from hipbook.traces.write import write_csv
from hipbook.traces.write_rocpd import write_rocpd

try:
    import duckdb
except ImportError:
    duckdb = None

ROWS = 1_010_045  # the row count of the figures in the format notes
JSON_DISPATCHES = 40_000
KERNELS = 80
NAME_BYTES = 310  # on average over the rows: a row of 431 bytes, as in those figures
TARGETS = {"CSV": (1.2, 500), "rocpd": (1.5, None), "JSON": (2.0, None)}  # s, MB


def names(rng: np.random.Generator, which: np.ndarray) -> list[str]:
    """Kernel names as long as real ones: most short, a few of nearly two thousand characters; scaled to
    NAME_BYTES on average over the rows."""
    length = rng.lognormal(5.3, 1.0, KERNELS)
    uses = np.bincount(which, minlength=KERNELS) / len(which)
    length = np.clip(length * NAME_BYTES / (length * uses).sum(), 40, 1900).astype(int)
    filler = "at::native::Functor<float, std::array<char*, 2ul> >, " * 40
    found = []
    for number, wanted in enumerate(length):
        head = f"void vendor::kernel_{number}<"
        found.append(f"{head}{filler[: wanted - len(head) - 8]}>(int, x)")
    return found


def made(rows: int, seed: int = 1) -> Trace:
    """A trace of `rows` dispatches on five queues, seeded."""
    rng = np.random.default_rng(seed)
    which = rng.zipf(1.3, rows) % KERNELS
    kernels = names(rng, which)
    length = rng.lognormal(9, 1.2, rows).astype(np.int64) + 800
    start = 63_857_982_592_000 + np.cumsum(rng.integers(1, 40_000, rows))
    number = np.arange(1, rows + 1)
    frame = pl.DataFrame(
        {
            "Source": pl.repeat("bench", rows, eager=True),
            "Process": pl.repeat("bench", rows, eager=True),
            "Row": number,
            "Agent_Id": np.full(rows, 2),
            "Queue_Id": rng.integers(16, 21, rows),
            "Stream_Id": rng.integers(0, 567, rows),
            "Thread_Id": np.full(rows, 908),
            "Dispatch_Id": number,
            "Kernel_Id": which + 10,
            "Kernel_Name": pl.Series(kernels, dtype=pl.Categorical).gather(which),
            "Correlation_Id": number,
            "Start_Timestamp": start,
            "End_Timestamp": start + length,
            **{name: np.full(rows, 0) for name in ("LDS_Block_Size", "Scratch_Size", "Accum_VGPR_Count")},
            "VGPR_Count": np.full(rows, 24),
            "SGPR_Count": np.full(rows, 112),
            "Workgroup_Size_X": np.full(rows, 256),
            "Grid_Size_X": rng.integers(1, 4000, rows) * 256,
            **{f"{size}_Size_{axis}": np.full(rows, 1) for size in ("Workgroup", "Grid") for axis in "YZ"},
        }
    )
    return Trace(path=Path("bench"), dispatches=schema.DISPATCHES.conform(frame))


def sdk_json(trace: Trace) -> dict:
    """The dispatches as rocprofv3 JSON, one process."""
    kernels = trace.dispatches.select("Kernel_Id", pl.col("Kernel_Name").cast(pl.String)).unique().rows()
    records = [
        {
            "size": 184, "kind": 11, "operation": 2, "thread_id": row["Thread_Id"],
            "correlation_id": {"internal": row["Correlation_Id"], "external": 0},
            "start_timestamp": row["Start_Timestamp"], "end_timestamp": row["End_Timestamp"],
            "stream_id": {"handle": row["Stream_Id"]},
            "dispatch_info": {
                "size": 72, "agent_id": {"handle": 37946}, "queue_id": {"handle": row["Queue_Id"]},
                "kernel_id": row["Kernel_Id"], "dispatch_id": row["Dispatch_Id"], "private_segment_size": 0,
                "group_segment_size": 0, "workgroup_size": {"x": row["Workgroup_Size_X"], "y": 1, "z": 1},
                "grid_size": {"x": row["Grid_Size_X"], "y": 1, "z": 1},
            },
        }
        for row in trace.dispatches.iter_rows(named=True)
    ]  # fmt: skip
    process = {
        "metadata": {"pid": 908},
        "agents": [{"id": {"handle": 37946}, "node_id": 2, "type": 2}],
        "kernel_symbols": [
            {"kernel_id": number, "formatted_kernel_name": name, "arch_vgpr_count": 24}
            for number, name in kernels
        ],
        "strings": {"buffer_records": []},
        "buffer_records": {"kernel_dispatch": records},
    }
    return {"rocprofiler-sdk-tool": [process]}


def generate(folder: Path, rows: int) -> dict[str, Path]:
    """The three files, made where they are missing."""
    paths = {
        "CSV": folder / f"{rows}_kernel_trace.csv",
        "rocpd": folder / f"{rows}_results.db",
        "JSON": folder / f"{JSON_DISPATCHES}_results.json",
    }
    folder.mkdir(parents=True, exist_ok=True)
    missing = [kind for kind, path in paths.items() if not path.exists()]
    if set(missing) & {"CSV", "rocpd"}:
        trace = made(rows)
        if "CSV" in missing:
            write_csv(trace, folder, str(rows))
        if "rocpd" in missing:
            write_rocpd(trace, paths["rocpd"])
    if "JSON" in missing:
        paths["JSON"].write_text(json.dumps(sdk_json(made(JSON_DISPATCHES))))
    return paths


class Peak(threading.Thread):
    """Samples this process's resident memory while a step runs; in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest, self.stop = 0.0, threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.005):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.highest = max(self.highest, pages * 4096 / 1e6)


def timed(step: Callable[[], dict[str, int]], repeats: int) -> tuple[float, float, dict[str, int]]:
    """(best seconds of `repeats`, peak MB, total ns by kernel)."""
    best, peak = float("inf"), Peak()
    peak.start()
    for _ in range(repeats):
        gc.collect()
        begun = time.perf_counter()
        result = step()
        best = min(best, time.perf_counter() - begun)
    peak.stop.set()
    peak.join()
    return best, peak.highest, result


def ours(path: Path) -> dict[str, int]:
    table = stats.per_kernel(read_trace(path, times_only=True).dispatches)
    return dict(table.select("Kernel_Name", "Total_Ns").rows())


def with_polars(path: Path) -> dict[str, int]:
    length = (pl.col("End_Timestamp") - pl.col("Start_Timestamp")).sum()
    return dict(pl.scan_csv(path).group_by("Kernel_Name").agg(length).collect().rows())


def with_duckdb(path: Path) -> dict[str, int]:
    query = f"SELECT Kernel_Name, sum(End_Timestamp - Start_Timestamp) FROM read_csv('{path}') GROUP BY 1"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        return {name: int(total) for name, total in connection.execute(query).fetchall()}


def with_pandas(path: Path) -> dict[str, int]:
    table = pd.read_csv(path, usecols=["Kernel_Name", "Start_Timestamp", "End_Timestamp"])
    length = table["End_Timestamp"] - table["Start_Timestamp"]
    return {name: int(total) for name, total in length.groupby(table["Kernel_Name"]).sum().items()}


def with_sqlite(path: Path) -> dict[str, int]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    dispatch = next(name for name in tables if name.startswith("rocpd_kernel_dispatch"))
    symbol = next(name for name in tables if name.startswith("rocpd_info_kernel_symbol"))
    totals = connection.execute(
        f'SELECT kernel_id, sum("end" - start) FROM "{dispatch}" GROUP BY 1'
    ).fetchall()
    named = dict(connection.execute(f'SELECT id, display_name FROM "{symbol}"').fetchall())
    connection.close()
    return {named[kernel]: total for kernel, total in totals}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many is printed")
    parser.add_argument("--folder", type=Path, help="keep the files here; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        paths = generate(options.folder or Path(temporary), options.rows)
        for path in paths.values():
            with path.open("rb") as handle:  # into the page cache
                while handle.read(1 << 24):
                    pass
        return report(paths, options.repeats)


def report(paths: dict[str, Path], repeats: int) -> int:
    steps: list[tuple[str, str, Callable[[Path], dict[str, int]]]] = [
        ("CSV", "hipbook: read, check, per-kernel statistics", ours),
        ("rocpd", "hipbook: read, check, per-kernel statistics", ours),
        ("JSON", "hipbook: read, check, per-kernel statistics", ours),
        ("CSV", "polars: group by name and sum", with_polars),
        *([("CSV", "duckdb: group by name and sum", with_duckdb)] if duckdb else []),
        ("CSV", "pandas: group by name and sum", with_pandas),
        ("rocpd", "sqlite: group by kernel id and sum", with_sqlite),
    ]
    missed, expected = 0, {}
    for kind, what, step in steps:
        path = paths[kind]
        seconds, peak, totals = timed(lambda step=step, path=path: step(path), repeats)
        if expected.setdefault(kind, totals) != totals:
            print(f"{what}: other sums than ours")
            missed += 1
        line = (
            f"{kind:5} {path.stat().st_size / 1e6:6.0f} MB  {what:46} {seconds:6.2f} s  {peak:6.0f} MB peak"
        )
        if step is ours:
            limit_s, limit_mb = TARGETS[kind]
            met = seconds <= limit_s and (limit_mb is None or peak <= limit_mb)
            line += (
                f"   target {limit_s} s"
                + (f", {limit_mb} MB" if limit_mb else "")
                + (": met" if met else ": MISSED")
            )
            missed += not met
        print(line, flush=True)
    if not duckdb:
        print("duckdb is not installed: not compared")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
