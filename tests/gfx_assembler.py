"""Machine code for tests, by llvm-mc: another source than our decoder."""

import re
import shutil
import subprocess
from functools import cache

import pytest

TRUE16 = "+real-true16"


@cache
def encode(lines: tuple[str, ...], attributes: str = "", cpu: str = "gfx1200") -> tuple[bytes, ...]:
    """One encoding a line of assembly."""
    tool = shutil.which("llvm-mc-22") or shutil.which("llvm-mc")
    if tool is None:
        pytest.skip("llvm-mc-22 is not installed")
    command = [tool, "-triple=amdgcn-amd-amdhsa", f"-mcpu={cpu}", "-show-encoding"]
    if attributes:
        command.append(f"-mattr={attributes}")
    result = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    encodings = re.findall(r"encoding: \[([0-9a-fx,]+)\]", result.stdout)
    assert len(encodings) == len(lines), "a line without an encoding"
    return tuple(bytes(int(byte, 16) for byte in e.split(",")) for e in encodings)


def code(*lines: str, attributes: str = "") -> bytes:
    return b"".join(encode(lines, attributes))
