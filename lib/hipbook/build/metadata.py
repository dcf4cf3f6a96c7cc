"""The metadata note of an AMD code object: a msgpack document.

A reader of its own because the note uses msgpack's maps, arrays, strings, integers and booleans only, and
the file is untrusted: every length is checked against the bytes left, and nesting is bounded.
"""

import struct
from typing import Any

_MAX_DEPTH = 16
_FIXED = {  # first byte -> struct format of a scalar
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {  # first byte -> (kind, struct format of its length)
    0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
    0xD9: ("str", ">B"), 0xDA: ("str", ">H"), 0xDB: ("str", ">I"),
    0xDC: ("array", ">H"), 0xDD: ("array", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip


def unpack(data: bytes) -> Any:
    """The one value `data` holds. Raises ValueError when it is truncated or not msgpack."""
    value, end = _value(data, 0, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes after the document")
    return value


def _take(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    if count > len(data) - at:
        raise ValueError(f"truncated at byte {at}: {count} bytes wanted, {len(data) - at} left")
    return data[at : at + count], at + count


def _number(data: bytes, at: int, form: str) -> tuple[Any, int]:
    raw, at = _take(data, at, struct.calcsize(form))
    return struct.unpack(form, raw)[0], at


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH}")
    (first,), at = _take(data, at, 1)
    if first < 0x80:
        return first, at
    if first >= 0xE0:
        return first - 0x100, at
    if first in _CONSTANTS:
        return _CONSTANTS[first], at
    if first in _FIXED:
        return _number(data, at, _FIXED[first])
    if first < 0x90:
        kind, length = "map", first & 0x0F
    elif first < 0xA0:
        kind, length = "array", first & 0x0F
    elif first < 0xC0:
        kind, length = "str", first & 0x1F
    elif first in _LENGTHS:
        kind, form = _LENGTHS[first]
        length, at = _number(data, at, form)
    else:
        raise ValueError(f"byte {first:#04x} is not a type of this document")
    return _container(data, at, depth, kind, length)


def _container(data: bytes, at: int, depth: int, kind: str, length: int) -> tuple[Any, int]:
    if kind in ("str", "bytes"):
        raw, at = _take(data, at, length)
        return (raw.decode("utf-8") if kind == "str" else raw), at
    if length > len(data) - at:  # each element takes a byte at least
        raise ValueError(f"a {kind} of {length} in {len(data) - at} bytes")
    items = []
    for _ in range(length * (2 if kind == "map" else 1)):
        item, at = _value(data, at, depth + 1)
        items.append(item)
    if kind == "array":
        return items, at
    keys = items[::2]
    if not all(isinstance(key, str) for key in keys):
        raise ValueError("a map key is not a string")
    return dict(zip(keys, items[1::2], strict=True)), at
