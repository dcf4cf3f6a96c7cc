"""The parameters cell of a notebook: read, explained, and enforced.

One line a parameter, `name: type = literal  # unit, allowed values`. The comment is what a reader
and `papermill --help-notebook` see, and its last part is also the rule that is enforced:

    seed: int = 0  # 0..2147483647
    contexts: list[int] = [6, 36, 1024]  # keys, each 1..65536
    arm: str = "auto"  # one of auto | online | decode | decode_gqa
    causal: bool = True  # true or false
    board: str = "gfx1200-emu"  # any text: a name from `hipbook boards`

Types are str, int, float, bool, and lists of these. papermill writes what it is given into a cell
of its own and only warns about a name the notebook does not declare; `check` stops the run instead.
"""

import ast
import linecache
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hipbook.errors import HipbookError

_SCALARS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
INJECTED_FIRST_LINE = "# Parameters"  # what papermill's translator puts above its assignments


class BadParameters(HipbookError):
    """A parameter that is unknown, of the wrong type or out of range; says what is allowed."""


@dataclass(frozen=True)
class Parameter:
    """One declared parameter. `comment` holds the rule in words; `allows` decides on one element."""

    name: str
    type_name: str  # "int", "list[str]", ...
    default: Any
    comment: str
    allows: Callable[[Any], bool]
    options: tuple[str, ...] = ()  # the values of a "one of" rule

    @property
    def is_list(self) -> bool:
        return self.type_name.startswith("list[")

    @property
    def scalar(self) -> type:
        return _SCALARS[self.type_name.removeprefix("list[").removesuffix("]")]

    def __str__(self) -> str:
        return f"{self.name}: {self.type_name} = {self.default!r}  # {self.comment}"


def declared(source: str) -> list[Parameter]:
    """The parameters of a parameters cell's source. BadParameters when a line is not of the form."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise BadParameters(f"parameters cell: {error}") from None
    lines = source.splitlines()
    found = [_declared_line(statement, lines[statement.lineno - 1]) for statement in body]
    if not found:
        raise BadParameters("parameters cell: no parameter in it")
    names = [parameter.name for parameter in found]
    for name in names:
        if names.count(name) > 1:
            raise BadParameters(f"parameters cell: {name} is declared twice")
    return found


def _declared_line(statement: ast.stmt, line: str) -> Parameter:
    def bad(why: str) -> BadParameters:
        return BadParameters(
            f"parameters cell: `{line.strip()}`: {why}",
            fix="write `name: type = literal  # unit, allowed values`, one parameter a line",
        )

    if not (
        isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value
    ):
        raise bad("not of the form `name: type = literal`")
    if statement.lineno != statement.end_lineno:
        raise bad("goes over several lines")
    type_name = ast.unparse(statement.annotation)
    if type_name not in {*_SCALARS, *(f"list[{scalar}]" for scalar in _SCALARS)}:
        raise bad(f"type {type_name}; allowed are str, int, float, bool and lists of them")
    try:
        default = ast.literal_eval(statement.value)
    except ValueError:
        raise bad("the default is not a literal") from None
    after = line.encode()[statement.end_col_offset :].decode()
    if "#" not in after:
        raise bad("no comment that says what is allowed")
    comment = after.split("#", 1)[1].strip()
    if line.count("=") != 1:
        raise bad("papermill cannot read a line with a second `=`")
    name = statement.target.id
    scalar = _SCALARS[type_name.removeprefix("list[").removesuffix("]")]
    try:
        allows, options = _rule(comment, scalar, many=type_name.startswith("list["))
        parameter = Parameter(name, type_name, default, comment, allows, options)
        check([parameter], {name: default})
    except ValueError as error:
        raise bad(str(error)) from None
    except BadParameters as error:
        raise bad(f"the default breaks its own rule: {error.what}") from None
    return parameter


def _rule(comment: str, scalar: type, *, many: bool) -> tuple[Callable[[Any], bool], tuple[str, ...]]:
    """The rule in the last part of a comment. ValueError when there is none or it does not fit."""
    if re.search(r"(^|, )any text\b", comment):
        if scalar is not str:
            raise ValueError("`any text` is for str")
        return (lambda value: True), ()
    clause = comment.rsplit(", ", 1)[-1].strip()
    each = clause.startswith("each ")
    if each is not many:
        raise ValueError("`each` goes with a list and only with a list")
    clause = clause.removeprefix("each ")
    if clause == "true or false" and scalar is bool:
        return (lambda value: True), ()
    if (found := re.fullmatch(rf"({_NUMBER})\.\.({_NUMBER})", clause)) and scalar in (int, float):
        low, high = scalar(found[1]), scalar(found[2])
        return (lambda value: low <= value <= high), ()
    if (found := re.fullmatch(r"one of (.+)", clause)) and scalar in (str, int):
        options = tuple(option.strip() for option in found[1].split("|"))
        return (lambda value: str(value) in options), options
    raise ValueError(
        f"`{clause}` is no rule for {scalar.__name__}; write `LOW..HIGH`, `one of A | B`, `true or false` or "
        "`any text`, with `each` before it for a list"
    )


def check(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` over the defaults, in declared order; whole numbers become floats where one is declared.

    BadParameters with every fault found, and with all that is allowed.
    """
    known = {parameter.name for parameter in parameters}
    faults = [f"{name}: no such parameter" for name in values if name not in known]
    checked = {}
    for parameter in parameters:
        value = values.get(parameter.name, parameter.default)
        try:
            checked[parameter.name] = _checked(parameter, value)
        except ValueError as error:
            faults.append(f"{parameter.name} = {value!r}: {error}")
    if faults:
        allowed = "\n".join(f"    {parameter}" for parameter in parameters)
        raise BadParameters("\n  ".join(["bad parameters", *faults]), fix=f"allowed are\n{allowed}")
    return checked


def _checked(parameter: Parameter, value: Any) -> Any:
    if not parameter.is_list:
        return _checked_scalar(parameter, value)
    if not isinstance(value, list):
        raise ValueError(f"{_kind(value)} where {parameter.type_name} is declared")
    if not value:
        raise ValueError("an empty list: a run over nothing shows nothing")
    return [_checked_scalar(parameter, element) for element in value]


def _checked_scalar(parameter: Parameter, value: Any) -> Any:
    wanted = parameter.scalar
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted:  # not isinstance: True is no int here
        hint = " (quote it: YAML reads 6.10 as the number 6.1)" if wanted is str else ""
        raise ValueError(f"{_kind(value)} where {wanted.__name__} is declared{hint}")
    if wanted is str and "\0" in value:
        raise ValueError("holds a NUL character, which no name or path can")
    if not parameter.allows(value):
        raise ValueError(f"not allowed ({parameter.comment})")
    return value


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def is_parameters_cell(source: str) -> bool:
    """Whether a source consists of annotated assignments only, as a parameters cell does."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    return bool(body) and all(isinstance(statement, ast.AnnAssign) for statement in body)


def injected_names(source: str) -> set[str]:
    """The names papermill's injected cell assigns; empty for any other source."""
    if not source.startswith(INJECTED_FIRST_LINE):
        return set()
    targets = (
        target
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}


def from_kernel(namespace: Mapping[str, Any]) -> tuple[list[Parameter], dict[str, Any]]:
    """(declared parameters, checked values) of the notebook whose `globals()` these are.

    The last parameters cell that was executed declares, a cell papermill injected after it must not name
    anything else, and the namespace holds the values.
    """
    history = _executed(namespace)
    cells = [i for i, source in enumerate(history) if is_parameters_cell(source)]
    if not cells:
        raise BadParameters(
            "no parameters cell was executed before this one", fix="run the notebook from its first cell"
        )
    parameters = declared(history[cells[-1]])
    names = {parameter.name for parameter in parameters}
    for source in history[cells[-1] + 1 :]:
        names |= injected_names(source)
    return parameters, check(parameters, {name: namespace[name] for name in names if name in namespace})


def _executed(namespace: Mapping[str, Any]) -> list[str]:
    """The sources of the cells executed so far, oldest first.

    IPython keeps them in `In`. nbval executes without history; then they are where tracebacks find them,
    in linecache, under names that are no files.
    """
    history = list(namespace.get("In", ()))
    if any(is_parameters_cell(source) for source in history):
        return history
    cached = [(name, entry) for name, entry in linecache.cache.items() if len(entry) == 4]
    return ["".join(entry[2]) for name, entry in cached if not os.path.exists(name)]
