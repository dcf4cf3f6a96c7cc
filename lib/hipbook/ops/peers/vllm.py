"""vLLM's Triton kernels: the 2D paged-attention kernel of its ROCm decode path, and unified attention.

Found in an installed vllm package, or as two files in the folder $HIPBOOK_VLLM_KERNELS (taken from
vllm's wheel, attention/ops/): chunked_prefill_paged_decode.py and triton_unified_attention.py. Loaded
from a folder, what they import of the rest of vllm is stood in for by the few names they use, so that
neither vllm nor its dependencies have to be there. Written against vllm 0.11.
"""

import functools
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.peers.plain import why_not_plain

FILES = ("chunked_prefill_paged_decode", "triton_unified_attention")
_PACKAGE = "vllm.attention.ops"


def why_not(call: AttentionCall) -> str:
    return why_not_plain(call) or _why_absent()


def _why_absent() -> str:
    folder = os.environ.get("HIPBOOK_VLLM_KERNELS")
    if folder:
        lacking = [f"{name}.py" for name in FILES if not (Path(folder) / f"{name}.py").is_file()]
        return f"$HIPBOOK_VLLM_KERNELS = {folder} lacks {', '.join(lacking)}" if lacking else ""
    if importlib.util.find_spec("vllm") is None:
        return "vllm is not installed and $HIPBOOK_VLLM_KERNELS names no folder with its two kernel files"
    return ""


def prepare_2d(call: AttentionCall) -> Callable[[], None]:
    """K and V are copied once into the kernel's own layout, as vLLM's cache has it; only the kernel runs."""
    module = _module(FILES[0])
    blocks, slots, heads, d = call.k_cache.shape
    x = 16 // call.k_cache.element_size()
    k = call.k_cache.reshape(blocks, slots, heads, d // x, x).permute(0, 2, 3, 1, 4).contiguous()
    v = call.v_cache.permute(0, 2, 3, 1).contiguous()
    one, nothing = _one(call), torch.empty(1, heads, d, dtype=call.q.dtype, device=call.q.device)
    most = int(call.seq_lens.max())

    def run() -> None:
        module.chunked_prefill_paged_decode(
            call.q, nothing, nothing, call.out, "auto", k, v, call.block_table, call.query_start_loc,
            call.seq_lens, most, 1, one, one, sm_scale=call.scale,
        )  # fmt: skip

    return run


def prepare_unified(call: AttentionCall) -> Callable[[], None]:
    module, one, most = _module(FILES[1]), _one(call), int(call.seq_lens.max())

    def run() -> None:
        module.unified_attention(
            call.q, call.k_cache, call.v_cache, call.out, call.query_start_loc, 1, call.seq_lens, most,
            call.scale, True, (-1, -1), call.block_table, 0.0, None, one, one,
        )  # fmt: skip

    return run


def _one(call: AttentionCall) -> torch.Tensor:
    return torch.ones((), dtype=torch.float32, device=call.q.device)


@functools.cache
def _module(name: str) -> Any:
    folder = os.environ.get("HIPBOOK_VLLM_KERNELS")
    if not folder:
        return importlib.import_module(f"{_PACKAGE}.{name}")
    saved = {key: module for key, module in sys.modules.items() if key.partition(".")[0] == "vllm"}
    for key in saved:
        del sys.modules[key]
    sys.modules.update(_stand_ins())
    try:
        spec = importlib.util.spec_from_file_location(f"{_PACKAGE}.{name}", Path(folder) / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # for its relative imports
        spec.loader.exec_module(module)
        return module
    finally:
        for key in [key for key in sys.modules if key.partition(".")[0] == "vllm"]:
            if not key.startswith("vllm.platforms"):
                del sys.modules[key]
        sys.modules.update(saved)


def _stand_ins() -> dict[str, ModuleType]:
    import triton
    import triton.language as tl

    class Platform:
        @staticmethod
        def fp8_dtype() -> torch.dtype:
            return torch.float8_e4m3fn

        @staticmethod
        def is_rocm() -> bool:
            return torch.version.hip is not None

    def module(name: str, package: bool = False, **names: Any) -> ModuleType:
        made = ModuleType(name)
        made.__dict__.update(names)
        if package:
            made.__path__ = []
        return made

    rocm = module("vllm.platforms.rocm", use_rocm_custom_paged_attention=lambda *_, **__: False)
    ops = module("vllm._custom_ops")
    return {
        "vllm": module("vllm", True, _custom_ops=ops),
        "vllm._custom_ops": ops,
        "vllm.attention": module("vllm.attention", True),
        "vllm.attention.ops": module("vllm.attention.ops", True),
        "vllm.attention.ops.prefix_prefill": module(
            "vllm.attention.ops.prefix_prefill",
            context_attention_fwd=None,  # decode batches never reach it
        ),
        "vllm.logger": module("vllm.logger", init_logger=logging.getLogger),
        "vllm.platforms": module("vllm.platforms", True, current_platform=Platform, rocm=rocm),
        "vllm.platforms.rocm": rocm,
        "vllm.triton_utils": module("vllm.triton_utils", tl=tl, triton=triton),
    }
