"""Static facts of a cubin's kernels, read from the file itself (NVIDIA publishes no description of it;
attribute numbers are those that `cuobjdump -elf` prints by name).

Not in the file, and so not said: argument names and kinds, spills (their bytes are part of the stack
frame, which stands as scratch), occupancy.
"""

import io
import struct
from collections.abc import Iterator

from elftools.elf.elffile import ELFFile

from hipbook.build.code_object import KernelArg, KernelFacts

_MAX_THREADS, _FRAME_SIZE, _KPARAM_INFO, _PARAM_BYTES, _REGCOUNT = 0x05, 0x11, 0x17, 0x19, 0x2F
_SIZED = 4  # format byte of an attribute with a length and a payload; others hold 16 bits
_RESERVED_LDS = 1 << 10  # bytes at the start of shared memory that the driver keeps, from sm_90 on
_ABI_WITH_ARCH_IN_BYTE_1 = 8


def read(data: bytes) -> tuple[str, dict[str, KernelFacts]]:
    """(architecture, kernels by name) of the cubin in `data`; ValueError says what is wrong."""
    try:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] != "EM_CUDA":
            raise ValueError(f"an ELF file for {elf['e_machine']}, not a cubin")
        return _read(elf)
    except ValueError:
        raise
    except Exception as error:  # on damaged bytes pyelftools raises whatever its parsers happen to
        raise ValueError(f"not a readable cubin: {str(error) or type(error).__name__}") from error


def _read(elf: ELFFile) -> tuple[str, dict[str, KernelFacts]]:
    shift = 8 if elf["e_ident"]["EI_ABIVERSION"] >= _ABI_WITH_ARCH_IN_BYTE_1 else 0
    version = elf["e_flags"] >> shift & 0xFF
    symbols = [symbol.name for symbol in elf.get_section_by_name(".symtab").iter_symbols()]
    registers, frames = {}, {}
    for attribute, payload in _attributes(elf.get_section_by_name(".nv.info").data()):
        if attribute in (_REGCOUNT, _FRAME_SIZE):
            symbol, value = struct.unpack("<II", payload)
            (registers if attribute == _REGCOUNT else frames)[symbols[symbol]] = value
    kernels = {}
    for section in elf.iter_sections():
        name = section.name.removeprefix(".nv.info.")
        if name == section.name:
            continue
        args, threads, kernarg = [], (1024, 1, 1), 0
        for attribute, payload in _attributes(section.data()):
            if attribute == _KPARAM_INFO:
                _, ordinal, offset, packed = struct.unpack("<IHHI", payload)
                args.append((ordinal, KernelArg(f"argument {ordinal}", offset, packed >> 18, "by_value")))
            elif attribute == _MAX_THREADS:
                threads = struct.unpack("<III", payload)
            elif attribute == _PARAM_BYTES:
                (kernarg,) = struct.unpack("<H", payload)
        shared = elf.get_section_by_name(f".nv.shared.{name}")
        lds = shared["sh_size"] - (_RESERVED_LDS if version >= 90 else 0) if shared is not None else 0
        kernels[name] = KernelFacts(
            name=name, symbol=name, vgprs=registers.get(name, 0), sgprs=0, vgpr_spills=0, sgpr_spills=0,
            lds_bytes=lds, scratch_bytes=frames.get(name, 0), kernarg_bytes=kernarg,
            max_workgroup_size=threads[0] * threads[1] * threads[2], wave_size=32,
            code_bytes=elf.get_section_by_name(f".text.{name}")["sh_size"], occupancy_waves=None,
            args=tuple(arg for _, arg in sorted(args, key=lambda item: item[0])),
        )  # fmt: skip
    if not kernels:
        raise ValueError("a cubin without kernels")
    return f"sm_{version}", kernels


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        sized, attribute = data[at] == _SIZED, data[at + 1]
        length = struct.unpack_from("<H", data, at + 2)[0] if sized else 0
        yield attribute, data[at + 4 : at + 4 + length] if sized else data[at + 2 : at + 4]
        at += 4 + length
