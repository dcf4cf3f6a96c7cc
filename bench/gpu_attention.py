"""Paged attention on a GPU: our arms, other people's, and the memory's bound, in one process.

    python bench/gpu_attention.py [--shapes 1x38,64x4096] [--arms auto,decode_gqa] [--peers flashinfer,...]
                                  [--ratio 2] [--head-dim 128] [--dtype bf16] [--out times.json]

Decode batches of equal lengths, random block tables, block size 16. Everything is held to float64 before
and after it is timed; times are medians of CUDA-graph replays over one warm set of inputs, arms in a
seeded random order within each of several rounds. One process is one replication: run it several times.

Before a shape is timed, the caches are pushed out: a cache line the input generator has just written and
the memory does not have yet is slower to read (8 x 1024 keys took 12.7 us so, and 9.5 us afterwards).
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hipbook import boards
from hipbook.boards.base import Buffer
from hipbook.boards.gpu import GpuBoard
from hipbook.errors import HipbookError
from hipbook.ops.attention_call import DTYPES, AttentionCall
from hipbook.ops.paged_attention import prepare
from hipbook.ops.peers import PEERS
from hipbook.ops.split_kv import Shape, splits

SHAPES = "1x38,1x1024,1x4096,1x8192,8x1024,8x8192,16x1024,64x1024,64x4096,256x1024,256x4096"
GATE_NMSE = 5e-4  # the public gate, for peers too
GRAPH_US = 2000  # of work in one graph
READ_BYTES = 4 << 30


def decode_batch(
    batch: int,
    keys: int,
    *,
    kv_heads: int,
    ratio: int,
    head_dim: int,
    dtypes: tuple[torch.dtype, ...],
    seed: int,
) -> AttentionCall:
    """A decode batch on GPU 0; blocks in random order, some unused ones between them."""
    device, (q_dtype, kv_dtype, out_dtype) = torch.device("cuda", 0), dtypes
    generator = torch.Generator(device=device).manual_seed(seed)
    per = -(-keys // 16)
    blocks = batch * per + 64

    def uniform(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device).uniform_(-1.5, 1.5, generator=generator)

    table = torch.randperm(blocks, generator=generator, device=device)[: batch * per].to(torch.int32)
    q = uniform(batch, kv_heads * ratio, head_dim, dtype=q_dtype)
    return AttentionCall(
        q=q,
        k_cache=uniform(blocks, 16, kv_heads, head_dim, dtype=kv_dtype),
        v_cache=uniform(blocks, 16, kv_heads, head_dim, dtype=kv_dtype),
        block_table=table.view(batch, per).contiguous(),
        seq_lens=torch.full((batch,), keys, dtype=torch.int32, device=device),
        query_start_loc=torch.arange(batch + 1, dtype=torch.int32, device=device),
        scale=head_dim**-0.5,
        out=torch.empty(q.shape, dtype=out_dtype, device=device),
    )


def exact(call: AttentionCall, request: int) -> torch.Tensor:
    """The row of `request` in float64: a formula of its own, for batches too large for the oracle."""
    keys = int(call.seq_lens[request])
    at = call.block_table[request, : -(-keys // 16)].long()
    k, v = (
        c[at].reshape(-1, call.num_kv_heads, call.head_dim)[:keys].double()
        for c in (call.k_cache, call.v_cache)
    )
    q = call.q[request].double().view(call.num_kv_heads, call.ratio, call.head_dim)
    weights = torch.softmax(call.scale * torch.einsum("hrd,khd->hrk", q, k), -1)
    return torch.einsum("hrk,khd->hrd", weights, v).reshape(call.num_q_heads, call.head_dim)


def worst_row_nmse(call: AttentionCall, run: Callable[[], None]) -> float:
    """Poison, run, compare a few rows; NaN (never passing) where a value was left unwritten."""
    call.out.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    rows = sorted({0, call.total_q // 2, call.total_q - 1})
    errors = []
    for row in rows:
        want = exact(call, row)
        errors.append(float(((call.out[row].double() - want) ** 2).sum() / (want**2).sum()))
    return max(errors) if torch.isfinite(call.out).all() else float("nan")


class Timed:
    """A captured graph of as many launches as take about GRAPH_US."""

    def __init__(self, run: Callable[[], None]) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        with torch.cuda.stream(stream):
            run()  # compiles, loads
            once = self._between(run)
            self.launches = max(1, min(100, int(GRAPH_US / max(once, 1.0))))
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                for _ in range(self.launches):
                    run()
        self.replay_us()

    def _between(self, run: Callable[[], None]) -> float:
        self.events[0].record()
        run()
        self.events[1].record()
        torch.cuda.synchronize()
        return self.events[0].elapsed_time(self.events[1]) * 1e3

    def replay_us(self) -> float:
        """Time of one launch, by device events around one replay."""
        return self._between(self.graph.replay) / self.launches


def push_out() -> None:
    """Write and read far more than the last-level cache holds."""
    other = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        other.view(torch.int64).sum()
    torch.cuda.synchronize()
    time.sleep(0.05)  # what is left to write back is written when nothing else runs


def read_bandwidth(board: GpuBoard) -> tuple[float, dict[str, float]]:
    """(best, all) in TB/s: every read kernel over READ_BYTES of memory (kernels/bandwidth/read.hip)."""
    data = torch.empty(READ_BYTES // 4, dtype=torch.int32, device=board.torch_device).fill_(1)
    sink = torch.zeros(1, dtype=torch.int32, device=board.torch_device)
    code = board.build("bandwidth/read.hip")
    found = {}
    for kernel in code.kernels:
        for threads in (256, 512):
            for per_unit in (4, 16, 64):
                grid = (board.compute_units * per_unit, 1, 1)
                args = [Buffer("data", data), np.int64(READ_BYTES // 16), Buffer("sink", sink, "rw")]
                timed = Timed(board.prepare(code, kernel, grid, (threads, 1, 1), args))
                us = statistics.median(timed.replay_us() for _ in range(7))
                found[f"{kernel}/{threads}x{per_unit}"] = READ_BYTES / us / 1e6
    return max(found.values()), found


def measure(
    call: AttentionCall, runs: dict[str, Callable[[], None]], rounds: int, seed: int
) -> dict[str, Any]:
    """{name: {"us": [...], "nmse": ...}}, or {"skipped": why} for what failed its check."""
    result: dict[str, Any] = {}
    timed = {}
    for name, run in runs.items():
        try:
            nmse = worst_row_nmse(call, run)
            if not nmse <= GATE_NMSE:
                result[name] = {"skipped": f"wrong: row NMSE {nmse:.2e}"}
                continue
            timed[name] = Timed(run)
            result[name] = {"us": [], "nmse": nmse}
        except Exception as error:  # a peer that fails must not end the others' measurement
            result[name] = {"skipped": f"{type(error).__name__}: {str(error)[:200]}"}
    push_out()
    order = random.Random(seed)
    for _ in range(rounds):
        names = list(timed)
        order.shuffle(names)
        for name in names:
            timed[name].replay_us()  # the caches are this arm's again
            result[name]["us"].append(timed[name].replay_us())
    for name in timed:
        after = worst_row_nmse(call, runs[name])
        if not after <= GATE_NMSE:
            result[name] = {"skipped": f"wrong after timing: row NMSE {after:.2e}"}
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--arms", default="auto,decode_gqa")
    parser.add_argument("--peers", default="flashinfer,flashinfer_tc,vllm_2d,vllm_unified")
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--ratio", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--dtype", default="bf16", help="bf16, or q,kv,out")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    board = boards.get("nvidia-0" if torch.version.cuda else "amd-0")
    names = options.dtype.split(",")
    dtypes = tuple(DTYPES[name] for name in (names * 3 if len(names) == 1 else names))
    read_tb_s, reads = read_bandwidth(board)
    told: dict[str, Any] = {
        "board": board.identity(), "state": board.state(), "read_tb_s": read_tb_s, "reads_tb_s": reads,
        "options": {**vars(options), "out": str(options.out)}, "shapes": {},
    }  # fmt: skip
    print(f"{told['board']['product']}: reads {read_tb_s:.3f} TB/s")
    for shape in options.shapes.split(","):
        batch, keys = map(int, shape.split("x"))
        call = decode_batch(
            batch, keys, kv_heads=options.kv_heads, ratio=options.ratio, head_dim=options.head_dim,
            dtypes=dtypes, seed=options.seed,
        )  # fmt: skip
        runs, skipped = {}, {}
        for name in filter(None, options.arms.split(",")):
            try:
                runs[name] = prepare(call, arm=name, board=board)
            except HipbookError as error:
                skipped[name] = {"skipped": error.what}
        for name in filter(None, options.peers.split(",")):
            peer = PEERS[name]
            reason = peer.why_not(call)
            if reason:
                skipped[name] = {"skipped": reason}
            else:
                runs[name] = peer.prepare(replace(call))
        row = {**measure(call, runs, options.rounds, options.seed), **skipped}
        row_bytes = 2 * batch * keys * options.kv_heads * options.head_dim * dtypes[1].itemsize
        told["shapes"][shape] = {
            "bytes": row_bytes, "floor_us": row_bytes / read_tb_s / 1e6,
            "splits": splits(call, Shape(board.arch, board.compute_units)), "arms": row,
        }  # fmt: skip
        said = [
            f"{name} {statistics.median(found['us']):.2f}"
            if "us" in found
            else f"{name} -- ({found['skipped']})"
            for name, found in row.items()
        ]
        print(
            f"{shape:>9} floor {told['shapes'][shape]['floor_us']:7.2f} us | " + " | ".join(said), flush=True
        )
        del runs, call
        torch.cuda.empty_cache()
    told["state_after"] = board.state()
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(told, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
