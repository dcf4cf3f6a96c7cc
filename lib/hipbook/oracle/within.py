"""Values held to float64 values and bounds, one tensor or several: what was compared, and the first miss."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

U = 2.0**-24  # half of float32's relative step: what one rounding may be off
SIGNIFICAND = {torch.float32: 24, torch.bfloat16: 8}  # bits; both have float32's exponents


def ulp(values: np.ndarray, bits: int) -> np.ndarray:
    """The step of a format with `bits` of significand and f32's exponents, at each value."""
    exponent = np.frexp(np.abs(values))[1] - 1  # floor(log2), -1 at zero
    exponent = np.where(values == 0, -126, np.maximum(exponent, -126))
    return np.ldexp(1.0, exponent - bits + 1)


def half_ulp(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """What rounding each value once to float32 or bfloat16 may be off."""
    return ulp(values, SIGNIFICAND[dtype]) / 2


@dataclass(frozen=True)
class Compared:
    """`why` is the first reason not to pass, "" when all passed. Nothing compared does not pass."""

    values_compared: int
    exact_compared: int  # of them, held to equality
    max_error_over_bound: float
    why: str = ""


def within(name: str, got: torch.Tensor, wanted: np.ndarray, bound: np.ndarray) -> Compared:
    """|got - wanted| <= bound, value by value; NaN is infinitely far off, a bound of 0 asks for equality."""
    if tuple(got.shape) != wanted.shape:
        return Compared(0, 0, np.inf, f"{name} is {tuple(got.shape)}, must be {wanted.shape}")
    if not wanted.size:
        return Compared(0, 0, 0.0, f"{name}: nothing was compared")
    values = got.detach().cpu().double().numpy()
    error = np.abs(values - wanted)
    error = np.where(np.isnan(error), np.inf, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(error == 0, 0.0, error / bound)
    why = ""
    if bool((over > 1).any()):
        at = tuple(int(i) for i in np.argwhere(over > 1)[0])
        off = f"{float(over[at]):.3g} times its bound off"
        why = f"{name}{list(at)}: {values[at]:.9g} is {off} {wanted[at]:.9g}; {int((over > 1).sum())} values"
    return Compared(wanted.size, int((bound == 0).sum()), float(over.max()), why)


def same_bits(name: str, got: torch.Tensor, wanted: torch.Tensor) -> Compared:
    """Equal in every bit: -0.0 is not 0.0, and a NaN is only itself."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        seen, must = f"{tuple(got.shape)} {got.dtype}", f"{tuple(wanted.shape)} {wanted.dtype}"
        return Compared(0, 0, np.inf, f"{name} is {seen}, must be {must}")
    if not wanted.numel():
        return Compared(0, 0, 0.0, f"{name}: nothing was compared")
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[wanted.element_size()]
    differ = (got.detach().cpu().contiguous().view(bits) != wanted.cpu().contiguous().view(bits)).nonzero()
    why = ""
    if len(differ):
        why = f"{name}{differ[0].tolist()} differs in its bits; {len(differ)} of {wanted.numel()} values"
    return Compared(wanted.numel(), wanted.numel(), 0.0, why)


def all_of(parts: Iterable[Compared]) -> Compared:
    """The sum; the first reason not to pass is the whole's."""
    parts = list(parts)
    return Compared(
        sum(part.values_compared for part in parts),
        sum(part.exact_compared for part in parts),
        max((part.max_error_over_bound for part in parts), default=0.0),
        next((part.why for part in parts if part.why), "" if parts else "nothing was compared"),
    )
