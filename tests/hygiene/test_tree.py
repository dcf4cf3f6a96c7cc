"""The tree as a whole: formatted, linted, layered."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hipbook import paths

ROOT = paths.root()
BIN = Path(sys.executable).parent


def run(*command: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [("check", "."), ("format", "--check", ".")])
def test_ruff(arguments):
    done = run(sys.executable, "-m", "ruff", *arguments)
    assert done.returncode == 0, done.stdout


def test_clang_format():
    files = run("git", "ls-files", "*.hip", "*.h", "*.c").stdout.splitlines()
    assert len(files) > 0
    done = run(BIN / "clang-format", "--dry-run", "--Werror", *files)
    assert done.returncode == 0, done.stderr[-3000:]


# Imports go one way, up this list; parts of one line may import each other.
LAYERS = (
    ("errors",),
    ("paths",),
    ("build",),
    ("emulator",),
    ("caches",),
    ("boards",),
    ("ops",),
    ("oracle",),
    ("checks",),
    ("measure", "records", "traces"),
    ("profile", "qwen3"),
    ("notebooks", "studies", "report", "sweep", "doctor"),
    (
        "cli",
        "cli_annotate",
        "cli_check",
        "cli_mutants",
        "cli_decode",
        "cli_emulator",
        "cli_measure",
        "cli_sweep",
        "cli_trace",
        "cli_trace_pairs",
        "bench",
        "__main__",
    ),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imported(path: Path) -> set[str]:
    """The parts of hipbook a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "hipbook":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hipbook."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("hipbook.")}
    return found


def test_imports_go_one_way():
    wrong, seen = [], set()
    for path in (ROOT / "lib" / "hipbook").rglob("*.py"):
        own = path.relative_to(ROOT / "lib" / "hipbook").parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        seen.add(own)
        wrong += [
            f"{path.name} of {own} imports {other}"
            for other in imported(path)
            if other in RANK and RANK[other] > RANK[own]
        ]
    assert wrong == []
    assert len(seen) > 12


def test_help_is_quick_because_nothing_heavy_is_imported():
    heavy = ("torch", "numpy", "pandas", "polars", "scipy", "pydantic")
    code = f"import sys, hipbook.cli\nprint([m for m in {heavy} if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"


def test_files_name_no_machinery():
    """Nothing in the tree tells how it is worked on, or where."""
    words = "|".join(("/work" + "/main", "/root/" + r"\.", "co-authored" + "-by"))
    found = run("git", "grep", "-lIiE", words, "--", ":!LICENSE")
    assert found.stdout == ""


def test_pages_that_are_named_exist():
    """A page in capitals (README.md) or under docs/ that a source or page names is in the tree."""
    named = run(
        "git",
        "grep",
        "-hoIE",
        r"\b(docs/[a-z_-]+|[A-Z]{4,}[A-Z_]*)\.md\b",
        "--",
        "lib",
        "kernels",
        "docs",
        "data",
        "*.md",
    )
    pages = set(named.stdout.split())
    assert len(pages) > 5
    assert sorted(page for page in pages if not list(ROOT.glob(f"**/{page}"))) == []
