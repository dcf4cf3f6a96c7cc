"""What can be held of every operation's kernels without running them: the operations whose checks are
`ArmChecks`. Paged attention's facts are in test_paged_attention_facts.py."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hipbook import paths
from hipbook.build import ARCHS, KernelFacts, build, build_many
from hipbook.checks import OPERATIONS
from hipbook.checks.arm_checks import ArmChecks
from hipbook.errors import BuildError
from hipbook.ops import gdn_post_conv, grouped_gemv, quantize_q8k

OURS = {name: one for name, one in OPERATIONS.items() if isinstance(one, ArmChecks)}
MODULES = {"quantize_q8k": quantize_q8k, "gdn_post_conv": gdn_post_conv, "grouped_gemv": grouped_gemv}
# The parameter list of every arm: name and bytes, inputs, results, witness, scalars.
PARAMETERS = {
    "quantize_q8k": [("x", 8), ("out", 8), ("witness", 8), ("row_stride", 8), ("blocks", 4),
                     ("blocks_per_row", 4)],
    "gdn_post_conv": [(name, 8) for name in ("conv", "a", "b", "a_log", "dt_bias", "q", "k", "v", "g", "beta",
                                             "witness", "conv_stride", "a_stride", "b_stride")]
                     + [(name, 4) for name in ("tokens", "num_k_heads", "dk", "num_v_heads", "dv")],
    "grouped_gemv": [(name, 8) for name in ("act", "weights", "expert_ids", "out", "witness")]
                    + [(name, 4) for name in ("rows", "n", "blocks", "act_step")],
}  # fmt: skip
each = pytest.mark.parametrize("operation", OURS)


def jobs_of(operation: str) -> list[tuple[str, tuple[str, ...]]]:
    """Each (source, flags) that the operation's own cases run; other operations' kernels left out."""
    checks = OURS[operation]
    every = {job for case in checks.test_cases() for job in checks.build_jobs(case)}
    return sorted(job for job in every if job[0] == MODULES[operation].SOURCE)


def kernels(jobs: list[tuple[str, tuple[str, ...]]], arch: str, *more: str) -> list[KernelFacts]:
    built = build_many([(source, arch, (*flags, *more)) for source, flags in jobs])
    return [kernel for code in built for kernel in code.kernels.values()]


def test_the_table_is_of_all_operations():
    assert set(MODULES) == set(PARAMETERS) == set(OURS)


@each
def test_no_kernel_that_is_checked_needs_scratch(operation):
    jobs = jobs_of(operation)
    found = kernels(jobs, "gfx1200")
    assert len(found) == len(jobs) >= 8
    assert {kernel.name for kernel in found} == {arm.kernel for arm in MODULES[operation].ARMS.values()}
    assert [(k.name, k.scratch_bytes, k.vgpr_spills) for k in found if k.scratch_bytes or k.vgpr_spills] == []
    assert max(kernel.vgprs for kernel in found) <= 128
    assert min(kernel.occupancy_waves for kernel in found) >= 10


def one_an_arm(operation: str) -> list[tuple[str, tuple[str, ...]]]:
    """One of `jobs_of` for each arm."""
    chosen = {next(flag for flag in job[1] if "ARM_" in flag): job for job in jobs_of(operation)}
    assert len(chosen) == len(MODULES[operation].ARMS)
    return list(chosen.values())


@pytest.mark.parametrize("arch", ["gfx1200", "gfx942"])
def test_every_arm_builds_without_a_warning_for_either_width_of_wave(arch):
    jobs = [(operation, job) for operation in OURS for job in one_an_arm(operation)]
    found = kernels([job for _, job in jobs], arch, "-Wall", "-Wextra", "-Werror")
    for (operation, _), kernel in zip(jobs, found, strict=True):
        explicit = [(arg.name, arg.size) for arg in kernel.args if not arg.kind.startswith("hidden")]
        assert explicit == PARAMETERS[operation]
        assert (kernel.wave_size, kernel.scratch_bytes) == (ARCHS[arch].wave_size, 0)


def test_lds_is_where_the_contract_says():
    """Only the quantizer's block arm meets in LDS: magnitude, value, index and sum of 256 threads."""
    for operation in OURS:
        lds = {kernel.name: kernel.lds_bytes for kernel in kernels(jobs_of(operation), "gfx1200")}
        wanted = {name: 4 * 256 * 4 if name == "quantize_q8k_block" else 0 for name in lds}
        assert lds == wanted


@each
def test_one_arm_has_to_be_named_and_no_other(operation):
    source, flags = jobs_of(operation)[0]
    rest = [flag for flag in flags if "ARM_" not in flag]
    with pytest.raises(BuildError, match="no arm: define"):
        build(source, "gfx1200", rest)


def test_a_format_has_to_be_named():
    source, flags = jobs_of("grouped_gemv")[0]
    with pytest.raises(BuildError, match="no format: define"):
        build(source, "gfx1200", [flag for flag in flags if "FORMAT" not in flag])


@pytest.mark.parametrize("dk", ["0", "1025"])
def test_wave_refuses_heads_it_does_not_serve_by_name(dk):
    (job, *_) = [job for job in jobs_of("gdn_post_conv") if "-DHIPBOOK_ARM_WAVE=1" in job[1]]
    flags = [re.sub(r"(DK|VECTOR)=\d+", lambda m: f"{m[1]}={dk if m[1] == 'DK' else 1}", f) for f in job[1]]
    with pytest.raises(BuildError, match="wave serves dk from 1 to 1024"):
        build(job[0], "gfx1200", flags)


@each
def test_arithmetic_is_not_contracted_where_bytes_are_exact(operation):
    assert all("-ffp-contract=off" in flags for _, flags in jobs_of(operation))


def test_witness_codes_tell_arms_apart():
    for module in MODULES.values():
        codes = [arm.witness for arm in module.ARMS.values()]
        assert len(set(codes)) == len(codes) > 1


@each
def test_the_readme_of_the_kernels_lists_it(operation):
    (row,) = [line for line in (paths.kernels() / "README.md").read_text().splitlines()
              if line.startswith(f"| `{operation}/`")]  # fmt: skip
    assert re.findall(r"`(\w+)`", row.split("|")[3]) == list(MODULES[operation].ARMS)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
def test_the_same_sources_compile_with_nvcc(tmp_path: Path) -> None:
    def compiled(number: int, source: str, flags: tuple[str, ...]) -> subprocess.CompletedProcess:
        command = ["nvcc", "-arch=sm_90", "-cubin", "-x", "cu", "-std=c++17", "-fmad=false"]
        command += ["-DHIPBOOK_WAVE=32", *(flag for flag in flags if flag.startswith("-D"))]
        command += ["-o", str(tmp_path / f"{number}.cubin"), str(paths.kernels() / source)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    jobs = [job for operation in OURS for job in one_an_arm(operation)]
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(compiled, range(len(jobs)), *zip(*jobs, strict=True)):
            assert done.returncode == 0, done.stderr
            assert "warning" not in done.stderr
