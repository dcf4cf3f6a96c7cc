"""The peers' adapters without a GPU and without the peers: what they hand over, and why they decline."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch

from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.peers import PEERS, flashinfer, plain, sdpa, vllm
from hipbook.oracle.paged_attention import compare, reference


def batch(lens: tuple[int, ...] = (37, 16, 1), d: int = 64, ratio: int = 2) -> AttentionCall:
    torch.manual_seed(0)
    per, heads = 3, 2
    q = torch.rand(len(lens), heads * ratio, d).sub(0.5).bfloat16()
    return AttentionCall(
        q=q,
        k_cache=torch.rand(12, 16, heads, d).sub(0.5).bfloat16(),
        v_cache=torch.rand(12, 16, heads, d).sub(0.5).bfloat16(),
        block_table=torch.randperm(12)[: len(lens) * per].view(len(lens), per).to(torch.int32),
        seq_lens=torch.tensor(lens, dtype=torch.int32),
        query_start_loc=torch.arange(len(lens) + 1, dtype=torch.int32),
        scale=d**-0.5,
        out=torch.full_like(q, float("nan")),
    )


class OnCuda:
    """A call that claims to live on a GPU."""

    def __init__(self, call: AttentionCall) -> None:
        self.call = call

    def __getattr__(self, name: str):
        if name == "q":
            return type("Q", (), {"device": torch.device("cuda"), "element_size": self.call.q.element_size})()
        return getattr(self.call, name)


def test_every_peer_declines_a_call_on_the_host_by_name():
    for peer in PEERS.values():
        assert peer.why_not(batch()) == "peers run on GPU boards only"
        assert peer.what


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"causal": False}, "causal"),
        ({"window_left": 3}, "window"),
        ({"soft_cap": 5.0}, "soft cap"),
        ({"query_start_loc": torch.tensor([0, 2, 2, 3], dtype=torch.int32)}, "one token a request"),
        ({"seq_lens": torch.tensor([37, 0, 1], dtype=torch.int32)}, "with keys"),
        ({"k_cache": torch.zeros(12, 16, 2, 64), "v_cache": torch.zeros(12, 16, 2, 64)}, "16-bit"),
    ],
)
def test_what_peers_serve(changes, said):
    reason = plain.why_not_plain(OnCuda(replace(batch(), **changes)))
    assert said in reason
    assert bool(reason) == bool(said)


def test_sdpa_computes_what_the_oracle_does():
    call = batch((37, 37))
    sdpa.prepare(call)()
    assert compare(call.out, reference(call), padding_poisoned=False).nmse <= 5e-4
    assert "one length" in sdpa.why_not(OnCuda(batch((37, 16))))


@pytest.fixture
def fake_flashinfer(monkeypatch):
    seen = {}

    class Wrapper:
        def __init__(self, workspace, layout, use_tensor_cores):
            seen.update(layout=layout, tensor_cores=use_tensor_cores)

        def plan(self, starts, indices, last, heads, kv_heads, d, page, **types):
            seen.update(starts=starts, indices=indices, last=last, shape=(heads, kv_heads, d, page), **types)

        def run(self, q, cache, out):
            seen.update(q=q, cache=cache)
            out.fill_(1)

    module = ModuleType("flashinfer")
    module.BatchDecodeWithPagedKVCacheWrapper = Wrapper
    monkeypatch.setitem(sys.modules, "flashinfer", module)
    monkeypatch.setattr(flashinfer, "WORKSPACE_BYTES", 16)
    monkeypatch.setattr(flashinfer, "_workspaces", {})
    return seen


@pytest.mark.parametrize("tensor_cores", [False, True])
def test_flashinfer_is_planned_for_the_blocks_in_use(fake_flashinfer, tensor_cores):
    call = batch((37, 16, 1))
    run = flashinfer.prepare(call, tensor_cores=tensor_cores)
    assert fake_flashinfer["starts"].tolist() == [0, 3, 4, 5]
    assert fake_flashinfer["last"].tolist() == [5, 16, 1]
    table = call.block_table
    assert fake_flashinfer["indices"].tolist() == [*table[0].tolist(), int(table[1, 0]), int(table[2, 0])]
    assert fake_flashinfer["shape"] == (4, 2, 64, 16)
    assert (fake_flashinfer["layout"], fake_flashinfer["tensor_cores"]) == ("NHD", tensor_cores)
    assert fake_flashinfer["sm_scale"] == call.scale
    run()
    assert torch.all(call.out == 1)
    assert fake_flashinfer["cache"][1] is call.v_cache


def test_flashinfers_vector_kernel_declines_other_ratios():
    assert "ratios" in flashinfer.why_not_vector(batch(ratio=6))


KERNEL_FILE = """
import torch
from vllm import _custom_ops as ops
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.triton_utils import tl, triton
logger = init_logger(__name__)
float8 = torch.finfo(current_platform.fp8_dtype())
seen = []
"""


@pytest.fixture
def vllm_folder(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    (tmp_path / f"{vllm.FILES[0]}.py").write_text(
        KERNEL_FILE
        + "from .prefix_prefill import context_attention_fwd\n"
        + "def chunked_prefill_paged_decode(*args, **kwargs):\n"
        + "    from vllm.platforms.rocm import use_rocm_custom_paged_attention\n"
        + "    seen.append((args, kwargs, use_rocm_custom_paged_attention()))\n"
    )
    (tmp_path / f"{vllm.FILES[1]}.py").write_text(
        KERNEL_FILE + "def unified_attention(*args):\n    seen.append(args)\n"
    )
    monkeypatch.setenv("HIPBOOK_VLLM_KERNELS", str(tmp_path))
    vllm._module.cache_clear()
    yield tmp_path
    vllm._module.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


def test_vllms_2d_kernel_gets_its_own_cache_layout(vllm_folder):
    call = batch()
    vllm.prepare_2d(call)()
    ((args, kwargs, custom),) = vllm._module(vllm.FILES[0]).seen
    k, v = args[5], args[6]
    assert k.shape == (12, 2, 8, 16, 8)
    assert v.shape == (12, 2, 64, 16)
    for block, slot, head, d in ((0, 0, 0, 0), (7, 5, 1, 37), (11, 15, 1, 63)):
        assert k[block, head, d // 8, slot, d % 8] == call.k_cache[block, slot, head, d]
        assert v[block, head, d, slot] == call.v_cache[block, slot, head, d]
    assert (kwargs["sm_scale"], args[10], custom) == (call.scale, 37, False)
    assert args[3] is call.out


def test_vllms_unified_kernel_gets_the_call_as_it_is(vllm_folder):
    call = batch()
    vllm.prepare_unified(call)()
    (args,) = vllm._module(vllm.FILES[1]).seen
    assert args[:4] == (call.q, call.k_cache, call.v_cache, call.out)
    assert args[8:11] == (call.scale, True, (-1, -1))


def test_absent_kernel_files_are_named(vllm_folder, monkeypatch):
    (vllm_folder / f"{vllm.FILES[1]}.py").unlink()
    assert f"{vllm.FILES[1]}.py" in vllm._why_absent()
    monkeypatch.delenv("HIPBOOK_VLLM_KERNELS")
    assert "HIPBOOK_VLLM_KERNELS" in vllm._why_absent()
