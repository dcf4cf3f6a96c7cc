"""A cache of their own for tests that look into it, and a kernel small enough to compile often."""

from pathlib import Path

import pytest

SMALL = """\
#include <hip/hip_runtime.h>
#include "factor.h"
extern "C" __global__ void small(int* out) { out[threadIdx.x] = FACTOR * threadIdx.x; }
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "a cache"
    monkeypatch.setenv("HIPBOOK_CACHE", str(where))
    return where


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A source that includes factor.h beside it."""
    folder = tmp_path / "some kernels"
    folder.mkdir()
    (folder / "factor.h").write_text("#define FACTOR 3\n")
    source = folder / "small.hip"
    source.write_text(SMALL)
    return source
