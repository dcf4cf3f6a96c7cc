"""Where inlined code was called from, by debug information: the line of a header alone says little."""

import io

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import RangeEntry
from elftools.elf.elffile import ELFFile

Line = tuple[str, int]  # file name, line


def call_sites(data: bytes, address: int) -> tuple[Line, ...]:
    """The lines that the code at ELF address `address` was inlined at, innermost first; () when it was not,
    or the code object holds no debug information."""
    try:
        elf = ELFFile(io.BytesIO(data))
        if not elf.has_dwarf_info():
            return ()
        info = elf.get_dwarf_info()
        for unit in info.iter_CUs():
            sites = _sites(info, unit, unit.get_top_DIE(), address)
            if sites:
                return tuple(reversed(sites))
    except Exception:  # damaged debug information must not hide the fault it was to describe
        return ()
    return ()


def _sites(info: DWARFInfo, unit: CompileUnit, top: DIE, address: int) -> list[Line]:
    """Call sites around `address`, outermost first."""
    found: list[Line] = []
    todo = [top]
    while todo:
        die = todo.pop()
        for child in die.iter_children():
            if child.tag in ("DW_TAG_subprogram", "DW_TAG_lexical_block", "DW_TAG_inlined_subroutine"):
                if not _holds(info, unit, child, address):
                    continue
                if child.tag == "DW_TAG_inlined_subroutine":
                    found.append(_called_at(info, unit, child))
                todo.append(child)
            elif child.tag == "DW_TAG_namespace":
                todo.append(child)
    return found


def _called_at(info: DWARFInfo, unit: CompileUnit, die: DIE) -> Line:
    program = info.line_program_for_CU(unit)
    files = program["file_entry"]
    number = die.attributes["DW_AT_call_file"].value - (0 if program["version"] >= 5 else 1)
    return files[number].name.decode("utf-8", "replace"), die.attributes["DW_AT_call_line"].value


def _holds(info: DWARFInfo, unit: CompileUnit, die: DIE, address: int) -> bool:
    attributes = die.attributes
    if "DW_AT_ranges" in attributes:
        lists = info.range_lists()
        base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        start = base.value if base else 0
        for entry in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, cu=unit):
            if isinstance(entry, RangeEntry):
                shift = 0 if entry.is_absolute else start
                if entry.begin_offset + shift <= address < entry.end_offset + shift:
                    return True
            else:
                start = entry.base_address
        return False
    if "DW_AT_low_pc" not in attributes:
        return False
    low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
    end = high.value if high.form == "DW_FORM_addr" else low + high.value
    return low <= address < end
