"""The calls an engine makes while it decodes: one query token a sequence, a pool of blocks in random order.

The families look for bugs; these are the ordinary calls that investigations are about.
"""

from collections.abc import Sequence

import torch

from hipbook.errors import BadArgument
from hipbook.ops.attention_call import AttentionCall
from hipbook.oracle.caches import Layout
from hipbook.oracle.drafts import Shape, draft, place
from hipbook.oracle.randoms import Randoms


def decode_call(
    seq_lens: Sequence[int],
    *,
    num_q_heads: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
    block_size: int = 16,
    seed: int = 0,
) -> AttentionCall:
    """One decode step: sequence i attends to seq_lens[i] keys, its own new one included.

    K and V are the two halves of one [num_blocks, 2, block_size, Hkv, D] allocation, as engines pass
    them; blocks are dealt at random; values are uniform in [-1.5, 1.5). Slots past a sequence's end
    and the blocks of nobody hold NaN, table entries past the last block -1: none may be read.
    """
    if not seq_lens or min(seq_lens) < 1:
        raise BadArgument("seq_lens", list(seq_lens), "at least one sequence, each of at least one key")
    shape = Shape(dtype, dtype, dtype, head_dim, num_q_heads, num_kv_heads, block_size, "decode")
    randoms = Randoms("decode step", tuple(seq_lens), num_q_heads, num_kv_heads, head_dim, block_size, seed)
    values = draft(randoms, shape, [(1, length) for length in seq_lens])
    return place(randoms, values, layout=Layout(order="interleaved"), dead=float("nan"), table_tail=(-1,))
