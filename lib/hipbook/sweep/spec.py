"""The sweep file: one notebook over boards, parameters, seeds and repeats (docs/sweeps.md).

    name: gap-by-context
    notebook: 10_paged_attention_gap
    boards: [gfx1200-emu, gfx1201-emu]      # names from `hipbook boards`, or architectures
    fixed: {model: Qwen3-0.6B}
    swept:
      product: {dtype: [bf16, f16], long_keys: [256, 1024]}
      zip: {first_context: [6, 12], last_context: [36, 42]}
      exclude: [{dtype: f16, long_keys: 1024}]
    seeds: [0, 1]

This module reads such a file and knows its form; what the values mean is the notebook's business (jobs.py).
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    model_validator,
)

from hipbook import paths
from hipbook.errors import HipbookError
from hipbook.sweep import strict_yaml
from hipbook.sweep.runner import CELL_TIMEOUT_S, LOCK_WAIT_S, RUN_TIMEOUT_S

MAX_JOBS = 100_000  # a typing error in a range would otherwise fill the disk with a plan

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]+$")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Point = dict[str, JsonValue]


class BadSweep(HipbookError):
    """A sweep file that cannot be run as it stands; names the file, the place and the rule."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Limits(_Strict):
    """What a job may take: `threads` of one job, `at_once` jobs of one machine (default: cores / threads)."""

    cell_timeout_s: Seconds = CELL_TIMEOUT_S
    timeout_s: Seconds = RUN_TIMEOUT_S
    wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = LOCK_WAIT_S
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    at_once: Annotated[int, Field(ge=1, le=1024)] | None = None
    retries: Annotated[int, Field(ge=0, le=2)] = 2  # of outcomes of the infrastructure, never of a result


class Swept(_Strict):
    """Points: every pair of `product` x every row of `zip` x every entry of `list`, without `exclude`."""

    product: dict[Text, Annotated[list[JsonValue], Field(min_length=1)]] = {}
    zip: dict[Text, Annotated[list[JsonValue], Field(min_length=1)]] = {}
    entries: list[Point] = Field(default=[], alias="list")  # the name in a file is a type's here
    exclude: list[Point] = []

    @model_validator(mode="after")
    def _fits_together(self) -> "Swept":
        lengths = {name: len(values) for name, values in self.zip.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise ValueError(f"zip: lists of different lengths: {told}")
        names = [*self.product, *self.zip, *dict.fromkeys(name for entry in self.entries for name in entry)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is swept twice")
        for entry in self.exclude:
            if not entry:
                raise ValueError("exclude: an empty entry would exclude everything")
        return self


class Host(_Strict):
    """A machine reached over SSH that offers boards: one worker is started for each (sweep/ssh.py)."""

    address: Text
    boards: Annotated[list[Text], Field(min_length=1)]
    python: Text  # of the environment hipbook is installed in there
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    user: Text | None = None
    key: Text | None = None  # private key file here; default: the agent's and ~/.ssh
    known_hosts: Text | None = None  # default: ~/.ssh/known_hosts
    root: Text | None = None  # HIPBOOK_ROOT there, where it is not found by itself
    environment: dict[Text, str] = {}


class ManyHosts(_Strict):
    """Where jobs run instead of this machine: on workers of a running scheduler, or on hosts over SSH."""

    scheduler: Text | None = None
    hosts: list[Host] = []
    workers_wait_s: Seconds = 60.0  # for a worker of a board to appear, at the start and after one was lost

    @model_validator(mode="after")
    def _one_of_both(self) -> "ManyHosts":
        if (self.scheduler is None) == (not self.hosts):
            raise ValueError("either scheduler or hosts")
        return self


class Sweep(_Strict):
    """A sweep file."""

    name: Name
    notebook: Text  # a stem of notebooks/, or a path from the file's folder
    boards: list[Text] = []
    fixed: Point = {}
    swept: Swept = Swept()
    seeds: list[Annotated[int, Field(ge=0)]] = []  # values of the notebook's parameter `seed`
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1
    control: Point | None = None  # what the A/A jobs run, over `fixed`; default: the first point
    order_seed: Annotated[int, Field(ge=0)] = 0
    limits: Limits = Limits()
    engine: ManyHosts | None = None  # None: this machine

    @model_validator(mode="after")
    def _names_once(self) -> "Sweep":
        swept = {
            *self.swept.product,
            *self.swept.zip,
            *(name for entry in self.swept.entries for name in entry),
        }
        for name in sorted(swept & set(self.fixed)):
            raise ValueError(f"{name} is both fixed and swept")
        given = swept | set(self.fixed) | set(self.control or {})
        if "board" in given:
            raise ValueError("board is not a parameter here: list it under boards")
        if self.seeds and "seed" in given:
            raise ValueError("seed is given twice: under seeds, and as a parameter")
        for name in ("boards", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name}: an entry is there twice")
        return self


def read(file: Path) -> Sweep:
    """The sweep in a YAML file. Raises BadSweep for anything that is not one, before anything runs."""
    values = strict_yaml.read(file, BadSweep, "the names of docs/sweeps.md")
    try:
        return Sweep.model_validate(values)
    except ValidationError as error:
        faults = [_fault(one) for one in error.errors()[:5]]
        raise BadSweep("\n  ".join([f"{file}:", *faults]), fix="docs/sweeps.md has every name") from None


def _fault(fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"])
    said = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        said = "no such name"
    elif "pattern" in fault["type"] and place == "name":
        said = "a name of letters, digits, '.', '_' and '-', as it becomes a folder"
    value = fault["input"]
    shown = f" = {value!r}" if isinstance(value, str | int | float | None) else ""
    return f"{place}{shown}: {said}" if place else said


def notebook_of(sweep: Sweep, file: Path) -> Path:
    """The notebook a sweep file names: of notebooks/, or from the file's own folder."""
    known = paths.notebooks() / f"{sweep.notebook.removesuffix('.ipynb')}.ipynb"
    if "/" not in sweep.notebook and known.is_file():
        return known
    named = (Path(file).resolve().parent / sweep.notebook).resolve()
    if named.is_file():
        return named
    there = ", ".join(sorted(path.stem for path in paths.notebooks().glob("*.ipynb")))
    raise BadSweep(
        f"{file}: notebook = {sweep.notebook!r}: no such notebook", fix=f"a path, or one of {there}"
    )
