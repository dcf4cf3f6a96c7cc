"""nvcc's row of the toolchains, and what is read from a cubin."""

import re
import shutil
import subprocess

import pytest

from hipbook import paths
from hipbook.build import TOOLCHAINS, build, cubin, nvcc, rocm
from hipbook.build.archs import ARCHS, NVIDIA_ARCHS, arch_of
from hipbook.build.toolchain import Job, toolchain_for
from hipbook.errors import BuildError

SOURCE = "paged_attention/paged_attention.hip"
FLAGS = (
    "-DHIPBOOK_Q=bf16", "-DHIPBOOK_KV=bf16", "-DHIPBOOK_OUT=bf16", "-DHIPBOOK_D=128",
    "-DHIPBOOK_ARM_DECODE=1",
)  # fmt: skip
needs_nvcc = pytest.mark.skipif(
    not (shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")), reason="no nvcc on this machine"
)


@pytest.fixture(scope="module")
def built():
    return build(SOURCE, "sm_90", FLAGS)


@needs_nvcc
def test_facts_are_what_the_assembler_says(built, tmp_path):
    (kernel,) = built.kernels.values()
    command = [nvcc.nvcc()[0], "-x", "cu", "-arch=sm_90", "-cubin", "-std=c++17", "-O3", "-DHIPBOOK_WAVE=32"]
    said = subprocess.run(
        [*command, "-Xptxas", "-v", *FLAGS, "-o", str(tmp_path / "k"), str(paths.kernels() / SOURCE)],
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    registers, lds = re.search(r"Used (\d+) registers.*?(\d+) bytes smem", said).groups()
    stack = re.search(r"(\d+) bytes stack frame", said)[1]
    assert (kernel.name, kernel.vgprs, kernel.lds_bytes) == (
        "paged_attention_decode",
        int(registers),
        int(lds),
    )
    assert (kernel.scratch_bytes, kernel.wave_size, kernel.max_workgroup_size) == (int(stack), 32, 256)
    assert [arg.size for arg in kernel.args] == [8] * 15 + [4] * 10
    assert [arg.offset for arg in kernel.args[:3]] == [0, 8, 16]
    assert kernel.kernarg_bytes == 15 * 8 + 10 * 4
    assert built.arch == "sm_90"
    assert built.compiler.startswith("nvcc V")


@needs_nvcc
def test_the_second_build_is_the_first(built):
    assert build(SOURCE, "sm_90", FLAGS) == built


@needs_nvcc
def test_damaged_bytes_are_a_value_error(built):
    data = built.path.read_bytes()
    for damaged in (b"", data[:100], b"\x7fELF" + bytes(200), data[: len(data) // 2]):
        with pytest.raises(ValueError, match=r".+"):
            cubin.read(damaged)
    amd = build("board_check/board_check.hip", "gfx1200").path.read_bytes()
    with pytest.raises(ValueError, match="EM_AMDGPU, not a cubin"):
        cubin.read(amd)


@needs_nvcc
def test_a_compile_error_carries_the_compilers_words(tmp_path):
    source = tmp_path / "bad.hip"
    source.write_text('extern "C" __global__ void k() { undeclared(); }\n')
    with pytest.raises(BuildError, match="undeclared"):
        build(source, "sm_90")


@needs_nvcc
def test_flags_are_translated(tmp_path):
    job = Job(
        tmp_path / "k.hip",
        "sm_90",
        ("-ffp-contract=off", "-Wall", "-g", "-DX=1"),
        ".",
        tmp_path / "o",
        tmp_path / "d",
    )
    command = TOOLCHAINS["nvcc"].command(job)
    assert {"-fmad=false", "-lineinfo", "-DX=1", "-arch=sm_90"} <= set(command)
    assert not {"-Wall", "-g", "-ffp-contract=off"} & set(command)


def test_each_architecture_has_its_toolchain():
    assert {toolchain_for(arch).name for arch in ARCHS} == {"pinned"}
    assert {toolchain_for(arch).name for arch in NVIDIA_ARCHS} == {"nvcc"}
    with pytest.raises(BuildError, match="sm_90"):
        arch_of("sm_5")


def test_absent_compilers_are_told_with_what_to_do(monkeypatch):
    monkeypatch.setenv("HIPBOOK_NVCC", "/nowhere/nvcc")
    with pytest.raises(BuildError, match="/nowhere/nvcc") as raised:
        build(SOURCE, "sm_90", FLAGS)
    assert "HIPBOOK_NVCC" in raised.value.fix
    monkeypatch.setenv("HIPBOOK_HIPCC", "/nowhere/hipcc")
    with pytest.raises(BuildError, match="/nowhere/hipcc"):
        build(SOURCE, "gfx1200", FLAGS, toolchain="rocm")


def test_rocms_row_asks_for_one_architecture_and_names(monkeypatch, tmp_path):
    monkeypatch.setattr(rocm, "compiler", lambda: ("/opt/rocm/bin/amdclang++", "7.1"))
    job = Job(tmp_path / "k.hip", "gfx1100", ("-DX=1",), ".", tmp_path / "o", tmp_path / "d")
    command = TOOLCHAINS["rocm"].command(job)
    assert command[0] == "/opt/rocm/bin/amdclang++"
    assert {"--offload-arch=gfx1100", "-DHIPBOOK_WAVE=32", "-DX=1", "-fhip-kernel-arg-name"} <= set(command)
