"""A small Qwen3 decode loop: torch for everything but attention, our paged-attention arms for that.

Config -> weights (random, or a folder of safetensors) -> loop; `reference` is the same model in float64.
Nothing here needs more than torch, numpy and safetensors: it runs on a GPU's machine as it is.
"""
