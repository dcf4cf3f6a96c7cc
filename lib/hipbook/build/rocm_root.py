"""The folder clang's --rocm-path wants, made from the triton wheel (no ROCm installed).

The wheel brings the HIP headers and two device libraries (ocml.bc, ockl.bc). Clang also asks for a
version file, an opencl.bc (required, never linked) and the control libraries, each of which is one
constant; those are generated here by the same clang that will read them.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from hipbook import paths
from hipbook.build.archs import ARCHS
from hipbook.errors import BuildError

_RECIPE = "1"  # raise when what this module writes changes
_HIP_VERSION = "HIP_VERSION_MAJOR=7\nHIP_VERSION_MINOR=1\nHIP_VERSION_PATCH=25424\n"
_SWITCHES = {  # file name -> symbol; they differ
    "unsafe_math": "__oclc_unsafe_math_opt",
    "finite_only": "__oclc_finite_only_opt",
    "correctly_rounded_sqrt": "__oclc_correctly_rounded_sqrt32",
    "wavefrontsize64": "__oclc_wavefrontsize64",
}
_CONSTANT = "@{} = linkonce_odr protected local_unnamed_addr addrspace(4) constant {} {}\n"


def wheel() -> Path:
    """The triton wheel's AMD folder (include/ and lib/); triton itself is not imported."""
    spec = importlib.util.find_spec("triton")
    for where in spec.submodule_search_locations or [] if spec else []:
        amd = Path(where) / "backends" / "amd"
        if (amd / "lib" / "ocml.bc").is_file() and (amd / "include" / "hip" / "hip_runtime.h").is_file():
            return amd
    raise BuildError(
        "no HIP headers and device libraries: the triton wheel is not installed in this Python",
        fix="pip install triton==3.7.1 (Linux, x86-64 or aarch64)",
    )


@functools.cache
def device_libs_identity() -> str:
    """Version of the wheel and a hash of the libraries and headers a build links and reads."""
    amd = wheel()
    digest = hashlib.sha256()
    for folder in ("lib", "include"):
        for path in sorted((amd / folder).rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(amd)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return f"triton {_wheel_version()} device libs {digest.hexdigest()[:12]}"


def _wheel_version() -> str:
    """ROCm builds of torch bring the same package in a wheel of another name."""
    for name in ("triton", "pytorch-triton-rocm", "triton-rocm"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return "of unknown version"


def rocm_root(clang: Path, compiler: str) -> Path:
    """The generated root for `clang`, whose version line is `compiler`; made once, then found."""
    amd = wheel()
    key = "\0".join((_RECIPE, compiler, device_libs_identity(), str(amd), *ARCHS))
    root = paths.cache() / "rocm" / hashlib.sha256(key.encode()).hexdigest()[:16]
    if root.is_dir():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=root.parent, prefix="new-"))
    try:
        _fill(made, amd, clang)
        made.rename(root)
    except OSError as error:
        if not root.is_dir():  # another process may have been first
            raise BuildError(
                f"cannot write {root}: {error}", fix="set HIPBOOK_CACHE to a writable folder"
            ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return root


def _fill(root: Path, amd: Path, clang: Path) -> None:
    (root / "include").symlink_to(amd / "include")
    (root / "share" / "hip").mkdir(parents=True)
    (root / "share" / "hip" / "version").write_text(_HIP_VERSION)
    libraries = root / "amdgcn" / "bitcode"
    libraries.mkdir(parents=True)
    for name in ("ocml.bc", "ockl.bc"):
        shutil.copyfile(amd / "lib" / name, libraries / name)
    layout = _target_lines(clang)
    _assemble(clang, layout, libraries / "opencl.bc")
    for arch in ARCHS.values():
        number = arch.name.removeprefix("gfx")
        line = _CONSTANT.format("__oclc_ISA_version", "i32", arch.isa_version)
        _assemble(clang, layout + line, libraries / f"oclc_isa_version_{number}.bc")
    line = _CONSTANT.format("__oclc_ABI_version", "i32", 600)
    _assemble(clang, layout + line, libraries / "oclc_abi_version_600.bc")
    for name, symbol in _SWITCHES.items():
        for suffix, value in (("on", 1), ("off", 0)):
            line = _CONSTANT.format(symbol, "i8", value)
            _assemble(clang, layout + line, libraries / f"oclc_{name}_{suffix}.bc")


def _target_lines(clang: Path) -> str:
    """The data layout this clang uses; another one would make every compile warn."""
    text = _run(clang, ["-x", "c", "-S", "-emit-llvm", "-o", "-", "-"], "")
    return "".join(line + "\n" for line in text.splitlines() if line.startswith("target "))


def _assemble(clang: Path, text: str, to: Path) -> None:
    _run(clang, ["-x", "ir", "-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-o", str(to), "-"], text)


def _run(clang: Path, arguments: list[str], text: str) -> str:
    command = [str(clang), "--target=amdgcn-amd-amdhsa", "-nogpulib", *arguments]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False
    )
    if done.returncode:
        raise BuildError(
            f"{' '.join(command)}\n{done.stderr.strip()}",
            fix="this clang cannot target AMD GPUs: install clang-22 from Debian or conda-forge",
        )
    return done.stdout
