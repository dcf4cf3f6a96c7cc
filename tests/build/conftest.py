"""A cache of their own for tests that look into it, and a kernel small enough to compile often."""

from pathlib import Path

import pytest

# Without HIP's headers (and with -nogpuinc, without clang's own for HIP) a compile takes a fifth of the time.
SMALL = """\
#include "factor.h"
extern "C" __attribute__((global)) void small(int* out) {
  out[__builtin_amdgcn_workitem_id_x()] = FACTOR * __builtin_amdgcn_workitem_id_x();
}
"""


@pytest.fixture(scope="session")
def rocm_roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rocm")


@pytest.fixture
def empty_cache(tmp_path: Path, rocm_roots: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without code objects; what is generated for the compiler is made once for all tests."""
    where = tmp_path / "a cache"
    where.mkdir()
    (where / "rocm").symlink_to(rocm_roots)
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
