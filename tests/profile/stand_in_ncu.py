"""A stand-in for Nsight Compute where there is no NVIDIA GPU: writes a log as `ncu --csv --log-file` does.

It runs nothing: the launches are those of an earlier run of the child ($STAND_IN_REPLAY), whose account it
copies. $STAND_IN names what shall go wrong.
"""

import csv
import json
import os
import sys
from pathlib import Path

COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
)  # fmt: skip
REFUSED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target device 0. For instructions on enabling permissions and to get more information "
    "see https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
READINGS = {
    "smsp__inst_executed.sum": ("inst", lambda totals: f"{totals['SQ_INSTS']:,}"),
    "gpu__time_duration.sum": ("ns", lambda totals: f"{totals['SQ_INSTS'] * 1.5:,.2f}"),
    "launch__registers_per_thread": ("register/thread", lambda totals: "n/a"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("", lambda totals: "0"),
}


def main(argv: list[str]) -> int:
    faults = set(filter(None, os.environ.get("STAND_IN", "").split(",")))
    if argv == ["--version"]:
        print("NVIDIA (R) Nsight Compute Command Line Profiler")
        print("Version 2025.3.1.0 (build 36398880) (public-release)")
        return 0
    first, log = Path(os.environ["STAND_IN_REPLAY"]), Path(argv[argv.index("--log-file") + 1])
    if "refused" in faults:
        log.write_text(f"==PROF== Connected to process 17 (python3)\n{REFUSED}\n==PROF== Disconnected\n")
        return 1
    if "no account" not in faults:
        (log.parent / "done.json").write_bytes((first / "done.json").read_bytes())
    lines = (first / "launches.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "launch"]
    metrics = argv[argv.index("--metrics") + 1].split(",")
    if "unknown metric" in faults and "dram__bytes_read.sum" in metrics:
        log.write_text("==ERROR== Failed to find metric regex:^dram__bytes_read.sum$\n")
        return 1
    with log.open("w", newline="") as file:
        file.write("==PROF== Connected to process 17 (python3)\n")
        if "nothing" not in faults:
            table = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            table.writerow([name for name in COLUMNS if name != "Metric Unit" or "raw page" not in faults])
            for number, event in enumerate(events):
                for metric in metrics:
                    if metric not in READINGS:
                        continue
                    unit, value = READINGS[metric]
                    block, grid = (tuple(event[name]) for name in ("block", "grid"))
                    row = [number, 17, "python3", "127.0.0.1", event["kernel"], 1, 7, block, grid, 0, "9.0"]
                    row += ["Command line profiler metrics", metric, unit, value(event["totals"])]
                    table.writerow(row)
        file.write("==PROF== Disconnected from process 17\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
