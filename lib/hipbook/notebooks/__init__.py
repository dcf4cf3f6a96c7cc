"""What the notebooks share: parameters, expected errors, the record; and the tools that keep them honest."""

from hipbook.notebooks.expect import NothingRaised, expect
from hipbook.notebooks.investigation import BoardMismatch, Incorrect, Investigation, begin
from hipbook.notebooks.parameters import BadParameters

__all__ = [
    "BadParameters",
    "BoardMismatch",
    "Incorrect",
    "Investigation",
    "NothingRaised",
    "begin",
    "expect",
]
