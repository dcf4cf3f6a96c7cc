"""What can be held of the paged-attention kernels without running them."""

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hipbook import paths
from hipbook.build import ARCHS, KernelFacts, build, build_many
from hipbook.errors import BuildError

SOURCE = "paged_attention/paged_attention.hip"
ARMS = ("online", "decode", "decode_gqa", "split_kv")
DECODE_D = (64, 128, 256, 512)
DTYPES = ("bf16", "f16", "f32")
RATIOS = range(1, 17)
# hipcc's and nvcc's parameter list of every arm: name and bytes (kernels/paged_attention; strides are 64-bit)
POINTERS = ("q", "k_cache", "v_cache", "out", "witness", "block_table", "seq_lens", "query_start_loc")
STRIDES = (
    "k_block_stride", "k_slot_stride", "k_head_stride", "v_block_stride", "v_slot_stride", "v_head_stride",
    "block_table_stride",
)  # fmt: skip
WORDS = (
    "num_reqs", "total_q", "num_q_heads", "num_kv_heads", "block_size", "causal", "window_left",
    "window_right", "scale", "soft_cap",
)  # fmt: skip


def flags(
    arm: str, d: int, q: str = "bf16", kv: str = "bf16", out: str = "bf16", ratio: int = 2
) -> tuple[str, ...]:
    macros = {"Q": q, "KV": kv, "OUT": out, "D": d, f"ARM_{arm.upper()}": 1}
    if arm in ("decode_gqa", "split_kv"):
        macros["RATIO"] = ratio
    if arm == "split_kv":
        macros["BLOCK_16"] = 1
    return tuple(f"-DHIPBOOK_{name}={value}" for name, value in macros.items())


def facts(arch: str, *of: object, **also: object) -> KernelFacts:
    (kernel,) = build(SOURCE, arch, flags(*of, **also)).kernels.values()
    return kernel


@pytest.mark.parametrize("arch", ARCHS)
def test_every_arm_on_every_architecture(arch: str) -> None:
    jobs = [(SOURCE, arch, (*flags(arm, 128), "-Wall", "-Wextra", "-Werror")) for arm in ARMS]
    for arm, code in zip(ARMS, build_many(jobs), strict=True):
        (kernel,) = code.kernels.values()
        assert kernel.name == f"paged_attention_{arm}"
        assert kernel.wave_size == ARCHS[arch].wave_size
        assert kernel.scratch_bytes == 0
        explicit = [(arg.name, arg.size) for arg in kernel.args if not arg.kind.startswith("hidden")]
        common = [(name, 8) for name in (*POINTERS, *STRIDES)] + [(name, 4) for name in WORDS]
        scratch = [("partial", 8), ("tickets", 8), ("splits", 4)] if arm == "split_kv" else []
        assert explicit == common + scratch


RUNGS = ("online_shuffle", "online_wide", "online_tile")


@pytest.mark.parametrize("arch", ["gfx1200", "gfx942"])
def test_rungs_in_both_wave_widths(arch: str) -> None:
    jobs = [
        ("paged_attention/ladder.hip", arch, (*flags(rung, d), "-Wall", "-Wextra", "-Werror"))
        for rung in RUNGS
        for d in (100, 512)
    ]
    for (_, _, of), code in zip(jobs, build_many(jobs), strict=True):
        (kernel,) = code.kernels.values()
        assert f"-DHIPBOOK_ARM_{kernel.name.removeprefix('paged_attention_').upper()}=1" in of
        assert (kernel.scratch_bytes, kernel.wave_size) == (0, ARCHS[arch].wave_size)


@pytest.mark.parametrize("arch", ["gfx1200", "gfx942"])
def test_prefill_in_both_wave_widths(arch: str) -> None:
    shapes = [(64, "bf16"), (128, "bf16"), (128, "f32")]
    jobs = [
        ("paged_attention/prefill.hip", arch, (*flags("prefill", d, t, t, t), "-Wall", "-Wextra", "-Werror"))
        for d, t in shapes
    ]
    for (d, t), code in zip(shapes, build_many(jobs), strict=True):
        kernel = code.kernels["paged_attention_prefill"]
        wave = ARCHS[arch].wave_size
        assert (kernel.scratch_bytes, kernel.wave_size, kernel.max_workgroup_size) == (0, wave, 8 * wave)
        queries, tile = 4 * 32 * d, wave * (d * (4 if t == "f32" else 2) + 16)
        assert kernel.lds_bytes == queries + tile


def test_prefill_refuses_other_head_sizes_by_name() -> None:
    with pytest.raises(BuildError, match=r"prefill serves D in \{64, 128\}"):
        build("paged_attention/prefill.hip", "gfx1200", flags("prefill", 256))


def spilling(cases: list[tuple]) -> dict[tuple, int]:
    """Scratch bytes of the specialisations that have any, or that spill."""
    built = build_many([(SOURCE, "gfx1200", flags(*case)) for case in cases])
    assert len(built) == len(cases) > 0
    return {
        case: kernel.scratch_bytes
        for case, code in zip(cases, built, strict=True)
        for kernel in code.kernels.values()
        if kernel.scratch_bytes or kernel.vgpr_spills
    }


def fused(ratios: range | tuple[int, ...], dtypes: tuple[str, ...] = ("bf16", "f32")) -> list[tuple]:
    arms = ("decode_gqa", "split_kv")
    return [(arm, d, t, t, t, ratio) for arm in arms for d in DECODE_D for t in dtypes for ratio in ratios]


@pytest.mark.slow
def test_no_scratch_in_any_decode_arm() -> None:
    """The ratios that leave fewest registers, of the dtypes that take most and fewest."""
    assert spilling(fused((1, 15, 16)) + [("decode", d, t, t, t) for d in DECODE_D for t in DTYPES]) == {}


@pytest.mark.long
def test_no_scratch_at_any_ratio_or_mix_of_dtypes() -> None:
    mixed = [(q, kv) for q, kv in itertools.product(DTYPES, DTYPES) if q != kv or q == "f16"]
    arms = ("decode_gqa", "split_kv")
    cases = [(arm, d, q, kv, "bf16", 16) for arm in arms for d in DECODE_D for q, kv in mixed]
    assert spilling(fused(RATIOS) + cases) == {}


@pytest.mark.parametrize("d", [32, 64, 80, 96, 100, 128, 160, 192, 256, 511, 512])
def test_online_serves_any_head_size(d: int) -> None:
    kernel = facts("gfx1200", "online", d)
    threads = next(t for t in (64, 128, 256) if t >= d or t == 256)
    assert kernel.max_workgroup_size == threads
    assert kernel.lds_bytes == 4 * (threads + 3)  # partials; score, maximum, sum
    assert kernel.scratch_bytes == 0
    assert kernel.vgprs <= 32


@pytest.mark.parametrize("d", [1024, 513])
def test_online_refuses_larger_ones_by_name(d: int) -> None:
    with pytest.raises(BuildError, match="online serves D from 1 to 512"):
        build(SOURCE, "gfx1200", flags("online", d))


@pytest.mark.parametrize("arm", ["decode", "decode_gqa"])
def test_decode_arms_refuse_others_by_name(arm: str) -> None:
    with pytest.raises(BuildError, match=r"serve D in \{64, 128, 256, 512\}"):
        build(SOURCE, "gfx1200", flags(arm, 96))


def test_ratio_past_16_is_refused_by_name() -> None:
    with pytest.raises(BuildError, match="1 to 16 query heads per kv head"):
        build(SOURCE, "gfx1200", flags("decode_gqa", 128, ratio=17))


@pytest.mark.parametrize("d", DECODE_D)
def test_lds_and_registers_of_decode(d: int) -> None:
    kernel = facts("gfx1200", "decode", d)
    assert kernel.lds_bytes == 8 * (d + 2) * 4  # P.V, maximum and sum of 8 waves
    assert kernel.max_workgroup_size == 8 * 32
    assert kernel.vgprs <= 128
    assert kernel.occupancy_waves >= 10


@pytest.mark.parametrize(
    ("d", "ratio"), [(64, 1), (128, 2), (128, 5), (128, 16), (256, 8), (512, 7), (512, 16)]
)
def test_lds_and_registers_of_decode_gqa(d: int, ratio: int) -> None:
    kernel = facts("gfx1200", "decode_gqa", d, ratio=ratio)
    slices = -(-ratio * d // 2048)
    heads = -(-ratio // slices)
    at_once = min(heads, max(1, 512 // d))  # heads merged in one round
    assert kernel.lds_bytes == 8 * (at_once * d + 2 * heads) * 4
    assert kernel.vgprs <= 208
    assert kernel.occupancy_waves >= 7


def test_one_arm_has_to_be_named() -> None:
    with pytest.raises(BuildError, match="no arm: define one of"):
        build(SOURCE, "gfx1200", flags("online", 128)[:-1])


def _code_lines() -> list[tuple[str, str]]:
    """(file:line, code without comments) of everything under kernels/."""
    lines = []
    for path in sorted(paths.kernels().rglob("*")):
        if path.suffix in (".hip", ".h"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                lines.append((f"{path.relative_to(paths.kernels())}:{number}", line.split("//")[0]))
    return lines


def test_no_kernel_writes_a_wave_width() -> None:
    """32 and 64 (and masks made of them) stand for something else wherever they stand."""
    allowed = {
        "int threads = 64;",  # online's workgroup, by its contract
        "static_assert(D == 64 || D == 128 || D == 256 || D == 512, "
        '"the decode arms serve D in {64, 128, 256, 512}");',
        'static_assert(D == 64 || D == 128, "prefill serves D in {64, 128}");',
    }
    found = [
        f"{where}: {code.strip()}"
        for where, code in _code_lines()
        if re.search(r"\b(32|64|0x1f|0x3f|31|63)[uU]?\b|\bwarpSize\b|__AMDGCN_WAVEFRONT", code)
        and code.strip() not in allowed
    ]
    assert len(_code_lines()) > 300
    assert found == []


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("arm", ARMS)
def test_the_same_sources_compile_with_nvcc(tmp_path: Path, arm: str) -> None:
    command = ["nvcc", "-arch=sm_90", "-cubin", "-x", "cu", "-std=c++17", "-DHIPBOOK_WAVE=32"]
    command += [*flags(arm, 128, "bf16", "f16", "f32"), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(
        [*command, str(paths.kernels() / SOURCE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


def test_sources_are_formatted() -> None:
    clang_format = shutil.which("clang-format") or shutil.which("clang-format", path=_scripts())
    assert clang_format, "clang-format is in the dev extra"
    sources = [str(path) for path in paths.kernels().rglob("*") if path.suffix in (".hip", ".h")]
    done = subprocess.run(
        [clang_format, "--dry-run", "--Werror", *sources], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _scripts() -> str:
    import sys

    return str(Path(sys.executable).parent)
