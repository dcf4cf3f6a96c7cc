"""A call's tensors on a board's device, laid out as they were: strides and misalignment belong to a call."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch

from hipbook.errors import BadArgument

Call = TypeVar("Call")
LINE_BYTES = 128  # a tensor keeps its distance from a boundary of this many bytes


def on(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy on `device` with the same strides and the same distance from a 128-byte boundary."""
    start = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
    shift = start % LINE_BYTES
    size = tensor.untyped_storage().nbytes()
    host = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), 0, (size,), (1,))
    raw = torch.empty(size + LINE_BYTES, dtype=torch.uint8, device=device)
    shift = (shift - raw.data_ptr()) % LINE_BYTES  # a GPU's memory starts at one, a host's need not
    raw[shift : shift + size].copy_(host)
    offset = tensor.storage_offset() * tensor.element_size() + shift
    if offset % tensor.element_size():
        raise BadArgument(
            "tensor", f"at byte {offset}", f"aligned to its {tensor.element_size()}-byte element"
        )
    return torch.empty(0, dtype=tensor.dtype, device=device).set_(
        raw.untyped_storage(), offset // tensor.element_size(), tensor.shape, tensor.stride()
    )


def placed(call: Call, device: torch.device) -> Call:
    """`call` (a tensor, or a dataclass of tensors and scalars) on `device`; the same one if it is there."""
    if isinstance(call, torch.Tensor):
        return call if call.device == device else on(call, device)
    if not is_dataclass(call):
        raise BadArgument("call", type(call).__name__, "a tensor, or a dataclass of tensors and scalars")
    values: dict[str, Any] = {field.name: getattr(call, field.name) for field in fields(call)}
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    if all(value.device == device for value in tensors.values()):
        return call
    return replace(call, **{name: on(value, device) for name, value in tensors.items()})
