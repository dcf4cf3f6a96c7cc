"""What a GPU says of itself while it works: clocks, power, temperature, other processes.

NVIDIA: NVML through `pynvml` (the nvidia-ml-py package). AMD: `amdsmi`, which ROCm brings. Both are
optional: a field nobody can read is None, never a guess, and `source` says who was asked.
"""

import functools
import importlib
import os
from typing import Any

FIELDS = (
    "clock_mhz",
    "memory_clock_mhz",
    "power_w",
    "temperature_c",
    "utilisation_percent",
    "other_processes",
)


def sample(vendor: str, index: int) -> dict[str, Any]:
    """One reading of GPU `index`: FIELDS and `source`."""
    reader = {"nvidia": _nvidia, "amd": _amd}.get(vendor)
    values: dict[str, Any] = dict.fromkeys(FIELDS)
    try:
        values.update(reader(index) if reader else {"source": "none"})
    except Exception as error:  # a telemetry library that is absent, or that this driver does not answer
        values["source"] = f"unavailable: {type(error).__name__}: {error}"
    return values


@functools.cache
def driver_version(vendor: str) -> str:
    try:
        if vendor == "nvidia":
            version = _nvml().nvmlSystemGetDriverVersion()
            return version.decode() if isinstance(version, bytes) else version
        smi = _amdsmi()
        return str(smi.amdsmi_get_gpu_driver_info(smi.amdsmi_get_processor_handles()[0])["driver_version"])
    except Exception as error:
        return f"unknown ({type(error).__name__})"


@functools.cache
def _nvml() -> Any:
    nvml = importlib.import_module("pynvml")
    nvml.nvmlInit()
    return nvml


def _nvidia(index: int) -> dict[str, Any]:
    nvml = _nvml()
    handle = nvml.nvmlDeviceGetHandleByIndex(_physical(index, "CUDA_VISIBLE_DEVICES"))
    others = [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid != os.getpid()]
    return {
        "source": "nvml",
        "clock_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "power_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
        "temperature_c": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "utilisation_percent": nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "other_processes": len(others),
    }


@functools.cache
def _amdsmi() -> Any:
    smi = importlib.import_module("amdsmi")
    smi.amdsmi_init()
    return smi


def _amd(index: int) -> dict[str, Any]:
    smi = _amdsmi()
    handle = smi.amdsmi_get_processor_handles()[_physical(index, "HIP_VISIBLE_DEVICES")]
    clock = smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX)
    memory = smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.MEM)
    temperature = smi.amdsmi_get_temp_metric(
        handle, smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
    )
    others = [p for p in smi.amdsmi_get_gpu_process_list(handle) if p.get("pid") != os.getpid()]
    return {
        "source": "amdsmi",
        "clock_mhz": clock["clk"],
        "memory_clock_mhz": memory["clk"],
        "power_w": smi.amdsmi_get_power_info(handle)["average_socket_power"],
        "temperature_c": temperature,
        "utilisation_percent": smi.amdsmi_get_gpu_activity(handle)["gfx_activity"],
        "other_processes": len(others),
    }


def _physical(index: int, variable: str) -> int:
    """The number the driver gives a GPU that torch calls `index`; names other than numbers are refused."""
    listed = os.environ.get(variable)
    return int(listed.split(",")[index]) if listed else index
