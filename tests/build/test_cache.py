"""The cache of code objects: what is a hit, what is not, and what happens when many use it at once."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hipbook import paths
from hipbook.build import build, build_many, cache, compile

ARCH = "gfx1200"
QUICK = ("-nogpuinc",)  # the small kernel needs no headers


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The compiler commands that were run since."""
    commands = []
    run = subprocess.run

    def counting(command, **options):
        commands.append(command)
        return run(command, **options)

    monkeypatch.setattr(compile.subprocess, "run", counting)
    return commands


def entries(where: Path) -> list[Path]:
    return list((where / "code").glob("*/*/record.json"))


def real(commands: list[list[str]]) -> int:
    return sum("--cuda-device-only" in command for command in commands)


def test_hit_and_what_misses(empty_cache: Path, small: Path, compiles: list) -> None:
    first = build(small, ARCH, QUICK)
    assert real(compiles) == 1
    again = build(small, ARCH, QUICK)
    assert real(compiles) == 1, "the same build must be found"
    assert again == first

    (small.parent / "factor.h").write_text("#define FACTOR 5\n")
    changed = build(small, ARCH, QUICK)
    assert real(compiles) == 2, "a changed header must be compiled"
    assert changed.sha256 != first.sha256
    assert changed.source_sha256 != first.source_sha256

    (small.parent / "factor.h").write_text("#define FACTOR 3\n")
    assert build(small, ARCH, QUICK).sha256 == first.sha256
    assert real(compiles) == 2, "the first header's build is still there"

    assert build(small, ARCH, [*QUICK, "-DOTHER=1"]).flags == (*QUICK, "-DOTHER=1")
    assert real(compiles) == 3, "other flags are another build"
    build(small, "gfx1100", QUICK)
    assert real(compiles) == 4, "another architecture is another build"
    small.write_text(small.read_text() + "\n")
    build(small, ARCH, QUICK)
    assert real(compiles) == 5, "a changed source is another build"


def test_another_compiler_is_another_build(
    empty_cache: Path, small: Path, compiles: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(small, ARCH, QUICK)
    other = compile.TOOLCHAINS["pinned"]
    changed = type(other)(**{**vars(other), "identity": lambda: "clang 22.9"})
    monkeypatch.setitem(compile.TOOLCHAINS, "pinned", changed)
    assert build(small, ARCH, QUICK).compiler == "clang 22.9"
    assert real(compiles) == 2


def test_record_names_every_header_by_content(empty_cache: Path, small: Path) -> None:
    small.write_text("#include <hip/hip_runtime.h>\n" + small.read_text())
    build(small, ARCH)
    (record,) = (json.loads(path.read_text()) for path in entries(empty_cache))
    assert record["read"]["factor.h"] == cache.file_digest(small.parent / "factor.h")
    assert any(name.endswith("hip/hip_runtime.h") for name in record["read"])
    assert any(name.endswith("/cmath") for name in record["read"]), "system headers count as well"


def test_damaged_entry_is_built_again(empty_cache: Path, small: Path, compiles: list) -> None:
    first = build(small, ARCH, QUICK)
    first.path.write_bytes(first.path.read_bytes()[:-1])
    again = build(small, ARCH, QUICK)
    assert real(compiles) == 2
    assert again.sha256 == first.sha256
    assert len(again.path.read_bytes()) > 0
    build(small, ARCH, QUICK)
    assert real(compiles) == 2, "the damaged entry was replaced"


def test_builders_in_many_processes(empty_cache: Path, small: Path) -> None:
    code = f"from hipbook.build import build; print(build({str(small)!r}, {ARCH!r}, {QUICK!r}).sha256)"
    builders = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    shas = {builder.communicate()[0].strip() for builder in builders}
    assert [builder.returncode for builder in builders] == [0] * 3
    assert len(shas) == 1
    assert len(entries(empty_cache)) == 1
    assert not list((empty_cache / "code.new").iterdir()), "unfinished work was left behind"


def test_least_recently_used_goes_first(
    empty_cache: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = [build(small, ARCH, [*QUICK, f"-DN={n}"]) for n in range(3)]
    size = max(sum(f.stat().st_size for f in code.path.parent.iterdir()) for code in built)
    hour_ago = time.time() - 3600
    for age, code in enumerate(built):
        os.utime(code.path.parent, (hour_ago + age, hour_ago + age))
    build(small, ARCH, [*QUICK, "-DN=0"])  # a hit: the oldest is now the most recent
    monkeypatch.setattr(cache, "limit_bytes", lambda: 2 * size)
    assert cache.trim() > 0
    assert [code.path.is_file() for code in built] == [True, False, True]
    monkeypatch.setattr(cache, "limit_bytes", lambda: 0)
    cache.trim()
    assert built[0].path.is_file(), "an entry used a moment ago stays, whatever the cap"


def test_cap_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIPBOOK_CODE_CACHE_MB", raising=False)
    assert cache.limit_bytes() == cache.LIMIT_BYTES
    monkeypatch.setenv("HIPBOOK_CODE_CACHE_MB", "3")
    assert cache.limit_bytes() == 3 << 20


@pytest.mark.parametrize("flags", [(), ("-g",)], ids=["plain", "-g"])
def test_same_bytes_from_two_checkouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    arm = ("-DHIPBOOK_ARM_ONLINE=1", "-DHIPBOOK_Q=bf16", "-DHIPBOOK_KV=bf16", "-DHIPBOOK_OUT=bf16")
    built = []
    kernels = paths.kernels()
    for name in ("one", "another place with spaces"):
        checkout = tmp_path / name
        shutil.copytree(kernels, checkout / "kernels")
        monkeypatch.setenv("HIPBOOK_ROOT", str(checkout))
        monkeypatch.setenv("HIPBOOK_CACHE", str(checkout / "cache"))
        built.append(build("paged_attention/paged_attention.hip", ARCH, (*arm, "-DHIPBOOK_D=64", *flags)))
    assert built[0].path.parents[3] != built[1].path.parents[3]
    assert built[0].sha256 == built[1].sha256
    assert built[0].source_sha256 == built[1].source_sha256
    assert str(tmp_path).encode() not in built[0].path.read_bytes()


def test_debug_lines_name_files_from_the_checkout() -> None:
    from elftools.elf.elffile import ELFFile

    flags = [f"-DHIPBOOK_{name}=bf16" for name in ("Q", "KV", "OUT")]
    code = build(
        "paged_attention/paged_attention.hip",
        ARCH,
        [*flags, "-DHIPBOOK_D=64", "-DHIPBOOK_ARM_DECODE=1", "-g"],
    )
    with code.path.open("rb") as file:
        unit = next(ELFFile(file).get_dwarf_info().iter_CUs()).get_top_DIE()
        folder = unit.attributes["DW_AT_comp_dir"].value.decode()
        name = unit.attributes["DW_AT_name"].value.decode()
    assert (paths.root() / folder / name).is_file()


def test_many_in_order_and_once_each(empty_cache: Path, small: Path, compiles: list, capfd) -> None:
    jobs = [(small, ARCH, [*QUICK, f"-DN={n % 3}"]) for n in range(6)]
    built = build_many(jobs, workers=2)
    assert [code.flags for code in built] == [(*QUICK, f"-DN={n % 3}") for n in range(6)]
    assert real(compiles) == 3
    assert build_many([]) == []
    assert "\x1b" not in capfd.readouterr().err, "no terminal, no escape codes"
