"""One call of paged attention: the tensors and scalars of the contract, and what shapes alone say.

The contract (all arms) is in `ops/paged_attention.py`.
"""

from dataclasses import dataclass

import torch

DTYPE_NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """Arguments of one call, under the contract's names. Nothing is checked here (see `validate`).

    q [total_q, Hq, D]; k_cache, v_cache [num_blocks, block_size, Hkv, D], read through strides;
    block_table int32 [num_reqs, max_blocks]; seq_lens int32 [num_reqs];
    query_start_loc int32 [num_reqs + 1]. soft_cap 0 is off; a window of -1 is unbounded.
    `out_dtype` None means that of `out`, or of q. `out` None means a fresh tensor.
    """

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    query_start_loc: torch.Tensor
    scale: float
    soft_cap: float = 0.0
    causal: bool = True
    window_left: int = -1
    window_right: int = -1
    out_dtype: torch.dtype | None = None
    out: torch.Tensor | None = None

    @property
    def total_q(self) -> int:
        return self.q.shape[0]

    @property
    def num_q_heads(self) -> int:
        return self.q.shape[1]

    @property
    def num_kv_heads(self) -> int:
        return self.k_cache.shape[2]

    @property
    def head_dim(self) -> int:
        return self.q.shape[2]

    @property
    def ratio(self) -> int:
        """Query heads per kv head (exact once validated)."""
        return self.num_q_heads // max(self.num_kv_heads, 1)

    @property
    def num_reqs(self) -> int:
        return self.seq_lens.shape[0]

    @property
    def block_size(self) -> int:
        return self.k_cache.shape[1]

    @property
    def result_dtype(self) -> torch.dtype:
        if self.out_dtype is not None:
            return self.out_dtype
        return self.q.dtype if self.out is None else self.out.dtype

    @property
    def dtypes(self) -> tuple[torch.dtype, torch.dtype, torch.dtype]:
        """(q, kv, out): what a specialisation of a kernel is built for."""
        return self.q.dtype, self.k_cache.dtype, self.result_dtype
