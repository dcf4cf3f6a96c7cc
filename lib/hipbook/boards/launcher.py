"""Loads code objects and launches kernels through the vendor's module API, by ctypes.

CUDA's driver API and HIP's module API are the same functions under two sets of names, with the same
arguments: `NAMES` is the whole difference between the two vendors here. Memory, streams and events
belong to torch; a stream is passed as the integer torch gives for it. Nothing of ours but `errors`
is imported, and no library is opened before a `Launcher` is made.

Sources: CUDA Driver API (cuModuleLoadData, cuLaunchKernel); hip_runtime_api.h (hipModuleLoadData,
hipModuleLaunchKernel), against which a test checks every signature.
"""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_void_p
from dataclasses import dataclass
from typing import Any

from hipbook.errors import BoardUnavailable, KernelFault

Dim3 = tuple[int, int, int]

# What the launcher calls: our name -> (CUDA's symbol, HIP's symbol, argument types).
# Handles (module, function, stream) are pointers; so is every out parameter.
NAMES: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "init": ("cuInit", "hipInit", (c_uint,)),
    "device_count": ("cuDeviceGetCount", "hipGetDeviceCount", (POINTER(c_int),)),
    "module_load": ("cuModuleLoadData", "hipModuleLoadData", (POINTER(c_void_p), c_void_p)),
    "module_unload": ("cuModuleUnload", "hipModuleUnload", (c_void_p,)),
    "get_function": (
        "cuModuleGetFunction", "hipModuleGetFunction", (POINTER(c_void_p), c_void_p, c_char_p),
    ),
    "launch": (
        "cuLaunchKernel", "hipModuleLaunchKernel", (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
    ),
    "error_text": ("cuGetErrorString", "hipDrvGetErrorString", (c_int, POINTER(c_char_p))),
}  # fmt: skip
_VENDORS = ("nvidia", "amd")
# ROCm's torch brings its own libamdhip64.so beside it; the system's is the second choice.
LIBRARIES = {
    "nvidia": ("libcuda.so.1", "libcuda.so"),
    "amd": ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"),
}


@dataclass(frozen=True)
class Function:
    """A kernel ready to launch. Keeps its module's image alive."""

    name: str
    handle: int
    module: "Module"


@dataclass(frozen=True)
class Module:
    handle: int
    image: bytes


class Launcher:
    """The module API of one vendor. `library` is a path or an open `ctypes.CDLL` (tests pass their own)."""

    def __init__(self, vendor: str, library: str | ctypes.CDLL | None = None) -> None:
        if vendor not in _VENDORS:
            raise ValueError(f"vendor {vendor!r}: one of {_VENDORS}")
        self.vendor = vendor
        self._library = library if isinstance(library, ctypes.CDLL) else _open(vendor, library)
        self._calls = {name: self._bind(name) for name in NAMES}
        self._check("init", self._calls["init"](0))

    def symbol(self, name: str) -> str:
        """The vendor's own name of one of `NAMES`."""
        return NAMES[name][_VENDORS.index(self.vendor)]

    def device_count(self) -> int:
        count = c_int()
        self._check("device_count", self._calls["device_count"](byref(count)))
        return count.value

    def load(self, image: bytes) -> Module:
        """Load a code object into the current device's context."""
        handle = c_void_p()
        self._check("module_load", self._calls["module_load"](byref(handle), image))
        return Module(handle.value or 0, image)

    def unload(self, module: Module) -> None:
        self._check("module_unload", self._calls["module_unload"](module.handle))

    def function(self, module: Module, kernel: str) -> Function:
        handle = c_void_p()
        code = self._calls["get_function"](byref(handle), module.handle, kernel.encode())
        self._check("get_function", code, f"kernel {kernel!r}")
        return Function(kernel, handle.value or 0, module)

    def launch(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        arguments: Sequence[Any],
        *,
        lds_bytes: int,
        stream: int,
    ) -> None:
        """Enqueue one dispatch; `arguments` are ctypes values, one a parameter, in order.

        Returns before the kernel has run. The values are copied during the call, so nothing has to
        outlive it, which also makes the call safe under graph capture.
        """
        pointers = (c_void_p * max(1, len(arguments)))(*(ctypes.addressof(value) for value in arguments))
        code = self._calls["launch"](function.handle, *grid, *block, lds_bytes, stream, pointers, None)
        self._check("launch", code, f"{function.name}, grid {grid}, block {block}")

    def prepared(
        self, function: Function, grid: Dim3, block: Dim3, arguments: Sequence[Any], *, lds_bytes: int = 0
    ) -> "functools.partial[None]":
        """The same launch with everything but the stream bound: for timing, where Python shows."""
        return functools.partial(self.launch, function, grid, block, tuple(arguments), lds_bytes=lds_bytes)

    def error(self, code: int) -> str:
        """The vendor's words for an error code."""
        text = c_char_p()
        if self._calls["error_text"](code, byref(text)) or not text.value:
            return f"error {code}"
        return f"error {code}, {text.value.decode(errors='replace')}"

    def _bind(self, name: str) -> Any:
        symbol = self.symbol(name)
        try:
            call = getattr(self._library, symbol)
        except AttributeError:
            raise BoardUnavailable(
                f"{self._library._name} has no {symbol}", fix="a driver or ROCm of this decade"
            ) from None
        call.restype = c_int
        call.argtypes = NAMES[name][2]
        return call

    def _check(self, name: str, code: int, about: str = "") -> None:
        if code == 0:
            return
        what = f"{self.symbol(name)} failed with {self.error(code)}" + (f" ({about})" if about else "")
        if name in ("init", "device_count"):
            raise BoardUnavailable(
                what, fix=f"check that an {_SPOKEN[self.vendor]} GPU and its driver are here"
            )
        raise KernelFault(what)


_SPOKEN = {"nvidia": "NVIDIA", "amd": "AMD"}


def _open(vendor: str, path: str | None) -> ctypes.CDLL:
    tried = []
    for name in (path,) if path else LIBRARIES[vendor]:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    raise BoardUnavailable(
        f"no {_SPOKEN[vendor]} runtime library\n  " + "\n  ".join(tried),
        fix="install the vendor's driver (NVIDIA) or ROCm (AMD), or use an emulated board",
    )
