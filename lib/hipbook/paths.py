"""Where things are: the checkout's folders and the cache."""

import os
from pathlib import Path

from hipbook.errors import HipbookError


def root() -> Path:
    """The checkout: the folder that holds kernels/, data/ and notebooks/."""
    override = os.environ.get("HIPBOOK_ROOT")
    where = Path(override) if override else Path(__file__).resolve().parents[2]
    if not (where / "kernels").is_dir():
        raise HipbookError(
            f"no kernels/ folder in {where}",
            fix="run from a checkout installed with `pip install -e .`, or set HIPBOOK_ROOT to one",
        )
    return where


def kernels() -> Path:
    return root() / "kernels"


def data() -> Path:
    return root() / "data"


def notebooks() -> Path:
    return root() / "notebooks"


def cache() -> Path:
    """Code objects and the emulator's compiled parts; `hipbook clean` empties it.

    $HIPBOOK_CACHE, else $XDG_CACHE_HOME/hipbook, else ~/.cache/hipbook.
    """
    override = os.environ.get("HIPBOOK_CACHE")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hipbook"
