"""What llvm-objdump says of machine code: another decoder than ours."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hipbook.emulator import image, isa
from hipbook.emulator.isa import Inst

LINE = re.compile(r"\t(.*?)\s*// ([0-9A-F]+): ((?:[0-9A-F]{8} ?)+)")
SLOT = 16  # bytes an instruction of `disassemble` gets: longer than any
_NOP = 0xBF800000


def tool(name: str) -> str:
    found = shutil.which(f"{name}-22") or shutil.which(name)
    if found is None:
        pytest.skip(f"{name}-22 is not installed")
    return found


def listing(path: Path, *options: str) -> dict[int, tuple[str, int]]:
    """{address: (text, bytes)} of a file's code."""
    text = subprocess.run(
        [tool("llvm-objdump"), "-d", "--no-leading-addr", *options, str(path)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return {
        int(match[2], 16): (match[1], 4 * len(match[3].split()))
        for match in map(LINE.match, text.splitlines())
        if match
    }


def disassemble(codes: list[bytes], cpu: str, folder: Path) -> list[tuple[str, int]]:
    """(text, bytes) of each instruction; what objdump does not know starts with `.long`."""
    source, built = folder / "code.s", folder / "code.o"
    lines = []
    for code in codes:
        padded = code + _NOP.to_bytes(4, "little") * ((SLOT - len(code)) // 4)
        parts = (padded[i : i + 4] for i in range(0, SLOT, 4))
        lines.append(".long " + ",".join(hex(int.from_bytes(part, "little")) for part in parts))
    source.write_text(".text\n" + "\n".join(lines) + "\n")
    target = ["-triple=amdgcn-amd-amdhsa", f"-mcpu={cpu}"]
    subprocess.run([tool("llvm-mc"), *target, "-filetype=obj", source, "-o", built], check=True)
    found = listing(built, f"--mcpu={cpu}", "--mattr=+real-true16")
    return [found.get(SLOT * n, ("", 0)) for n in range(len(codes))]


def mnemonic(text: str) -> str:
    """What objdump printed, without the encoding's suffix."""
    if "v_dual_" in text:
        return " ".join(re.findall(r"v_dual_\w+", text))
    return re.sub(r"(_e32|_e64)?(_dpp)?$", "", text.split()[0])


def ours(inst: Inst) -> str:
    name = inst.name.lower()
    if name.startswith("v_dual_"):
        return name.replace("_v_dual_", " v_dual_")
    return re.sub(r"_e(32|64)$", "", name)


def compare(path: Path, family: str) -> int:
    """Instructions compared; every one has the length and mnemonic that llvm-objdump gives it."""
    loaded = image.read(path.read_bytes(), path.name)
    compared = 0
    for address, (text, size) in listing(path).items():
        if text.startswith("s_code_end"):
            continue
        inst = isa.decode(loaded.text, address - loaded.text_address, family)
        assert (ours(inst), inst.size) == (mnemonic(text), size), f"{path} at {address:#x}: {text}"
        compared += 1
    return compared
