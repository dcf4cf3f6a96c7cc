"""The oracle of paged attention in one place: reference and bound, comparison, adversarial inputs."""

from hipbook.oracle.attention_reference import NMSE_GATE, Reference, reference
from hipbook.oracle.compare import Comparison, compare
from hipbook.oracle.families import FAMILIES, coverage, make

__all__ = ["FAMILIES", "NMSE_GATE", "Comparison", "Reference", "compare", "coverage", "make", "reference"]
