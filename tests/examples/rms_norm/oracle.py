"""Float64 reference of RMSNorm, what correct float32 arithmetic may differ by, and inputs."""

import numpy as np
import torch

from hipbook.oracle.randoms import Randoms
from hipbook.oracle.within import U, half_ulp

FAMILIES = ("random", "small")


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """(values, bounds). A sum of n squares is n u off, relatively, its root half of that; division, eps,
    root, reciprocal and two products add at most 6 u; then the rounding to x's dtype."""
    values = x.double().numpy()
    wanted = values / np.sqrt((values**2).mean(axis=1, keepdims=True) + eps) * weight.double().numpy()
    return wanted, (x.shape[1] / 2 + 6) * U * np.abs(wanted) + half_ulp(wanted, x.dtype)


def make(
    family: str, seed: int, rows: int, width: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """(x, weight): rows lie 3 elements apart; "small" is where eps decides."""
    randoms = Randoms("rms_norm", family, seed, rows, width)
    x = torch.zeros(rows, width + 3, dtype=dtype)[:, :width]
    return x.copy_(randoms.uniform(rows, width) * (1e-3 if family == "small" else 1)), randoms.uniform(width)
