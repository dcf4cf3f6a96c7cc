"""AMD: rocprofv3 around the child. Kernel trace first, then counters in as many passes as the tool needs.

The tool writes CSV or a rocpd database; the trace readers read either. A pass runs the whole child again, for
rocprofv3 collects only what the hardware counts at once. Options as in ROCm's "Using rocprofv3" (6.2 to 7.x).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from hipbook.errors import BadArgument
from hipbook.profile.counted import Counted, believed
from hipbook.profile.job import Done, Job, ProfileError, ToolFailed
from hipbook.profile.process import TIMEOUT_S, Ran, how_ended, last_words, reason, run_child
from hipbook.profile.window import Traced, of_subjects, read_output, traced
from hipbook.traces import counters

Format = Literal["csv", "rocpd"]
VARIABLE = "HIPBOOK_ROCPROFV3"
PLACES = ("rocprofv3", "/opt/rocm/bin/rocprofv3")
OUTPUT = "rocprofv3"  # folder of the tool's files, in the child's

# What to ask first, by the question (docs/traces.md); one tuple is one pass unless the board takes fewer.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("SQ_WAVES_sum", "SQ_INSTS_VALU", "SQ_INSTS_WAVE32"),
    ("SQ_BUSY_CYCLES", "SQ_INSTS_WAVE32_LDS"),
    ("GL2C_HIT_sum", "GL2C_MISS_sum"),
    ("FETCH_SIZE",),
    ("GRBM_GUI_ACTIVE", "GRBM_COUNT"),
    ("LDSBankConflict",),
)


@dataclass(frozen=True)
class Tool:
    path: str
    version: str

    def __str__(self) -> str:
        return f"rocprofv3 {self.version}"


def find(path: str | None = None) -> Tool:
    """The rocprofv3 at `path`, in $HIPBOOK_ROCPROFV3, on PATH or in /opt/rocm; asked for its version.

    ProfileError when there is none, when it cannot be run, or when it is another program.
    """
    named = path or os.environ.get(VARIABLE)
    found = next(filter(None, map(shutil.which, (named,) if named else PLACES)), None)
    if found is None:
        raise ProfileError(
            f"no rocprofv3: {named or ' and '.join(PLACES)} is not an executable file",
            fix=f"install ROCm's rocprofiler-sdk, or name the tool in ${VARIABLE}",
        )
    try:
        asked = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=60, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfileError(f"{found} --version: {error}", fix="name rocprofv3's own executable") from None
    version = re.search(r"^\s*version:\s*(\S+)", asked.stdout, re.MULTILINE)
    if asked.returncode or version is None:
        told = last_words(asked.stdout + asked.stderr, 2) or "nothing"
        raise ProfileError(
            f"{found} is no rocprofv3: --version ended with {how_ended(asked.returncode)} and said {told}",
            fix="name rocprofv3's own executable: rocprof and rocprofv2 are other programs",
        )
    rocm = re.search(r"^\s*rocm_version:\s*(\S+)", asked.stdout, re.MULTILINE)
    return Tool(found, version[1] + (f" (ROCm {rocm[1]})" if rocm else ""))


def kernel_trace(
    job: Job,
    folder: Path,
    tool: Tool,
    *,
    output_format: Format = "csv",
    markers: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Traced:
    """Run `job` under a kernel trace in a new folder and pick its launches out of it.

    `markers` records ROCTX ranges and HIP calls too, which costs more and lets markers confirm launch order.
    """
    options = ["--kernel-trace", *(("--marker-trace", "--hip-runtime-trace") if markers else ())]
    ran = _run(job, folder, tool, options, output_format, timeout_s)
    return traced(read_output(folder / OUTPUT, str(tool), ran.words), ran, str(tool))


def count(
    job: Job,
    folder: Path,
    tool: Tool,
    *,
    groups: Sequence[Sequence[str]] = GROUPS,
    output_format: Format = "csv",
    timeout_s: float = TIMEOUT_S,
) -> Counted:
    """Counters of the job's profiled launches, a run of the child for each group.

    A group the tool fails on is halved and tried again; a single counter it fails on is absent, with the
    tool's words. A child that fails by itself is a ChildFailed at once. ProfileError when the tool failed on
    every counter.
    """
    if not groups or not all(groups):
        raise BadArgument("groups", [list(one) for one in groups], "at least one counter in every group")
    waiting, absent = [tuple(one) for one in groups], {}
    whole, ours, passes = [], [], 0
    while waiting:
        group = waiting.pop(0)
        passes += 1
        where = folder / f"pass_{passes}"
        try:
            done, rows = _one_pass(job, where, tool, group, output_format, timeout_s)
        except ToolFailed as failed:
            if len(group) > 1:
                half = len(group) // 2
                waiting[:0] = [group[:half], group[half:]]
            else:
                absent[group[0]] = f"not collected: {reason(failed.what)}"
            continue
        whole.append(rows)
        ours.append(of_subjects(rows, done, str(tool)))
        missing = set(group) - set(counters.names(rows))
        absent |= dict.fromkeys(sorted(missing), "not collected: the tool left it out without a word")
    if not whole:
        first, why = next(iter(absent.items()))
        raise ProfileError(f"{tool} collected no counter; of {first}: {why}", fix="`rocprofv3 --list-avail`")
    units = {name: str(entry["unit"]) for name, entry in counters.catalogue().items()}
    return believed(str(tool), pl.concat(whole), pl.concat(ours), absent, units, passes)


def _one_pass(
    job: Job, folder: Path, tool: Tool, group: Sequence[str], output_format: Format, timeout_s: float
) -> tuple[Done, pl.DataFrame]:
    ran = _run(job, folder, tool, ["--pmc", *group], output_format, timeout_s)
    try:
        table = read_output(folder / OUTPUT, str(tool), ran.words).counters
    except ProfileError as error:
        raise ToolFailed(error.what, fix=error.fix) from None
    if not table.height:
        raise ToolFailed(f"{tool} wrote no counter of {', '.join(group)}; it said:\n{last_words(ran.words)}")
    return ran.done, table


def _run(
    job: Job, folder: Path, tool: Tool, options: Sequence[str], output_format: Format, timeout_s: float
) -> Ran:
    output = ["--output-format", output_format, "-d", str(folder / OUTPUT)]
    return run_child(job, folder, prefix=[tool.path, *options, *output, "--"], timeout_s=timeout_s)
