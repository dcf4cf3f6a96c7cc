"""A board for tests of wrappers, oracle and checks: kernels are f32 torch code, not machine code.

It takes the arguments in the contract's order, computes every row with its own running softmax in
f32 (nothing of the oracle), and writes the witness of the arm its code object was built for. Subclasses
and `faults` break it in known ways.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from hipbook.boards.base import Buffer, Dispatch
from hipbook.build.code_object import CodeObject

WITNESS = {"online": 0x10, "decode": 0x20, "decode_gqa": 0x30, "split_kv": 0x40}
NAMES = [
    "q",
    "k_cache",
    "v_cache",
    "out",
    "witness",
    "block_table",
    "seq_lens",
    "query_start_loc",
    "k_block",
    "k_slot",
    "k_head",
    "v_block",
    "v_slot",
    "v_head",
    "table_stride",
    "num_reqs",
    "total_q",
    "heads",
    "kv_heads",
    "block_size",
    "causal",
    "window_left",
    "window_right",
    "scale",
    "soft_cap",
]
INT64 = NAMES[8:15]


class FakeBoard:
    """`faults`: names of deliberate errors, see `_key_range`, `_row` and `launch`."""

    name, arch, kind, wave_size = "fake", "fake", "emulated", 32
    torch_device = torch.device("cpu")

    def __init__(self, *faults: str, wave_size: int = 32) -> None:
        self.faults = set(faults)
        self.wave_size = wave_size
        self.launched: list[Dispatch] = []

    def identity(self) -> dict[str, object]:
        return {"name": self.name, "arch": self.arch, "kind": self.kind}

    def build(self, source: str, flags: Sequence[str] = ()) -> CodeObject:
        return CodeObject(
            Path("/nowhere"), self.arch, "0" * 64, Path(source), "1" * 64, tuple(flags), "fake 1.0"
        )  # fmt: skip

    def launch(self, code_object, kernel, grid, block, args, *, lds_bytes=0, **options) -> Dispatch:
        given = dict(zip(NAMES, args[: len(NAMES)], strict=True))  # split_kv's scratch follows
        for name, value in given.items():
            if isinstance(value, Buffer):
                assert value.name == name
                assert value.access == ("w" if name in ("out", "witness") else "r")
            elif value is not None:
                wanted = np.int64 if name in INT64 else np.float32 if name in NAMES[-2:] else np.int32
                assert type(value) is wanted, (name, type(value))
        a = {name: value.tensor if isinstance(value, Buffer) else value for name, value in given.items()}
        if a["witness"] is not None and "no_witness" not in self.faults:
            arm = "online" if "wrong_arm" in self.faults else kernel.removeprefix("paged_attention_")
            a["witness"][: a["witness"].numel() - ("short_witness" in self.faults)] = WITNESS[arm]
        owned = self._attend(a)
        self.launched.append(Dispatch(self.name, kernel, grid, block, lds_bytes, code_object))
        padding = a["out"][owned:].numel() * a["out"].element_size()
        unwritten = {"out": padding + 4 * ("unwritten_reported" in self.faults)}
        return Dispatch(self.name, kernel, grid, block, lds_bytes, code_object, unwritten=unwritten)

    def _attend(self, a: Mapping[str, object]) -> int:
        starts = a["query_start_loc"].tolist()
        lens = a["seq_lens"].tolist() if a["seq_lens"] is not None else []
        for r, n in enumerate(lens):
            for t in range(starts[r], starts[r + 1]):
                first, last = self._key_range(a, n - (starts[r + 1] - starts[r]) + t - starts[r], n)
                row = self._row(a, t, r, first, last) if last >= first else 0.0
                a["out"][t] = row
        if "skips_a_row" in self.faults and starts[-1]:
            from hipbook.ops.launch import poison_

            poison_(a["out"][starts[-1] - 1 : starts[-1]])
        if "writes_padding" in self.faults:
            a["out"][starts[-1] :] = 0
        return starts[-1]

    def _key_range(self, a, p, n):
        first = 0 if a["window_left"] < 0 else max(0, p - int(a["window_left"]))
        last = n - 1 if not a["causal"] else p
        if a["window_right"] >= 0:
            last = min(last, p + int(a["window_right"]))
        last = min(last, n - 1)
        if "drops_oldest_key" in self.faults and last > first:
            first += 1
        if "drops_newest_key" in self.faults and last > first:
            last -= 1
        if "reads_one_key_more" in self.faults:
            last += 1
        if "ignores_window" in self.faults:
            first = 0
        return first, last

    def _row(self, a, t, r, first, last):
        keys = torch.arange(first, last + 1)
        size = int(a["block_size"])
        blocks = a["block_table"][r][(keys // size).clamp(max=a["block_table"].shape[1] - 1)].long()
        blocks = blocks.clamp(0, a["k_cache"].shape[0] - 1)
        slots = keys % size
        if "identity_table" in self.faults:
            blocks = (keys // size) % a["k_cache"].shape[0]
        k, v = (a[name][blocks, slots].float() for name in ("k_cache", "v_cache"))  # [n, Hkv, D]
        ratio = int(a["heads"]) // int(a["kv_heads"])
        head = torch.arange(int(a["heads"])) // ratio
        if "interleaved_heads" in self.faults:
            head = torch.arange(int(a["heads"])) % int(a["kv_heads"])
        q = a["q"][t].float()  # [Hq, D]
        scale = torch.tensor(a["scale"] * (1.01 if "wrong_scale" in self.faults else 1))
        dots = torch.einsum("hd,nhd->nh", q, k[:, head])
        scores = scale * dots
        if a["soft_cap"] > 0 and "no_soft_cap" not in self.faults:
            cap = torch.tensor(a["soft_cap"])
            scores = cap * torch.tanh(scores / cap)
        if "no_max" in self.faults:
            p = torch.exp(scores)
            return (torch.einsum("nh,nhd->hd", p, v[:, head]) / p.sum(0)[:, None]).to(a["out"].dtype)
        m = torch.full_like(scores[0], -torch.inf)
        total, acc = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(len(keys)):
            new = torch.maximum(m, scores[j])
            keep, weight = torch.exp(m - new), torch.exp(scores[j] - new)
            if "no_rescale" in self.faults:
                keep = torch.ones_like(keep)
            total, m = total * keep + weight, new
            acc = acc * keep[:, None] + weight[:, None] * v[j, head]
        out = acc / total[:, None]
        if "truncates" in self.faults and a["out"].dtype == torch.bfloat16:
            return (out.contiguous().view(torch.int32) & -65536).view(torch.float32).bfloat16()
        if "rounds_twice" in self.faults:
            return out.bfloat16().to(a["out"].dtype)
        return out.to(a["out"].dtype)
