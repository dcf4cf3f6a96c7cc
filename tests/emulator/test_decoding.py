"""Decoding held to llvm-objdump: every opcode in every form, and the code objects we build."""

from pathlib import Path

import gfx_encodings as encodings
import gfx_objdump as objdump
import pytest

from hipbook import checks, paths
from hipbook.build import build, build_many
from hipbook.checks.runner import find_operation
from hipbook.emulator import coverage, isa
from hipbook.emulator import load as emulate

SMALL = Path(__file__).parent / "small.hip"
CASES = paths.root().parent / "shared" / "emulator-cases"
# what the tables have and llvm refuses in any form
NOT_IN_LLVM = {"V_READFIRSTLANE_B32_E64", "FLAT_ATOMIC_CSUB_U32"}


@pytest.mark.parametrize("cpu", ["gfx1200", "gfx1100", "gfx1151"])
def test_every_opcode_decodes_as_objdump_says(cpu, tmp_path):
    """All opcodes of the tables, with registers, without, with a literal and with both kinds of DPP. A form
    that llvm does not know either is no instruction; every opcode we run must have one that it knows."""
    family = isa.FAMILIES[cpu]
    forms = encodings.everything(family)
    told = objdump.disassemble([code for *_, code in forms], cpu, tmp_path)
    known, wrong = set(), []
    for (encoding, name, form, code), (text, size) in zip(forms, told, strict=True):
        if text.startswith(".long"):
            continue
        inst = isa.decode(code, 0, family)
        if (objdump.ours(inst), inst.size) != (objdump.mnemonic(text), size):
            wrong.append(f"{encoding} {name} {form}: {inst.name}, {inst.size} bytes; objdump: {text}, {size}")
        known.add((encoding, name))
    assert wrong == []
    unknown = {
        name
        for encoding in encodings.ENCODINGS
        for name in isa.opcodes(family)[encoding].values()
        if coverage.is_covered(name) and (encoding, name) not in known
    }
    if cpu == "gfx1100":  # scalar floats came with gfx1150
        unknown -= {name for name in unknown if name.startswith("S_") and ("F32" in name or "F16" in name)}
    assert unknown <= NOT_IN_LLVM
    assert len(known) > 1150


def sample() -> list[tuple[str, tuple[str, ...]]]:
    """(source, flags) of one code object an arm of every operation."""
    jobs = {}
    for case in checks.select("test"):
        for job in find_operation(case.operation).build_jobs(case):
            jobs.setdefault((case.operation, case.arm), job)
    return list(jobs.values())


def test_our_kernels_decode_as_objdump_says_and_can_run():
    """One code object an arm, on RDNA4 and RDNA3; bench/decoding.py compares all of every board."""
    jobs = [(source, arch, flags) for source, flags in sample() for arch in ("gfx1200", "gfx1100")]
    built = build_many(jobs)
    assert len(built) >= 2 * 12
    for code_object in built:
        assert objdump.compare(code_object.path, isa.FAMILIES[code_object.arch]) > 50
        program = emulate(code_object)
        assert all(program.kernel(name).records.size for name in code_object.kernels)


@pytest.mark.parametrize("arch", sorted(isa.FAMILIES))
def test_small_kernels_decode_as_objdump_says(arch):
    code_object = build(SMALL, arch, ["-g"])
    assert objdump.compare(code_object.path, isa.FAMILIES[arch]) > 500


def test_cases_decode_as_objdump_says():
    if not CASES.is_dir():
        pytest.skip("../shared/emulator-cases is not here")
    assert sum(objdump.compare(path, "rdna4") for path in CASES.glob("*.hsaco")) > 2000
