"""Checkpoints as they come: read whole and right, or refused in one sentence before anything is read."""

import json
import re
from dataclasses import replace

import pytest
import torch
from qwen3_checkpoints import CONFIG, EMBEDDING, HEAD, config_json, tensors, write

from hipbook.errors import BadArgument, HipbookError
from hipbook.qwen3 import config as configs
from hipbook.qwen3 import reference, weights
from hipbook.qwen3.config import Config

TIED = replace(CONFIG, tied=True)
DOWN = "model.layers.1.mlp.down_proj.weight"
BIAS = "model.layers.0.self_attn.q_proj.bias"


def same(one: weights.Weights, other: weights.Weights) -> bool:
    return torch.equal(reference.logits_of(one, [1, 2, 3]), reference.logits_of(other, [1, 2, 3]))


@pytest.mark.parametrize("config", [CONFIG, TIED])
def test_one_file_and_shards_are_the_same_model(tmp_path, config):
    named = tensors(config)
    one = write(tmp_path / "one", named, config)
    three = write(tmp_path / "three", named, config, shards=3)
    assert len(list(three.glob("*.safetensors"))) == 3
    read = configs.of_folder(one)
    assert read == replace(config, name="one")
    first, second = weights.load(one, config), weights.load(three, config)
    assert same(first, second)
    assert first.dtype is torch.bfloat16
    assert (first.head is first.embedding) == config.tied
    heads = config.num_q_heads, config.num_kv_heads
    layer = first.layers[1]
    assert torch.equal(layer.down, named[DOWN])
    q, k, v = (named[f"model.layers.1.self_attn.{side}_proj.weight"] for side in "qkv")
    assert torch.equal(layer.qkv, torch.cat([q, k, v]))
    assert layer.qk_norm.shape == (sum(heads), config.head_dim)
    assert torch.equal(layer.qk_norm[heads[0]], named["model.layers.1.self_attn.k_norm.weight"])
    assert torch.equal(layer.gate_up[: config.intermediate], named["model.layers.1.mlp.gate_proj.weight"])


def test_every_tensor_matters(tmp_path):
    """A loader that mixes two tensors up, or forgets one, makes another model: each changes the logits."""
    named = tensors()
    base = weights.load(write(tmp_path / "base", named), CONFIG)
    unseen = []
    for number, name in enumerate(named):
        changed = named | {name: named[name].flip(0) * 0.5}
        other = weights.load(write(tmp_path / f"changed{number}", changed), CONFIG)
        if same(base, other):
            unseen.append(name)
    assert unseen == []


def test_a_tied_head_may_be_kept_twice_but_not_differ(tmp_path):
    named = tensors(TIED)
    twice = write(tmp_path / "twice", named | {HEAD: named[EMBEDDING].clone()}, TIED)
    assert same(weights.load(twice, TIED), weights.load(write(tmp_path / "once", named, TIED), TIED))
    other = write(tmp_path / "other", named | {HEAD: named[EMBEDDING] * 2}, TIED)
    with pytest.raises(HipbookError, match=r"lm_head\.weight differs from model\.embed"):
        weights.load(other, TIED)


def test_weights_are_given_in_the_dtype_asked_for(tmp_path):
    folder = write(tmp_path, tensors())
    assert weights.load(folder, CONFIG, dtype=torch.float32).layers[0].qkv.dtype is torch.float32


def _without(named, name):
    return {key: value for key, value in named.items() if key != name}


REFUSED = {
    "missing": (lambda t: _without(t, DOWN), rf"no tensor {DOWN} \(1 of 25 are missing\)"),
    "head": (lambda t: _without(t, HEAD), "no tensor lm_head.weight"),
    "shape": (lambda t: t | {DOWN: t[DOWN].T.contiguous()}, rf"{DOWN} has shape \[32, 24\], .* \[24, 32\]"),
    "unknown": (
        lambda t: t | {"model.layers.0.self_attn.q_proj.bias": torch.zeros(4)},
        "q_proj.bias is none",
    ),
    "integers": (
        lambda t: t | {DOWN: t[DOWN].to(torch.int8)},
        rf"{DOWN} is I8: must be one of BF16, F16, F32",
    ),
    "mixed": (lambda t: t | {DOWN: t[DOWN].float()}, "a checkpoint has one dtype"),
}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("what", REFUSED)
def test_a_checkpoint_that_is_not_the_config_s_is_refused(tmp_path, what, shards, monkeypatch):
    change, told = REFUSED[what]
    folder = write(tmp_path, change(tensors()), shards=shards)
    monkeypatch.setattr(weights, "_assembled", lambda *_: pytest.fail("assembled a refused checkpoint"))
    with pytest.raises(HipbookError, match=told) as error:
        weights.load(folder, CONFIG)
    assert str(tmp_path) in str(error.value)


def test_files_that_are_no_checkpoint_are_refused(tmp_path):
    with pytest.raises(HipbookError, match=r"neither model\.safetensors nor model"):
        weights.load(tmp_path, CONFIG)
    (tmp_path / "model.safetensors").write_bytes(b"no safetensors at all")
    with pytest.raises(HipbookError, match="not readable as safetensors"):
        weights.load(tmp_path, CONFIG)
    cut = write(tmp_path / "cut", tensors())
    whole = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HipbookError, match="not readable as safetensors"):
        weights.load(cut, CONFIG)


def test_an_index_that_lies_is_refused(tmp_path):
    folder = write(tmp_path, tensors(), shards=2)
    index = folder / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    first, second = sorted(set(places.values()))
    for change, told in (
        (places | {DOWN: first if places[DOWN] == second else second}, f"no tensor {DOWN}"),
        (places | {DOWN: "../elsewhere.safetensors"}, "is no file of this folder"),
        (places | {DOWN: "absent.safetensors"}, "absent, and model.safetensors.index.json names it"),
    ):
        index.write_text(json.dumps({"weight_map": change}))
        with pytest.raises(HipbookError, match=re.escape(told)):
            weights.load(folder, CONFIG)
    index.write_text("[]")
    with pytest.raises(HipbookError, match="no weight_map"):
        weights.load(folder, CONFIG)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model_type": "llama"}, "model_type is 'llama'"),
        ({"model_type": "qwen3_moe"}, "model_type is 'qwen3_moe'"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "rope_parameters"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"head_dim": None}, "head_dim is None"),
        ({"vocab_size": "40"}, "vocab_size is '40'"),
        ({"num_hidden_layers": 0}, "layers = 0"),
        ({"num_attention_heads": 3}, "must be a multiple of num_kv_heads = 2"),
    ],
)
def test_a_config_this_loop_does_not_compute_is_refused(tmp_path, change, told):
    write(tmp_path, {}, **change)
    with pytest.raises(HipbookError, match=re.escape(told)):
        configs.of_folder(tmp_path)


def test_newer_configs_keep_theta_elsewhere(tmp_path):
    said = config_json(rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    del said["rope_theta"]
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert configs.of_folder(tmp_path).rope_theta == 5e5
    with pytest.raises(HipbookError, match="No such file"):
        configs.of_folder(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(HipbookError, match="not JSON"):
        configs.of_folder(tmp_path)


def test_random_weights_are_seeded_and_counted():
    one, again, other = (weights.random(CONFIG, seed=seed) for seed in (1, 1, 2))
    assert same(one, again)
    assert not same(one, other)
    kept = [one.head, one.norm, *(getattr(one.layers[0], name) for name in
            ("input_norm", "qkv", "o", "post_norm", "gate_up", "down"))]  # fmt: skip
    per_layer = sum(tensor.numel() for tensor in kept[2:]) + 2 * CONFIG.head_dim
    assert CONFIG.read_weights == kept[0].numel() + kept[1].numel() + 2 * per_layer
    with pytest.raises(BadArgument, match="must be even"):
        Config("odd", 8, 8, 8, 1, 2, 1, 63, True)
