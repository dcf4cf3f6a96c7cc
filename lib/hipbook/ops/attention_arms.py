"""The arms of paged attention: what each serves, how it is built, how it is launched.

An arm is data: a name, its idea, the code its kernel leaves as witness, the build macros and the
launch geometry. `supports` says whether it serves a call and, if not, why; nothing else refuses.
Build macros and the kernels' parameter list are described in kernels/paged_attention/.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

from hipbook.boards.base import Dim3
from hipbook.ops.attention_call import DTYPE_NAMES, AttentionCall

SOURCE = "paged_attention/paged_attention.hip"  # under kernels/
MAX_ONLINE_HEAD_DIM = 512
DECODE_HEAD_DIMS = (64, 128, 256, 512)
DECODE_WAVES = 8
MAX_RATIO = 16
# A slice of decode_gqa keeps QG * D output values in the registers of its waves; at 4096 the
# kernel spills, at 2048 none of them does.
SLICE_VALUES = 2048


@dataclass(frozen=True)
class Refusal:
    """Why an arm does not serve a call. `kind` is what the checks count and allow or not."""

    kind: Literal["head_dim", "ratio", "alignment"]
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
    """One way of computing the operation.

    `supports(call, wave_size)` is None or a `Refusal`; `geometry(call, wave_size)` is the launch.
    `by_ratio`: the kernel is specialised for the GQA ratio as well.
    """

    name: str
    idea: str
    witness: int
    supports: Callable[[AttentionCall, int], Refusal | None]
    geometry: Callable[[AttentionCall, int], Geometry]
    by_ratio: bool = False
    source: str = SOURCE

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
        flags.append(f"-DHIPBOOK_ARM_{self.name.upper()}=1")
        return tuple(flags)


def online_threads(head_dim: int) -> int:
    """64 doubled until at least head_dim, at most 256."""
    threads = 64
    while threads < head_dim and threads < 256:
        threads *= 2
    return threads


def gqa_slices(head_dim: int, ratio: int) -> int:
    """Workgroups that share one kv head's query heads: 1 while ratio * D fits one slice."""
    return ceil(ratio * head_dim / SLICE_VALUES)


def _online_supports(call: AttentionCall, wave_size: int) -> Refusal | None:
    if call.head_dim <= MAX_ONLINE_HEAD_DIM:
        return None
    return Refusal("head_dim", f"online serves head_dim up to {MAX_ONLINE_HEAD_DIM}, got {call.head_dim}")


def decode_alignment_bytes(kv_size: int, size: int, head_dim: int, wave_size: int) -> int:
    """Alignment a lane's vector of a tensor needs; sizes are bytes an element of K, and of it.

    A lane holds head_dim / wave_size elements of a row, in vectors of at most 16 bytes of K or V;
    q and out are taken in vectors of as many elements (kernels/paged_attention/wave_rows.h).
    """
    vector = min(head_dim // wave_size, 16 // kv_size)
    return min(16, vector * size)


def _misaligned(call: AttentionCall, arm: str, wave_size: int) -> Refusal | None:
    """The first pointer or stride that a lane's vector access of this arm cannot use."""
    tensors = {"q": call.q, "k_cache": call.k_cache, "v_cache": call.v_cache, "out": call.out}
    for name, tensor in tensors.items():
        if tensor is None:
            continue  # a fresh output is always aligned
        size = tensor.element_size()
        need = decode_alignment_bytes(call.k_cache.element_size(), size, call.head_dim, wave_size)
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


def _decode_supports(call: AttentionCall, wave_size: int, arm: str = "decode") -> Refusal | None:
    if call.head_dim not in DECODE_HEAD_DIMS:
        return Refusal("head_dim", f"{arm} serves head_dim {DECODE_HEAD_DIMS}, got {call.head_dim}")
    return _misaligned(call, arm, wave_size)


def _gqa_supports(call: AttentionCall, wave_size: int) -> Refusal | None:
    if call.ratio > MAX_RATIO:
        return Refusal(
            "ratio",
            f"decode_gqa serves 1 to {MAX_RATIO} query heads per kv head, got {call.ratio}",
        )
    return _decode_supports(call, wave_size, "decode_gqa")


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm(
            name="online",
            idea="baseline: one key at a time, a partial dot per thread, an LDS tree, thread 0 scales",
            witness=0x10,
            supports=_online_supports,
            geometry=lambda call, wave: Geometry(
                (call.total_q, call.num_q_heads, 1), (online_threads(call.head_dim), 1, 1)
            ),
        ),
        Arm(
            name="decode",
            idea="a wave holds a row; each wave walks its own keys with its own max and sum; one merge",
            witness=0x20,
            supports=_decode_supports,
            geometry=lambda call, wave: Geometry(
                (call.total_q, call.num_q_heads, 1), (DECODE_WAVES * wave, 1, 1)
            ),
        ),
        Arm(
            name="decode_gqa",
            idea="as decode, one workgroup for a kv head and its query heads: K and V are loaded once",
            witness=0x30,
            supports=_gqa_supports,
            geometry=lambda call, wave: Geometry(
                (call.total_q, call.num_kv_heads, gqa_slices(call.head_dim, call.ratio)),
                (DECODE_WAVES * wave, 1, 1),
            ),
            by_ratio=True,
        ),
    )
}
