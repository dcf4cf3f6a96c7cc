"""The code objects of shared/emulator-cases: results and counts that do not come from this emulator."""

import json

import numpy as np
import pytest
import torch

from hipbook import paths
from hipbook.boards import Buffer
from hipbook.build import load

CASES = paths.root().parent / "shared" / "emulator-cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/emulator-cases is not here")
OUTPUTS = ("out", "sums", "hist", "votes")


@pytest.fixture(scope="module")
def case(board):
    """case(name, **options) -> (arrays of the .npz, outputs of the run, dispatch, facts)"""

    def run(name: str, **options):
        facts = json.loads((CASES / "cases.json").read_text())[name]
        arrays = dict(np.load(CASES / f"{name}.npz"))
        outputs, args = {}, []
        for arg in facts["args"]:
            if isinstance(arg, int | float):
                args.append(np.int32(arg) if isinstance(arg, int) else np.float32(arg))
            elif arg not in arrays:
                args.append(None)
            else:
                values = np.zeros_like(arrays[arg]) if arg in OUTPUTS else arrays[arg]
                signed = values.view(values.dtype.str.replace("u", "i"))
                tensor = torch.from_numpy(signed.copy())
                if arg in OUTPUTS:
                    outputs[arg] = tensor.numpy().view(values.dtype)
                access = "rw" if arg == "hist" else "w" if arg in OUTPUTS else "r"
                args.append(Buffer(arg, tensor, access))
        code_object = load(CASES / f"{name}.hsaco")
        grid, block = tuple(facts["grid"]), tuple(facts["block"])
        done = board.launch(
            code_object, facts["kernel"], grid, block, args, lds_bytes=facts.get("dynamic_lds", 0), **options
        )
        return arrays, outputs, done, facts

    return run


def assert_counts(done, facts) -> None:
    assert done.counters.totals["SQ_INSTS"] == facts["wave_instructions"]
    assert done.counters.opcodes == facts["opcodes"]


def test_ints(case):
    arrays, outputs, done, facts = case("ints")
    assert np.array_equal(outputs["out"], arrays["out"])
    assert_counts(done, facts)
    assert done.unwritten == {"out": 0}


def test_reduce(case):
    arrays, outputs, done, facts = case("reduce")
    assert np.array_equal(outputs["hist"], arrays["hist"])
    assert np.array_equal(outputs["votes"], arrays["votes"])
    assert np.abs(outputs["sums"] - arrays["sums"]).max() < 1e-6
    assert_counts(done, facts)


def float64_attention(arrays: dict[str, np.ndarray], block_size: int, scale: float) -> np.ndarray:
    q, k, v = ((arrays[n].astype(np.uint32) << 16).view(np.float32).astype(np.float64) for n in "qkv")
    out = np.zeros_like(q)
    for request, length in enumerate(arrays["seq_lens"]):
        rows = [(arrays["block_table"][request, j // block_size], j % block_size) for j in range(length)]
        keys, values = (np.stack([x[b, s] for b, s in rows]) for x in (k, v))
        scores = scale * np.einsum("hd,jhd->hj", q[request], keys)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[request] = np.einsum("hj,jhd->hd", weights / weights.sum(axis=1, keepdims=True), values)
    return out


def test_attention(case):
    arrays, outputs, done, facts = case("attention")
    got = (outputs["out"].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    want = float64_attention(arrays, facts["args"][7], facts["args"][9])
    assert ((got - want) ** 2).sum() / (want**2).sum() < 1e-5
    assert np.array_equal(outputs["out"], arrays["out"])  # and bit for bit what the other emulator computed
    assert_counts(done, facts)


def test_math_to_a_few_ulp_subnormals_kept(case):
    arrays, outputs, _, _ = case("math")
    got, want = outputs["out"].reshape(12, -1), arrays["out"].reshape(12, -1)
    subnormals = 0
    for row, (x, y) in enumerate(zip(got, want, strict=True)):
        assert np.array_equal(np.isnan(x), np.isnan(y)), row
        fine = ~np.isnan(y)
        apart = np.abs(x[fine].view(np.int32).astype(np.int64) - y[fine].view(np.int32))
        assert apart[x[fine] != y[fine]].max(initial=0) <= 2, row
        subnormals += int(((np.abs(y[fine]) < np.finfo(np.float32).tiny) & (y[fine] != 0)).sum())
    assert subnormals > 0


def test_softmax_matmul(case):
    arrays, outputs, done, _ = case("softmax_matmul")
    a, b = ((arrays[n].astype(np.uint32) << 16).view(np.float32).astype(np.float64) for n in "ab")
    scores = a @ b
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    assert np.abs(outputs["out"] - weights / weights.sum(axis=1, keepdims=True)).max() < 1e-3
    assert done.counters.opcodes["V_WMMA_F32_16X16X16_BF16"] == 2 * 8


@pytest.mark.parametrize("name", ["ints", "reduce", "attention", "math", "softmax_matmul"])
def test_threads_seeds_and_checks_change_nothing(case, name):
    results = set()
    for options in (
        {"threads": 1},
        {"threads": 3, "wave_order_seed": 5},
        {"checks": False, "wave_order_seed": 9},
    ):
        _, outputs, done, _ = case(name, **options)
        results.add(
            b"".join(outputs[n].tobytes() for n in outputs)
            + repr(sorted(done.counters.totals.items())).encode()
        )
    assert len(results) == 1
