"""The shape of a Qwen3 model, from its config.json or from a model of data/models."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hipbook.errors import BadArgument, HipbookError

CONFIG_FILE = "config.json"
# What a config.json may say besides, and the only value for which this loop computes the model.
_ONLY = {
    "hidden_act": "silu", "attention_bias": False, "use_sliding_window": False, "rope_scaling": None,
    "quantization_config": None,
}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Geometry and constants of one model. `tied`: the output head is the embedding."""

    name: str
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    tied: bool
    rope_theta: float = 1e6
    rms_eps: float = 1e-6

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in (int, float, "int", "float") and not value > 0:
                raise BadArgument(field.name, value, "must be positive")
        if self.num_q_heads % self.num_kv_heads:
            raise BadArgument(
                "num_q_heads", self.num_q_heads, f"must be a multiple of num_kv_heads = {self.num_kv_heads}"
            )
        if self.head_dim % 2:
            raise BadArgument("head_dim", self.head_dim, "must be even: RoPE turns pairs")

    @property
    def ratio(self) -> int:
        return self.num_q_heads // self.num_kv_heads

    @property
    def read_weights(self) -> int:
        """Elements of weights that one step reads, whatever the batch: all but the rows nobody embeds."""
        heads = self.head_dim * (2 * self.num_q_heads + 2 * self.num_kv_heads)
        layer = self.hidden * (heads + 3 * self.intermediate + 2) + 2 * self.head_dim
        return self.layers * layer + self.hidden * (self.vocabulary + 1)

    @property
    def kv_elements_per_key(self) -> int:
        """Elements of K and V that all layers together hold for one key."""
        return 2 * self.layers * self.num_kv_heads * self.head_dim

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def of_folder(folder: Path) -> Config:
    """The model that `folder`/config.json describes; `HipbookError` when this loop does not compute it."""
    path = Path(folder) / CONFIG_FILE
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HipbookError(
            f"{path}: {error.strerror}", fix="name a folder with a Hugging Face checkpoint"
        ) from None
    except ValueError as error:
        raise HipbookError(f"{path}: not JSON ({error})", fix="download the file again") from None
    if not isinstance(said, dict):
        raise HipbookError(f"{path}: not an object", fix="download the file again")
    kind = said.get("model_type")
    if kind != "qwen3":
        raise HipbookError(
            f"{path}: model_type is {kind!r}; this loop computes 'qwen3' (dense) only",
            fix="name the folder of a dense Qwen3 checkpoint, such as Qwen3-0.6B",
        )
    for key, only in _ONLY.items():
        if key in said and said[key] != only:
            raise HipbookError(f"{path}: {key} is {said[key]!r}; this loop computes {only!r} only")
    values = {ours: _value(path, said, theirs, kind) for ours, (theirs, kind) in _KEYS.items()}
    return Config(
        name=Path(folder).resolve().name,
        rope_theta=_rope_theta(path, said),
        tied=bool(said.get("tie_word_embeddings", False)),
        **values,
    )


_KEYS: dict[str, tuple[str, type]] = {
    "vocabulary": ("vocab_size", int),
    "hidden": ("hidden_size", int),
    "intermediate": ("intermediate_size", int),
    "layers": ("num_hidden_layers", int),
    "num_q_heads": ("num_attention_heads", int),
    "num_kv_heads": ("num_key_value_heads", int),
    "head_dim": ("head_dim", int),
    "rms_eps": ("rms_norm_eps", float),
}


def _value(path: Path, said: Mapping[str, Any], key: str, kind: type) -> Any:
    value = said.get(key)
    fits = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    if not fits:
        raise HipbookError(f"{path}: {key} is {value!r}, must be a number of type {kind.__name__}")
    return kind(value)


def _rope_theta(path: Path, said: Mapping[str, Any]) -> float:
    """`rope_theta`, or the same inside `rope_parameters`, where newer files have it."""
    nested = said.get("rope_parameters")
    if nested is None:
        return _value(path, said, "rope_theta", float)
    if not isinstance(nested, dict) or nested.get("rope_type", "default") != "default":
        raise HipbookError(f"{path}: rope_parameters is {nested!r}; this loop computes the default RoPE only")
    return _value(path, nested, "rope_theta", float)
