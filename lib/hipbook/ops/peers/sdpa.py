"""torch's scaled_dot_product_attention over K and V gathered from the blocks beforehand.

The gather is not measured, so this is the time of attention over contiguous keys: no paged kernel owes
it anything, and one that is slower has something to explain.
"""

from collections.abc import Callable

import torch

from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.peers.plain import why_not_plain

MAX_GATHERED_BYTES = 16 << 30


def why_not(call: AttentionCall) -> str:
    reason = why_not_plain(call)
    if reason:
        return reason
    if len(set(call.seq_lens.tolist())) != 1:
        return "served for sequences of one length only"
    gathered = 2 * call.num_reqs * int(call.seq_lens[0]) * call.num_kv_heads * call.head_dim * 2
    return f"the gathered K and V take {gathered >> 30} GiB" if gathered > MAX_GATHERED_BYTES else ""


def prepare(call: AttentionCall) -> Callable[[], None]:
    keys = int(call.seq_lens[0])
    blocks = -(-keys // call.block_size)
    at = call.block_table[:, :blocks].long()

    def gathered(cache: torch.Tensor) -> torch.Tensor:
        rows = cache[at].reshape(call.num_reqs, blocks * call.block_size, call.num_kv_heads, call.head_dim)
        return rows[:, :keys].transpose(1, 2).contiguous()

    k, v, q = gathered(call.k_cache), gathered(call.v_cache), call.q.unsqueeze(2)

    def run() -> None:
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=call.scale, enable_gqa=True)
        call.out.copy_(out.squeeze(2))

    return run
