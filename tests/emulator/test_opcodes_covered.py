"""No opcode is claimed without a test: every covered opcode has an expectation of its own, or is named here
with the test that holds it."""

import ast
from pathlib import Path

import pytest
from gfx_expected_memory import LOADS, STORES, atomic
from gfx_expected_scalar import SAVEEXEC, SCALAR
from gfx_expected_vector import EXPECTED, PACKED

from hipbook.emulator import coverage, isa
from hipbook.emulator.semantics import native

HERE = Path(__file__).parent
CONTROL = "test_control.py::test_"
WAITS = f"{CONTROL}waits_and_hints_change_nothing"
# the test of opcodes whose operands or effect fit no table
BY_TEST = {
    f"{CONTROL}barriers_of_one_wave": (
        "S_BARRIER", "S_BARRIER_SIGNAL", "S_BARRIER_SIGNAL_ISFIRST", "S_BARRIER_WAIT",
    ),
    f"{CONTROL}the_ends_of_a_program": ("S_ENDPGM", "S_ENDPGM_SAVED"),
    f"{CONTROL}traps": ("S_TRAP", "S_SETHALT", "S_SENDMSGHALT"),
    f"{CONTROL}modes_and_messages": ("S_SENDMSG", "S_ROUND_MODE", "S_DENORM_MODE", "S_SLEEP_VAR"),
    f"{CONTROL}jumps_through_registers": ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64"),
    f"{CONTROL}branches": native.BRANCHES,
    f"{CONTROL}lanes_and_scalars": (
        "V_READFIRSTLANE_B32", "V_READLANE_B32", "V_WRITELANE_B32", "V_SWAP_B32", "V_SWAP_B16",
        "V_MBCNT_LO_U32_B32", "V_MBCNT_HI_U32_B32",
    ),
    f"{CONTROL}permutations_within_rows": (
        "V_PERMLANE16_B32", "V_PERMLANEX16_B32", "V_PERMLANE16_VAR_B32", "V_PERMLANEX16_VAR_B32",
    ),
    f"{CONTROL}permutations_through_lds": (
        "DS_BPERMUTE_B32", "DS_BPERMUTE_FI_B32", "DS_PERMUTE_B32", "DS_SWIZZLE_B32",
    ),
    "test_vector_alu.py::test_division_sequence_is_ieee": (
        "V_DIV_SCALE_F32", "V_DIV_FMAS_F32", "V_DIV_FIXUP_F32",
    ),
    f"{CONTROL}division_of_doubles": ("V_DIV_SCALE_F64", "V_DIV_FMAS_F64", "V_DIV_FIXUP_F64"),
    f"{CONTROL}division_of_halves": ("V_DIV_FIXUP_F16",),
    f"{CONTROL}two_addresses_of_lds": tuple(
        f"DS_{verb}_2ADDR_{stride}B{bits}"
        for verb in ("LOAD", "STORE") for stride in ("", "STRIDE64_") for bits in (32, 64)
    ),
}  # fmt: skip
ELSEWHERE = {opcode: test for test, opcodes in BY_TEST.items() for opcode in opcodes}


def held_by(encoding: str, opcode: str) -> str | None:
    """What holds an opcode: a table of expectations, or a test named in ELSEWHERE."""
    name = isa.base_name(opcode).replace("V_DUAL_", "V_")
    if name in EXPECTED or name in PACKED or name in SCALAR or name in SAVEEXEC:
        return "an expectation"
    if name.startswith("V_WMMA"):
        return "test_matrix_opcodes.py::test_matrices"
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if name in native.NOPS:
        return WAITS
    for verb, table in (("LOAD", LOADS), ("STORE", STORES)):
        if f"_{verb}_" in name and name.partition(f"_{verb}_")[2] in table:
            return "an expectation"
    memory = encoding in ("VGLOBAL", "VFLAT", "VBUFFER", "DS")
    return "an expectation" if memory and atomic(name) else None


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_no_opcode_is_claimed_without_a_test(family):
    claimed = [
        (encoding, name)
        for encoding, names in coverage.opcodes(family).items()
        for name, covered in names.items()
        if covered
    ]
    assert len(claimed) > 1100
    assert [(e, n) for e, n in claimed if held_by(e, n) is None] == []


def test_the_tests_that_are_named_exist():
    for where in {*ELSEWHERE.values(), WAITS, "test_matrix_opcodes.py::test_matrices"}:
        file, _, test = where.partition("::")
        tree = ast.parse((HERE / file).read_text())
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, where


def test_an_opcode_without_a_test_is_found():
    """The gate itself: an opcode nobody holds."""
    assert held_by("VOP1", "V_MOVRELS_B32_E32") is None
    assert held_by("VBUFFER", "BUFFER_LOAD_FORMAT_X") is None
