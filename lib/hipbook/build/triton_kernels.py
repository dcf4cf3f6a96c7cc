"""Triton kernels as code objects: compiled for an AMD architecture with no GPU, by the triton that is here.

Where torch brought its own triton, that one is used; the pinned one otherwise. Triton specialises a kernel
for its arguments (types, constants, alignment), so compiling takes the arguments of a launch.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipbook import paths
from hipbook.build import compile as compiling
from hipbook.build.archs import arch_of
from hipbook.build.code_object import CodeObject
from hipbook.errors import BadArgument, BuildError

ALIGNED = 16  # bytes of a pointer, or a divisor of a whole number, that triton makes use of


@dataclass(frozen=True)
class TritonKernel:
    """A compiled kernel.

    `parameters`: names of its run-time parameters, in order; the code object may take more pointers after
    them (triton's scratch), which are null. `lds_bytes` is dynamic; `threads` are those of a workgroup.
    """

    code_object: CodeObject
    name: str
    parameters: tuple[str, ...]
    lds_bytes: int
    threads: int


@dataclass(frozen=True)
class Argument:
    """What compiling needs of one run-time argument: triton's type ("*bf16", "i32", "fp32", ...) and whether
    its address, or its value, is a multiple of 16."""

    type: str
    aligned: bool = False


def compile_triton(
    function: Any,
    arch: str,
    arguments: Mapping[str, Argument],
    constants: Mapping[str, Any] | None = None,
    *,
    num_warps: int = 4,
    num_stages: int = 1,
) -> TritonKernel:
    """Compile a `@triton.jit` function for `arch` (an AMD one that is emulated or not; no GPU is needed).

    `arguments` by parameter name; `constants` are its tl.constexpr parameters. Together they must be all of
    its parameters. Raises `BadArgument` for what does not fit, `BuildError` with the compiler's own words.
    """
    names = _parameters(function)
    constants = dict(constants or {})
    if unknown := [name for name in (*arguments, *constants) if name not in names]:
        raise BadArgument(
            "argument",
            unknown[0],
            f"{_name(function)} has no such parameter",
            fix=f"one of {', '.join(names)}",
        )
    if missing := [name for name in names if name not in arguments and name not in constants]:
        raise BadArgument("argument", missing[0], f"{_name(function)} needs it, and it has no default")
    if arch_of(arch).wave_size != 32:
        raise BadArgument(
            "arch", arch, "Triton kernels are compiled for architectures with waves of 32 lanes"
        )
    compiled = _compiled(function, arch, names, arguments, constants, num_warps, num_stages)
    path = _stored(compiled.asm["hsaco"], _name(function))
    code_object = replace(compiling.load(path), compiler=f"triton {_version()}")
    return TritonKernel(
        code_object,
        compiled.metadata.name,
        tuple(name for name in names if name not in constants),
        compiled.metadata.shared,
        compiled.metadata.num_warps * 32,
    )


def _compiled(
    function: Any,
    arch: str,
    names: list[str],
    arguments: Mapping[str, Argument],
    constants: Mapping[str, Any],
    num_warps: int,
    num_stages: int,
) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {name: "constexpr" if name in constants else arguments[name].type for name in names}
    aligned = {
        (at,): [["tt.divisibility", ALIGNED]]
        for at, name in enumerate(names)
        if name not in constants and arguments[name].aligned
    }
    source = ASTSource(function, signature, {(names.index(n),): v for n, v in constants.items()}, aligned)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    try:
        return triton.compile(source, target=GPUTarget("hip", arch, 32), options=options)
    except Exception as error:  # triton raises errors of many kinds, its own and MLIR's
        raise BuildError(
            f"triton {_version()} does not compile {_name(function)} for {arch}:\n"
            f"{type(error).__name__}: {error}",
            fix="the kernel must compile with triton's own compiler for this architecture",
        ) from error


def _parameters(function: Any) -> list[str]:
    names = getattr(function, "arg_names", None)
    if names is None:
        raise BadArgument("kernel", repr(function), "a function decorated with @triton.jit")
    return list(names)


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def _version() -> str:
    import triton

    return triton.__version__


def _stored(hsaco: bytes, name: str) -> Path:
    """The code object as a file of the cache, by content; whole or not at all."""
    folder = paths.cache() / "triton"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{hashlib.sha256(hsaco).hexdigest()[:20]}.hsaco"
    if not path.is_file() or path.read_bytes() != hsaco:
        handle, made = tempfile.mkstemp(dir=folder, prefix="new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hsaco)
            os.replace(made, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(made)
            raise
    return path
