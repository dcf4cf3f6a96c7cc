"""A stand-in for rocprofv3 where there is no AMD GPU: runs the program it is given on the emulated board and
writes what the real tool writes, in its formats and with its habits.

Columns, quoting, file names and number formats are those of AMD's own samples (a test holds the headers to
them); rows are in buffer order, other kernels stand between ours, kernels run long after their launch calls,
and a set of counters the hardware cannot take ends in an abort. $STAND_IN names what shall go wrong.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
KERNELS = (
    "Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name",
    "Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size", "Scratch_Size", "VGPR_Count",
    "Accum_VGPR_Count", "SGPR_Count", "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z",
    "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z",
)  # fmt: skip
CALLS = (
    "Domain",
    "Function",
    "Process_Id",
    "Thread_Id",
    "Correlation_Id",
    "Start_Timestamp",
    "End_Timestamp",
)
COUNTERS = (
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size",
    "Kernel_Id", "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count",
    "Accum_VGPR_Count", "SGPR_Count", "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp",
)  # fmt: skip
VERSION = """\
             version: 1.0.0
        git_revision: 0000000
        library_arch: x86_64-linux-gnu
         system_name: Linux
    system_processor: x86_64
      system_version: 6.8.0
         compiler_id: GNU
    compiler_version: 13.3.0
        rocm_version: 7.1.0
"""
# What each counter reads, from the exact counts of a launch; LDSBankConflict reads zero, as on gfx115x.
READINGS = {
    "SQ_WAVES_sum": lambda totals: totals["SQ_WAVES"],
    "SQ_INSTS_VALU": lambda totals: totals["SQ_INSTS_VALU"],
    "SQ_INSTS_WAVE32": lambda totals: totals["SQ_INSTS"],
    "FETCH_SIZE": lambda totals: totals["BYTES_READ"] / 1024,
    "LDSBankConflict": lambda totals: 0,
}
COPY = "__amd_rocclr_copyBuffer"  # what torch's fills and copies show up as
COPY_TOTALS = {"SQ_WAVES": 64, "SQ_INSTS_VALU": 640, "SQ_INSTS": 900, "BYTES_READ": 2048}
CLOCK_NS, STEP_NS, LATE_NS = 1_000_000_000, 20_000, 400_000_000


def main(argv: list[str]) -> int:
    faults = set(filter(None, os.environ.get("STAND_IN", "").split(",")))
    if argv == ["--version"]:
        print(VERSION if "other tool" not in faults else "ROCm version: 6.1.2, rocprof")
        return 0
    own, program = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    options = parse(own)
    counters, folder = options.get("--pmc", []), Path(options["-d"][0])
    limit = int(os.environ.get("STAND_IN_LIMIT", "8"))
    if len(counters) > limit:
        print(
            "F0101 tool.cpp:1] Could not construct profile cfg failed with error code 38: Request exceeds "
            "the capabilities of the hardware to collect", file=sys.stderr, flush=True,
        )  # fmt: skip
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), signal.SIGABRT)
    unknown = [name for name in counters if name not in READINGS]
    if unknown:
        print(f"Warning: Unable to find counters: [{', '.join(unknown)}]", file=sys.stderr)
    code, events = run(program, folder, "--marker-trace" in options)
    if "nothing written" in faults:
        return code
    rows = launches(events, faults)
    kinds = options["--output-format"]
    prefix = f"{socket.gethostname()}/{events[0]['pid'] if events else os.getpid()}"
    base = folder / "pass_1" if counters else folder
    if "csv" in kinds:
        write_csv(base, prefix, events, rows, options)
    if "rocpd" in kinds:
        write_rocpd(base, prefix, events, rows, options)
    return code


def parse(arguments: list[str]) -> dict[str, list[str]]:
    known = ("--kernel-trace", "--marker-trace", "--hip-runtime-trace", "--pmc", "--output-format", "-d")
    options: dict[str, list[str]] = {}
    for argument in arguments:
        if argument.startswith("-"):
            if argument not in known:
                sys.exit(f"rocprofv3: error: unrecognized arguments: {argument}")
            current = options.setdefault(argument, [])
        else:
            current.append(argument)
    return options


def run(program: list[str], folder: Path, markers: bool) -> tuple[int, list[dict]]:
    """Run the program and read what it launched; with $STAND_IN_REPLAY, as an earlier run left it."""
    replayed = os.environ.get("STAND_IN_REPLAY")
    log = folder.parent / "launches.jsonl"
    if replayed:
        for name in ("done.json", "launches.jsonl"):
            (folder.parent / name).write_bytes((Path(replayed) / name).read_bytes())
        code = 0
    else:
        inside = os.pathsep.join(filter(None, (str(HERE / "intercept"), os.environ.get("PYTHONPATH"))))
        extra = {"PYTHONPATH": inside, "STAND_IN_LOG": str(log)} | (
            {"STAND_IN_MARKERS": "1"} if markers else {}
        )
        code = subprocess.call(program, env=os.environ | extra)
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    return code, [json.loads(line) for line in lines]


def launches(events: list[dict], faults: set[str]) -> list[dict]:
    """Kernel rows: ours as they were launched, a copy before each; device times far behind the calls."""
    rows, device = [], CLOCK_NS + LATE_NS
    for at, event in enumerate(events):
        if event["event"] != "launch":
            continue
        for kernel in (COPY, event["kernel"]):
            ours = kernel != COPY
            length = event["totals"]["SQ_INSTS"] if ours else 1_500
            number, called = len(rows) + 1, CLOCK_NS + at * STEP_NS + (500 if ours else 100)
            rows.append(
                {
                    "number": number, "kernel": kernel, "called": called, "start": device,
                    "end": device + length, "grid": event["grid"] if ours else [4, 1, 1],
                    "block": event["block"] if ours else [512, 1, 1],
                    "totals": event["totals"] if ours else COPY_TOTALS,
                    "lds": event["lds"] if ours else 0, "scratch": event["scratch"] if ours else 0,
                    "vgprs": event["vgprs"] if ours else 8, "sgprs": event["sgprs"] if ours else 16,
                    "pid": event["pid"],
                }
            )  # fmt: skip
            device += length + 1_000
    if "wrong kernel" in faults:
        rows[3]["kernel"] = "paged_attention_online"
    if "another kernel" in faults:
        rows = [row | {"kernel": COPY} for row in rows]
    if "a launch lost" in faults:
        del rows[3]
    if "no times" in faults:
        rows = [row | {"start": 0, "end": 0} for row in rows]
    return rows


def quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def table(columns: tuple[str, ...], rows: list[dict[str, object]]) -> str:
    lines = [",".join(map(quoted, columns))]
    return "\n".join(lines + [",".join(quoted(row[name]) for name in columns) for row in rows]) + "\n"


def common(row: dict) -> dict[str, object]:
    ids = {"Agent_Id": "Agent 1", "Queue_Id": 1, "Stream_Id": 0, "Thread_Id": row["pid"]}
    return {
        **ids, "Kind": "KERNEL_DISPATCH", "Process_Id": row["pid"], "Dispatch_Id": row["number"],
        "Kernel_Id": 10 + len(row["kernel"]), "Kernel_Name": row["kernel"], "Correlation_Id": row["number"],
        "Start_Timestamp": row["start"], "End_Timestamp": row["end"],
        "LDS_Block_Size": -(-row["lds"] // 512) * 512, "Scratch_Size": row["scratch"],
        "VGPR_Count": row["vgprs"], "Accum_VGPR_Count": 0, "SGPR_Count": row["sgprs"],
    }  # fmt: skip


def kernel_rows(rows: list[dict]) -> list[dict[str, object]]:
    """In buffer order, which is not time order."""
    buffered = [row for at in range(0, len(rows), 4) for row in reversed(rows[at : at + 4])]
    return [
        common(row)
        | {f"Workgroup_Size_{axis}": size for axis, size in zip("XYZ", row["block"], strict=True)}
        | {
            f"Grid_Size_{axis}": size * n
            for axis, size, n in zip("XYZ", row["block"], row["grid"], strict=True)
        }
        for row in buffered
    ]


def counter_rows(rows: list[dict], counters: list[str]) -> list[dict[str, object]]:
    found = []
    for row in rows:
        (x, y, z), (gx, gy, gz) = row["block"], row["grid"]
        for name in sorted(set(counters) & set(READINGS)):
            value = READINGS[name](row["totals"])
            found.append(
                common(row)
                | {"Workgroup_Size": x * y * z, "Grid_Size": x * y * z * gx * gy * gz}
                | {"Counter_Name": name, "Counter_Value": Fixed(value)}
            )
    return found


class Fixed(float):
    """Printed as the tool prints a counter."""

    def __str__(self) -> str:
        return f"{float(self):.6f}"


def call_rows(rows: list[dict]) -> list[dict[str, object]]:
    return [
        {"Domain": "HIP_RUNTIME_API_EXT", "Process_Id": row["pid"], "Thread_Id": row["pid"],
         "Function": "hipMemcpyAsync" if row["kernel"] == COPY else "hipModuleLaunchKernel",
         "Correlation_Id": row["number"], "Start_Timestamp": row["called"],
         "End_Timestamp": row["called"] + 90}
        for row in rows
    ]  # fmt: skip


def marker_rows(events: list[dict], count: int) -> list[dict[str, object]]:
    found, opened = [], []
    for at, event in enumerate(events):
        now = CLOCK_NS + at * STEP_NS
        if event["event"] == "push":
            opened.append((event, now))
        elif event["event"] == "pop":
            begun, start = opened.pop()
            found.append(
                {"Domain": "MARKER_CORE_RANGE_API", "Function": begun["text"], "Process_Id": event["pid"],
                 "Thread_Id": event["pid"], "Correlation_Id": count + len(found) + 1,
                 "Start_Timestamp": start, "End_Timestamp": now}
            )  # fmt: skip
    return found


def files(events: list[dict], rows: list[dict], options: dict[str, list[str]]) -> dict[str, str]:
    """Text of each file by its domain; a domain without data has none."""
    found = {}
    if "--pmc" in options:
        counted = counter_rows(rows, options["--pmc"])
        found["counter_collection"] = table(COUNTERS, counted) if counted else ""
    if "--kernel-trace" in options:
        found["kernel_trace"] = table(KERNELS, kernel_rows(rows)) if rows else ""
    if "--hip-runtime-trace" in options:
        found["hip_api_trace"] = table(CALLS, call_rows(rows))
    if "--marker-trace" in options:
        marked = marker_rows(events, len(rows))
        found["marker_api_trace"] = table(CALLS, marked) if marked else ""
    return {domain: text for domain, text in found.items() if text}


def write_csv(folder: Path, prefix: str, events: list[dict], rows: list[dict], options: dict) -> None:
    for domain, text in files(events, rows, options).items():
        path = folder / f"{prefix}_{domain}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_rocpd(folder: Path, prefix: str, events: list[dict], rows: list[dict], options: dict) -> None:
    """The same run as a database: its base tables, by the writer that is held to the real schema."""
    import tempfile

    from hipbook.traces.read import read_trace
    from hipbook.traces.write_rocpd import write_rocpd as write

    with tempfile.TemporaryDirectory() as place:
        write_csv(Path(place), prefix, events, rows, options | {"--kernel-trace": []})
        trace = read_trace(place)
    path = folder / f"{prefix}_results.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(trace, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
