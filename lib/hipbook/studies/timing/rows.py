"""The activation quantizer and GDN post-conv on decode and prefill sizes.

Parameters: `shapes` ("1x4096" is rows x K for the quantizer, "4096" tokens for post-conv, on the reported
model's heads), `dtype`, `seed`. A case of one row does too little for a rate to bound it: the time of an
empty launch, measured beside it, is what it is compared with.
"""

from collections.abc import Sequence

import torch

from hipbook.boards.gpu import GpuBoard
from hipbook.errors import BadArgument
from hipbook.measure.device_times import prepared
from hipbook.ops import gdn_post_conv, quantize_q8k
from hipbook.ops.attention_call import DTYPES
from hipbook.ops.placement import placed
from hipbook.oracle import gdn_post_conv as post_conv_oracle
from hipbook.oracle import quantize_q8k as quantize_oracle
from hipbook.studies.timing.suite import Candidate, Case, Parameters, Suite

HEADS = (16, 128, 32, 128)  # Hk, Dk, Hv, Dv of the reported family
ONE_ROW = None  # what bounds a launch over one row
MANY_ROWS = "copy"
CHECKED_ROWS = 64  # of a large input: the oracle works on the host


def open_quantize(name: str, parameters: Parameters, arms: Sequence[str], board: GpuBoard) -> Case:
    rows, _, k = name.partition("x")
    if not (rows.isdecimal() and k.isdecimal() and int(rows) and int(k) % quantize_q8k.BLOCK == 0):
        raise BadArgument("shapes", name, "rows x K, K a multiple of 256", fix="write it as 1x4096")
    generator = torch.Generator(device=board.torch_device).manual_seed(parameters["seed"])
    x = torch.empty(int(rows), int(k), dtype=DTYPES[parameters["dtype"]], device=board.torch_device)
    x.normal_(generator=generator)
    some = sorted({*range(min(CHECKED_ROWS, int(rows))), int(rows) - 1})
    wanted = quantize_oracle.reference(x[some].cpu())
    out = torch.empty(
        int(rows), int(k) // quantize_q8k.BLOCK, quantize_q8k.BLOCK_BYTES, dtype=torch.uint8, device=x.device
    )

    def candidate(arm: str) -> Candidate:
        run = prepared(
            board, lambda where: quantize_q8k.quantize_q8k(x, arm=arm, board=where, out=out, checked=False)
        )

        def check() -> str:
            out.fill_(0xA5)
            run()
            differ = int((out[some].cpu() != wanted).sum())
            return f"{differ} of {wanted.numel()} bytes differ from the oracle's" if differ else ""

        checked = quantize_q8k.quantize_q8k(x, arm=arm, board=board)
        return Candidate(run, check, checked.dispatch.kernel, checked.witness)

    moved = x.numel() * x.element_size() + out.numel()
    bound = MANY_ROWS if int(rows) > 1 else ONE_ROW
    return Case(name, moved, bound, {arm: candidate(arm) for arm in arms})


def open_post_conv(name: str, parameters: Parameters, arms: Sequence[str], board: GpuBoard) -> Case:
    if not (name.isdecimal() and int(name)):
        raise BadArgument("shapes", name, "tokens, at least 1", fix="write it as 4096")
    host = post_conv_oracle.make(
        "random", parameters["seed"], tokens=int(name), heads=HEADS, dtype=DTYPES[parameters["dtype"]],
        layout="contiguous",
    )  # fmt: skip
    wanted = post_conv_oracle.reference(host)
    call = placed(host, board.torch_device)
    shapes = gdn_post_conv.output_shapes(call)
    out = gdn_post_conv.PostConvOutputs(
        **{
            key: torch.empty(shape, dtype=dtype, device=board.torch_device)
            for key, (shape, dtype) in shapes.items()
        }
    )

    def candidate(arm: str) -> Candidate:
        run = prepared(
            board, lambda where: gdn_post_conv.run_call(call, arm=arm, board=where, out=out, checked=False)
        )

        def check() -> str:
            for tensor in out.named().values():
                tensor.fill_(float("nan"))
            run()
            return post_conv_oracle.compare(out, wanted).why

        checked = gdn_post_conv.run_call(call, arm=arm, board=board)
        return Candidate(run, check, checked.dispatch.kernel, checked.witness)

    inputs = (call.conv, call.a_raw, call.b_raw)
    moved = sum(t.numel() * t.element_size() for t in (*inputs, *out.named().values()))
    bound = MANY_ROWS if int(name) > 1 else ONE_ROW
    return Case(name, moved, bound, {arm: candidate(arm) for arm in arms})


QUANTIZE = Suite("quantize_q8k", lambda parameters: list(parameters["shapes"]), open_quantize)
POST_CONV = Suite("gdn_post_conv", lambda parameters: list(parameters["shapes"]), open_post_conv)
