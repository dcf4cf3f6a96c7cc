"""What hipbook keeps outside the checkout, and how to get rid of it.

Everything is under `paths.cache()`. Built code objects have a cap and drop the least recently used; the
emulator's compiled parts are a few files per version. Locks stay: another run may be holding one.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from hipbook import paths

KEPT = frozenset({"locks"})


@dataclass(frozen=True)
class Part:
    """One folder of the cache; `cap_bytes` is the size it keeps itself under, None for no cap."""

    path: Path
    size_bytes: int
    cap_bytes: int | None


def parts() -> list[Part]:
    """The folders in the cache, by name."""
    from hipbook.build import cache as code_cache

    root = paths.cache()
    found = sorted(p for p in root.iterdir() if p.name not in KEPT) if root.is_dir() else []
    return [
        Part(path, _size(path), code_cache.limit_bytes() if path == code_cache.folder() else None)
        for path in found
    ]


def _size(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.lstat().st_size for file in files if file.is_file() or file.is_symlink())


def empty(part: Part) -> None:
    """Remove a part of the cache; what is in use is made again when it is needed."""
    if part.path.is_dir() and not part.path.is_symlink():
        shutil.rmtree(part.path, ignore_errors=True)
    else:
        part.path.unlink(missing_ok=True)
