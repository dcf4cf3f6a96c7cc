"""A code object on the emulated board: `load` it, `run` its kernels."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hipbook.build.code_object import CodeObject, KernelFacts
from hipbook.emulator import counters, faults, image, isa, kernel, launch, structures
from hipbook.emulator.arguments import Value
from hipbook.emulator.counters import Counted
from hipbook.emulator.image import Image
from hipbook.emulator.kernel import Kernel
from hipbook.errors import BadArgument, EmulatorError

_DENORM32 = 16  # bit of rsrc1: FLOAT_DENORM_MODE_32
_ROUND = 12
_DX10_CLAMP = 21  # RDNA3: a clamped NaN is 0


@dataclass(eq=False)
class Program:
    """A loaded code object. Kernels are decoded when first asked for, and kept."""

    code_object: CodeObject
    image: Image
    family: str
    _kernels: dict[str, Kernel] = field(default_factory=dict)

    def kernel(self, name: str) -> Kernel:
        """Kernel `name` ready to run. Raises EmulatorError for what the board cannot run, before it runs."""
        if name not in self._kernels:
            self._kernels[name] = self._prepare(name)
        return self._kernels[name]

    def facts(self, name: str) -> KernelFacts:
        facts = self.code_object.kernels.get(name)
        if facts is None or name not in self.image.descriptors:
            raise BadArgument(
                "kernel", name, f"not in {self.code_object.path.name}",
                fix=f"one of {', '.join(sorted(self.image.descriptors)) or 'none: it holds no kernels'}",
            )  # fmt: skip
        return facts

    def _prepare(self, name: str) -> Kernel:
        self.facts(name)
        descriptor = self.image.descriptors[name]
        if not descriptor.wave32:
            raise EmulatorError(
                f"kernel {name!r} is built for waves of 64 lanes", fix="build without -mwavefrontsize64"
            )
        if descriptor.rsrc1 >> _ROUND & 0xF:
            raise EmulatorError(f"kernel {name!r} starts in a rounding mode other than nearest even")
        if descriptor.rsrc1 >> _DENORM32 & 0xF != 0xF:
            raise EmulatorError(
                f"kernel {name!r} is built to flush subnormals",
                fix="build without -fgpu-flush-denormals-to-zero",
            )
        if self.family == "rdna3" and not descriptor.rsrc1 >> _DX10_CLAMP & 1:
            raise EmulatorError(f"kernel {name!r} is built to keep NaN where results are clamped")
        return kernel.prepare(self.image, name, self.family)

    def run(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Value],
        **options: object,
    ) -> Counted:
        """Runs one dispatch; returns its counts. Raises KernelFault when the kernel did what it must not.

        Options: lds_bytes, checks, wave_order_seed, threads, max_wave_instructions.
        """
        ready = self.kernel(name)
        grid, block = tuple(int(n) for n in grid), tuple(int(n) for n in block)
        outcome = launch.run(
            ready,
            self.facts(name),
            self.image,
            grid,
            block,
            args,
            gfx=launch.GFX[self.family],
            **options,
        )
        if outcome.fault is not None:
            raise faults.to_exception(ready, self.image, grid, outcome.fault, outcome.memory)
        return counters.collect(ready, outcome)


_LOADED: OrderedDict[tuple[str, str], Program] = OrderedDict()  # by content and architecture
_KEPT = 64


def load(code_object: CodeObject) -> Program:
    """The program in `code_object`'s file, kept by content. Raises EmulatorError for what cannot run."""
    path = code_object.path
    family = isa.FAMILIES.get(code_object.arch)
    if family is None:
        raise EmulatorError(
            f"{path.name} is built for {code_object.arch}, which is not emulated",
            fix=f"one of {', '.join(isa.FAMILIES)}",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EmulatorError(f"cannot read {path}: {error}") from error
    key = (hashlib.sha256(data).hexdigest(), code_object.arch)
    if key not in _LOADED:
        structures.check_layout()
        _LOADED[key] = Program(code_object, image.read(data, path.name), family)
    _LOADED.move_to_end(key)
    while len(_LOADED) > _KEPT:
        _LOADED.popitem(last=False)
    return _LOADED[key]
