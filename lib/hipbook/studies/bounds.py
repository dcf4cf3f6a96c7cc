"""Notebook 10: the least time that each arm's counts leave possible, beside what was reported."""

from collections.abc import Mapping, Sequence

from hipbook.measure.data_sheet import DataSheet
from hipbook.measure.least_time import Least, binding, least_times
from hipbook.oracle import traffic
from hipbook.studies.arms import ArmRun

# Whose reported mean stands beside which of our arms.
REPORTED = {
    "PagedAttnOnline<bf16,bf16,bf16>": "online",
    "vllm kernel_paged_attention_2d": "tiled_ref",
}


def of_run(run: ArmRun, sheet: DataSheet) -> list[Least]:
    """Least times of one launch; from memory come the fewest bytes of K and V that any arm must read."""
    return least_times(run.counters, traffic.floor_bytes(run.call), sheet)


def table(runs: Sequence[ArmRun], sheet: DataSheet) -> list[dict[str, object]]:
    """One arm a row, microseconds a resource, and which one binds. Barriers are counts: no rate is public."""
    rows = []
    for run in runs:
        least = of_run(run, sheet)
        row: dict[str, object] = {"arm": run.arm}
        row |= {f"{one.resource}, us": one.least_us for one in least if one.least_us is not None}
        row["barriers"] = next(int(one.amount) for one in least if one.resource == "barriers")
        rows.append({**row, "binds": binding(least).resource})
    return rows


def beside(
    reported: Sequence[Mapping[str, object]], steps: Mapping[str, Sequence[ArmRun]], sheet: DataSheet
) -> list[dict[str, object]]:
    """Reported means over the mean bound of the same decode steps: how far above the bound hardware was."""
    means = {row["arm"]: row["value"] for row in reported if row["quantity"] == "mean_per_call"}
    rows = []
    for name, arm in REPORTED.items():
        if name not in means or arm not in steps:
            continue
        least = [binding(of_run(run, sheet)) for run in steps[arm]]
        bound = sum(one.least_us for one in least) / len(least)
        rows.append(
            {
                "reported kernel": name,
                "us per call (reported)": means[name],
                "our arm": arm,
                "bound, us (not a time)": bound,
                "binds": max(least, key=lambda one: one.least_us).resource,
                "reported / bound": means[name] / bound,
            }
        )
    return rows


def sources(sheet: DataSheet) -> list[dict[str, object]]:
    return [
        {"rate": name, "value": value, "source": sheet.sources[name]} for name, value in sheet.rates.items()
    ]
