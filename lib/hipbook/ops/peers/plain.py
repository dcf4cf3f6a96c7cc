"""What the peers have in common: they serve plain decode batches only."""

from hipbook.ops.attention_call import AttentionCall


def why_not_plain(call: AttentionCall) -> str:
    """Empty for a causal decode batch on a CUDA device: one token a request, no window, one 16-bit dtype."""
    if call.q.device.type != "cuda":
        return "peers run on GPU boards only"
    if call.total_q != call.num_reqs or call.query_start_loc.tolist() != list(range(call.num_reqs + 1)):
        return "served for decode batches only: one token a request"
    if not call.causal or call.window_left != -1 or call.window_right != -1 or call.soft_cap > 0:
        return "served for causal calls without window or soft cap only"
    if len({*call.dtypes}) != 1 or call.q.element_size() != 2:
        return "served for one 16-bit dtype throughout only"
    if int(call.seq_lens.min()) < 1:
        return "served for sequences with keys only"
    return ""
