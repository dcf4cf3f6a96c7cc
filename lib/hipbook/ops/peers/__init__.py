"""Other people's paged attention, measured beside ours: vLLM's two kernels, FlashInfer, torch's SDPA; and
tiled_ref, our own Triton kernel in vLLM's 2D arithmetic.

A peer is an arm like any other to whoever measures: it says why it cannot run a call, and prepares a
function that runs it into call.out, to be held to the oracle first. None of their code is in this tree;
each module finds what is installed or pointed to and says so when nothing is.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hipbook.ops import tiled_ref
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.peers import flashinfer, sdpa, vllm


@dataclass(frozen=True)
class Peer:
    """`why_not(call)`: empty, or why this machine or this peer cannot run `call`. `prepare(call)`: a
    function that computes call.out (set by the caller) on torch's current stream, everything that is
    done once per batch already done. `what`: what is measured, for a record."""

    name: str
    what: str
    why_not: Callable[[AttentionCall], str]
    prepare: Callable[[AttentionCall], Callable[[], None]]


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("vllm_2d", "vLLM's kernel_paged_attention_2d", vllm.why_not, vllm.prepare_2d),
        Peer("vllm_unified", "vLLM's unified_attention, 2D or 3D", vllm.why_not, vllm.prepare_unified),
        Peer(
            "flashinfer",
            "FlashInfer's batch decode on vector units, planned for these lengths",
            flashinfer.why_not_vector,
            lambda call: flashinfer.prepare(call, tensor_cores=False),
        ),
        Peer(
            "flashinfer_tc",
            "FlashInfer's batch decode on tensor cores, planned for these lengths",
            flashinfer.why_not,
            lambda call: flashinfer.prepare(call, tensor_cores=True),
        ),
        Peer("tiled_ref", "our Triton kernel in vLLM's 2D arithmetic", tiled_ref.why_not, tiled_ref.prepare),
        Peer("sdpa", "torch's SDPA on K and V gathered beforehand", sdpa.why_not, sdpa.prepare),
    )
}
