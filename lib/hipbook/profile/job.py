"""What a profiled child is asked to do, and what it says it did: two JSON files.

The child's account (`Done`) lists every launch of ours in order. A profiler's output is held to it, launch by
launch, before one of its figures is believed (`window`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hipbook.errors import HipbookError

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Role = Literal["check", "warm-up", "profiled"]
Extents = tuple[int, int, int]

JOB_FILE, DONE_FILE = "job.json", "done.json"
MARKER = "hipbook: "  # a range around a subject's profiled launches; the subject's name follows


class ProfileError(HipbookError):
    """A profiler that is missing or failed, or whose output is not about the launches that were made."""


class ChildFailed(ProfileError):
    """The child's own work failed: with or without the profiler, it would have."""


class ToolFailed(ProfileError):
    """The profiler ended badly, or ended the child."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Job(_Model):
    """Decode steps of one layer: every arm at every context length, one sequence.

    Per subject (an arm at a length): a checked launch, `warmup` launches, `batches` timed batches of
    `launches` launches, and a checked launch again.
    """

    board: Text
    arms: Annotated[list[Text], Field(min_length=1)]
    keys: Annotated[list[Count], Field(min_length=1)]
    num_q_heads: Count
    num_kv_heads: Count
    head_dim: Count
    dtype: Literal["bf16", "f16", "f32"] = "bf16"
    seed: Annotated[int, Field(ge=0)] = 0
    warmup: Annotated[int, Field(ge=0)] = 10
    batches: Count = 20
    launches: Count = 10  # in a batch
    torch_trace: bool = False  # the child runs torch.profiler on itself and leaves TORCH_TRACE

    @property
    def subjects(self) -> list[str]:
        return [subject(arm, keys) for keys in self.keys for arm in self.arms]

    @property
    def launches_each(self) -> int:
        """Profiled launches of a subject."""
        return self.batches * self.launches


def subject(arm: str, keys: int) -> str:
    """How a subject is called everywhere."""
    return f"{arm}, {keys} keys"


class Step(_Model):
    """`count` equal launches of ours behind each other."""

    subject: Text
    role: Role
    kernel: Text
    grid: Extents  # workgroups
    block: Extents  # work-items
    count: Count


class Subject(_Model):
    """One arm on one call: whether it was right, and what the clocks of the child say."""

    name: Text
    arm: Text
    witness: int
    values_compared: Count
    objection: str = ""  # the oracle's, before or after timing; empty: correct both times
    code_object: dict[str, Any]  # identity of the binary
    host_us: list[Positive]  # wall per launch, one value a batch: until the device is idle again
    event_us: list[Positive] = []  # by device events, per launch; empty on a board without them
    state: dict[str, Any] = {}  # clocks, power and other processes right after timing; empty likewise


class Done(_Model):
    """The child's account of itself, written last."""

    board: dict[str, Any]  # identity
    torch: Text
    process: Count  # pid
    subjects: list[Subject]
    steps: list[Step]
    marked: bool  # whether ranges were handed to the vendor's marker library as well as to torch

    @property
    def kernels(self) -> list[str]:
        return sorted({step.kernel for step in self.steps})

    def launches(self) -> Iterator[Step]:
        """Every launch of ours, in order."""
        for step in self.steps:
            for _ in range(step.count):
                yield step


class Failed(_Model):
    """What a child leaves that could not do its job."""

    error: Text


def read(path: Path, kind: type[Job] | type[Done] | type[Failed]) -> Any:
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        first = str(error).partition("\n")[0]
        raise ProfileError(
            f"{path.name}: not a {kind.__name__} of this version: {first}", fix="profile again"
        ) from None
