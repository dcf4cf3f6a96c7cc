"""Which opcodes of a family the board executes, from the same tables the decoder uses."""

from hipbook.emulator import isa
from hipbook.emulator.lower import ALIASES
from hipbook.emulator.semantics import memory, native, packed, scalar, vector

_CONTROL = frozenset({
    "S_ENDPGM", "S_ENDPGM_SAVED", "S_BARRIER", "S_BARRIER_WAIT", "S_TRAP", "S_SETHALT", "S_SENDMSGHALT",
    "S_SENDMSG", "S_ROUND_MODE", "S_DENORM_MODE", "S_SLEEP_VAR",
})  # fmt: skip
_TABLES = (
    scalar.SCALAR, vector.VECTOR, packed.PACKED, packed.WORDS, packed.DOTS, packed.MIX, native.NATIVE,
    memory.MEMORY, native.HELPERS, native.NOPS, _CONTROL,
)  # fmt: skip


def is_covered(opcode: str) -> bool:
    """Whether an opcode (a name of the ISA tables) can run, some operand forms aside."""
    name = isa.base_name(opcode).replace("V_DUAL_", "V_")
    name = ALIASES.get(name, name)
    return any(name in table for table in _TABLES)


def opcodes(family: str = "rdna4") -> dict[str, dict[str, bool]]:
    """{encoding: {opcode: covered}} for every opcode of `family`'s ISA tables."""
    return {
        encoding: {name: is_covered(name) for name in names.values()}
        for encoding, names in isa.opcodes(family).items()
    }
