"""Parameters that name something the package has: boards and models, checked before anything runs.

A parameters cell can only say `any text` of such a value. What follows in the comment says what the text
names, and that is looked up here:

    board: str = "gfx1200-emu"  # any text: a name from `hipbook boards`
    model: str = "Qwen3-0.6B"  # any text: a model of data/models
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hipbook.errors import BadArgument
from hipbook.notebooks.parameters import BadParameters, Parameter

BOARD = "a name from `hipbook boards`"
MODEL = "a model of data/models"


def check_names(
    parameters: Sequence[Parameter],
    values: Mapping[str, Any],
    *,
    board_exists: Callable[[str], None] | None = None,
) -> None:
    """Look every name among `values` up.

    `board_exists` raises for a board that may not be run on; by default, one that is not on this machine.
    Raises BadParameters for a name that nothing has, BoardUnavailable for a board of other machines.
    """
    for parameter in parameters:
        value = values[parameter.name]
        for name in value if parameter.is_list else [value]:
            if name and BOARD in parameter.comment:
                (board_exists or _on_this_machine)(name)
            if MODEL in parameter.comment:
                _a_model(parameter.name, name)


def _on_this_machine(name: str) -> None:
    from hipbook import boards
    from hipbook.errors import BoardUnavailable

    try:
        boards.find(name)
    except BoardUnavailable as error:
        raise BadParameters(f"board = {name!r}: {error.what}", fix=error.fix) from None
    boards.require(name)


def _a_model(parameter: str, name: str) -> None:
    from hipbook.ops import models

    try:
        models.get(name)
    except BadArgument as error:
        raise BadParameters(f"{parameter} = {name!r}: {error.rule}") from None
