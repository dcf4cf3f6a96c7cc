"""GDN post-conv: the contract, the arms, the wrapper.

    conv           f32 | bf16  [T, 2 Hk Dk + Hv Dv]  a row q | k | v; last stride 1, any row stride
    a_raw, b_raw   conv's      [T, Hv]               last stride 1, any row stride, each its own
    a_log, dt_bias f32         [Hv]                  contiguous
    q, k           conv's      [T, Hk, Dk]           v [T, Hv, Dv]         results, contiguous
    g, beta        f32         [T, Hv]

q and k are divided by sqrt(sum of squares + 1e-6) per head, v is copied; x = a + dt_bias rounded to f32,
softplus(x) = x if x > 20 else log1p(exp(x)), g = -exp(a_log) softplus(x), beta = 1 / (1 + exp(-b)).
A head whose sum of squares passes f32's range comes out as zeros.
The contract: docs/contracts.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import gcd
from typing import Any

import numpy as np
import torch

from hipbook import boards
from hipbook.boards.base import Board, Dim3, Dispatch
from hipbook.errors import BadArgument, Refused
from hipbook.ops import validate
from hipbook.ops.one_launch import OneLaunch, Output

SOURCE = "gdn_post_conv/gdn_post_conv.hip"  # under kernels/
DTYPE_NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
FLAGS = ("-ffp-contract=off",)  # serial and chunked are byte-identical
MAX_WORKGROUPS = 1 << 20
MAX_WAVE_DK = 1024  # a wave keeps a head in registers
INPUTS = ("conv", "a_raw", "b_raw", "a_log", "dt_bias")


@dataclass(frozen=True, eq=False)
class PostConvCall:
    """Arguments of one call, under the contract's names; sizes that shapes do not say by name."""

    conv: torch.Tensor
    a_raw: torch.Tensor
    b_raw: torch.Tensor
    a_log: torch.Tensor
    dt_bias: torch.Tensor
    num_k_heads: int
    dk: int
    dv: int

    @property
    def tokens(self) -> int:
        return self.conv.shape[0]

    @property
    def num_v_heads(self) -> int:
        return self.a_log.shape[0]

    @property
    def v_width(self) -> int:
        return self.num_v_heads * self.dv


@dataclass(frozen=True, eq=False)
class PostConvOutputs:
    """q, k [T, Hk, Dk], v [T, Hv, Dv] of conv's dtype; g, beta f32 [T, Hv]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor
    beta: torch.Tensor

    def named(self) -> dict[str, torch.Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def output_shapes(call: PostConvCall) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """name -> (shape, dtype) of each result."""
    heads = (call.tokens, call.num_k_heads, call.dk), call.conv.dtype
    gates = (call.tokens, call.num_v_heads), torch.float32
    v = (call.tokens, call.num_v_heads, call.dv), call.conv.dtype
    return {"q": heads, "k": heads, "v": v, "g": gates, "beta": gates}


@dataclass(frozen=True)
class Arm:
    """One way of computing the operation. `items(call, wave_size, vector)` are a token's pieces of work,
    one a thread, or one a wave when `by_wave`."""

    name: str
    idea: str
    witness: int
    items: Callable[[PostConvCall, int, int], int]
    by_wave: bool = False

    @property
    def kernel(self) -> str:
        return f"gdn_post_conv_{self.name}"

    def flags(self, call: PostConvCall, vector: int) -> tuple[str, ...]:
        """Build macros of the specialisation that serves `call`; the board adds the wave width."""
        flags = [
            *FLAGS,
            f"-DHIPBOOK_T={DTYPE_NAMES[call.conv.dtype]}",
            f"-DHIPBOOK_ARM_{self.name.upper()}=1",
        ]
        if self.by_wave:
            flags += [f"-DHIPBOOK_DK={call.dk}", f"-DHIPBOOK_VECTOR={vector}"]
        return tuple(flags)

    def geometry(self, call: PostConvCall, wave_size: int, vector: int) -> tuple[Dim3, Dim3]:
        """(workgroups, work-items), on x alone."""
        items = call.tokens * self.items(call, wave_size, vector)
        waves = gcd(items, 4)  # as many waves, up to four, as leave none without work
        each, threads = (waves, waves * wave_size) if self.by_wave else (128, 128)
        return (min(-(-items // each), MAX_WORKGROUPS), 1, 1), (threads, 1, 1)

    def supports(self, call: PostConvCall) -> str:
        """ "", or why this arm does not serve `call`."""
        if self.by_wave and call.dk > MAX_WAVE_DK:
            return f"{self.name} serves dk up to {MAX_WAVE_DK}, got {call.dk}"
        return ""


ARMS = {
    arm.name: arm
    for arm in (
        Arm("serial", "one thread a head, one for V and gates", 0x10, lambda c, w, n: c.num_k_heads + 1),
        Arm(
            "chunked",
            "V shared out among threads",
            0x20,
            lambda c, w, n: c.num_k_heads + -(-c.v_width // c.dk) + 1,
        ),
        Arm(
            "wave",
            "one wave a head, a stretch of V, or the gates",
            0x30,
            lambda c, w, n: 2 * c.num_k_heads + -(-c.v_width // (w * n)) + -(-c.num_v_heads // w),
            by_wave=True,
        ),
    )
}


def vector_elements(call: PostConvCall, outputs: PostConvOutputs) -> int:
    """Elements a vector may have: the largest power of two, up to 16 bytes, that each head and row of
    conv, q, k and v starts at a multiple of."""
    size = call.conv.element_size()
    steps = [call.dk * size, call.v_width * size, call.conv.data_ptr()]
    steps += [call.conv.stride(0) * size] if call.tokens > 1 else []
    steps += [tensor.data_ptr() for tensor in (outputs.q, outputs.k, outputs.v)]
    return gcd(16, *steps) // size


@dataclass(frozen=True, eq=False)
class PostConvResult:
    """`dispatch` is None when there was no token. `witness`: every workgroup's code, None: unchecked."""

    outputs: PostConvOutputs
    arm: str
    witness: int | None
    dispatch: Dispatch | None


def run_call(
    call: PostConvCall,
    *,
    arm: str = "auto",
    board: Board | str | None = None,
    out: PostConvOutputs | None = None,
    checked: bool = True,
    **launch_options: Any,
) -> PostConvResult:
    """Compute `call` with `arm` ("auto": wave, or chunked where wave does not serve) on `board`.

    Results land in `out`, or in fresh tensors. `checked` launches into poisoned outputs and verifies every
    workgroup's witness and that every value was written before it touches `out`. Raises `BadArgument`,
    `Refused` when the arm asked for does not serve the call, `KernelFault` when the launch misbehaves.
    """
    where = boards.get(board)
    validate.boolean("checked", checked)
    check_arguments(call, out, where.torch_device)
    chosen = _resolve(call, arm)
    shapes = {name: Output(*what) for name, what in output_shapes(call).items()}
    launch = OneLaunch(where, shapes, None if out is None else out.named(), checked=checked)
    if not call.tokens:
        return PostConvResult(PostConvOutputs(**launch.handed_over()), chosen.name, None, None)
    vector = vector_elements(call, PostConvOutputs(**launch.results))
    geometry = chosen.geometry(call, where.wave_size, vector)
    strides = (call.conv.stride(0), call.a_raw.stride(0), call.b_raw.stride(0))
    extents = (call.tokens, call.num_k_heads, call.dk, call.num_v_heads, call.dv)
    scalars = [*map(np.int64, strides), *map(np.int32, extents)]
    inputs = {name: getattr(call, name) for name in INPUTS}
    flags = chosen.flags(call, vector)
    done = launch.run(chosen, SOURCE, flags, geometry, inputs, scalars, launch_options)
    results = PostConvOutputs(**done.results) if out is None else out
    return PostConvResult(results, chosen.name, done.witness, done.dispatch)


def _resolve(call: PostConvCall, arm: str) -> Arm:
    validate.one_of("arm", arm, ("auto", *ARMS))
    if arm == "auto":
        return ARMS["chunked" if ARMS["wave"].supports(call) else "wave"]
    if refusal := ARMS[arm].supports(call):
        raise Refused(refusal, fix='arm="auto" picks an arm that serves the call')
    return ARMS[arm]


def check_arguments(call: PostConvCall, out: PostConvOutputs | None, device: torch.device) -> None:
    """`BadArgument` for what breaks the contract; looks at no element."""
    for name, value, kind in (("call", call, PostConvCall), ("out", out, PostConvOutputs)):
        if not isinstance(value, kind) and (name, value) != ("out", None):
            word = type(value).__name__
            raise BadArgument(name, word, f"must be a {kind.__name__}", fix=f"make a {kind.__name__}")
    for name in ("num_k_heads", "dk", "dv"):
        validate.integer(name, getattr(call, name), 1)
    for name, rank in (("a_log", 1), ("dt_bias", 1)):
        validate.tensor(name, getattr(call, name), (torch.float32,), rank, device)
        validate.contiguous(name, getattr(call, name))
    validate.tensor("conv", call.conv, tuple(DTYPE_NAMES), 2, device)
    heads = validate.integer("a_log.shape[0]", call.num_v_heads, 1)
    validate.shape("dt_bias", call.dt_bias, (heads,), "one a V head, as a_log")
    width = 2 * call.num_k_heads * call.dk + call.v_width
    validate.integer("2 Hk Dk + Hv Dv", width, 1)
    validate.shape("conv", call.conv, (call.tokens, width), "2 Hk Dk + Hv Dv values a token")
    for name in ("a_raw", "b_raw"):
        tensor = getattr(call, name)
        validate.tensor(name, tensor, (call.conv.dtype,), 2, device)
        validate.shape(name, tensor, (call.tokens, heads), "a row a token, a value a V head")
    inputs = {name: getattr(call, name) for name in INPUTS}
    for name in ("conv", "a_raw", "b_raw"):
        validate.last_stride_one(name, inputs[name])
    if out is None:
        return
    given = out.named()
    for name, (shape, dtype) in output_shapes(call).items():
        validate.tensor(f"out.{name}", given[name], (dtype,), len(shape), device)
        validate.shape(f"out.{name}", given[name], shape, "the contract's")
        validate.contiguous(f"out.{name}", given[name])
        validate.writable(f"out.{name}", given[name])
        others = inputs | {f"out.{other}": given[other] for other in given if other < name}
        for other, tensor in others.items():
            validate.apart(f"out.{name}", given[name], other, tensor)
