"""Small HIP programs with known answers, built and compared with the host, on RDNA4 and RDNA3."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hipbook import boards
from hipbook.boards import Buffer

SOURCE = Path(__file__).parent / "known.hip"


@pytest.fixture(params=["gfx1200-emu", "gfx1100-emu"])
def go(request):
    """go(kernel, grid, block, *tensors and numbers): the last tensor is written, the others are read."""
    board = boards.get(request.param)
    built = board.build(SOURCE, [])

    def run(kernel, grid, block, *args, access="w"):
        last = max(n for n, arg in enumerate(args) if isinstance(arg, torch.Tensor))
        wrapped = [
            Buffer(f"arg{n}", arg, access if n == last else "r")
            if isinstance(arg, torch.Tensor)
            else np.int32(arg)
            for n, arg in enumerate(args)
        ]
        board.launch(built, kernel, (grid, 1, 1), (block, 1, 1), wrapped)
        return args[last]

    return run


def ulps(got: np.ndarray, want: np.ndarray) -> int:
    """Units in the last place between f32 arrays of equal signs."""
    return int(np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32)).max())


def test_softmax(go):
    x = torch.randn(5, 777, generator=torch.Generator().manual_seed(1)) * 20
    x[2] = 1e4 * torch.sign(x[2])
    x[3] = -3e38
    got = go("softmax", 5, 256, x, torch.zeros(5, 777), 777)
    want = torch.softmax(x.double(), 1)
    assert (got.double() - want).abs().max() < 1e-6
    assert (got.double().sum(1) - 1).abs().max() < 1e-5
    assert got[3].unique().numel() == 1


def pairs(dtype: type, exponents: list[int]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    tiny = {np.float32: -149, np.float64: -1074}[dtype]
    scales = np.array([2.0**e for e in (tiny, tiny + 9, *exponents)])
    p, q = np.meshgrid(scales, scales)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -3], dtype)
    a = np.concatenate([(rng.uniform(1, 2, p.size) * p.ravel()).astype(dtype), np.repeat(special, 7)])
    b = np.concatenate([(rng.uniform(1, 2, q.size) * q.ravel()).astype(dtype), np.tile(special, 7)])
    size = -(-a.size // 64) * 64
    return np.resize(a, size), np.resize(b, size)


@pytest.mark.parametrize(
    ("kernel", "dtype", "exponents"),
    [("divide", np.float32, [-126, -100, -1, 0, 60, 100, 125, 127]),
     ("divide_doubles", np.float64, [-1022, -900, -1, 0, 500, 900, 1021, 1023])],
)  # fmt: skip
def test_division_edges(go, kernel, dtype, exponents):
    """To the bit: subnormal, huge and special operands and quotients."""
    with np.errstate(all="ignore"):
        a, b = pairs(dtype, exponents)
        want = a / b
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    got = go(kernel, a.size // 64, 64, x, y, torch.zeros_like(x)).numpy()
    unsigned = f"u{a.itemsize}"
    assert ((got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))).all()


def test_functions_over_their_range(go):
    """exp, log, sqrt and tanh of f32 against float64: what the device library promises, in units in the last
    place, subnormal arguments and results among them."""
    rng = np.random.default_rng(9)
    x = np.concatenate([
        rng.uniform(-104, 89, 2000), rng.uniform(-1, 1, 500), 2.0 ** rng.uniform(-149, 127, 2000),
        [0.0, -0.0, 88.72, 88.73, -103.9, -104.1, -87.4, 1e-45, 1.1754942e-38, 3.4e38, 1.0],
        [np.inf, -np.inf, np.nan],
    ]).astype(np.float32)  # fmt: skip
    x = np.resize(x, -(-x.size // 64) * 64)
    out = go("functions", x.size // 64, 64, torch.from_numpy(x), torch.zeros(4 * x.size), x.size)
    exact = x.astype(np.float64)
    with np.errstate(all="ignore"):
        wants = (np.exp(exact), np.log(np.abs(exact)), np.sqrt(np.abs(exact)), np.tanh(exact))
        for got, want, most in zip(out.numpy().reshape(4, -1), wants, (2, 2, 1, 5), strict=True):
            want = want.astype(np.float32)
            both = np.isfinite(got) & np.isfinite(want)
            assert (np.isnan(got) == np.isnan(want)).all()
            assert (got[np.isinf(want)] == want[np.isinf(want)]).all()
            assert ulps(got[both], want[both]) <= most


def test_64_bit_arithmetic(go):
    edges = [
        0,
        1,
        2,
        3,
        7,
        (1 << 32) - 1,
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        10**18,
        0x123456789ABCDEF0,
    ]
    rng = np.random.default_rng(2)
    a = [x for x in edges for _ in edges] + [int(x) for x in rng.integers(0, 1 << 63, 48)]
    b = [y for _ in edges for y in edges] + [
        int(y) >> int(s) for y, s in zip(rng.integers(0, 1 << 63, 48), range(48), strict=True)
    ]
    n, m64 = len(a), (1 << 64) - 1
    x, y = (torch.from_numpy(np.array(v, np.uint64).view(np.int64)) for v in (a, b))
    out = (
        go("wide", n // 64, 64, x, y, torch.zeros(8 * n, dtype=torch.int64), n)
        .numpy()
        .view(np.uint64)
        .reshape(8, n)
    )

    def signed(v: int) -> int:
        return v - (v >> 63 << 64)

    for i, (p, q) in enumerate(zip(a, b, strict=True)):
        s, t = signed(p), signed(q)
        quotient = 0
        if q and not (p == 1 << 63 and q == m64):
            quotient = abs(s) // abs(t) * (1 if (s < 0) == (t < 0) else -1)
        want = [
            p + q,
            p * q,
            p * q >> 64,
            p // q if q else 0,
            p % q if q else 0,
            p << q % 64,
            s >> q % 64,
            quotient,
        ]
        assert [int(v) for v in out[:, i]] == [v & m64 for v in want], (p, q)


def test_a_sorting_network(go):
    x = torch.randint(-(1 << 31), (1 << 31) - 1, (6, 256), generator=torch.Generator().manual_seed(3)).int()
    x[1] = 7
    want = x.sort(dim=1).values
    assert torch.equal(go("sort", 6, 256, x, access="rw"), want)
