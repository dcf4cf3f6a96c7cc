"""A cache that cannot be used and flags that stop the compiler early: one error each, nothing left behind."""

import pytest

from hipbook.build import build, cache
from hipbook.errors import BadArgument, BuildError, HipbookError

SOURCE = "board_check/board_check.hip"


@pytest.mark.parametrize("cap", ["banana", "-1", "1.5"])
def test_a_cap_that_is_no_number_is_refused_before_compiling(monkeypatch, tmp_path, cap):
    monkeypatch.setenv("HIPBOOK_CACHE", str(tmp_path))
    monkeypatch.setenv("HIPBOOK_CODE_CACHE_MB", cap)
    with pytest.raises(BadArgument, match="HIPBOOK_CODE_CACHE_MB"):
        cache.workplace()
    assert not list(tmp_path.rglob("*.hsaco"))


def test_a_cache_that_is_a_file_is_named_with_its_fix(monkeypatch, tmp_path):
    place = tmp_path / "cache"
    place.write_text("")
    monkeypatch.setenv("HIPBOOK_CACHE", str(place))
    with pytest.raises(HipbookError, match="cannot be written") as raised:
        cache.workplace()
    assert "HIPBOOK_CACHE" in raised.value.fix


def test_a_compiler_that_stops_early_is_no_build():
    with pytest.raises(BuildError, match="wrote no code object"):
        build(SOURCE, "gfx1200", ["-fsyntax-only"])
