"""Static facts: against the compiler's own remarks, and against damaged files."""

import random
import re
import subprocess
from pathlib import Path

import pytest

from hipbook.build import ARCHS, TOOLCHAINS, build, load, metadata
from hipbook.build.archs import occupancy
from hipbook.build.toolchain import Job, environment
from hipbook.errors import BadArgument

HEAVY = """\
#define THREAD __builtin_amdgcn_workitem_id_x()
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void
KERNEL heavy(float* data, long stride, int n) {
  float held[REGISTERS];
  for (int i = 0; i < REGISTERS; ++i) held[i] = data[i * stride + THREAD];
  for (int r = 0; r < n; ++r)
    for (int i = 0; i < REGISTERS; ++i) held[i] = held[i] * held[(i + 1) % REGISTERS] + 1.0f;
  for (int i = 0; i < REGISTERS; ++i) data[i * stride + THREAD] = held[i];
}
KERNEL light(int* out) { out[THREAD] = 1; }
"""


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("registers", [40, 300])
def test_facts_equal_the_compilers_remarks(tmp_path: Path, arch: str, registers: int) -> None:
    source = tmp_path / "heavy.hip"
    source.write_text(HEAVY)
    flags = (f"-DREGISTERS={registers}", "-nogpuinc")
    code = build(source, arch, flags)
    job = Job(
        source, arch, (*flags, "-Rpass-analysis=kernel-resource-usage"), ".", tmp_path / "o", tmp_path / "d"
    )
    command = TOOLCHAINS["pinned"].command(job)
    remarks = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment()
    ).stderr
    compared = 0
    for part in remarks.split("Function Name: ")[1:]:
        kernel = code.kernels[part.split()[0]]
        said = {
            name.strip(): int(value)
            for name, value in re.findall(r"remark:\s+([\w \[\]/-]+): (\d+) \[-Rpass", part)
        }
        assert kernel.scratch_bytes == said["ScratchSize [bytes/lane]"]
        assert kernel.vgpr_spills == said["VGPRs Spill"]
        assert kernel.lds_bytes == said["LDS Size [bytes/block]"]
        assert kernel.occupancy_waves == said["Occupancy [waves/SIMD]"]
        assert kernel.vgprs >= said["VGPRs"]  # the note counts AGPRs in as well
        compared += 1
    assert compared == 2
    assert (code.kernels["heavy"].scratch_bytes > 0) == (registers == 300)
    assert code.kernels["light"].occupancy_waves == ARCHS[arch].max_waves_per_simd


def test_code_bytes_are_what_the_disassembler_shows(small: Path) -> None:
    code = build(small, "gfx1200", ["-nogpuinc"])
    dump = subprocess.run(
        ["llvm-objdump-22", "-d", "--disassemble-symbols=small", str(code.path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = re.findall(r"// ([0-9A-F]{12}): ((?:[0-9A-F]{8} ?)+)", dump)
    until_end = lines[: 1 + next(i for i, (_, words) in enumerate(lines) if words.split() == ["BFB00000"])]
    assert code.kernels["small"].code_bytes == 4 * sum(len(words.split()) for _, words in until_end)


def test_lds_limits_occupancy() -> None:
    arch = ARCHS["gfx1200"]
    fits = {"vgprs": 24, "sgprs": 16, "workgroup_size": 256}
    assert occupancy(arch, lds_bytes=0, **fits) == 16
    # 40 KiB: three workgroups of 8 waves in 128 KiB, over four SIMDs
    assert occupancy(arch, lds_bytes=40 << 10, **fits) == 6
    assert occupancy(arch, lds_bytes=64 << 10, **fits) == 4


def test_arguments_have_names_and_places(small: Path) -> None:
    explicit = [
        arg
        for arg in build(small, "gfx1200", ["-nogpuinc"]).kernels["small"].args
        if "hidden" not in arg.kind
    ]
    assert [(arg.name, arg.offset, arg.size, arg.kind) for arg in explicit] == [
        ("out", 0, 8, "global_buffer")
    ]


def test_load_knows_what_build_knows(small: Path) -> None:
    built = build(small, "gfx1100", ["-nogpuinc"])
    loaded = load(built.path)
    assert loaded.kernels == built.kernels
    assert loaded.sha256 == built.sha256
    assert (loaded.arch, loaded.source, loaded.compiler) == ("gfx1100", None, "unknown")


def test_damaged_files_are_refused_or_read(small: Path, tmp_path: Path) -> None:
    """Whatever bytes a file holds, `load` answers or raises `BadArgument`."""
    good = build(small, "gfx1200", ["-nogpuinc"]).path.read_bytes()
    path = tmp_path / "damaged.hsaco"
    refused = 0
    for seed in range(300):
        pick = random.Random(seed)
        data = bytearray(good)
        for _ in range(pick.choice((1, 4, 64))):
            data[pick.randrange(min(len(data), 2048))] = pick.randrange(256)
        path.write_bytes(data if seed % 3 else data[: pick.randrange(len(data))])
        try:
            load(path)
        except BadArgument:
            refused += 1
    assert 50 < refused < 300


def test_metadata_values() -> None:
    document = bytes.fromhex("83 a1 61 93 01 e0 cd 01 00 a1 62 d9 02 68 69 a1 63 81 a0 c3")
    assert metadata.unpack(document) == {"a": [1, -32, 256], "b": "hi", "c": {"": True}}
    for end in range(len(document)):
        with pytest.raises(ValueError, match=r"truncated|bytes"):
            metadata.unpack(document[:end])
    for bad in ("c1", "81 01 02", "0101", "91" * 40, "dd ff ff ff ff 00"):
        with pytest.raises(ValueError, match=r".+"):
            metadata.unpack(bytes.fromhex(bad))
