"""The parts of a code object that running it needs: code, data, kernel descriptors, line table.

Metadata (argument layout, sizes) comes from `build`; this module reads what only a machine needs.
"""

import bisect
import io
import struct
from dataclasses import dataclass, field
from functools import cached_property

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from hipbook.errors import EmulatorError

_R_RELATIVE64 = 13


@dataclass(frozen=True)
class Descriptor:
    """A kernel's 64-byte descriptor (LLVM AMDGPUUsage, "Kernel Descriptor")."""

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry: int  # ELF address of the first instruction
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int

    @property
    def wave32(self) -> bool:
        return bool(self.properties >> 10 & 1)


@dataclass(frozen=True)
class Image:
    """A loaded code object. Addresses are the file's own; the launch adds its base."""

    text: bytes
    text_address: int
    segments: tuple[tuple[int, bytes, int, bool], ...]  # (address, bytes, size in memory, writable)
    descriptors: dict[str, Descriptor]
    functions: dict[str, tuple[int, int]]  # name -> (address, size)
    data: bytes = field(repr=False, default=b"")

    def function_at(self, address: int) -> tuple[str, int] | None:
        """(name, first address) of the function that holds `address`: a kernel or one it calls."""
        for name, (start, size) in self.functions.items():
            if start <= address < start + size:
                return name, start
        return None

    @cached_property
    def lines(self) -> "Lines":
        return Lines(self.data)


def read(data: bytes, name: str) -> Image:
    """The image in `data`; `name` is for the error. Raises EmulatorError for what is no code object."""
    try:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] != "EM_AMDGPU":
            raise EmulatorError(f"{name} is an ELF file for {elf['e_machine']}, not an AMD GPU code object")
        section = elf.get_section_by_name(".text")
        if section is None:
            raise EmulatorError(f"{name} has no .text section")
        text = section.data()
        if len(text) != section["sh_size"]:
            raise EmulatorError(f"{name} is truncated: .text ends early")
        segments = _segments(elf, name)
        functions, descriptors = {}, {}
        table = elf.get_section_by_name(".dynsym") or elf.get_section_by_name(".symtab")
        for symbol in table.iter_symbols() if table else ():
            if symbol["st_info"]["type"] == "STT_FUNC":
                functions[symbol.name] = (symbol["st_value"], symbol["st_size"])
            elif symbol.name.endswith(".kd"):
                descriptors[symbol.name[:-3]] = _descriptor(segments, symbol["st_value"], name)
        local = elf.get_section_by_name(".symtab")
        for symbol in local.iter_symbols() if local else ():
            if symbol["st_info"]["type"] == "STT_FUNC":
                functions.setdefault(symbol.name, (symbol["st_value"], symbol["st_size"]))
    except (
        ELFError,
        struct.error,
        KeyError,
        ValueError,
        AttributeError,
        TypeError,
        OverflowError,
        OSError,
    ) as error:
        raise EmulatorError(
            f"{name} is not a readable code object: {error or type(error).__name__}"
        ) from error
    return Image(text, section["sh_addr"], segments, descriptors, functions, data)


def _segments(elf: ELFFile, name: str) -> tuple[tuple[int, bytes, int, bool], ...]:
    loaded = []
    for segment in elf.iter_segments("PT_LOAD"):
        content = segment.data()
        if len(content) != segment["p_filesz"] or segment["p_memsz"] > 1 << 30:
            raise EmulatorError(f"{name} is truncated: a segment ends early")
        loaded.append(
            [segment["p_vaddr"], bytearray(content), segment["p_memsz"], bool(segment["p_flags"] & 2)]
        )
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        for relocation in section.iter_relocations():
            if relocation["r_info_type"] != _R_RELATIVE64:
                raise EmulatorError(
                    f"{name} has a relocation of type {relocation['r_info_type']} (an undefined symbol?)"
                )
            for address, content, _, _ in loaded:
                at = relocation["r_offset"] - address
                if at >= 0 and at + 8 <= len(content):  # the launch base is added when loaded
                    content[at : at + 8] = struct.pack(
                        "<Q", (CODE_BASE + relocation["r_addend"]) & (1 << 64) - 1
                    )
    return tuple((address, bytes(content), size, writable) for address, content, size, writable in loaded)


CODE_BASE = 0x2000_0000_0000  # device address of ELF address 0


def _descriptor(segments: tuple[tuple[int, bytes, int, bool], ...], address: int, name: str) -> Descriptor:
    for start, content, _, _ in segments:
        if start <= address and address + 64 <= start + len(content):
            raw = content[address - start : address - start + 64]
            lds, scratch, kernarg = struct.unpack_from("<3I", raw)
            (entry,) = struct.unpack_from("<q", raw, 16)
            rsrc3, rsrc1, rsrc2 = struct.unpack_from("<3I", raw, 44)
            (properties,) = struct.unpack_from("<H", raw, 56)
            return Descriptor(lds, scratch, kernarg, address + entry, rsrc1, rsrc2, rsrc3, properties)
    raise EmulatorError(f"{name} is damaged: a kernel descriptor lies outside its segments")


class Lines:
    """Source line of a code address, when the code object was built with -g."""

    def __init__(self, data: bytes) -> None:
        self._starts: list[int] = []
        self._where: list[tuple[str, int]] = []
        try:
            rows = sorted(self._rows(ELFFile(io.BytesIO(data))))
        except Exception:  # a damaged line table must not hide the fault it was to describe
            rows = []
        for address, file, line in rows:
            self._starts.append(address)
            self._where.append((file, line))

    @staticmethod
    def _rows(elf: ELFFile) -> list[tuple[int, str, int]]:
        if not elf.has_dwarf_info():
            return []
        info, rows = elf.get_dwarf_info(), []
        for unit in info.iter_CUs():
            program = info.line_program_for_CU(unit)
            if program is None:
                continue
            version, files = program["version"], program["file_entry"]
            for entry in program.get_entries():
                state = entry.state
                if state is None or state.end_sequence or not state.line:
                    continue
                number = state.file if version >= 5 else state.file - 1
                name = files[number].name.decode("utf-8", "replace") if 0 <= number < len(files) else "?"
                rows.append((state.address, name, state.line))
        return rows

    def __bool__(self) -> bool:
        return bool(self._starts)

    def at(self, address: int) -> tuple[str, int] | None:
        """(file name, line) of the instruction at ELF address `address`, or None."""
        n = bisect.bisect_right(self._starts, address) - 1
        return self._where[n] if n >= 0 else None
