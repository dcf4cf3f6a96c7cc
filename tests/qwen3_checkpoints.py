"""Tiny Qwen3 checkpoints as Hugging Face writes them: config.json, safetensors in one file or in shards."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from hipbook.qwen3.config import Config
from hipbook.qwen3.weights import EMBEDDING, HEAD, shapes

CONFIG = Config(
    "tiny", vocabulary=40, hidden=24, intermediate=32, layers=2, num_q_heads=4, num_kv_heads=2, head_dim=64,
    tied=False,
)  # fmt: skip


def config_json(config: Config = CONFIG, **changes) -> dict:
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False,
        "vocab_size": config.vocabulary, "hidden_size": config.hidden, "hidden_act": "silu",
        "intermediate_size": config.intermediate, "num_hidden_layers": config.layers,
        "num_attention_heads": config.num_q_heads, "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim, "tie_word_embeddings": config.tied, "rope_theta": config.rope_theta,
        "rope_scaling": None, "rms_norm_eps": config.rms_eps, "use_sliding_window": False, **changes,
    }  # fmt: skip


def tensors(config: Config = CONFIG, dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes(config).items()}


def write(
    folder: Path, named: dict[str, torch.Tensor], config: Config = CONFIG, *, shards: int = 1, **changes
) -> Path:
    """A checkpoint in `folder`; `changes` go into config.json."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(config, **changes)))
    if shards == 1:
        save_file(named, folder / "model.safetensors")
        return folder
    places = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(named)}
    for file in set(places.values()):
        save_file({name: named[name] for name in named if places[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


__all__ = ["CONFIG", "EMBEDDING", "HEAD", "config_json", "tensors", "write"]
