"""Weights of a Qwen3: random ones, or those of a folder of safetensors, checked whole before any is read.

Matrices are [out, in] as the checkpoint has them. q, k and v are kept as one matrix, gate and up as
another: a step then launches one product for each.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from hipbook.errors import HipbookError
from hipbook.qwen3.config import Config

ONE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
EMBEDDING, FINAL_NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}  # safetensors' names
INITIAL_DEVIATION = 0.02  # of random matrices; that of the public configurations (initializer_range)


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer's weights, in the loop's dtype."""

    input_norm: torch.Tensor  # [hidden]
    qkv: torch.Tensor  # [(Hq + 2 Hkv) D, hidden]
    qk_norm: torch.Tensor  # [Hq + Hkv, D]: the weight of every query head, then of every kv head
    o: torch.Tensor  # [hidden, Hq D]
    post_norm: torch.Tensor  # [hidden]
    gate_up: torch.Tensor  # [2 intermediate, hidden]
    down: torch.Tensor  # [hidden, intermediate]


@dataclass(frozen=True, eq=False)
class Weights:
    config: Config
    embedding: torch.Tensor  # [vocabulary, hidden]
    layers: tuple[Layer, ...]
    norm: torch.Tensor  # [hidden]
    head: torch.Tensor  # [vocabulary, hidden]; the embedding itself where tied

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    def to(self, dtype: torch.dtype) -> "Weights":
        """The same values in another dtype; a tied head stays the embedding."""
        layers = tuple(
            Layer(**{field.name: getattr(layer, field.name).to(dtype) for field in fields(Layer)})
            for layer in self.layers
        )
        embedding = self.embedding.to(dtype)
        head = embedding if self.config.tied else self.head.to(dtype)
        return Weights(self.config, embedding, layers, self.norm.to(dtype), head)


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """{name in a checkpoint: shape} of every tensor of the model."""
    hidden, d = config.hidden, config.head_dim
    q, kv, wide = config.num_q_heads * d, config.num_kv_heads * d, config.intermediate
    found = {EMBEDDING: (config.vocabulary, hidden), FINAL_NORM: (hidden,)}
    if not config.tied:
        found[HEAD] = (config.vocabulary, hidden)
    for number in range(config.layers):
        of_layer = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (q, hidden),
            "self_attn.k_proj": (kv, hidden),
            "self_attn.v_proj": (kv, hidden),
            "self_attn.q_norm": (d,),
            "self_attn.k_norm": (d,),
            "self_attn.o_proj": (hidden, q),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (wide, hidden),
            "mlp.up_proj": (wide, hidden),
            "mlp.down_proj": (hidden, wide),
        }
        found |= {f"model.layers.{number}.{name}.weight": shape for name, shape in of_layer.items()}
    return found


def random(
    config: Config, *, seed: int = 0, dtype: torch.dtype = torch.bfloat16, device: torch.device | str = "cpu"
) -> Weights:
    """Seeded weights: matrices normal with INITIAL_DEVIATION, norms around 1 (a norm left out then shows)."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def one(shape: tuple[int, ...]) -> torch.Tensor:
        values = torch.empty(shape, dtype=torch.float32, device=device).normal_(generator=generator)
        return ((1 + values / 8) if len(shape) == 1 else values * INITIAL_DEVIATION).to(dtype)

    return _assembled(config, {name: one(shape) for name, shape in shapes(config).items()})


def load(
    folder: Path, config: Config, *, dtype: torch.dtype | None = None, device: torch.device | str = "cpu"
) -> Weights:
    """The weights in `folder`: model.safetensors, or the shards that model.safetensors.index.json names.

    Names, shapes and dtypes of all tensors are checked before the first is read. `dtype` None keeps the
    checkpoint's own. Raises `HipbookError` naming file, tensor and rule.
    """
    folder = Path(folder)
    places = _places(folder)
    found_dtype = _checked(folder, config, places)
    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(set(places.values())):
        with _opened(file) as opened:
            for name, place in places.items():
                if place == file:
                    tensors[name] = opened.get_tensor(name).to(device=device, dtype=dtype or found_dtype)
    if config.tied and HEAD in tensors and not torch.equal(tensors[HEAD], tensors[EMBEDDING]):
        raise HipbookError(
            f"{places[HEAD]}: {HEAD} differs from {EMBEDDING}, and config.json says tie_word_embeddings",
            fix="one of the two files is of another checkpoint: download both again",
        )
    return _assembled(config, tensors)


def _assembled(config: Config, named: dict[str, torch.Tensor]) -> Weights:
    heads = (config.num_q_heads, -1), (config.num_kv_heads, -1)
    layers = []
    for number in range(config.layers):

        def of(name: str, prefix: str = f"model.layers.{number}.") -> torch.Tensor:
            return named.pop(f"{prefix}{name}.weight")

        norms = [of(f"self_attn.{side}_norm").expand(*shape) for side, shape in zip("qk", heads, strict=True)]
        layers.append(
            Layer(
                input_norm=of("input_layernorm"),
                qkv=torch.cat([of(f"self_attn.{side}_proj") for side in "qkv"]),
                qk_norm=torch.cat(norms),
                o=of("self_attn.o_proj"),
                post_norm=of("post_attention_layernorm"),
                gate_up=torch.cat([of("mlp.gate_proj"), of("mlp.up_proj")]),
                down=of("mlp.down_proj"),
            )
        )
    embedding = named[EMBEDDING]
    return Weights(
        config, embedding, tuple(layers), named[FINAL_NORM], embedding if config.tied else named[HEAD]
    )


# --- checkpoints -----------------------------------------------------------------------------------


def _places(folder: Path) -> dict[str, Path]:
    """{tensor: file that holds it}, by the index, or by the one file."""
    index = folder / INDEX_FILE
    if not index.is_file():
        one = folder / ONE_FILE
        if not one.is_file():
            raise HipbookError(
                f"{folder}: neither {ONE_FILE} nor {INDEX_FILE}",
                fix="name a folder with a Hugging Face checkpoint in safetensors",
            )
        with _opened(one) as opened:
            return dict.fromkeys(opened.keys(), one)
    try:
        named = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = {name: str(file) for name, file in named.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HipbookError(
            f"{index}: no weight_map in it ({type(error).__name__}: {error})", fix="download the file again"
        ) from None
    held: dict[str, set[str]] = {}
    for file in sorted(set(files.values())):
        if Path(file).name != file:
            raise HipbookError(f"{index}: {file!r} is no file of this folder", fix="download the file again")
        if not (folder / file).is_file():
            raise HipbookError(
                f"{folder / file}: absent, and {INDEX_FILE} names it", fix="download the shard"
            )
        with _opened(folder / file) as opened:
            held[file] = set(opened.keys())
    for name, file in files.items():
        if name not in held[file]:
            raise HipbookError(
                f"{folder / file}: no tensor {name}, and {INDEX_FILE} says it is there",
                fix="index and shards are of different checkpoints: download both again",
            )
    return {name: folder / file for name, file in files.items()}


def _checked(folder: Path, config: Config, places: dict[str, Path]) -> torch.dtype:
    """The one dtype of the checkpoint; `HipbookError` for the first tensor that is not as the config says."""
    wanted = shapes(config)
    if config.tied and HEAD in places:  # some checkpoints keep the tied head twice
        wanted[HEAD] = wanted[EMBEDDING]
    missing = [name for name in wanted if name not in places]
    if missing:
        raise HipbookError(
            f"{folder}: no tensor {missing[0]} ({len(missing)} of {len(wanted)} are missing)",
            fix="config.json and the weights are of different checkpoints: download both again",
        )
    unknown = sorted(set(places) - set(wanted))
    if unknown:
        raise HipbookError(
            f"{places[unknown[0]]}: tensor {unknown[0]} is none of a Qwen3 of this config "
            f"({len(unknown)} are not): leaving it out would compute another model"
        )
    first: tuple[str, str] | None = None  # (dtype, the tensor that set it)
    for file in sorted(set(places.values())):
        with _opened(file) as opened:
            for name in (name for name, place in places.items() if place == file):
                part = opened.get_slice(name)
                shape, dtype = tuple(part.get_shape()), part.get_dtype()
                if shape != wanted[name]:
                    raise HipbookError(
                        f"{file}: {name} has shape {list(shape)}, config.json makes it {list(wanted[name])}",
                        fix="config.json and the weights are of different checkpoints: download both again",
                    )
                first = first or (dtype, name)
                if dtype not in DTYPES or dtype != first[0]:
                    rule = "must be one of " + ", ".join(DTYPES)
                    if dtype in DTYPES:
                        rule = f"{first[1]} is {first[0]}; a checkpoint has one dtype"
                    raise HipbookError(
                        f"{file}: {name} is {dtype}: {rule}",
                        fix="quantized checkpoints are not served: use the bf16 one",
                    )
    assert first is not None  # `wanted` is never empty
    return DTYPES[first[0]]


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """A safetensors file; what the library says of a broken one becomes a HipbookError."""
    try:
        with safe_open(file, framework="pt") as opened:
            yield opened
    except (SafetensorError, OSError) as error:
        raise HipbookError(
            f"{file}: not readable as safetensors: {error}", fix="download it again"
        ) from error
