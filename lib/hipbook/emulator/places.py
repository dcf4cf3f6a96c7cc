"""Which line of the author's own source each instruction comes from.

A line table names the innermost line. For an instruction of a compiler's or ROCm's header (a barrier, a fast
exponential) that says nothing, so it goes to the line that the header's function was inlined at.
"""

import bisect
import io
import posixpath
from collections.abc import Iterator

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import RangeEntry
from elftools.elf.elffile import ELFFile

Place = tuple[str, int]  # path as debug information has it, such as kernels/common/hip.h; line
_HEADERS = ("rocm/include", "clang/include", "/usr/", "/opt/")


class Places:
    """Places by ELF address of a code object built with line tables; empty without them."""

    def __init__(self, data: bytes) -> None:
        self._starts: list[int] = []
        self._where: list[Place] = []
        self._inlined: list[tuple[int, int, int, Place]] = []  # low, high, depth, called at
        elf = ELFFile(io.BytesIO(data))
        if not elf.has_dwarf_info():
            return
        info, rows = elf.get_dwarf_info(), []
        for unit in info.iter_CUs():
            names = _names(info, unit)
            rows += _rows(info, unit, names)
            self._inlined += _inlined(info, unit, unit.get_top_DIE(), names, 0)
        for address, place in sorted(rows):
            self._starts.append(address)
            self._where.append(place)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def at(self, address: int) -> Place | None:
        """The innermost place outside the compiler's headers; None for an address before all lines."""
        n = bisect.bisect_right(self._starts, address) - 1
        if n < 0:
            return None
        if not _foreign(self._where[n]):
            return self._where[n]
        around = [(depth, at) for low, high, depth, at in self._inlined if low <= address < high]
        own = [at for _, at in sorted(around, reverse=True) if not _foreign(at)]
        return own[0] if own else self._where[n]


def _foreign(place: Place) -> bool:
    return any(part in place[0] for part in _HEADERS)


def _names(info: DWARFInfo, unit: CompileUnit) -> list[str]:
    """Paths of the unit's files, from the folder it was compiled under."""
    program = info.line_program_for_CU(unit)
    if program is None or program["version"] < 5:
        return []
    folders = [folder.decode("utf-8", "replace") for folder in program["include_directory"]]
    base, names = folders[0] if folders else "", []
    for entry in program["file_entry"]:
        folder = folders[entry.dir_index]
        inside = folder.startswith(".")  # seen from the compilation's folder
        names.append(
            posixpath.normpath(
                posixpath.join(base if inside else "", folder, entry.name.decode("utf-8", "replace"))
            )
        )
    return names


def _rows(info: DWARFInfo, unit: CompileUnit, names: list[str]) -> Iterator[tuple[int, Place]]:
    program = info.line_program_for_CU(unit)
    for entry in program.get_entries() if program and names else ():
        state = entry.state
        if state is not None and not state.end_sequence and state.line:
            yield state.address, (names[state.file], state.line)


def _inlined(
    info: DWARFInfo, unit: CompileUnit, top: DIE, names: list[str], depth: int
) -> Iterator[tuple[int, int, int, Place]]:
    for die in top.iter_children():
        inside = depth
        if die.tag == "DW_TAG_inlined_subroutine" and names:
            inside = depth + 1
            called = die.attributes
            place = names[called["DW_AT_call_file"].value], called["DW_AT_call_line"].value
            for low, high in _ranges(info, unit, die):
                yield low, high, inside, place
        if die.has_children:
            yield from _inlined(info, unit, die, names, inside)


def _ranges(info: DWARFInfo, unit: CompileUnit, die: DIE) -> Iterator[tuple[int, int]]:
    attributes = die.attributes
    if "DW_AT_ranges" in attributes:
        base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        start = base.value if base else 0
        lists = info.range_lists()
        for entry in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, cu=unit):
            if not isinstance(entry, RangeEntry):
                start = entry.base_address
                continue
            shift = 0 if entry.is_absolute else start
            yield entry.begin_offset + shift, entry.end_offset + shift
    elif "DW_AT_low_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value
