"""Bytes of a file, decompressed where it is gzip, as far as they go."""

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO


def open_bytes(path: Path) -> BinaryIO:
    """The file opened for reading; gzip is told by the first two bytes, not by the name."""
    with path.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")  # type: ignore[return-value]


def read_some(handle: BinaryIO, size: int) -> tuple[bytes, str]:
    """(up to `size` bytes, what broke). A gzip that ends early or is damaged gives what it still had.

    Fewer than `size` bytes mean the end; what broke is "" unless something did.
    """
    if not isinstance(handle, gzip.GzipFile):
        return handle.read(size), ""
    pieces, have = [], 0
    try:
        while have < size and (piece := handle.read1(min(size - have, 1 << 20))):
            pieces.append(piece)
            have += len(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return b"".join(pieces), str(error)
    return b"".join(pieces), ""
