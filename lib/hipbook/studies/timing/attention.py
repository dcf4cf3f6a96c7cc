"""Decode batches of paged attention: our arms and other people's kernels on the same inputs.

Parameters: `shapes` ("64x4096" is 64 requests of 4096 keys), `kv_heads`, `ratio`, `head_dim`, `dtype`
("bf16", or "q,kv,out"), `seed`. Block size 16, random block tables, blocks nobody uses between them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from hipbook.boards.gpu import GpuBoard
from hipbook.errors import BadArgument, HipbookError
from hipbook.ops.attention_call import DTYPES, AttentionCall
from hipbook.ops.attention_ladder import ALL_ARMS
from hipbook.ops.paged_attention import prepare, run_call
from hipbook.ops.peers import PEERS
from hipbook.studies.timing.suite import Candidate, Case, Parameters, Suite

GATE_NMSE = 5e-4  # the public gate, for peers too
BLOCK_SIZE = 16
SPARE_BLOCKS = 64


def batch_and_keys(shape: str) -> tuple[int, int]:
    """(8, 1024) of "8x1024"."""
    batch, cross, keys = shape.partition("x")
    if not (cross and batch.isdecimal() and keys.isdecimal() and int(batch) and int(keys)):
        raise BadArgument("shapes", shape, "requests x keys, both at least 1", fix="write it as 8x1024")
    return int(batch), int(keys)


def decode_batch(shape: str, parameters: Parameters, device: torch.device) -> AttentionCall:
    """One token for each of `batch` requests of `keys` keys each, made on `device`."""
    batch, keys = batch_and_keys(shape)
    names = str(parameters["dtype"]).split(",")
    q_dtype, kv_dtype, out_dtype = (DTYPES[name] for name in (names * 3 if len(names) == 1 else names))
    kv_heads, head_dim = parameters["kv_heads"], parameters["head_dim"]
    generator = torch.Generator(device=device).manual_seed(parameters["seed"])
    per = -(-keys // BLOCK_SIZE)
    blocks = batch * per + SPARE_BLOCKS

    def uniform(*extents: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(extents, dtype=dtype, device=device).uniform_(-1.5, 1.5, generator=generator)

    table = torch.randperm(blocks, generator=generator, device=device)[: batch * per].to(torch.int32)
    q = uniform(batch, kv_heads * parameters["ratio"], head_dim, dtype=q_dtype)
    return AttentionCall(
        q=q,
        k_cache=uniform(blocks, BLOCK_SIZE, kv_heads, head_dim, dtype=kv_dtype),
        v_cache=uniform(blocks, BLOCK_SIZE, kv_heads, head_dim, dtype=kv_dtype),
        block_table=table.view(batch, per).contiguous(),
        seq_lens=torch.full((batch,), keys, dtype=torch.int32, device=device),
        query_start_loc=torch.arange(batch + 1, dtype=torch.int32, device=device),
        scale=head_dim**-0.5,
        out=torch.empty(q.shape, dtype=out_dtype, device=device),
    )


def exact_row(call: AttentionCall, request: int) -> torch.Tensor:
    """The row of `request` in float64 [Hq, D]: the oracle's sum on the board, where the caches lie."""
    keys = int(call.seq_lens[request])
    at = call.block_table[request, : -(-keys // call.block_size)].long()
    k, v = (
        c[at].reshape(-1, call.num_kv_heads, call.head_dim)[:keys].double()
        for c in (call.k_cache, call.v_cache)
    )
    q = call.q[request].double().view(call.num_kv_heads, call.ratio, call.head_dim)
    weights = torch.softmax(call.scale * torch.einsum("hrd,khd->hrk", q, k), -1)
    return torch.einsum("hrk,khd->hrd", weights, v).reshape(call.num_q_heads, call.head_dim)


def why_wrong(call: AttentionCall, run: Callable[[], None]) -> str:
    """Poison, run, hold three requests' rows to float64: "" or what is wrong."""
    call.out.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    if not torch.isfinite(call.out).all():
        return "a value was left unwritten, or is not finite"
    for row in sorted({0, call.total_q // 2, call.total_q - 1}):
        want = exact_row(call, row)
        nmse = float(((call.out[row].double() - want) ** 2).sum() / (want**2).sum())
        if not nmse <= GATE_NMSE:
            return f"row {row}: NMSE {nmse:.2e}, at most {GATE_NMSE:.0e}"
    return ""


def open_case(name: str, parameters: Parameters, arms: Sequence[str], board: GpuBoard) -> Case:
    call = decode_batch(name, parameters, board.torch_device)
    batch, keys = batch_and_keys(name)
    candidates: dict[str, Candidate] = {}
    absent: dict[str, str] = {}
    for arm in arms:
        if arm in PEERS:
            reason = PEERS[arm].why_not(call)
            if reason:
                absent[arm] = reason
                continue
            run = PEERS[arm].prepare(replace(call))
            candidates[arm] = _candidate(call, run, PEERS[arm].what, None)
            continue
        if arm != "auto" and arm not in ALL_ARMS:
            raise BadArgument("arms", arm, f"auto, {', '.join([*ALL_ARMS, *PEERS])}")
        try:
            run = prepare(call, arm=arm, board=board)
            checked = run_call(call, arm=arm, board=board)  # its tables, its witness
        except HipbookError as error:
            absent[arm] = error.what
            continue
        candidates[arm] = _candidate(call, run, checked.dispatch.kernel, checked.witness)
    moved = 2 * batch * keys * call.num_kv_heads * call.head_dim * call.k_cache.element_size()
    return Case(name, moved, "read", candidates, absent)


def _candidate(call: AttentionCall, run: Callable[[], None], kernel: str, witness: int | None) -> Candidate:
    return Candidate(run, lambda: why_wrong(call, run), kernel, witness)


SUITE = Suite("paged_attention", lambda parameters: list(parameters["shapes"]), open_case)
