"""What a decode keeps between steps: paged K and V of every layer, the tables, positions and tokens.

Blocks are dealt at random (an identity table hides addressing bugs), with spare ones between them; slots
nobody has written hold NaN. Positions are the one thing that says how far a decode is: lengths follow.
"""

from collections.abc import Sequence
from copy import copy

import torch

from hipbook.errors import BadArgument
from hipbook.ops.attention_call import AttentionCall
from hipbook.qwen3.config import Config

BLOCK_SIZE = 16
SPARE_BLOCKS = 7


class State:
    """The state of `batch` sequences of up to `capacity` keys each; all tensors stay where they are.

    tokens int64 [batch]: the next step's input. positions int64 [batch]: the place that input has in its
    sequence. logits [batch, vocabulary]: of the last step.
    """

    def __init__(
        self,
        config: Config,
        *,
        batch: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        if batch < 1 or capacity < 1:
            raise BadArgument("batch, capacity", (batch, capacity), "both at least 1")
        self.config, self.batch, self.capacity, self.dtype = config, batch, capacity, dtype
        self.device = torch.device(device)
        self._generator = torch.Generator(device=self.device).manual_seed(seed)
        per = -(-capacity // BLOCK_SIZE)
        blocks = batch * per + SPARE_BLOCKS
        order = torch.randperm(blocks, generator=self._generator, device=self.device)
        self.block_table = order[: batch * per].to(torch.int32).view(batch, per).contiguous()
        shape = (blocks, BLOCK_SIZE, config.num_kv_heads, config.head_dim)
        self.k_caches, self.v_caches = (
            [torch.full(shape, float("nan"), dtype=dtype, device=self.device) for _ in range(config.layers)]
            for _ in range(2)
        )
        heads = (batch, config.num_q_heads, config.head_dim)
        self.q, self.out = (torch.zeros(heads, dtype=dtype, device=self.device) for _ in range(2))
        self.seq_lens = torch.zeros(batch, dtype=torch.int32, device=self.device)
        self.query_start_loc = torch.arange(batch + 1, dtype=torch.int32, device=self.device)
        self.positions = torch.zeros(batch, dtype=torch.int64, device=self.device)
        self.tokens = torch.zeros(batch, dtype=torch.int64, device=self.device)
        self.logits = torch.zeros(batch, config.vocabulary, dtype=dtype, device=self.device)

    @property
    def kv_dtype(self) -> torch.dtype:
        return self.k_caches[0].dtype

    def call(self, layer: int) -> AttentionCall:
        """The layer's attention over everything written so far; its result goes to `out`."""
        return AttentionCall(
            q=self.q, k_cache=self.k_caches[layer], v_cache=self.v_caches[layer],
            block_table=self.block_table, seq_lens=self.seq_lens, query_start_loc=self.query_start_loc,
            scale=self.config.head_dim**-0.5, out=self.out,
        )  # fmt: skip

    def slots(self) -> torch.Tensor:
        """int64 [batch]: where the keys of this step go, in a cache seen as [slots, Hkv, D]."""
        blocks = self.block_table.gather(1, (self.positions // BLOCK_SIZE)[:, None])[:, 0]
        return blocks * BLOCK_SIZE + self.positions % BLOCK_SIZE

    def begin(self, tokens: Sequence[int] | torch.Tensor, position: int) -> None:
        """The next step takes `tokens`, one a sequence, as the inputs at `position`."""
        if not 0 <= position < self.capacity:
            raise BadArgument("position", position, f"0 .. {self.capacity - 1}: the cache's capacity")
        given = torch.as_tensor(tokens, dtype=torch.int64)
        if given.shape != (self.batch,) or not ((given >= 0) & (given < self.config.vocabulary)).all():
            raise BadArgument(
                "tokens", given.tolist(), f"{self.batch} tokens from 0 to {self.config.vocabulary - 1}"
            )
        self.tokens.copy_(given)
        self.positions.fill_(position)

    def in_float64(self) -> "State":
        """The same caches, tables and places with q, out and logits in float64: for exact steps beside."""
        twin = copy(self)
        twin.q, twin.out, twin.logits = (values.double() for values in (self.q, self.out, self.logits))
        twin.dtype = torch.float64
        return twin

    def fill(self, keys: int) -> None:
        """Random K (of unit root mean square, as after its norm) and V for the first `keys` keys of all."""
        if not 0 <= keys <= self.capacity:
            raise BadArgument("keys", keys, f"0 .. {self.capacity}: the cache's capacity")
        places = torch.arange(keys, device=self.device)
        blocks = self.block_table[:, places // BLOCK_SIZE].long()  # [batch, keys]
        slots = (blocks * BLOCK_SIZE + places % BLOCK_SIZE).reshape(-1)
        shape = (slots.numel(), self.config.num_kv_heads, self.config.head_dim)
        for cache in (*self.k_caches, *self.v_caches):
            values = torch.empty(shape, dtype=self.kv_dtype, device=self.device)
            cache.view(-1, *shape[1:]).index_copy_(0, slots, values.normal_(generator=self._generator))


def shapes_only(config: Config, *, batch: int, capacity: int, dtype: torch.dtype) -> AttentionCall:
    """A call of such a state without its memory (torch's meta device): what a kernel is built from."""
    per = -(-capacity // BLOCK_SIZE)
    cache = (batch * per + SPARE_BLOCKS, BLOCK_SIZE, config.num_kv_heads, config.head_dim)

    def empty(*shape: int, kind: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.empty(shape, dtype=kind, device="meta")

    heads = empty(batch, config.num_q_heads, config.head_dim, kind=dtype)
    return AttentionCall(
        q=heads, k_cache=empty(*cache, kind=dtype), v_cache=empty(*cache, kind=dtype),
        block_table=empty(batch, per), seq_lens=empty(batch), query_start_loc=empty(batch + 1),
        scale=config.head_dim**-0.5, out=heads,
    )  # fmt: skip
