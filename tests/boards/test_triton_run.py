"""Any Triton kernel on the emulated board: compiled here, executed, counted; what does not fit is refused."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from hipbook.boards.base import Buffer
from hipbook.boards.triton_run import run_triton
from hipbook.build.triton_kernels import Argument, compile_triton
from hipbook.errors import BadArgument, BuildError, KernelFault


@triton.jit
def scaled_sum(x, y, out, n, factor, BLOCK: tl.constexpr = 128):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, factor * (tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)), mask=i < n)


@triton.jit
def product(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def past_the_end(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def nonsense(x, out):
    tl.store(out, tl.no_such_function(x))


def test_a_kernel_computes_and_is_counted():
    x, y, out = torch.rand(1000), torch.rand(1000).bfloat16(), torch.empty(1000)
    done = run_triton(scaled_sum, (8,), x=x, y=y, out=Buffer("out", out, "w"), n=1000, factor=0.5)
    assert torch.equal(out, 0.5 * (x + y.float()))
    assert done.unwritten == {"out": 0}
    assert done.counters.buffers["x"].bytes_read == 4000
    assert done.counters.totals["SQ_WAVES"] == 8 * 4
    assert done.code_object.compiler == f"triton {triton.__version__}"
    assert done.code_object.arch == "gfx1200"


def test_an_address_that_is_not_aligned_is_not_taken_for_one():
    x, out = torch.rand(1001)[1:], torch.empty(1003)[3:]
    run_triton(scaled_sum, (8,), x=x, y=x, out=out, n=np.int64(1000), factor=np.float32(1), BLOCK=128)
    assert torch.equal(out, x + x)


def test_matrix_units():
    a, b = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    out = torch.empty(32, 32)
    done = run_triton(product, (1,), a=a, b=b, out=out, N=32)
    assert torch.allclose(out, a.float() @ b.float(), atol=1e-4)
    assert done.counters.opcodes["V_WMMA_F32_16X16X16_F16"] > 0


def test_a_kernel_that_reads_past_its_tensor_is_stopped():
    with pytest.raises(KernelFault, match="out-of-bounds"):
        run_triton(past_the_end, (1,), x=torch.rand(100), out=torch.empty(128), BLOCK=128)


def test_what_does_not_fit_is_refused_before_anything_runs():
    x = torch.rand(8)
    for arguments, word in (
        ({"x": x, "y": x, "out": x, "n": 8}, "factor"),
        ({"x": x, "y": x, "out": x, "n": 8, "factor": 1.0, "size": 3}, "size"),
        ({"x": x, "y": x, "out": x, "n": "8", "factor": 1.0}, "n = "),
        ({"x": x.to(torch.complex64), "y": x, "out": x, "n": 8, "factor": 1.0}, "complex64"),
    ):
        with pytest.raises(BadArgument, match=word):
            run_triton(scaled_sum, (1,), **arguments)
    good = {"x": x, "y": x, "out": x, "n": 8, "factor": 1.0}
    with pytest.raises(BadArgument, match="grid"):
        run_triton(scaled_sum, (1, 1, 1, 1), **good)
    with pytest.raises(BadArgument, match=r"triton\.jit"):
        run_triton(print, (1,), **good)
    with pytest.raises(BuildError, match="no_such_function"):
        run_triton(nonsense, (1,), x=1.0, out=x)
    types = {"x": Argument("*fp32"), "out": Argument("*fp32")}
    with pytest.raises(BadArgument, match="32 lanes"):
        compile_triton(past_the_end, "gfx942", types, {"BLOCK": 16})


def test_other_boards_have_their_own_machine_code():
    x, out = torch.rand(100), torch.empty(100)
    for name in ("gfx1100-emu", "gfx1201-emu"):
        done = run_triton(scaled_sum, (1,), board=name, x=x, y=x, out=out, n=100, factor=1.0)
        assert torch.equal(out, x + x)
        assert done.code_object.arch == name.removesuffix("-emu")
