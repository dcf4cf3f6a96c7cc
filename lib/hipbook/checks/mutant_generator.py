"""Mutants by seed: one token of the kernels' sources changed, as a slip of the keyboard would.

    barrier     a __syncthreads() is deleted
    index       an index is one further, or an end one later or earlier
    swapped     operands of a difference or a quotient, or the sides of a choice, change places

The same seed and sources give the same mutants in the same order. Those that do not compile are for the
caller to pass over.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hipbook import paths
from hipbook.checks.mutants import Mutant

OPERATIONS = ("paged_attention", "quantize_q8k", "grouped_gemv", "gdn_post_conv")
KINDS = ("barrier", "index", "swapped")
SHARED_FOLDER, SHARED_OPERATION = "common", "paged_attention"  # whose checks common headers are held to
NVIDIA_ONLY = ("split_kv_mma.h",)

_WORD = r"(?<![\w.])(?:[A-Za-z_][\w.]*(?:\([\w.]*\))?|\d+)(?![\w.])"
_DECLARES = re.compile(
    r"^\s*(?:(?:__shared__|const|alignas\(\d+\)|static|typename) )*[\w:]+(?:<[^;=]*>)? [^=;(]*\["
)
# (what is looked for, what takes its place), by kind
_EDITS: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "barrier": ((re.compile(r"__syncthreads\(\);"), ""),),
    "index": (
        (re.compile(r"(?<=[\w\]])\[([^\[\]&{}]+)\]"), r"[\1 + 1]"),
        (re.compile(r" < "), " <= "),
        (re.compile(r" <= "), " < "),
        (re.compile(r" >= "), " > "),
        (re.compile(r" \+ 1\b"), ""),
        (re.compile(r" - 1\b"), ""),
    ),
    "swapped": (
        (re.compile(rf"({_WORD}) - ({_WORD})"), r"\2 - \1"),
        (re.compile(rf"({_WORD}) / ({_WORD})"), r"\2 / \1"),
        (re.compile(rf"\? ({_WORD}) : ({_WORD})(?=[;,)])"), r"? \2 : \1"),
    ),
}


@dataclass(frozen=True)
class Candidate:
    """One possible edit: the whole line before and after it."""

    operation: str
    file: str  # under kernels/
    kind: str
    line: int  # from 1
    old: str
    new: str


def candidates() -> list[Candidate]:
    """Every edit the generator knows, in the order of files and lines."""
    found = []
    for folder in (*OPERATIONS, SHARED_FOLDER):
        operation = folder if folder in OPERATIONS else SHARED_OPERATION
        for path in sorted((paths.kernels() / folder).iterdir()):
            if path.suffix in (".h", ".hip") and path.name not in NVIDIA_ONLY:
                name = f"{folder}/{path.name}"
                found += [Candidate(operation, name, *edit) for edit in _of_file(path.read_text())]
    return found


def _of_file(text: str) -> Iterator[tuple[str, int, str, str]]:
    for number, line in _device_lines(text):
        code = line.partition("//")[0]
        seen = set()
        for kind, edits in _EDITS.items():
            for pattern, replacement in edits:
                if kind == "index" and replacement.startswith("[") and _DECLARES.match(code):
                    continue
                for match in pattern.finditer(code):
                    new = code[: match.start()] + match.expand(replacement) + line[match.end() :]
                    if new not in seen and new != line:
                        seen.add(new)
                        yield kind, number, line, new


def _device_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of code that an AMD build executes: no comments, directives or compile-time rules."""
    open_branches: list[bool] = []  # of #if: whether an AMD build takes it
    continued = False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        directive, was_continued, continued = bare.startswith("#"), continued, bare.endswith("\\")
        if directive and not was_continued:
            if bare.startswith("#if"):
                open_branches.append("HIPBOOK_NVIDIA" not in bare or "!HIPBOOK_NVIDIA" in bare)
            elif bare.startswith("#else") and open_branches:
                open_branches[-1] = not open_branches[-1] if "HIPBOOK" in text else True
            elif bare.startswith("#endif") and open_branches:
                open_branches.pop()
        if (
            directive
            or was_continued
            or not all(open_branches)
            or bare.startswith(("//", "template", "static_assert"))
        ):
            continue
        if bare.startswith("constexpr") or "static constexpr" in bare:
            continue
        yield number, line


def generate(seed: int = 0) -> Iterator[Mutant]:
    """All candidates as mutants: kinds and operations take turns, each shuffled by the seed."""
    rng = np.random.default_rng(seed)
    queues: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in candidates():
        queues.setdefault((candidate.operation, candidate.kind), []).append(candidate)
    for queue in queues.values():
        rng.shuffle(queue)
    while any(queues.values()):
        for operation in OPERATIONS:
            for kind in KINDS:
                queue = queues.get((operation, kind))
                if queue and (mutant := _mutant(queue.pop())) is not None:
                    yield mutant


def _mutant(candidate: Candidate) -> Mutant | None:
    """The edit with as many lines before it as make its text unique; None when that takes too many."""
    lines = (paths.kernels() / candidate.file).read_text().split("\n")
    text, at = "\n".join(lines), candidate.line - 1
    for above in range(12):
        before = "".join(f"{line}\n" for line in lines[max(0, at - above) : at])
        if text.count(before + candidate.old) == 1:
            stem = candidate.file.replace("/", "-").removesuffix(".h").removesuffix(".hip")
            column = next(
                i for i, (a, b) in enumerate(zip(candidate.old, candidate.new + " ", strict=False)) if a != b
            )
            name = f"{candidate.kind}-{stem}-{candidate.line}-{column}"
            why = f"{candidate.kind}: {candidate.old.strip()} -> {candidate.new.strip() or '(nothing)'}"
            return Mutant(
                name, candidate.operation, candidate.file, before + candidate.old, before + candidate.new, why
            )
    return None
