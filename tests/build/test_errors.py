"""One clear error each: no compiler, an old one, a failing compile, an unknown architecture."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hipbook.build import build, build_many, load, rocm_root, toolchain, toolchain_identity
from hipbook.errors import BadArgument, BuildError

ARCH = "gfx1200"


@pytest.fixture
def fake_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes PATH one folder that holds a script which answers --version with the line given."""

    def make(version: str | None, name: str = "clang++-22", rest: str = "exit 1") -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        if version is not None:
            script = folder / name
            script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit 0\n{rest}\n')
            script.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.delenv("HIPBOOK_CLANG", raising=False)
        return folder

    return make


def test_no_compiler(small: Path, fake_clang: Callable) -> None:
    fake_clang(None)
    with pytest.raises(BuildError) as caught:
        build(small, ARCH)
    for word in ("clang++-22: not found", "clang++: not found", "apt-get install clang-22", "HIPBOOK_CLANG"):
        assert word in str(caught.value)


def test_too_old(small: Path, fake_clang: Callable) -> None:
    folder = fake_clang("Debian clang version 19.1.7 (3)", "clang++")
    with pytest.raises(BuildError, match=r"19\.1\.7.*version 22 is needed") as caught:
        build(small, ARCH)
    assert str(folder / "clang++") in str(caught.value)


def test_no_linker(small: Path, fake_clang: Callable) -> None:
    fake_clang("clang version 22.1.0", rest="echo lld")
    with pytest.raises(BuildError, match="no linker"):
        build(small, ARCH)


def test_override_is_the_only_candidate(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPBOOK_CLANG", "/no/such/clang++")
    with pytest.raises(BuildError, match="/no/such/clang"):
        build(small, ARCH)


def test_conda_names_it_without_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = toolchain.pinned_clang()
    folder = tmp_path / "conda"
    folder.mkdir()
    (folder / "clang++").symlink_to(real.path)
    monkeypatch.setenv("PATH", str(folder))
    found = toolchain.pinned_clang()
    assert found.path == folder / "clang++"
    assert found.version == real.version


def test_no_wheel(small: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocm_root.importlib.util, "find_spec", lambda name: None)
    rocm_root.device_libs_identity.cache_clear()
    with pytest.raises(BuildError, match="triton wheel is not installed") as caught:
        build(small, ARCH)
    assert "pip install triton==3.7.1" in caught.value.fix


def test_failing_compile(small: Path, empty_cache: Path) -> None:
    small.write_text("#include <hip/hip_runtime.h>\n__global__ void broken() { return 1 }\n")
    with pytest.raises(BuildError) as caught:
        build(small, ARCH)
    text = str(caught.value)
    assert "small.hip:2:" in text, "the compiler's own words"
    assert "error: expected ';'" in text
    assert "--offload-arch=gfx1200" in text, "the command"
    assert str(small.parent) in text, "where it ran"
    assert "\n  fix: " in text
    assert not list((empty_cache / "code.new").iterdir()), "unfinished work was left behind"


@pytest.mark.parametrize("header", ["hip_bf16.h", "hip_fp16.h", "hip_cooperative_groups.h"])
def test_header_the_wheel_lacks(small: Path, header: str) -> None:
    small.write_text(f"#include <hip/hip_runtime.h>\n#include <hip/{header}>\n")
    with pytest.raises(BuildError, match=f"hip/{header}' file not found") as caught:
        build(small, ARCH)
    assert "__bf16 and _Float16" in caught.value.fix
    assert "ROCm" in caught.value.fix


def test_unknown_architecture(small: Path) -> None:
    for ask in (lambda: build(small, "gfx90c"), lambda: toolchain_identity("gfx90c")):
        with pytest.raises(BuildError, match="unknown architecture 'gfx90c'") as caught:
            ask()
        assert "gfx1200, gfx1201, gfx1100, gfx1151, gfx942" in caught.value.fix


def test_other_wave_width(small: Path) -> None:
    with pytest.raises(BuildError, match="waves of 64, HIPBOOK_WAVE said 32"):
        build(small, ARCH, ["-nogpuinc", "-nogpulib", "-mwavefrontsize64"])


def test_no_source() -> None:
    with pytest.raises(BuildError, match=r"no source .*kernels/no/such\.hip"):
        build("no/such.hip", ARCH)


def test_flags_in_one_string(small: Path) -> None:
    with pytest.raises(BadArgument, match="flags"):
        build(small, ARCH, "-DA -DB")


def test_failure_ends_many(small: Path) -> None:
    with pytest.raises(BuildError, match="expected"):
        build_many([(small, ARCH, ["-nogpuinc"]), (small, ARCH, ["-nogpuinc", "-Dextern=)"])], workers=1)


def test_environment_does_not_reach_the_compiler(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = build(small, ARCH, ["-nogpuinc"]).sha256
    (small.parent / "elsewhere").mkdir()
    (small.parent / "elsewhere" / "factor.h").write_text("#define FACTOR 9\n")
    monkeypatch.setenv("CPATH", str(small.parent / "elsewhere"))
    monkeypatch.setenv("CCC_OVERRIDE_OPTIONS", "+-DFACTOR=9")
    assert build(small, ARCH, ["-nogpuinc", "-DFRESH"]).sha256 == plain


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "not a readable ELF"), (b"MZ" * 99, "not a readable ELF"), (None, "cannot be read")],
    ids=["empty", "no ELF", "absent"],
)
def test_load_refuses(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "foreign.hsaco"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadArgument, match=why):
        load(path)


def test_load_refuses_a_host_binary() -> None:
    with pytest.raises(BadArgument, match="not an AMD GPU code object"):
        load(os.path.realpath("/bin/sh"))
