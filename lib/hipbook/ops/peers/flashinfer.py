"""FlashInfer's BatchDecodeWithPagedKVCacheWrapper, planned once for the batch's lengths, as an engine does.

Needs the `flashinfer-python` package (0.3.1 was used; any other is named in the record by its version).
"""

import importlib.util
from collections.abc import Callable

import torch

from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.peers.plain import why_not_plain

WORKSPACE_BYTES = 512 << 20
HEAD_DIMS = (64, 128, 256)
VECTOR_RATIOS = (1, 2, 3, 4, 8)  # the group sizes its vector kernel is compiled for
_workspaces: dict[bool, torch.Tensor] = {}


def why_not(call: AttentionCall) -> str:
    reason = why_not_plain(call)
    if reason:
        return reason
    if call.head_dim not in HEAD_DIMS:
        return f"FlashInfer serves head_dim {HEAD_DIMS}"
    return "" if importlib.util.find_spec("flashinfer") else "flashinfer is not installed"


def why_not_vector(call: AttentionCall) -> str:
    if call.ratio not in VECTOR_RATIOS:
        return f"FlashInfer's vector kernel serves ratios {VECTOR_RATIOS}"
    return why_not(call)


def prepare(call: AttentionCall, *, tensor_cores: bool) -> Callable[[], None]:
    import flashinfer

    if tensor_cores not in _workspaces:
        _workspaces[tensor_cores] = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=call.q.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        _workspaces[tensor_cores], "NHD", use_tensor_cores=tensor_cores
    )
    lens = call.seq_lens.cpu()
    blocks = (lens + call.block_size - 1) // call.block_size
    starts = torch.cat([torch.zeros(1, dtype=torch.int32), blocks.cumsum(0).to(torch.int32)])
    indices = torch.cat([call.block_table[r, : int(n)] for r, n in enumerate(blocks)])
    last = (lens - (blocks - 1) * call.block_size).to(torch.int32)
    wrapper.plan(
        starts, indices, last, call.num_q_heads, call.num_kv_heads, call.head_dim, call.block_size,
        q_data_type=call.q.dtype, kv_data_type=call.k_cache.dtype, sm_scale=call.scale,
    )  # fmt: skip
    cache = (call.k_cache, call.v_cache)
    return lambda: wrapper.run(call.q, cache, out=call.out)
