"""A real GPU, of NVIDIA or AMD: memory, streams and events are torch's, launches the vendor's module API.

One class serves both vendors. What differs is data: the launcher's symbol names, the toolchain's name and
how torch spells the architecture. Nothing here needs the emulator or the pinned toolchain.
"""

import ctypes
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hipbook.boards import telemetry
from hipbook.boards.base import Arg, Buffer, Dim3, Dispatch
from hipbook.boards.launcher import Function, Launcher
from hipbook.build import ARCHS, TOOLCHAINS, build
from hipbook.build.code_object import CodeObject, KernelFacts
from hipbook.errors import BadArgument, BoardUnavailable, BuildError, KernelFault

MAX_GRID_X, MAX_GRID_YZ, MAX_BLOCK = (1 << 31) - 1, (1 << 16) - 1, 1024


def vendor_of_torch() -> str:
    """The vendor whose GPUs this torch can drive: "amd", "nvidia", or "" for a build without GPUs."""
    return "amd" if torch.version.hip else "nvidia" if torch.version.cuda else ""


def why_none() -> str:
    """Why torch sees no GPU here; empty when it sees one."""
    if not vendor_of_torch():
        return f"torch {torch.__version__} is built without GPU support"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no {vendor_of_torch().upper()} GPU"
    return ""


def architecture(index: int) -> str:
    """`sm_90` or `gfx1200` of GPU `index`."""
    properties = torch.cuda.get_device_properties(index)
    if vendor_of_torch() == "amd":
        return properties.gcnArchName.partition(":")[0]
    return f"sm_{properties.major}{properties.minor}"


class GpuBoard:
    """GPU `index` of this machine, as torch numbers them.

    `launcher` and `toolchain` are given by tests; by default they are the vendor's. Raises
    `BoardUnavailable` when there is no such GPU or its runtime library cannot be opened.
    """

    kind = "gpu"

    def __init__(
        self,
        index: int = 0,
        *,
        name: str | None = None,
        launcher: Launcher | None = None,
        toolchain: str | None = None,
    ) -> None:
        if why_none():
            raise BoardUnavailable(
                f"no GPU board: {why_none()}", fix="use an emulated board; `hipbook boards` lists them"
            )
        if index >= torch.cuda.device_count():
            raise BoardUnavailable(f"no GPU {index}: torch sees {torch.cuda.device_count()}")
        self.index = index
        self.vendor = vendor_of_torch()
        self.name = name or f"{self.vendor}-{index}"
        self.arch = architecture(index)
        properties = torch.cuda.get_device_properties(index)
        self.wave_size = ARCHS[self.arch].wave_size if self.arch in ARCHS else properties.warp_size
        self.compute_units = properties.multi_processor_count
        self.torch_device = torch.device("cuda", index)
        torch.zeros(1, device=self.torch_device)  # makes the context that modules are loaded into
        self._launcher = launcher or Launcher(self.vendor)
        self._toolchain = toolchain or _toolchain(self.vendor)
        self._functions: dict[tuple[str, str], Function] = {}

    def __repr__(self) -> str:
        return f"GpuBoard({self.index}, name={self.name!r}, arch={self.arch!r})"

    def identity(self) -> dict[str, Any]:
        """What tells this board from another, and whether a run stayed on it: no clocks, no load."""
        properties = torch.cuda.get_device_properties(self.index)
        return {
            "name": self.name,
            "arch": self.arch,
            "kind": self.kind,
            "vendor": self.vendor,
            "product": properties.name,
            "uuid": str(getattr(properties, "uuid", "unknown")),
            "compute_units": self.compute_units,
            "memory_bytes": properties.total_memory,
            "last_level_cache_bytes": getattr(properties, "L2_cache_size", None),
            "driver": telemetry.driver_version(self.vendor),
            "runtime": torch.version.hip or torch.version.cuda,
            "torch": torch.__version__,
        }

    def state(self) -> dict[str, Any]:
        """What changes from moment to moment: clocks, power, temperature, other processes (`telemetry`)."""
        return telemetry.sample(self.vendor, self.index)

    def build(self, source: str, flags: Sequence[str] = ()) -> CodeObject:
        """Build `source` for this GPU, cached: nvcc; on AMD ROCm's compiler, else the pinned one."""
        return build(source, self.arch, flags, toolchain=self._toolchain)

    def launch(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Arg],
        *,
        lds_bytes: int = 0,
        timed: bool = False,
        wait: bool = True,
        **unknown: Any,
    ) -> Dispatch:
        """Run one dispatch on torch's current stream.

        `wait` False returns once it is enqueued, as does a launch under graph capture; a fault of the
        kernel then shows at the next synchronisation. `timed` brackets it with device events
        (`Dispatch.time_us`: one cold launch and its gap; measure.timing is for figures).
        Raises BadArgument before anything runs, KernelFault when the driver reports one.
        """
        if unknown:
            raise BadArgument(
                "option", next(iter(unknown)), f"not an option of a GPU board ({self.name})",
                fix="timed, wait and lds_bytes are",
            )  # fmt: skip
        enqueue = self.prepare(code_object, kernel, grid, block, args, lds_bytes=lds_bytes)
        capturing = torch.cuda.is_current_stream_capturing()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if timed and not capturing else []
        with self._faults(kernel), torch.cuda.device(self.index):
            for event in events[:1]:
                event.record()
            enqueue()
            for event in events[1:]:
                event.record()
            if (wait or events) and not capturing:
                torch.cuda.current_stream().synchronize()
        return Dispatch(
            board=self.name, kernel=kernel, grid=tuple(grid), block=tuple(block), lds_bytes=lds_bytes,
            code_object=code_object, time_us=events[0].elapsed_time(events[1]) * 1e3 if events else None,
        )  # fmt: skip

    def prepare(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Arg],
        *,
        lds_bytes: int = 0,
    ) -> Callable[[], None]:
        """The launch as a function without arguments: enqueues on torch's current stream, and nothing else.

        Everything is checked and packed here; the function keeps the tensors of `args` alive.
        """
        facts = code_object.kernels.get(kernel)
        if facts is None:
            raise BadArgument(
                "kernel", kernel, f"not in {code_object.path.name}: {', '.join(code_object.kernels)}"
            )
        _check_geometry(grid, block, facts)
        packed = self._pack(facts, args)
        bound = self._launcher.prepared(
            self._function(code_object, kernel), grid, block, packed, lds_bytes=lds_bytes
        )

        def enqueue(_kept: Sequence[Arg] = tuple(args)) -> None:
            bound(stream=torch.cuda.current_stream(self.index).cuda_stream)

        return enqueue

    def _function(self, code_object: CodeObject, kernel: str) -> Function:
        key = (code_object.sha256, kernel)
        if key not in self._functions:
            image = code_object.path.read_bytes()
            if hashlib.sha256(image).hexdigest() != code_object.sha256:
                raise BadArgument("code_object", code_object.path, "the file changed since it was built")
            with torch.cuda.device(self.index):
                self._functions[key] = self._launcher.function(self._launcher.load(image), kernel)
        return self._functions[key]

    def _pack(self, facts: KernelFacts, args: Sequence[Arg]) -> list[Any]:
        wanted = [arg for arg in facts.args if not arg.kind.startswith("hidden")]
        if len(wanted) != len(args):
            raise BadArgument("args", len(args), f"{facts.name} takes {len(wanted)}")
        packed = []
        for place, (arg, value) in enumerate(zip(wanted, args, strict=True)):
            label = f"args[{place}] ({value.name if isinstance(value, Buffer) else arg.name})"
            if isinstance(value, Buffer):
                if value.tensor.device != self.torch_device:
                    raise BadArgument(label, value.tensor.device, f"must be on {self.torch_device}")
                one = ctypes.c_void_p(value.tensor.data_ptr())
            elif value is None:
                one = ctypes.c_void_p(0)
            elif isinstance(value, np.generic):
                one = (ctypes.c_char * value.nbytes).from_buffer_copy(value.tobytes())
            else:
                raise BadArgument(label, type(value).__name__, "must be a Buffer, a numpy scalar or None")
            if ctypes.sizeof(one) != arg.size:
                raise BadArgument(
                    label, f"{ctypes.sizeof(one)} bytes", f"{facts.name} takes {arg.size} bytes here"
                )
            packed.append(one)
        return packed

    def _faults(self, kernel: str) -> "_Faults":
        return _Faults(self.name, kernel)


class _Faults:
    """Turns what torch raises at a synchronisation into a KernelFault that names board and kernel."""

    def __init__(self, board: str, kernel: str) -> None:
        self.board, self.kernel = board, kernel

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RuntimeError):
            first = str(error).strip().partition("\n")[0]
            raise KernelFault(
                f"{self.kernel} on {self.board}: {first}",
                fix="the GPU's context is lost: start a new process, and run it on an emulated board",
            ) from error


def _check_geometry(grid: Dim3, block: Dim3, facts: KernelFacts) -> None:
    for name, extent, most in (
        ("grid", grid, (MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ)), ("block", block, (MAX_BLOCK, MAX_BLOCK, 64)),
    ):  # fmt: skip
        if len(extent) != 3 or any(not 1 <= n <= m for n, m in zip(extent, most, strict=False)):
            raise BadArgument(name, tuple(extent), f"three extents from 1 to {most}")
    threads = block[0] * block[1] * block[2]
    if threads > min(MAX_BLOCK, facts.max_workgroup_size):
        raise BadArgument("block", block, f"{facts.name} takes at most {facts.max_workgroup_size} work-items")


def _toolchain(vendor: str) -> str:
    if vendor == "nvidia":
        return "nvcc"
    try:
        TOOLCHAINS["rocm"].identity()
    except BuildError:
        return "pinned"
    return "rocm"


def visible() -> list[tuple[str, int]]:
    """(board name, index) of every GPU torch sees; $HIPBOOK_NO_GPU=1 hides them."""
    if os.environ.get("HIPBOOK_NO_GPU") == "1" or why_none():
        return []
    return [(f"{vendor_of_torch()}-{index}", index) for index in range(torch.cuda.device_count())]
