"""RMSNorm over a row: y = x / sqrt(mean(x^2) + eps) * weight, in float32, rounded once.

x       f32 | bf16  [rows, width]  last stride 1, any row stride
weight  f32         [width]
y       x's         [rows, width]
"""

from pathlib import Path

import numpy as np
import torch

from hipbook import boards
from hipbook.boards.base import Board
from hipbook.ops import validate
from hipbook.ops.one_launch import Launched, OneLaunch, Output, PlainArm

SOURCE = str(Path(__file__).with_name("rms_norm.hip"))  # in the package: a path under kernels/
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


ARMS = {"wave": PlainArm("rms_norm", "wave", 0x10)}


def flags(dtype: torch.dtype) -> tuple[str, ...]:
    return (f"-DHIPBOOK_T={next(name for name, one in DTYPES.items() if one == dtype)}",)


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    eps: float = 1e-6,
    arm: str = "auto",
    board: Board | str | None = None,
    checked: bool = True,
    **launch_options: object,
) -> Launched:
    """`results["y"]` of the launch; `BadArgument` before it, `KernelFault` when it misbehaves."""
    where = boards.get(board)
    chosen = ARMS["wave" if validate.one_of("arm", arm, ("auto", *ARMS)) == "auto" else arm]
    validate.tensor("x", x, tuple(DTYPES.values()), 2, where.torch_device)
    validate.last_stride_one("x", x)
    rows, width = (validate.integer(f"x.shape[{i}]", x.shape[i], 1) for i in range(2))
    validate.tensor("weight", weight, (torch.float32,), 1, where.torch_device)
    validate.contiguous("weight", weight)
    validate.shape("weight", weight, (width,), "one for each column of x")
    launch = OneLaunch(where, {"y": Output((rows, width), x.dtype)}, None, checked=checked)
    scalars = [np.int64(x.stride(0)), np.int32(width), np.float32(validate.real("eps", eps, least=0.0))]
    geometry, inputs = ((rows, 1, 1), (where.wave_size, 1, 1)), {"x": x, "weight": weight}
    return launch.run(chosen, SOURCE, flags(x.dtype), geometry, inputs, scalars, launch_options)
