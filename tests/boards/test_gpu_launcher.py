"""The launcher without a GPU: its signatures against HIP's headers, its calls against a stand-in library,
its launches executed by the emulated board."""

import ctypes
import re
import shutil
import subprocess
from ctypes import POINTER, c_char_p, c_int, c_uint, c_void_p
from pathlib import Path

import numpy as np
import pytest
import torch

from hipbook.boards import gpu, telemetry
from hipbook.boards.base import Buffer
from hipbook.boards.emulated import EmulatedBoard
from hipbook.boards.launcher import LIBRARIES, NAMES, Launcher
from hipbook.errors import BadArgument, BoardUnavailable, KernelFault
from hipbook.ops.attention_arms import ARMS
from hipbook.ops.paged_attention import kernel_args, run_call
from hipbook.oracle.paged_attention import compare, make, reference

HERE = Path(__file__).parent
LAUNCHED = ctypes.CFUNCTYPE(
    c_int, ctypes.c_size_t, POINTER(c_uint), ctypes.c_size_t, POINTER(c_void_p), c_void_p
)
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """{vendor: path of the stand-in}"""
    if CC is None:
        pytest.skip("no C compiler")
    paths = {}
    for vendor in ("nvidia", "amd"):
        paths[vendor] = tmp_path_factory.mktemp("stand-in") / f"lib{vendor}.so"
        define = ["-DAMD"] if vendor == "amd" else []
        subprocess.run(
            [CC, "-shared", "-fPIC", "-Wall", "-Werror", *define, "-o", paths[vendor], HERE / "stand_in.c"],
            check=True,
        )
    return paths


class StandIn:
    """An open stand-in with a launcher on it."""

    def __init__(
        self, vendor: str, path: Path, launched=lambda *_: 0, failing: str = "", code: int = 0
    ) -> None:
        self.library = ctypes.CDLL(str(path))
        for name in ("calls", "loaded", "kernel"):
            getattr(self.library, f"stand_in_{name}").restype = c_char_p
        self.kept = LAUNCHED(launched), failing.encode()
        self.library.stand_in_reset(self.kept[0], c_char_p(self.kept[1]), code)
        self.launcher = Launcher(vendor, self.library)
        self.launcher.stand_in = self  # the callback lives as long as the launcher

    @property
    def calls(self) -> list[str]:
        return self.library.stand_in_calls().decode().split()


# --- HIP's headers ---------------------------------------------------------------------------------


def hip_headers() -> Path:
    triton = pytest.importorskip("triton", reason="the HIP headers are in the triton wheel")
    return Path(triton.__file__).parent / "backends" / "amd" / "include" / "hip"


def of_c(declared: str):
    """The ctypes type that a parameter declared in C has in the launcher's table."""
    words = re.sub(r"\b(const|struct)\b", " ", declared)
    base, stars = words.replace("*", " ").split(), words.count("*")
    base = " ".join(base[:-1]) if len(base) > 1 else base[0]
    if base in ("hipModule_t", "hipFunction_t", "hipStream_t"):  # pointers to what only the runtime knows
        return POINTER(c_void_p) if stars else c_void_p
    if stars:
        return {("int", 1): POINTER(c_int), ("char", 1): c_char_p, ("char", 2): POINTER(c_char_p)}.get(
            (base, stars), c_void_p
        )
    return {"unsigned int": c_uint, "int": c_int, "hipError_t": c_int}[base]


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_hips_header(name):
    _, symbol, types = NAMES[name]
    text = re.sub(
        r"/\*.*?\*/|//[^\n]*", "", (hip_headers() / "hip_runtime_api.h").read_text(), flags=re.DOTALL
    )
    found = re.search(rf"\bhipError_t\s+{symbol}\s*\(([^)]*)\)\s*;", text)
    assert found, f"{symbol} is not declared"
    assert tuple(of_c(parameter) for parameter in found[1].split(",")) == types


# --- a stand-in library ----------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_every_call_and_argument_arrives(libraries, vendor):
    seen = {}

    def launched(function, extents, stream, params, extra):
        seen.update(function=function, extents=list(extents[:7]), stream=stream, extra=extra)
        seen["values"] = [
            ctypes.cast(params[0], POINTER(c_void_p))[0],
            ctypes.cast(params[1], POINTER(ctypes.c_int64))[0],
            ctypes.cast(params[2], POINTER(ctypes.c_float))[0],
        ]
        return 0

    stand_in = StandIn(vendor, libraries[vendor], launched)
    launcher = stand_in.launcher
    assert launcher.device_count() == 3
    module = launcher.load(b"\x7fELF the image")
    function = launcher.function(module, "some_kernel")
    arguments = [c_void_p(0x7F0000001000), ctypes.c_int64(-(1 << 40)), ctypes.c_float(0.5)]
    launcher.launch(function, (70000, 2, 3), (96, 4, 1), arguments, lds_bytes=4096, stream=0x55)
    launcher.unload(module)
    assert stand_in.library.stand_in_loaded() == b"\x7fELF the"
    assert stand_in.library.stand_in_kernel() == b"some_kernel"
    assert stand_in.calls == [
        "init",
        "device_count",
        "module_load",
        "get_function",
        "launch",
        "module_unload",
    ]
    assert seen == {
        "function": 0xCD00000002, "extents": [70000, 2, 3, 96, 4, 1, 4096], "stream": 0x55, "extra": None,
        "values": [0x7F0000001000, -(1 << 40), 0.5],
    }  # fmt: skip


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
@pytest.mark.parametrize(
    "failing", ["init", "device_count", "module_load", "get_function", "launch", "module_unload"]
)
def test_a_failure_names_the_function_and_the_vendors_words(libraries, vendor, failing):
    def everything() -> None:
        launcher = StandIn(vendor, libraries[vendor], failing=failing, code=77).launcher
        launcher.device_count()
        module = launcher.load(b"\x7fELF the image")
        launcher.launch(launcher.function(module, "k"), (1, 1, 1), (1, 1, 1), [], lds_bytes=0, stream=0)
        launcher.unload(module)

    wanted = BoardUnavailable if failing in ("init", "device_count") else KernelFault
    with pytest.raises(wanted) as raised:
        everything()
    assert NAMES[failing][0 if vendor == "nvidia" else 1] in str(raised.value)
    assert "error 77, the words for 77" in str(raised.value)


def test_a_code_without_words_is_still_told(libraries):
    with pytest.raises(BoardUnavailable, match="hipInit failed with error 5"):
        StandIn("amd", libraries["amd"], failing="init", code=5)


def test_no_library_and_the_wrong_library(libraries):
    with pytest.raises(BoardUnavailable) as raised:
        Launcher("amd", "/nowhere/libamdhip64.so")
    assert "/nowhere/libamdhip64.so" in str(raised.value)
    assert "emulated" in raised.value.fix
    with pytest.raises(BoardUnavailable, match="has no cuInit"):
        Launcher("nvidia", str(libraries["amd"]))
    with pytest.raises(ValueError, match="one of"):
        Launcher("intel")


# --- executed by the emulated board ----------------------------------------------------------------


class OnTheEmulator:
    """What a launch reaches: unpacks the parameters as the code object lays them out and runs them."""

    def __init__(self, board, code_object, kernel, tensors) -> None:
        self.board, self.code_object, self.kernel = board, code_object, kernel
        self.buffers = {buffer.tensor.data_ptr(): buffer for buffer in tensors}
        self.error = None

    def __call__(self, function, extents, stream, params, extra) -> int:
        args = []
        explicit = [a for a in self.code_object.kernels[self.kernel].args if not a.kind.startswith("hidden")]
        for place, arg in enumerate(explicit):
            raw = ctypes.string_at(params[place], arg.size)
            if arg.kind == "global_buffer":
                address = int.from_bytes(raw, "little")
                args.append(self.buffers[address] if address else None)
            else:
                kinds = {8: np.int64, 4: np.float32 if arg.name in ("scale", "soft_cap") else np.int32}
                args.append(np.frombuffer(raw, kinds[arg.size])[0])
        try:
            self.board.launch(
                self.code_object,
                self.kernel,
                tuple(extents[:3]),
                tuple(extents[3:6]),
                args,
                lds_bytes=extents[6],
            )
        except Exception as error:
            self.error = error
            return 700
        return 0


@pytest.mark.parametrize("arm", ARMS)
def test_arms_launched_through_the_launcher_compute_what_they_should(libraries, arm):
    board = EmulatedBoard()
    call = make("mixed_batch", 3)[0]
    want, plain = reference(call), run_call(call, arm=arm, board=board).out
    call = call.__class__(**{**call.__dict__, "out": torch.zeros_like(plain)})
    spec = ARMS[arm]
    geometry, code_object = spec.launch(call, board), board.build(spec.source, spec.flags(call))
    args = kernel_args(call, None)
    if spec.scratch is not None:
        args += spec.scratch(call, geometry, True)
    packer = type("Packer", (), {"torch_device": torch.device("cpu")})()
    packed = gpu.GpuBoard._pack(packer, code_object.kernels[spec.kernel], args)
    reached = OnTheEmulator(board, code_object, spec.kernel, [a for a in args if isinstance(a, Buffer)])
    launcher = StandIn("amd", libraries["amd"], reached).launcher
    function = launcher.function(launcher.load(code_object.path.read_bytes()), spec.kernel)
    launcher.prepared(function, geometry.grid, geometry.block, packed)(stream=0)
    assert reached.error is None
    owned = want.written
    assert torch.equal(call.out[owned], plain[owned])
    assert compare(call.out, want, padding_poisoned=False).passed


# --- boards that are not here ----------------------------------------------------------------------


@pytest.mark.skipif(not gpu.why_none(), reason="this machine has a GPU")
def test_without_a_gpu_the_error_says_why():
    with pytest.raises(BoardUnavailable) as raised:
        gpu.GpuBoard()
    assert torch.__version__ in str(raised.value)
    assert "emulated" in raised.value.fix
    assert gpu.visible() == []


def test_the_real_hip_library_without_an_amd_gpu():
    for name in LIBRARIES["amd"]:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        if gpu.vendor_of_torch() == "amd" and not gpu.why_none():
            pytest.skip("this machine has an AMD GPU")
        with pytest.raises(BoardUnavailable, match=r"hip(Init|GetDeviceCount) failed with error \d+"):
            Launcher("amd", name).device_count()
        return
    pytest.skip("libamdhip64 is not installed here")


@pytest.mark.parametrize(
    ("grid", "block", "named"),
    [((0, 1, 1), (64, 1, 1), "grid"), ((1, 70000, 1), (64, 1, 1), "grid"), ((1, 1, 1), (64, 1, 65), "block"),
     ((1, 1, 1), (1024, 2, 1), "block"), ((1, 1), (64, 1, 1), "grid"), ((1, 1, 1), (256, 1, 1), "block")],
)  # fmt: skip
def test_geometry_a_gpu_cannot_take_is_refused_by_name(grid, block, named):
    facts = EmulatedBoard().build(
        "paged_attention/paged_attention.hip", ARMS["split_kv"].flags(make("few_keys", 0)[0])
    )
    with pytest.raises(BadArgument) as raised:
        gpu._check_geometry(grid, block, facts.kernels["paged_attention_split_kv"])
    assert raised.value.argument == named


def test_arguments_are_checked_against_the_kernel():
    call = make("few_keys", 0)[0]
    facts = (
        EmulatedBoard()
        .build(ARMS["decode"].source, ARMS["decode"].flags(call))
        .kernels["paged_attention_decode"]
    )
    call = call.__class__(**{**call.__dict__, "out": torch.zeros_like(call.q)})
    packer = type("Packer", (), {"torch_device": torch.device("cpu")})()
    good = kernel_args(call, None)
    assert len(gpu.GpuBoard._pack(packer, facts, good)) == 25
    for bad, said in (
        (good[:-1], "takes 25"),
        ([*good[:-1], np.float64(0)], "8 bytes"),
        ([*good[:-1], 0.5], "numpy scalar"),
    ):
        with pytest.raises(BadArgument, match=said):
            gpu.GpuBoard._pack(packer, facts, bad)
    elsewhere = type("Packer", (), {"torch_device": torch.device("cuda", 0)})()
    with pytest.raises(BadArgument, match="must be on cuda:0"):
        gpu.GpuBoard._pack(elsewhere, facts, good)


def test_telemetry_says_what_it_cannot_read():
    for vendor in ("nvidia", "amd", "none"):
        told = telemetry.sample(vendor, 0)
        assert set(telemetry.FIELDS) < set(told)
        if told["source"] not in ("nvml", "amdsmi"):
            assert all(told[field] is None for field in telemetry.FIELDS)
