"""The arms of paged attention: what each serves, how it is built, how it is launched.

An arm is data: a name, its idea, the code its kernel leaves as witness, what it serves, its build
macros and launch geometry. `supports` says why an arm does not serve a call; nothing else refuses.
Build macros and the kernels' parameter list are described in kernels/paged_attention/.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

from hipbook.boards.base import Arg, Board, Dim3
from hipbook.ops import split_kv
from hipbook.ops.attention_call import DTYPE_NAMES, AttentionCall

SOURCE = "paged_attention/paged_attention.hip"  # under kernels/
MAX_HEAD_DIM = 512
DECODE_HEAD_DIMS = (64, 128, 256, 512)
DECODE_WAVES = 8
PREFILL_HEAD_DIMS = (64, 128)
PREFILL_ROWS = 32  # tokens of a workgroup (kernels/paged_attention/prefill.h)
PREFILL_WAVES = 8
MAX_RATIO = 16
# A slice of decode_gqa keeps QG * D output values in the registers of its waves; at 4096 the
# kernel spills, at 2048 none of them does.
SLICE_VALUES = 2048


@dataclass(frozen=True)
class Refusal:
    """Why an arm does not serve a call. `kind` is what the checks count and allow or not."""

    kind: Literal["head_dim", "ratio", "alignment", "dtype", "block_size", "rows"]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Geometry:
    grid: Dim3  # workgroups
    block: Dim3  # work-items

    @property
    def workgroups(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class Arm:
    """One way of computing the operation, as data. Another arm is another entry of `ARMS`.

    `head_dims` None: any up to MAX_HEAD_DIM. `max_ratio` None: any GQA ratio. `by_ratio`: the kernel
    is specialised for the ratio as well. `vectors`: its lanes load vectors, so pointers and strides
    must be aligned to them; `vector_bytes`, to how much (0: what decode's need). `geometry(call,
    wave_size)` is the launch; `by_board(call, shape, wave_size)` the one on a board of that shape, when
    it matters. `macros` are further build macros, `scratch(call, geometry, fresh)` the arguments after
    the common ones, made for a launch (fresh) or kept between launches.
    """

    name: str
    idea: str
    witness: int
    geometry: Callable[[AttentionCall, int], Geometry]
    head_dims: tuple[int, ...] | None = None
    max_ratio: int | None = None
    by_ratio: bool = False
    vectors: bool = False
    vector_bytes: int = 0
    source: str = SOURCE
    macros: Callable[[AttentionCall], tuple[str, ...]] = lambda call: ()
    by_board: Callable[[AttentionCall, split_kv.Shape, int], Geometry] | None = None
    scratch: Callable[[AttentionCall, Geometry, bool], list[Arg]] | None = None

    @property
    def kernel(self) -> str:
        return f"paged_attention_{self.name}"

    def flags(self, call: AttentionCall) -> tuple[str, ...]:
        """Build macros of the specialisation that serves `call`; the board adds the wave width."""
        q, kv, out = (DTYPE_NAMES[dtype] for dtype in call.dtypes)
        flags = [f"-DHIPBOOK_Q={q}", f"-DHIPBOOK_KV={kv}", f"-DHIPBOOK_OUT={out}"]
        flags.append(f"-DHIPBOOK_D={call.head_dim}")
        if self.by_ratio:
            flags.append(f"-DHIPBOOK_RATIO={call.ratio}")
        flags += self.macros(call)
        flags.append(f"-DHIPBOOK_ARM_{self.name.upper()}=1")
        return tuple(flags)

    def launch(self, call: AttentionCall, board: Board) -> Geometry:
        """The launch on `board`, whose size matters to some arms."""
        if self.by_board is None:
            return self.geometry(call, board.wave_size)
        units = getattr(board, "compute_units", split_kv.DEFAULT_COMPUTE_UNITS)
        return self.by_board(call, split_kv.Shape(board.arch, units), board.wave_size)

    def serves_head_dim(self, head_dim: int) -> bool:
        if self.head_dims is None:
            return head_dim <= MAX_HEAD_DIM
        return head_dim in self.head_dims

    def supports(self, call: AttentionCall, wave_size: int = 32) -> Refusal | None:
        """None, or why this arm does not serve `call` on a board of `wave_size` lanes a wave."""
        if not self.serves_head_dim(call.head_dim):
            known = f"up to {MAX_HEAD_DIM}" if self.head_dims is None else self.head_dims
            return Refusal("head_dim", f"{self.name} serves head_dim {known}, got {call.head_dim}")
        if self.max_ratio is not None and call.ratio > self.max_ratio:
            text = f"{self.name} serves 1 to {self.max_ratio} query heads per kv head, got {call.ratio}"
            return Refusal("ratio", text)
        return _misaligned(call, self.name, wave_size, self.vector_bytes) if self.vectors else None


def online_threads(head_dim: int) -> int:
    """64 doubled until at least head_dim, at most 256."""
    threads = 64
    while threads < head_dim and threads < 256:
        threads *= 2
    return threads


def gqa_slices(head_dim: int, ratio: int) -> int:
    """Workgroups that share one kv head's query heads: 1 while ratio * D fits one slice."""
    return ceil(ratio * head_dim / SLICE_VALUES)


def decode_alignment_bytes(kv_size: int, size: int, head_dim: int, wave_size: int) -> int:
    """Alignment a lane's vector of a tensor needs; sizes are bytes an element of K, and of it.

    A lane holds head_dim / wave_size elements of a row, in vectors of at most 16 bytes of K or V;
    q and out are taken in vectors of as many elements (kernels/paged_attention/wave_rows.h).
    """
    vector = min(head_dim // wave_size, 16 // kv_size)
    return min(16, vector * size)


def _misaligned(call: AttentionCall, arm: str, wave_size: int, vector_bytes: int) -> Refusal | None:
    """The first pointer or stride that a lane's vector access of this arm cannot use.

    `vector_bytes`: what q, K and V need; 0 is what the decode arms need, of out too.
    """
    tensors = {"q": call.q, "k_cache": call.k_cache, "v_cache": call.v_cache}
    if not vector_bytes:
        tensors["out"] = call.out
    for name, tensor in tensors.items():
        if tensor is None:
            continue  # a fresh output is always aligned
        size = tensor.element_size()
        kv_size = call.k_cache.element_size()
        need = vector_bytes or decode_alignment_bytes(kv_size, size, call.head_dim, wave_size)
        if tensor.data_ptr() % need:
            return Refusal(
                "alignment",
                f"{arm} loads vectors of {need} bytes and needs {name} aligned to them; its address "
                f"is {tensor.data_ptr() % need} bytes past such a boundary",
            )
        for axis, stride in enumerate(tensor.stride()[:-1]):
            if stride * size % need and tensor.shape[axis] > 1:
                return Refusal(
                    "alignment",
                    f"{arm} loads vectors of {need} bytes and needs every stride of {name} to be a "
                    f"multiple of them; stride {axis} is {stride} elements of {size} bytes",
                )
    return None


def _split_kv_geometry(
    call: AttentionCall, wave_size: int, shape: split_kv.Shape = split_kv.DEFAULT_SHAPE
) -> Geometry:
    z = split_kv.splits(call, shape) * split_kv.slices(call.head_dim, call.ratio)
    threads = split_kv.waves(call, shape.arch) * wave_size
    return Geometry((call.total_q, call.num_kv_heads, z), (threads, 1, 1))


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm(
            name="online",
            idea="baseline: one key at a time, a partial dot per thread, an LDS tree, thread 0 scales",
            witness=0x10,
            geometry=lambda call, wave: Geometry(
                (call.total_q, call.num_q_heads, 1), (online_threads(call.head_dim), 1, 1)
            ),
        ),
        Arm(
            name="decode",
            idea="a wave holds a row; each wave walks its own keys with its own max and sum; one merge",
            witness=0x20,
            head_dims=DECODE_HEAD_DIMS,
            vectors=True,
            geometry=lambda call, wave: Geometry(
                (call.total_q, call.num_q_heads, 1), (DECODE_WAVES * wave, 1, 1)
            ),
        ),
        Arm(
            name="decode_gqa",
            idea="as decode, one workgroup for a kv head and its query heads: K and V are loaded once",
            witness=0x30,
            head_dims=DECODE_HEAD_DIMS,
            max_ratio=MAX_RATIO,
            vectors=True,
            geometry=lambda call, wave: Geometry(
                (call.total_q, call.num_kv_heads, gqa_slices(call.head_dim, call.ratio)),
                (DECODE_WAVES * wave, 1, 1),
            ),
            by_ratio=True,
        ),
        Arm(
            name="split_kv",
            idea="as decode_gqa, a token's keys dealt out to many workgroups; the last to arrive merges",
            witness=0x40,
            geometry=_split_kv_geometry,
            head_dims=DECODE_HEAD_DIMS,
            max_ratio=MAX_RATIO,
            by_ratio=True,
            vectors=True,
            vector_bytes=16,
            macros=split_kv.macros,
            by_board=lambda call, shape, wave: _split_kv_geometry(call, wave, shape),
            scratch=lambda call, geometry, fresh: split_kv.scratch_args(
                call, geometry.grid[2] // split_kv.slices(call.head_dim, call.ratio), fresh=fresh
            ),
        ),
        Arm(
            name="prefill",
            idea="tokens of a request share tiles of keys in LDS; a lane computes a whole dot product",
            witness=0x50,
            geometry=lambda call, wave: Geometry(
                (ceil(call.total_q / PREFILL_ROWS), call.num_q_heads, 1), (PREFILL_WAVES * wave, 1, 1)
            ),
            head_dims=PREFILL_HEAD_DIMS,
            vectors=True,
            vector_bytes=16,
            source="paged_attention/prefill.hip",
        ),
    )
}
