"""Geometries of the models whose decode steps are investigated (data/models/*.toml).

A file says only what its source says: where head counts are not known and the GQA ratio is, the
counts stay empty and `heads()` asks for the number of kv heads to run with.
"""

import tomllib
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hipbook import paths
from hipbook.errors import BadArgument, HipbookError

Count = Field(default=None, gt=0)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gdn(_Strict):
    """The gated-delta-net layers of a hybrid model."""

    layers: int = Field(gt=0)
    key_heads: int | None = Count  # Hk
    value_heads: int | None = Count  # Hv
    head_dim: int | None = Count  # Dk = Dv
    taps: int | None = Count


class Moe(_Strict):
    experts: int = Field(gt=0)
    expert_width: int = Field(gt=0)


class Model(_Strict):
    """One model. `attention_layers` are those that paged attention serves; D is `head_dim`."""

    name: str
    source: str  # where the figures come from
    attention_layers: int = Field(gt=0)
    ratio: int = Field(gt=0)  # query heads per kv head
    head_dim: int = Field(gt=0)
    num_q_heads: int | None = Count
    num_kv_heads: int | None = Count
    hidden: int | None = Count
    intermediate: int | None = Count
    vocabulary: int | None = Count
    tied_head: bool | None = None  # whether the output head is the embedding
    gdn: Gdn | None = None
    moe: Moe | None = None
    calls_per_token: dict[Literal["quantize", "post_conv"], int] = Field(default_factory=dict)
    note: str = ""

    @model_validator(mode="after")
    def _heads_agree(self) -> "Model":
        if (self.num_q_heads is None) != (self.num_kv_heads is None):
            raise ValueError("num_q_heads and num_kv_heads are given together or not at all")
        if self.num_q_heads is not None and self.num_q_heads != self.ratio * self.num_kv_heads:
            raise ValueError(f"{self.num_q_heads} query heads are not {self.ratio} x {self.num_kv_heads}")
        return self

    @property
    def layers(self) -> int:
        return self.attention_layers + (self.gdn.layers if self.gdn else 0)

    def heads(self, num_kv_heads: int | None = None) -> tuple[int, int]:
        """(query heads, kv heads): the model's own, or `num_kv_heads` times the ratio where unknown."""
        kv = self.num_kv_heads if num_kv_heads is None else num_kv_heads
        if kv is None:
            raise BadArgument(
                "num_kv_heads",
                None,
                f"the head counts of {self.name} are not known, its ratio {self.ratio} is",
                fix="pass the number of kv heads to run with",
            )
        return kv * self.ratio, kv

    def floor_bytes_per_key(self, element_bytes: int, num_kv_heads: int | None = None) -> int:
        """Bytes of K and V one layer must read for a key: 2 * Hkv * D * element_bytes."""
        return 2 * self.heads(num_kv_heads)[1] * self.head_dim * element_bytes


@cache
def load_all() -> dict[str, Model]:
    """Every model of data/models by name, in the files' order."""
    models = {}
    for path in sorted((paths.data() / "models").glob("*.toml")):
        try:
            model = Model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (ValidationError, tomllib.TOMLDecodeError) as error:
            raise HipbookError(f"{path}: {error}", fix="see Model in hipbook/ops/models.py") from error
        if model.name in models:
            raise HipbookError(f"{path}: a second model named {model.name}", fix="rename one of them")
        models[model.name] = model
    return models


def get(name: str) -> Model:
    """A model by name, upper and lower case alike."""
    models = load_all()
    for known, model in models.items():
        if known.lower() == name.lower():
            return model
    raise BadArgument("model", repr(name), f"must be one of: {', '.join(models)}")
