"""Oracles of the Q8_K quantizer, and the inputs that tell arms apart.

`reference` is the contract in numpy's float32, an operation a line. `exact_block` is the same contract in
rational arithmetic with a rounding of its own: it shares no operation with the first, and holds it to the
rule where a float could hide a mistake (ties, subnormal d, an iscale that overflows).
The contract: docs/contracts.md.
"""

import struct
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import torch

from hipbook.ops.quantize_q8k import BLOCK, BLOCK_BYTES
from hipbook.oracle.randoms import Randoms

FLOAT_MAX = float(np.finfo(np.float32).max)
GROUP = 16
# Two above and two below, of f32 and of bf16.
SUBNORMAL_D_NEAR_TIES = tuple(
    float.fromhex(f"0x1.{digits}")
    for digits in ("1991880p-120", "9311f80p-120", "4dbc680p-120", "443bbc0p-120", "50p-121", "62p-121")
)
FAMILIES = ("random", "edges", "non_finite")


def reference(x: torch.Tensor) -> torch.Tensor:
    """uint8 [rows, K / 256, 292] of x [rows, K]; a block with a NaN or an infinity as in unchecked mode."""
    rows, k = x.shape
    values = x.to(torch.float32).cpu().numpy().reshape(rows * k // BLOCK, BLOCK)
    finite = np.isfinite(values).all(axis=1)
    first = np.argmax(np.abs(values), axis=1)  # of equals the first
    extremum = values[np.arange(len(values)), first]
    with np.errstate(all="ignore"):
        factor = np.float32(-127) / extremum
        written = finite & np.isfinite(factor)  # a zero block has an infinite factor
        factor = np.where(written, factor, np.float32(1))
        rounded = np.rint(np.where(written[:, None], values * factor[:, None], np.float32(0)))
        q = np.minimum(rounded, 127).astype(np.int8)
        d = np.where(written, np.float32(1) / factor, np.float32(0))
    d_bits = np.where(finite, d.view(np.uint32), np.uint32(0x7FC00000)).astype("<u4")
    out = np.empty((len(values), BLOCK_BYTES), dtype=np.uint8)
    out[:, :4] = d_bits[:, None].view(np.uint8)
    out[:, 4:260] = q.view(np.uint8)
    sums = q.reshape(-1, BLOCK // GROUP, GROUP).sum(axis=2, dtype=np.int64)
    out[:, 260:] = np.ascontiguousarray(sums.astype("<i2")).view(np.uint8)
    return torch.from_numpy(out.reshape(rows, k // BLOCK, BLOCK_BYTES))


def exact_block(values: list[float]) -> bytes:
    """The 292 bytes of 256 finite values, by rational arithmetic alone."""
    exact = [Fraction(value) for value in values]
    largest = max(abs(value) for value in exact)
    if not largest:
        return bytes(BLOCK_BYTES)
    extremum = next(value for value in exact if abs(value) == largest)
    factor = round_to_f32(Fraction(-127) / extremum)
    if factor is None:
        return bytes(BLOCK_BYTES)
    # round() of a Fraction is to the nearest integer, ties to even
    q = [min(127, round(round_to_f32(factor * value))) for value in exact]
    d = round_to_f32(1 / factor)
    sums = [sum(q[i : i + GROUP]) for i in range(0, BLOCK, GROUP)]
    return struct.pack("<f256b16h", float(d), *q, *sums)


def round_to_f32(value: Fraction) -> Fraction | None:
    """The nearest f32, ties to even, subnormals kept; None past the largest one."""
    if not value:
        return value
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1  # now 2^exponent <= |value| < 2^(exponent + 1)
    ulp = Fraction(2) ** max(exponent - 23, -149)
    rounded = round(value / ulp) * ulp
    return rounded if abs(rounded) < Fraction(2) ** 128 else None


def make(family: str, seed: int, *, rows: int, k: int, dtype: torch.dtype) -> torch.Tensor:
    """x [rows, K], contiguous: the family's blocks in order, again from the start when they run out.

    `seed` also turns the order, so that few blocks over many seeds meet all of them.
    """
    randoms = Randoms("quantize_q8k", family, seed, rows, k)
    blocks = rows * k // BLOCK
    if family == "random":
        x = _random(randoms, blocks).to(dtype)
    else:
        listed = dict(edge_blocks(dtype) if family == "edges" else non_finite_blocks(dtype))
        turned = np.roll(np.arange(len(listed)), -seed * blocks)
        x = torch.stack(list(listed.values()))[np.resize(turned, blocks)]
    return x.reshape(rows, k)


def _random(randoms: Randoms, blocks: int) -> torch.Tensor:
    """Uniform in [-1.5, 1.5), each block scaled by a power of two and one factor between 1 and 2."""
    scales = torch.tensor([randoms.below(17) - 8.0 for _ in range(blocks)]).exp2()
    return randoms.uniform(blocks, BLOCK) * (scales * randoms.uniform(blocks, least=1, most=2))[:, None]


def edge_blocks(dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, block [256]) of finite values of `dtype`; those the dtype cannot hold are left out."""
    for name, values in _edges():
        block = torch.from_numpy(np.asarray(values, dtype=np.float32)).to(dtype)
        if block.isfinite().all():
            yield name, block


def _edges() -> Iterator[tuple[str, np.ndarray]]:
    noise = Randoms("quantize_q8k edges").uniform(BLOCK, least=-1, most=1).numpy()

    def with_values(base: np.ndarray | float, **at: float) -> np.ndarray:
        block = np.array(np.broadcast_to(base, BLOCK), dtype=np.float32)
        for position, value in at.items():
            block[int(position[1:])] = value
        return block

    yield "zeros", with_values(0.0)
    yield "negative zeros", with_values(-0.0)
    yield "zeros of both signs", np.where(noise > 0, 0.0, -0.0)
    for position in (0, 100, 255):
        yield f"one value at {position}", with_values(0.0, **{f"_{position}": -3.0})
    # two of the largest magnitude: in a lane, in a pair of lanes, across halves, and where a tree that
    # keeps its left side meets the later index first
    for first, second in ((3, 5), (7, 8), (17, 130), (1, 128), (126, 255), (0, 255)):
        for sign in (1, -1):
            at = {f"_{first}": sign * 1.5, f"_{second}": sign * -1.5}
            yield f"opposite {first} {second} {sign}", with_values(noise, **at)
    yield "same sign twice", with_values(noise, _9=1.5, _200=1.5)
    halves = np.arange(BLOCK) % 253 - 126.5  # with a factor of 1 or -1, each is a tie
    yield "halves, factor 1", with_values(halves, _77=-127.0)
    yield "halves, factor -1", with_values(halves, _77=127.0)
    yield "all the same", with_values(2.5)
    yield "all the same, negative", with_values(-2.5)
    yield "alternating", np.where(np.arange(BLOCK) % 2, -1.0, 1.0)
    for step in (-2, -1, 0, 1, 2):  # where d becomes subnormal, and where iscale overflows
        for name, edge in (("subnormal d", 127 * 2.0**-126), ("overflow", 127 / FLOAT_MAX)):
            largest = np.float32(edge)
            for _ in range(abs(step)):
                largest = np.nextafter(largest, np.float32(np.inf if step > 0 else 0))
            yield f"{name} {step}", with_values(noise * largest, _50=largest)
    # of d: a division that rounds the quotient before it scales it to a subnormal gets these wrong by one
    for value in SUBNORMAL_D_NEAR_TIES:
        yield f"d near a tie {value.hex()}", with_values(noise * np.float32(value), _70=value)
    for name, scale in (
        ("well below subnormal d", 7e-37), ("just above overflow", 5e-37), ("below overflow", 1e-37),
        ("subnormal", 1e-40), ("the least", 1.4e-45), ("large", 60000.0), ("huge", 3e38),
    ):  # fmt: skip
        yield name, with_values(noise * np.float32(scale), _60=-scale)
    yield "the largest f32", with_values(noise * np.float32(1e38), _255=FLOAT_MAX)
    yield "the largest f16", with_values(noise * 65504, _1=-65504.0)
    yield "subnormals beside ones", with_values(noise * np.float32(1e-39), _4=1.0)
    yield "f16 subnormals", with_values(noise * 6e-5, _4=6e-5)


def non_finite_blocks(dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, block): one value that is not finite, or several, each followed by a block without."""
    noise = Randoms("quantize_q8k non-finite").uniform(BLOCK).to(dtype)
    quiet, inf = float("nan"), float("inf")
    cases = [(f"{value} at {at}", {at: value}) for value in (quiet, inf, -inf) for at in (0, 7, 8, 130, 255)]
    cases += [("NaN beside infinity", {3: inf, 200: quiet}), ("both infinities", {3: inf, 200: -inf})]
    for name, values in cases:
        block = noise.clone()
        for at, value in values.items():
            block[at] = value
        yield name, block
        yield f"after {name}", noise.roll(len(name))
    yield "all NaN", torch.full_like(noise, quiet)
    negative = torch.full_like(noise, quiet)
    yield (
        "negative NaN among zeros",
        torch.where(torch.arange(BLOCK) == 31, -negative, torch.zeros_like(noise)),
    )
