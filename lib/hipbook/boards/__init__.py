"""Anything that runs a code object: `get` a board by name, `inventory` lists them."""

from hipbook.boards.base import Arg, Board, Buffer, BufferCounts, Counters, Dim3, Dispatch
from hipbook.boards.inventory import DEFAULT, Entry, default_name, find, get, inventory, require

__all__ = [
    "DEFAULT", "Arg", "Board", "Buffer", "BufferCounts", "Counters", "Dim3", "Dispatch", "Entry",
    "default_name", "find", "get", "inventory", "require",
]  # fmt: skip
