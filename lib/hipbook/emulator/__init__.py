"""The emulated board's machine: runs gfx12 code objects on the CPU, checked and exactly counted.

    program = load(code_object)
    counted = program.run("kernel", (4, 1, 1), (64, 1, 1), [Pointer("x", x, "r"), np.int32(5)])

See docs/emulator.md for what is modelled.
"""

from hipbook.emulator.arguments import Pointer
from hipbook.emulator.counters import Counted
from hipbook.emulator.faults import EmulatedFault
from hipbook.emulator.program import Program, load

__all__ = ["Counted", "EmulatedFault", "Pointer", "Program", "load"]
