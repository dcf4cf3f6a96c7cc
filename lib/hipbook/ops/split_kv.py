"""How split_kv is launched: into how many parts a token's keys go, on which board, with what scratch.

Lengths are on the board, not on the host, and are not looked at: the number of parts follows from the
shapes alone. A part that gets no key leaves at once, and the kernel deals the keys that a token really
has out evenly, so a table wider than the sequences need costs launches of empty workgroups, not balance.

The constants repeat those of kernels/paged_attention/split_kv.h, which a test compares.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import torch

from hipbook.boards.base import Arg, Buffer
from hipbook.errors import KernelFault
from hipbook.ops.attention_call import AttentionCall

TILE = 16  # keys
SLICE_VALUES = 2048  # ratio * D of one workgroup, as decode_gqa
MAX_SPLITS = 48
# Workgroups a compute unit holds at once, by registers (NVIDIA) or by choice: four waves on each of a
# compute unit's two SIMDs hide the latency of memory on RDNA.
RESIDENT_MMA = {64: 4, 128: 2, 256: 2}
RESIDENT_ROWS = 4
# What a part costs beside its keys, in tiles' time (fitted on an H200): a start, three dependent loads
# before the first key; and the merge, which loads so many parts together.
START_TILES = 6
MERGE_TILES = 4
MERGE_BATCH_MMA, MERGE_BATCH_ROWS = 16, 8
# K and V at least this large are read as a stream (HIPBOOK_STREAM in split_kv_mma.h): more than the last
# cache of any board here holds.
STREAM_BYTES = 64 << 20
DEFAULT_COMPUTE_UNITS = 32  # of a board that does not say: a gfx1200


@dataclass(frozen=True)
class Shape:
    """What of a board decides the launch."""

    arch: str = "gfx1200"
    compute_units: int = DEFAULT_COMPUTE_UNITS


DEFAULT_SHAPE = Shape()


def slices(head_dim: int, ratio: int) -> int:
    """Workgroups that share one kv head's query heads."""
    return ceil(ratio * head_dim / SLICE_VALUES)


def heads_of_slice(head_dim: int, ratio: int) -> int:
    """Query heads of the largest slice."""
    return ceil(ratio / slices(head_dim, ratio))


def takes_matrix_units(call: AttentionCall, arch: str) -> bool:
    """Whether the kernel built for `arch` computes this call with NVIDIA's matrix units."""
    return arch.startswith("sm_") and call.k_cache.element_size() == 2 and call.head_dim <= 256


def waves(call: AttentionCall, arch: str) -> int:
    """Waves of a workgroup."""
    small = call.head_dim == 128 and heads_of_slice(call.head_dim, call.ratio) <= 8
    return 6 if takes_matrix_units(call, arch) and small else 4


def macros(call: AttentionCall) -> tuple[str, ...]:
    """Build macros beside those of every arm."""
    in_block = f"-DHIPBOOK_BLOCK_16={int(call.block_size % TILE == 0)}"
    keys = call.block_table.numel() * call.block_size  # at most
    most_bytes = 2 * keys * call.num_kv_heads * call.head_dim * call.k_cache.element_size()
    return (in_block, "-DHIPBOOK_STREAM=1") if most_bytes >= STREAM_BYTES else (in_block,)


def part_floats(call: AttentionCall) -> int:
    """Scratch of one part: P.V, a maximum and a sum for each head, in whole vectors of four."""
    return ceil(heads_of_slice(call.head_dim, call.ratio) * (call.head_dim + 2) / 4) * 4


def splits(call: AttentionCall, board: Shape) -> int:
    """Parts per token, kv head and slice: the number with the least estimated time.

    The estimate counts rounds of workgroups on the board's compute units, each as long as a part's
    tiles and its start. It knows an upper bound of the keys: the block table's width.
    """
    units = max(1, call.total_q * call.num_kv_heads * slices(call.head_dim, call.ratio))
    mma = takes_matrix_units(call, board.arch)
    resident = RESIDENT_MMA[call.head_dim] if mma else RESIDENT_ROWS
    batch = MERGE_BATCH_MMA if mma else MERGE_BATCH_ROWS
    places = board.compute_units * resident
    tiles = max(1, ceil(call.block_table.shape[1] * call.block_size / TILE))
    least = waves(call, board.arch)  # tiles of a part that keep its waves busy

    values = heads_of_slice(call.head_dim, call.ratio) * call.head_dim
    merge_rounds = ceil(values / (4 * least * 32))  # four values a lane

    def cost(parts: int) -> int:
        each = ceil(ceil(tiles / parts) / least) * least
        merge = MERGE_TILES * ceil(parts / batch) * merge_rounds if parts > 1 else 0
        return ceil(units * parts / places) * (each + START_TILES) + merge

    most = max(1, min(MAX_SPLITS, ceil(tiles / least)))
    return min(range(1, most + 1), key=lambda parts: (cost(parts), parts))


def check_tickets(args: list[Arg]) -> None:
    """The next launch needs tickets of zero; KernelFault when this one left others behind."""
    for arg in args:
        if isinstance(arg, Buffer) and arg.name == "tickets" and bool(arg.tensor.any()):
            left = arg.tensor.nonzero()
            raise KernelFault(
                f"split_kv left ticket {int(left[0])} at {int(arg.tensor[left[0]])}, "
                f"and {len(left)} of {arg.tensor.numel()} not at zero",
                fix="the workgroup that merges a row sets its ticket back for the next launch",
            )


_scratch: dict[tuple[torch.device, int], tuple[torch.Tensor, torch.Tensor]] = {}


def scratch_args(call: AttentionCall, parts: int, *, fresh: bool) -> list[Arg]:
    """The kernel's extra arguments: partial results, tickets (zeros, and zeros again afterwards), parts.

    `fresh` allocates them for this launch; otherwise they are kept for the next launch on the same
    stream, so that a timed launch is one kernel and nothing else.
    """
    units = call.total_q * call.num_kv_heads * slices(call.head_dim, call.ratio)
    floats = units * parts * part_floats(call) if parts > 1 else 4
    device = call.q.device
    if fresh:
        partial = torch.empty(floats, dtype=torch.float32, device=device)
        tickets = torch.zeros(units, dtype=torch.int32, device=device)
    else:
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        partial, tickets = _scratch.get((device, stream), (None, None))
        if partial is None or partial.numel() < floats or tickets.numel() < units:
            partial = torch.empty(floats, dtype=torch.float32, device=device)
            tickets = torch.zeros(units, dtype=torch.int32, device=device)
            _scratch[device, stream] = partial, tickets
    return [Buffer("partial", partial, "w"), Buffer("tickets", tickets, "rw"), np.int32(parts)]
