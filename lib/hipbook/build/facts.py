"""Static facts of a code object's kernels, read from the file itself.

Registers, spills, LDS, scratch, arguments and wave size: the metadata note. Code bytes: the size of
the kernel's symbol. Occupancy: computed from those and the architecture's register file (archs.py),
so that foreign binaries have one too.
"""

import io
import re
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from hipbook.build import metadata
from hipbook.build.archs import ARCHS, occupancy
from hipbook.build.code_object import KernelArg, KernelFacts

_EM_AMDGPU = "EM_AMDGPU"
_NT_AMDGPU_METADATA = 32
_PROCESSOR = re.compile(r"-(gfx[0-9a-z]+)(?::|$)")  # in the target, whose prefix differs by compiler


def read(data: bytes) -> tuple[str, dict[str, KernelFacts]]:
    """(architecture, kernels by name) of the code object in `data`; ValueError says what is wrong."""
    try:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] != _EM_AMDGPU:
            raise ValueError(f"an ELF file for {elf['e_machine']}, not an AMD GPU code object")
        note = _note(elf)
        sizes = _function_sizes(elf)
    except ValueError:
        raise
    except Exception as error:  # on damaged bytes pyelftools raises whatever its parsers happen to
        raise ValueError(f"not a readable ELF file: {str(error) or type(error).__name__}") from error
    return _facts(note, sizes)


def _note(elf: ELFFile) -> Any:
    for section in elf.iter_sections():
        if not isinstance(section, NoteSection):
            continue
        for note in section.iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] in (_NT_AMDGPU_METADATA, "NT_AMDGPU_METADATA"):
                desc = note["n_descdata"]
                return metadata.unpack(desc if isinstance(desc, bytes) else desc.encode("latin-1"))
    raise ValueError("no AMDGPU metadata note")


def _function_sizes(elf: ELFFile) -> dict[str, int]:
    tables = [s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)]
    return {
        symbol.name: symbol["st_size"]
        for table in tables
        for symbol in table.iter_symbols()
        if symbol["st_info"]["type"] == "STT_FUNC"
    }


def _facts(note: Any, sizes: dict[str, int]) -> tuple[str, dict[str, KernelFacts]]:
    try:
        target, kernels = note["amdhsa.target"], note["amdhsa.kernels"]
        processor = _PROCESSOR.search(target)
        if not processor:
            raise ValueError(f"built for {target!r}, not for an AMD GPU")
        arch = processor[1]
        facts = [_kernel(kernel, arch, sizes) for kernel in kernels]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the metadata note lacks {error}") from error
    return arch, {kernel.name: kernel for kernel in facts}


def _kernel(kernel: dict[str, Any], arch: str, sizes: dict[str, int]) -> KernelFacts:
    name = kernel[".name"]
    if name not in sizes:
        raise ValueError(f"kernel {name!r} of the metadata has no function symbol")
    vgprs, sgprs = _count(kernel, ".vgpr_count"), _count(kernel, ".sgpr_count")
    lds_bytes = _count(kernel, ".group_segment_fixed_size")
    workgroup, wave = _count(kernel, ".max_flat_workgroup_size"), _count(kernel, ".wavefront_size")
    known = ARCHS.get(arch)
    return KernelFacts(
        name=name,
        symbol=kernel[".symbol"],
        vgprs=vgprs,
        sgprs=sgprs,
        vgpr_spills=_count(kernel, ".vgpr_spill_count"),
        sgpr_spills=_count(kernel, ".sgpr_spill_count"),
        lds_bytes=lds_bytes,
        scratch_bytes=_count(kernel, ".private_segment_fixed_size"),
        kernarg_bytes=_count(kernel, ".kernarg_segment_size"),
        max_workgroup_size=workgroup,
        wave_size=wave,
        code_bytes=sizes[name],
        occupancy_waves=occupancy(
            known, vgprs=vgprs, sgprs=sgprs, lds_bytes=lds_bytes, workgroup_size=workgroup
        )
        if known and wave == known.wave_size
        else None,
        args=tuple(
            KernelArg(arg.get(".name", ""), _count(arg, ".offset"), _count(arg, ".size"), arg[".value_kind"])
            for arg in kernel.get(".args", [])
        ),
    )


def _count(fields: dict[str, Any], key: str) -> int:
    value = fields[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"the metadata note says {key} = {value!r}, not a count")
    return value
