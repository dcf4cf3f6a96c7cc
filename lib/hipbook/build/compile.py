"""From a source, an architecture and flags to a code object, once."""

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hipbook import paths
from hipbook.build import cache, facts
from hipbook.build.archs import arch_of
from hipbook.build.code_object import CodeObject, KernelArg, KernelFacts
from hipbook.build.toolchain import TOOLCHAINS, Job, Toolchain, environment, toolchain_for, words_of
from hipbook.errors import BadArgument, BuildError

_LAYOUT = "1"  # raise when the record or the way of compiling changes
BuildJob = tuple[str | Path, str, Sequence[str]]


def build(
    source: str | Path, arch: str, flags: Sequence[str] = (), *, toolchain: str | None = None
) -> CodeObject:
    """Compile `source` for `arch`, or find it compiled.

    A relative `source` is one under kernels/. `flags` go to the compiler as they are, after its own
    (-O3, -DHIPBOOK_WAVE=<the architecture's>); "-g" adds line tables. Flags that name relative paths
    mean paths seen from the source's folder. The same inputs give the same bytes in every checkout.
    Raises `BuildError` with the command, the compiler's own words and what to do.
    """
    arch_of(arch)
    if isinstance(flags, str):
        raise BadArgument("flags", repr(flags), "a sequence of strings, one a flag")
    compiler = TOOLCHAINS[toolchain] if toolchain else toolchain_for(arch)
    path = _source(source)
    before = path.read_bytes()
    key = cache.digest(
        _LAYOUT, compiler.name, compiler.identity(), arch, path.name, _label(path), before, *map(str, flags)
    )
    hit = cache.find(key, path.parent)
    if hit is None:
        hit = _compile(compiler, key, path, before, arch, tuple(flags))
    return _code_object(*hit, arch, path, tuple(flags), compiler)


def load(path: str | Path) -> CodeObject:
    """The facts of a code object built elsewhere (hipcc, Triton); `BadArgument` says why it is none."""
    path = Path(path)
    try:
        data = path.read_bytes()
        arch, kernels = facts.read(data)
    except OSError as error:
        raise BadArgument("path", path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadArgument(
            "path",
            path,
            str(error),
            fix="pass a .hsaco built for one AMD architecture (--no-gpu-bundle-output)",
        ) from error
    return CodeObject(
        path=path, arch=arch, sha256=hashlib.sha256(data).hexdigest(), source=None, source_sha256=None,
        flags=(), compiler="unknown", kernels=kernels,
    )  # fmt: skip


def build_many(jobs: Sequence[BuildJob], workers: int | None = None) -> list[CodeObject]:
    """Build (source, arch, flags) jobs in parallel, in their order; the first failure ends it.

    Shows a bar on a terminal, a plain line now and then elsewhere, and nothing when all are cached, or in
    a notebook, whose outputs must not depend on what was cached.
    """
    workers = workers or os.cpu_count() or 1
    unique = list(dict.fromkeys((str(source), arch, tuple(flags)) for source, arch, flags in jobs))
    with ThreadPoolExecutor(workers) as pool, _progress() as progress:
        silent = progress.console.is_terminal or progress.console.is_jupyter
        task = progress.add_task("build", total=len(unique), start=True)
        futures = {pool.submit(build, *job): job for job in unique}
        pending, said = set(futures), 0
        try:
            while pending:
                done, pending = wait(pending, timeout=5.0, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                count = len(unique) - len(pending)
                progress.update(task, completed=count)
                if pending and not silent and count > said:
                    progress.console.print(f"built {count} of {len(unique)} code objects")
                    said = count
        finally:
            for future in pending:
                future.cancel()
    built = {job: future.result() for future, job in futures.items()}
    return [built[str(source), arch, tuple(flags)] for source, arch, flags in jobs]


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _source(source: str | Path) -> Path:
    path = Path(source)
    path = (path if path.is_absolute() else paths.kernels() / path).resolve()
    if not path.is_file():
        raise BuildError(f"no source {path}", fix="a path under kernels/, or an absolute path")
    return path


def _label(path: Path) -> str:
    """What debug information calls the source's folder: the same in every checkout."""
    root = paths.root().resolve()
    return str(path.parent.relative_to(root)) if path.is_relative_to(root) else "."


def _compile(
    toolchain: Toolchain, key: str, path: Path, before: bytes, arch: str, flags: tuple[str, ...]
) -> tuple[Path, cache.Record]:
    made = cache.workplace()
    try:
        job = Job(path, arch, flags, _label(path), made / f"{path.stem}.hsaco", made / "read.d")
        command = toolchain.command(job)
        done = subprocess.run(
            command, cwd=path.parent, capture_output=True, text=True, check=False, env=environment(),
            stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
        told = f"{shlex.join(command)}\n  in {path.parent}"
        if done.returncode:
            words = words_of(command, done.stderr)
            raise BuildError(f"{told}\n  ended with {done.returncode}:\n{words}", fix=toolchain.advice(words))
        if not job.output.is_file():
            raise BuildError(
                f"{told}\n  ended with 0 and wrote no code object",
                fix="leave out the flag that stops the compiler early",
            )
        data = job.output.read_bytes()
        kernels = _checked_facts(toolchain, data, arch, told)
        if path.read_bytes() != before:
            raise BuildError(f"{path} changed while it was compiled", fix="build it again")
        read = _read_files(job)
        record = {
            "file": job.output.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "read": read,
            "source_sha256": _digest_of_sources(path, before, read),
            "kernels": [asdict(kernel) for kernel in kernels.values()],
        }
        job.depfile.unlink()
        return cache.store(key, made, record), record
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _checked_facts(toolchain: Toolchain, data: bytes, arch: str, told: str) -> dict[str, KernelFacts]:
    try:
        built_for, kernels = toolchain.facts(data)
    except ValueError as error:
        raise BuildError(
            f"{told}\n  made a file that cannot be read: {error}", fix="check the flags"
        ) from error
    if built_for != arch:
        raise BuildError(
            f"{told}\n  built for {built_for}, not {arch}", fix="leave the architecture to build()"
        )
    wave = arch_of(arch).wave_size
    for kernel in kernels.values():
        if kernel.wave_size != wave:
            raise BuildError(
                f"{told}\n  kernel {kernel.name} has waves of {kernel.wave_size}, HIPBOOK_WAVE said {wave}",
                fix="leave -mwavefrontsize64 and the like out of the flags",
            )
    return kernels


def _read_files(job: Job) -> dict[str, str]:
    """Every file the compiler read, but the source, with its hash; relative names stay relative."""
    _, _, listed = job.depfile.read_text().partition(":")
    read = {}
    for name in _make_words(listed):
        where = job.source.parent / name
        digest = cache.file_digest(where)
        if digest is None:
            raise BuildError(f"{where} was read by the compiler and is gone", fix="build it again")
        if where.resolve() != job.source:
            read[name] = digest
    return read


def _digest_of_sources(source: Path, text: bytes, read: dict[str, str]) -> str:
    """By content and file name; folders differ between machines and checkouts."""
    headers = sorted((Path(name).name, digest) for name, digest in read.items())
    return cache.digest(source.name, text, *(part for header in headers for part in header))


def _make_words(text: str) -> list[str]:
    """Names of a make rule: space and # escaped by a backslash, $ doubled, lines continued."""
    words, word = [], ""
    text = text.replace("\\\n", " ")
    at = 0
    while at < len(text):
        two = text[at : at + 2]
        if two in ("\\ ", "\\#", "$$"):
            word, at = word + two[1], at + 2
        elif text[at].isspace():
            words, word, at = ([*words, word] if word else words), "", at + 1
        else:
            word, at = word + text[at], at + 1
    return [*words, word] if word else words


def _code_object(
    path: Path, record: cache.Record, arch: str, source: Path, flags: tuple[str, ...], toolchain: Toolchain
) -> CodeObject:
    kernels = {
        kernel["name"]: KernelFacts(**{**kernel, "args": tuple(KernelArg(**arg) for arg in kernel["args"])})
        for kernel in record["kernels"]
    }
    return CodeObject(
        path=path, arch=arch, sha256=record["sha256"], source=source, source_sha256=record["source_sha256"],
        flags=flags, compiler=toolchain.identity(), kernels=kernels,
    )  # fmt: skip
