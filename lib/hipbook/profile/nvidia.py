"""NVIDIA: torch.profiler inside the child for times, and Nsight Compute around it for counters.

torch.profiler sees every kernel of the process's context (CUPTI), those of the driver's module API included.
`ncu` replays each launch of ours once per pass; where it is absent, or the driver refuses the counters, that
is said and nothing fails. Its CSV: one row per launch and metric behind a header that begins with "ID".
"""

import csv
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.profile.child import TORCH_TRACE
from hipbook.profile.counted import Counted, believed
from hipbook.profile.job import Job, ProfileError, ToolFailed
from hipbook.profile.process import TIMEOUT_S, last_words, reason, run_child
from hipbook.profile.window import Traced, of_subjects, read_output, traced

VARIABLE = "HIPBOOK_NCU"
PLACES = ("ncu", "/usr/local/cuda/bin/ncu")
LOG = "ncu.csv"  # in the child's folder

# Nsight Compute's names on sm_70 and later, by what they answer.
METRICS = (
    "gpu__time_duration.sum",
    "smsp__inst_executed.sum",
    "dram__bytes_read.sum",
    "lts__t_bytes.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "launch__registers_per_thread",
)
_EXTENTS = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")


def torch_profile(job: Job, folder: Path, *, timeout_s: float = TIMEOUT_S) -> Traced:
    """Run `job` in a new folder with torch.profiler on all of it, and pick its launches out of the trace."""
    ran = run_child(job.model_copy(update={"torch_trace": True}), folder, timeout_s=timeout_s)
    tool = f"torch.profiler {ran.done.torch}"
    return traced(read_output(folder / TORCH_TRACE, tool, ran.words), ran, tool)


def ncu(
    job: Job,
    folder: Path,
    *,
    path: str | None = None,
    metrics: Sequence[str] = METRICS,
    timeout_s: float = TIMEOUT_S,
) -> Counted:
    """Counters of the job's profiled launches by Nsight Compute, caches and clocks left as they are.

    Without ncu, or where it cannot count, every metric is absent with the reason; one that it does not know
    on this board is left out and the others are counted. Raises ChildFailed when the child fails by itself,
    ProfileError when what ncu counted are not the launches that were made.
    """
    tool, why = _find(path)
    if why:
        return Counted("ncu", absent=dict.fromkeys(metrics, why))
    wanted, unknown = list(metrics), {}
    for number in itertools.count(1):
        found = _one_run(job, folder / f"pass_{number}", tool, wanted, timeout_s)
        named = {name: why for name, why in found.absent.items() if name in why}  # the error is about it
        if found.values.height or not named or len(named) == len(wanted):
            break
        unknown |= named
        wanted = [name for name in wanted if name not in named]
    return replace(found, absent=found.absent | unknown, passes=number)


def _one_run(
    job: Job, folder: Path, tool: tuple[str, str], metrics: Sequence[str], timeout_s: float
) -> Counted:
    """One run of the child under ncu."""
    log = folder / LOG
    kernels = "|".join(sorted({ALL_ARMS[arm].kernel for arm in job.arms}))
    prefix = [
        tool[0], "--csv", "--log-file", str(log), "--print-units", "base", "--target-processes", "all",
        "--clock-control", "none", "--cache-control", "none", "--kernel-name-base", "function",
        "--kernel-name", f"regex:^({kernels})$", "--metrics", ",".join(metrics),
    ]  # fmt: skip
    try:
        ran = run_child(job, folder, prefix=prefix, timeout_s=timeout_s)
    except ToolFailed as failed:
        return Counted(tool[1], absent=dict.fromkeys(metrics, _refusal(log, failed.what)), passes=1)
    rows, units = read_ncu(log)
    if not rows.height:
        why = _refusal(log, f"{tool[1]} counted nothing: {last_words(ran.words, 2) or 'it said nothing'}")
        return Counted(tool[1], absent=dict.fromkeys(metrics, why), passes=1)
    ours = of_subjects(rows, ran.done, tool[1])
    missing = sorted(set(metrics) - set(rows["Counter_Name"]))
    absent = dict.fromkeys(missing, "not collected: ncu left it out")
    return believed(tool[1], rows, ours, absent, units, 1)


def read_ncu(path: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """(rows, unit of each metric) of an `ncu --csv` log; ncu's own lines before the header are passed over.

    Rows have the names of the traces' counter table, one per launch and metric; a value that is no number
    (n/a) is null. No rows where the log has no header. ProfileError for a header without a column needed.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.DictReader(lines))
    needed = ("ID", "Process ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
    lacking = [name for name in needed if table and name not in table[0]]
    if lacking:
        raise ProfileError(
            f"{path.name}: ncu's CSV without {', '.join(lacking)}; it has {', '.join(map(str, table[0]))}",
            fix="the details page is read, not the raw one: leave --page alone",
        )
    rows, units = [], {}
    for row in table:
        units[row["Metric Name"]] = row["Metric Unit"] or "counts"
        rows.append(
            {
                "Process": row["Process ID"],
                "Pass": "pass_1",
                "Dispatch_Id": int(row["ID"]),
                "Kernel_Name": row["Kernel Name"],
                "Counter_Name": row["Metric Name"],
                "Counter_Value": _number(row["Metric Value"]),
                **_geometry(row.get("Block Size"), row.get("Grid Size")),
            }
        )
    axes = [f"{what}_Size_{axis}" for what in ("Workgroup", "Grid") for axis in "XYZ"]
    schema = {
        **dict.fromkeys(("Process", "Pass", "Kernel_Name", "Counter_Name"), pl.String),
        "Counter_Value": pl.Float64, **dict.fromkeys(("Dispatch_Id", *axes), pl.Int64),
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema), units


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _geometry(block: str | None, grid: str | None) -> dict[str, int]:
    """Work-items on each axis, as the traces count them; ncu's grid counts blocks."""
    sizes, blocks = _EXTENTS.fullmatch(block or ""), _EXTENTS.fullmatch(grid or "")
    if not sizes or not blocks:
        return {}
    sizes, blocks = [[int(n) for n in found.groups()] for found in (sizes, blocks)]
    return {
        **{f"Workgroup_Size_{axis}": size for axis, size in zip("XYZ", sizes, strict=True)},
        **{f"Grid_Size_{axis}": n * size for axis, n, size in zip("XYZ", blocks, sizes, strict=True)},
    }


def _find(path: str | None) -> tuple[tuple[str, str], str]:
    """((executable, name and version), why there is none)."""
    named = path or os.environ.get(VARIABLE)
    found = next(filter(None, map(shutil.which, (named,) if named else PLACES)), None)
    if found is None:
        return ("", ""), f"no Nsight Compute: {named or ' and '.join(PLACES)} is not an executable file"
    try:
        asked = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=60, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ("", ""), f"{found} --version: {error}"
    version = re.search(r"Version\s+(\S+)", asked.stdout)
    if "Nsight Compute" not in asked.stdout or version is None:
        told = last_words(asked.stdout + asked.stderr, 1) or "nothing"
        return ("", ""), f"{found} is not Nsight Compute: --version said {told}"
    return (found, f"ncu {version[1]}"), ""


def _refusal(log: Path, otherwise: str) -> str:
    """ncu's first error, in one line; a driver that keeps counters for administrators is the usual one."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    found = re.search(r"^==ERROR==\s*(.+)$", text, re.MULTILINE)
    return f"refused: {found[1].strip()}" if found else reason(otherwise)
