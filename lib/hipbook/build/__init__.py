"""Compilers, compiling, code objects and their static facts."""

from hipbook.build import nvcc, rocm  # noqa: F401  (rows of TOOLCHAINS)
from hipbook.build.archs import ARCHS, Arch
from hipbook.build.code_object import CodeObject, KernelArg, KernelFacts
from hipbook.build.compile import build, build_many, load
from hipbook.build.toolchain import TOOLCHAINS, toolchain_identity

__all__ = [
    "ARCHS",
    "TOOLCHAINS",
    "Arch",
    "CodeObject",
    "KernelArg",
    "KernelFacts",
    "build",
    "build_many",
    "load",
    "toolchain_identity",
]
