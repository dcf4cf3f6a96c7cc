"""The 14 families of inputs that broke real implementations, by name and seed.

Each is a function of (randoms, shape) that gives a few small calls; the list and its numbers are
those of docs/contracts.md. `make(family, seed, ...)` gives the same bytes on every machine.
Block tables are random everywhere, dead slots hold something loud, and `coverage` says which
lengths, block sizes, strides and row kinds a set of calls holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from hipbook.errors import BadArgument
from hipbook.ops.attention_call import DTYPE_NAMES, AttentionCall
from hipbook.oracle.caches import Layout
from hipbook.oracle.drafts import Shape, draft, place, requests_for
from hipbook.oracle.randoms import Randoms

NAN = float("nan")
HEAD_DIMS_8 = (32, 64, 80, 96, 100, 160, 192)
RATIOS_10 = tuple(range(1, 17))
BLOCK_SIZES_11 = (1, 16, 17, 544, 1056, 1568)
INT32_MAX = 2**31 - 1

Calls = list[AttentionCall]


def nan_slots(r: Randoms, s: Shape) -> Calls:
    """Every slot at or past seq_len, every unused block and all padding hold NaN."""
    n = min(s.block_size, 16)
    requests = requests_for(s.row_kind, (1, n, n + 1, 2 * n + 3) if s.row_kind != "prefill" else (1, n + 2))
    return [place(r, draft(r, s, requests), dead=NAN, pad_tokens=2)]


def empty_rows(r: Randoms, s: Shape) -> Calls:
    """Rows without keys among live ones, only such rows, requests without tokens, no tokens at all."""
    kind = requests_for(s.row_kind, (7, 18), chunk=2)
    count = 1 if s.row_kind == "decode" else 3
    mixed = [(count, 0), kind[0], (0, 5), (count, 0), kind[1], (0, 0)]
    return [
        place(r, draft(r, s, mixed), dead=NAN, pad_tokens=1),
        place(r, draft(r, s, [(count, 0)] * 3), dead=NAN, table_tail=(-1, INT32_MAX)),
        place(r, draft(r, s, [(0, 4), (0, 0)]), pad_tokens=2),  # nothing but padding
        place(r, draft(r, s, [(0, 4), (0, 0)])),  # total_q = 0
        place(r, draft(r, s, [])),  # and no request either
    ]


def windows(r: Randoms, s: Shape) -> Calls:
    """Windows below a tile, past a chunk's context, at their exact edge, to the right, and huge."""
    k = s.row_kind
    small = {"decode": [(1, 40)], "chunked": [(3, 40)], "prefill": [(12, 12)]}[k]
    # the last token's first key, 50, lies past the context of 40
    past = {"decode": [(1, 61)], "chunked": [(21, 61)], "prefill": [(14, 14)]}[k]
    both = requests_for(k, (9, 20) if k != "prefill" else (9,))
    return [
        place(r, draft(r, s, small, window_left=5), dead=NAN),
        place(r, draft(r, s, past, window_left=3 if k == "prefill" else 10)),
        _oldest_key_matters(r, s, window=7),
        place(r, draft(r, s, both, window_left=0)),
        place(r, draft(r, s, both, causal=False, window_left=3, window_right=2)),
        place(r, draft(r, s, both, causal=False, window_left=INT32_MAX, window_right=INT32_MAX)),
    ]


def _oldest_key_matters(r: Randoms, s: Shape, window: int) -> AttentionCall:
    """seq_len W, W + 1, W + 2: the oldest key in the window takes nearly all the weight, and the key
    just before it would take it all if it were let in."""
    values = draft(r, s, requests_for(s.row_kind, (window, window + 1, window + 2)), window_left=window)
    group = s.num_q_heads // s.num_kv_heads
    direction = r.uniform(s.num_kv_heads, s.head_dim).sign()
    values.q = 0.25 * values.q + direction.repeat_interleave(group, dim=0)
    for k in values.k:
        oldest = k.shape[0] - 1 - window
        if oldest >= 0:
            k[oldest] = direction
        if oldest >= 1:
            k[oldest - 1] = 2 * direction
    return place(r, values)


def sparse_pool(r: Randoms, s: Shape) -> Calls:
    """A request at the top of a pool whose offsets pass 2^31 elements, beside one at its bottom."""
    layout = Layout(order="interleaved", sparse=True)
    stride = 2 * s.block_size * s.num_kv_heads * s.head_dim
    blocks = 2**31 // stride + 9
    top, bottom = blocks - 1 - r.permutation(8), r.permutation(8)
    lens = (17, 3, 20) if s.row_kind != "prefill" else (9, 3, 5)
    values = draft(r, s, requests_for(s.row_kind, lens))
    counts = [-(-n // s.block_size) for n in lens]
    pool = torch.cat([top[: counts[0]], bottom[: counts[1]], top[counts[0] : counts[0] + counts[2]]])
    return [place(r, values, layout=layout, pool=pool, num_blocks=blocks)]


def block_ids_16bit(r: Randoms, s: Shape) -> Calls:
    """Block ids 65535, 65536 and 65537 in one sequence, in an order of their own."""
    ids = torch.tensor([65535, 65536, 65537])[r.permutation(3)]
    size = min(s.block_size, 16)
    shape = replace(s, block_size=size)
    last = 2 * size + 1
    requests = {"decode": [(1, last)], "chunked": [(2, last)], "prefill": [(last, last)]}[s.row_kind]
    more = {"window_left": 4} if s.row_kind == "prefill" else {}
    values = draft(r, shape, requests, **more)
    return [place(r, values, layout=Layout(sparse=True), pool=ids, num_blocks=65538)]


def strides(r: Randoms, s: Shape) -> Calls:
    """Interleaved K and V, padded heads and slots, K and V apart, heads first, a wide table."""
    layouts = (
        Layout(order="interleaved"),
        Layout(head_pad=8, slot_pad=16),
        Layout(v_slot_pad=24),
        Layout(order="heads_first", head_pad=8),
        Layout(order="interleaved", head_pad=16, slot_pad=8),
        Layout(v_head_pad=8),
    )
    lens = (5, 19) if s.row_kind != "prefill" else (7,)
    return [
        place(r, draft(r, s, requests_for(s.row_kind, lens)), layout=layout, dead=NAN, table_stride_pad=3)
        for layout in layouts
    ]


def table_padding(r: Randoms, s: Shape) -> Calls:
    """The table's tail holds -1 and ids outside the cache, under live and under empty requests."""
    lens = (1, 16, 17, 30) if s.row_kind != "prefill" else (1, 8)
    requests = [*requests_for(s.row_kind, lens), (0, 40), (1, 0)]
    tail = (-1, 1_000_000, INT32_MAX, -(2**31), 40)
    return [place(r, draft(r, s, requests), table_tail=tail, table_stride_pad=pad) for pad in (0, 5)]


def head_dims(r: Randoms, s: Shape) -> Calls:
    """Head sizes that fill no wave evenly (32, 80, 96, 100, 160, 192) and 64; the caller picks one."""
    lens = (1, 18) if s.row_kind != "prefill" else (8,)
    layouts = (Layout(), Layout(order="interleaved"))
    return [place(r, draft(r, s, requests_for(s.row_kind, lens)), layout=x, dead=NAN) for x in layouts]


def few_keys(r: Randoms, s: Shape) -> Calls:
    """One key, fewer keys than waves or splits, and values of 1e4."""
    lens = (1, 2, 3, 5, 7, 8, 9) if s.row_kind != "prefill" else (1, 2, 3, 5)
    plain = draft(r, s, requests_for(s.row_kind, lens, chunk=2))
    large = draft(r, s, requests_for(s.row_kind, lens[::-1], chunk=2))
    large.v = [1e4 / 1.5 * v for v in large.v]
    return [place(r, plain, dead=NAN), place(r, large)]


def gqa_contexts(r: Randoms, s: Shape) -> Calls:
    """255, 256 and 257 keys, each kv head's V with a size of its own.

    Prefill rows at these contexts see a short window only, for whole prefixes would take seconds.
    """
    scalars: dict[str, object] = {}
    requests = {"decode": [(1, 255), (1, 256), (1, 257)], "chunked": [(2, 256), (1, 257)]}.get(s.row_kind)
    if requests is None:
        requests, scalars = [(257 if s.num_q_heads <= 8 else 65,) * 2], {"window_left": 2}
    values = draft(r, s, requests, **scalars)
    size = 1 + torch.arange(s.num_kv_heads) / s.num_kv_heads
    values.v = [v * size[:, None] for v in values.v]
    return [place(r, values)]


def block_sizes(r: Randoms, s: Shape) -> Calls:
    """Blocks of 1, 16, 17, 544, 1056 and 1568 slots, a few keys on either side of a block's end."""
    calls = []
    for size in BLOCK_SIZES_11:
        shape = replace(s, block_size=size)
        if size <= 17:
            lens = (size + 1, 19) if s.row_kind != "prefill" else (size + 1,)
            calls.append(place(r, draft(r, shape, requests_for(s.row_kind, lens)), dead=NAN))
            continue
        # the window keeps the row short while it still crosses from one block into the next
        query = {"decode": 1, "chunked": 3, "prefill": 2}[s.row_kind]
        requests = [(query, size + 2), (1, 4)]
        calls.append(place(r, draft(r, shape, requests, window_left=6)))
    return calls


def rounding_extremes(r: Randoms, s: Shape) -> Calls:
    """Ties in the output's rounding, -0.0, subnormals, scores of +-1e4, with and without a soft cap."""
    return [
        _ties(r, s),
        _zeros_and_subnormals(r, s),
        _large_scores(r, s, mixed=True),
        _large_scores(r, s, mixed=False),
        _large_scores(r, s, mixed=True, soft_cap=30.0),
    ]


def _ties(r: Randoms, s: Shape) -> AttentionCall:
    """Outputs that lie exactly between two bf16 (and two f16) values, odd and even ones below.

    One key (where V's dtype can hold the tie), and two or four equal keys whose mean is the tie:
    1 + m 2^-8 for odd m lies between bf16 neighbours, 1 + m 2^-11 between f16 ones.
    """
    values = draft(r, s, [(1, n) for n in (1, 2, 4, 2)])
    step = 2.0**-11 if s.out_dtype is torch.float16 else 2.0**-8
    odd = 2.0 * torch.arange(s.head_dim) + 1
    tie = (1 + odd % 64 * step) * torch.where(odd % 3 == 0, -1.0, 1.0)
    for k, v in zip(values.k, values.v, strict=True):
        k[:] = k[:1]
        v[:] = tie
        v[0::2] += step if v.shape[0] > 1 else 0.0
        v[1::2] -= step
    return place(r, values)


def _zeros_and_subnormals(r: Randoms, s: Shape) -> AttentionCall:
    """-0.0 in q, K and V; subnormal q and K; columns of subnormal V beside ordinary ones."""
    lens = (1, 2, 11) if s.row_kind != "prefill" else (1, 7)
    values = draft(r, s, requests_for(s.row_kind, lens))
    tiny = 2.0**-17 if s.kv_dtype is torch.float16 else 2.0**-129
    values.q[:, :, 0::4] = -0.0
    values.q[:, :, 1::8] *= 2.0**-17 if s.q_dtype is torch.float16 else 2.0**-129
    for k, v in zip(values.k, values.v, strict=True):
        k[:, :, 2::8] *= tiny
        k[:, :, 3::8] = -0.0
        v[:, :, 1::4] *= tiny
        v[:, :, 2::8] = -0.0
    return place(r, values)


def _large_scores(r: Randoms, s: Shape, *, mixed: bool, soft_cap: float = 0.0) -> AttentionCall:
    """Scores near +-1e4 (mixed), or all near -1e4: an exp without the maximum taken off overflows,
    or vanishes altogether."""
    lens = (2, 10) if s.row_kind != "prefill" else (7,)
    values = draft(r, s, requests_for(s.row_kind, lens), soft_cap=soft_cap)
    size = (1e4 / s.head_dim**0.5) ** 0.5
    direction = size * r.uniform(s.num_kv_heads, s.head_dim).sign()
    values.q = (1 + 0.01 * values.q) * direction.repeat_interleave(s.num_q_heads // s.num_kv_heads, dim=0)
    for k in values.k:
        sign = torch.where(torch.arange(k.shape[0]) % 3 == 0, 1.0, -1.0) if mixed else -torch.ones(k.shape[0])
        k[:] = sign[:, None, None] * direction * (1 + 0.001 * k)
    return place(r, values)


def mixed_batch(r: Randoms, s: Shape) -> Calls:
    """Decode rows, chunked-prefill rows and full prefill in one batch, padding behind; the shape's
    row kind comes first."""
    kinds = {"decode": [(1, 33), (1, 16)], "chunked": [(3, 21)], "prefill": [(9, 9)]}
    order = [s.row_kind, *(kind for kind in kinds if kind != s.row_kind)]
    requests = [request for kind in order for request in kinds[kind]]
    capped = {"soft_cap": 4.0}
    return [
        place(r, draft(r, s, requests), dead=NAN, pad_tokens=3),
        place(r, draft(r, s, requests[::-1], **capped), pad_tokens=1),
    ]


def misaligned(r: Randoms, s: Shape) -> Calls:
    """q, K, V, out, or all of them start at an odd element; strides that are odd; the last call is
    aligned, so that arms which refuse the others have something to be right about."""
    lens = (3, 18) if s.row_kind != "prefill" else (6,)
    requests = requests_for(s.row_kind, lens)
    variants: tuple[dict[str, object], ...] = (
        {"q_start": 1},
        {"layout": Layout(start=(1, 0))},
        {"layout": Layout(start=(0, 3))},
        {"out_start": 1},
        {"q_start": 3, "out_start": 1, "layout": Layout(start=(1, 1))},
        {"layout": Layout(head_pad=1, slot_pad=1)},
        {"out_start": 0},
    )
    return [place(r, draft(r, s, requests), **variant) for variant in variants]


@dataclass(frozen=True)
class Family:
    number: int  # in docs/contracts.md
    name: str
    build: Callable[[Randoms, Shape], Calls]

    @property
    def what(self) -> str:
        return " ".join(self.build.__doc__.split("\n\n")[0].split())


_IN_ORDER = (
    nan_slots, empty_rows, windows, sparse_pool, block_ids_16bit, strides, table_padding, head_dims,
    few_keys, gqa_contexts, block_sizes, rounding_extremes, mixed_batch, misaligned,
)  # fmt: skip
FAMILIES: Mapping[str, Family] = {
    build.__name__: Family(number, build.__name__, build) for number, build in enumerate(_IN_ORDER, start=1)
}


def find(family: str | int) -> Family:
    """A family by name, or by its number in docs/contracts.md."""
    for candidate in FAMILIES.values():
        if family in (candidate.name, candidate.number):
            return candidate
    raise BadArgument("family", family, f"must be 1 .. {len(FAMILIES)} or one of: {', '.join(FAMILIES)}")


def make(family: str | int, seed: int, **shape: object) -> Calls:
    """The calls of a family for `Shape(**shape)`. The same arguments give the same bytes everywhere.

    The values do not depend on the output's dtype, so that arms and output dtypes can be compared
    on the same inputs.
    """
    found, wanted = find(family), Shape(**shape)
    key = {**vars(wanted), "out_dtype": None}
    words = {name: DTYPE_NAMES.get(value, value) for name, value in key.items()}
    return found.build(Randoms(found.name, seed, sorted(words.items(), key=str)), wanted)


def coverage(calls: Calls) -> dict[str, list[object]]:
    """What a set of calls holds, for printing: distinct values of each property, sorted."""
    seen: dict[str, set] = {}

    def note(name: str, *values: object) -> None:
        seen.setdefault(name, set()).update(values)

    for call in calls:
        counts = call.query_start_loc.diff().tolist()
        lens = call.seq_lens.tolist()
        note("seq_len", *(n for n, count in zip(lens, counts, strict=True) if count))
        note("query_len", *counts)
        note("row kind", *(_row_kind(count, n) for count, n in zip(counts, lens, strict=True)))
        note("padding tokens", call.total_q - int(call.query_start_loc[-1]))
        note("dtypes q/kv/out", "/".join(DTYPE_NAMES[dtype] for dtype in call.dtypes))
        note("head_dim", call.head_dim)
        note("ratio", call.ratio)
        note("kv heads", call.num_kv_heads)
        note("block_size", call.block_size)
        contiguous = call.block_size * call.num_kv_heads * call.head_dim
        note(
            "block stride / contiguous",
            *(round(c.stride(0) / contiguous, 2) for c in (call.k_cache, call.v_cache)),
        )
        note("K and V strides", "equal" if call.k_cache.stride() == call.v_cache.stride() else "different")
        note("window", (call.window_left, call.window_right))
        note("soft_cap", call.soft_cap)
        note("causal", call.causal)
        note("start of k (bytes past 16)", call.k_cache.data_ptr() % 16)
        live = _live_blocks(call, counts, lens)
        note("block table", "identity" if live and live == list(range(len(live))) else "random")
    return {
        name: sorted(values, key=lambda value: (str(type(value)), value)) for name, values in seen.items()
    }


def _live_blocks(call: AttentionCall, counts: list[int], lens: list[int]) -> list[int]:
    """Block ids of the requests that own tokens, in the order of the tables."""
    used = [-(-n // call.block_size) if count else 0 for n, count in zip(lens, counts, strict=True)]
    return [block for row, n in enumerate(used) for block in call.block_table[row, :n].tolist()]


def _row_kind(query_len: int, seq_len: int) -> str:
    if query_len == 0:
        return "no tokens"
    if seq_len == 0:
        return "no keys"
    if query_len == 1:
        return "decode"
    return "prefill" if query_len == seq_len else "chunked"
