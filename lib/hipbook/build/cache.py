"""Built code objects on disk, found by content.

Layout: <cache>/code/<key>/<headers>/{<name>.hsaco, record.json}. The key covers everything known
before a compile (source, flags, architecture, toolchain); which headers a source reads is known only
after, so each entry under a key lists the files it read with their hashes, and is a hit when they
still hold. Entries are written beside their place and renamed, so readers in other processes see all
or nothing; two that build the same keep the first. The least recently used go when the cap is passed.

A limit: a header that newly appears in front of another in the search order is not noticed.
"""

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from hipbook import paths
from hipbook.errors import BadArgument, HipbookError

LIMIT_BYTES = 1 << 30  # $HIPBOOK_CODE_CACHE_MB overrides
_KEEP_SECONDS = 15 * 60  # an entry used this recently may be about to be read
_TRIM_EVERY = 50  # stores of one process
_stores = 0

Record = dict[str, Any]


def folder() -> Path:
    return paths.cache() / "code"


def _workplaces() -> Path:
    return paths.cache() / "code.new"


def limit_bytes() -> int:
    override = os.environ.get("HIPBOOK_CODE_CACHE_MB")
    if not override:
        return LIMIT_BYTES
    if not override.isdecimal():
        raise BadArgument("HIPBOOK_CODE_CACHE_MB", override, "a whole number of megabytes, at least 0")
    return int(override) << 20


def digest(*parts: str | bytes) -> str:
    """A hash of `parts` with their boundaries."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def file_digest(path: Path) -> str | None:
    """sha256 of a file, None when it cannot be read; remembered while size and time stay the same."""
    try:
        stat = path.stat()
        return _file_digest(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=8192)
def _file_digest(path: Path, inode: int, size: int, mtime_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def find(key: str, base: Path) -> tuple[Path, Record] | None:
    """(file, record) of an entry under `key` whose files, relative ones seen from `base`, still hold."""
    try:
        entries = sorted((folder() / key).iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    except OSError:
        return None
    for entry in entries:
        try:
            record = json.loads((entry / "record.json").read_text())
            path = entry / record["file"]
            holds = all(file_digest(base / name) == was for name, was in record["read"].items())
            if not holds or hashlib.sha256(path.read_bytes()).hexdigest() != record["sha256"]:
                continue
            os.utime(entry)
        except PermissionError:
            pass  # a cache shared read-only still serves
        except (OSError, ValueError, KeyError, TypeError):
            continue  # half deleted or damaged: built again
        return path, record
    return None


def workplace() -> Path:
    """A fresh folder on the cache's own disk, so that the finished entry can be renamed into place."""
    limit_bytes()  # a cap that is no number is refused before the compiler runs
    try:
        _workplaces().mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=_workplaces(), prefix="new-"))
    except OSError as error:
        raise HipbookError(
            f"the cache {paths.cache()} cannot be written: {error.strerror}",
            fix="set HIPBOOK_CACHE to a folder you can write to",
        ) from None


def store(key: str, made: Path, record: Record) -> Path:
    """Put the folder `made` (which holds record["file"]) in its place; returns where the file is now."""
    global _stores
    (made / "record.json").write_text(json.dumps(record, indent=1))
    place = folder() / key / digest(json.dumps(record["read"], sort_keys=True))[:16]
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and _damaged(place):
        shutil.rmtree(place, ignore_errors=True)
    try:
        made.rename(place)
    except OSError:
        if not (place / record["file"]).is_file():
            raise
        shutil.rmtree(made, ignore_errors=True)
    if _stores % _TRIM_EVERY == 0:
        trim()
    _stores += 1
    return place / record["file"]


def _damaged(place: Path) -> bool:
    try:
        record = json.loads((place / "record.json").read_text())
        return hashlib.sha256((place / record["file"]).read_bytes()).hexdigest() != record["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return True


def trim() -> int:
    """Remove the least recently used entries until the cap holds; returns the bytes freed."""
    now, entries, total = time.time(), [], 0
    for entry in folder().glob("*/*/"):
        try:
            size = sum(path.stat().st_size for path in entry.iterdir())
            entries.append((entry.stat().st_mtime, size, entry))
        except OSError:
            continue  # another process removed it
        total += size
    freed = 0
    for used, size, entry in sorted(entries, key=lambda item: item[0]):
        if total - freed <= limit_bytes() or now - used < _KEEP_SECONDS:
            break
        shutil.rmtree(entry, ignore_errors=True)
        with contextlib.suppress(OSError):  # other entries of the key, or a store under way
            entry.parent.rmdir()
        freed += size
    return freed
