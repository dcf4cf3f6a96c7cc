"""Follows docs/adding-an-operation.md: its four files, registered as it says; what it says comes for free."""

import re
from pathlib import Path

import pytest
import torch
from examples.rms_norm import op
from examples.rms_norm.checks import RmsNormCase, RmsNormChecks
from examples.rms_norm.oracle import make, reference

from hipbook import boards, checks, paths
from hipbook.build import build_many
from hipbook.checks.case import Status
from hipbook.checks.runner import OPERATIONS
from hipbook.errors import BadArgument
from hipbook.oracle.within import within

FOLDER = Path(__file__).parent / "rms_norm"
FILES = ("rms_norm.hip", "op.py", "oracle.py", "checks.py")
PAGE = (paths.root() / "docs" / "adding-an-operation.md").read_text(encoding="utf-8")
BOARD = boards.get(boards.DEFAULT)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(OPERATIONS, "rms_norm", RmsNormChecks())


def test_four_files_of_under_150_lines():
    assert sorted(path.name for path in FOLDER.iterdir() if path.is_file()) == sorted(FILES)
    lines = sum(len((FOLDER / name).read_text().splitlines()) for name in FILES)
    assert lines < 150
    assert f"{lines} lines in all" in PAGE or f"{round(lines, -1)} lines in all" in PAGE


def test_the_pages_blocks_are_the_files():
    blocks = re.findall(r"```(?:python|cpp)\n(.*?)```", PAGE, re.DOTALL)
    files = [(FOLDER / name).read_text() for name in FILES]
    assert len(blocks) >= 6
    assert [block for block in blocks if not any(block in text for text in files)] == []
    for text in files:
        assert any(block in text for block in blocks)


def test_what_the_page_names_exists():
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", PAGE)
    named = re.findall(r"`((?:checks|ops|oracle)/[a-z_]+\.py|tests/[a-z_/]+\.py|test_[a-z_]+\.py)`", PAGE)
    assert len(links) > 5
    assert len(named) > 6
    assert [link for link in links if not (paths.root() / "docs" / link).exists()] == []
    roots = (paths.root(), paths.root() / "lib" / "hipbook", paths.root() / "tests" / "checks")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == [
        "checks/mutants_rms_norm.py"  # the reader's
    ]


def test_its_checks_run_like_any_others(registered, tmp_path):
    cases = checks.select("test", operation="rms_norm", seeds=2)
    assert len(cases) == 2 * 2 * 2 * 2 * 4 * 2
    results = checks.run_checks(cases, BOARD)
    summary = checks.summarise(results)
    assert summary.passed, [(r.case_id, r.reason) for r in summary.failed]
    assert summary.values_compared == 2 * 2 * 2 * 2 * (1 + 31 + 33 + 1000) * (1 + 3)
    assert 0.1 < summary.worst_error_over_bound <= 1
    assert {arm for result in results for arm in result.arms_run} == {"wave"}
    case = RmsNormCase("wave", "small", "bf16", 33, 3)
    assert case.id == "rms_norm/wave/small/bf16/w33/r3/s0"
    assert checks.parse_case(case.id) == case
    with pytest.raises(BadArgument, match="rms_norm/wave/random"):
        checks.parse_case("rms_norm/wave/none/bf16/w33/r3/s0")
    checks.write_junit(results[:3], tmp_path / "junit.xml")
    assert "rms_norm/wave" in (tmp_path / "junit.xml").read_text()


def test_no_scratch_on_any_width_of_wave():
    jobs = [(op.SOURCE, arch, op.flags(torch.bfloat16)) for arch in ("gfx1200", "gfx942")]
    kernels = [kernel for code in build_many(jobs) for kernel in code.kernels.values()]
    assert [(k.wave_size, k.scratch_bytes, k.vgpr_spills) for k in kernels] == [(32, 0, 0), (64, 0, 0)]


MISTAKES = {  # of the kernel: one edit, and the check that must say so
    "no eps": (" + eps);", ");", Status.INCORRECT, "y["),
    "a sum, not a mean": (" / static_cast<float>(width)", "", Status.INCORRECT, "y["),
    "rows as if contiguous": ("blockIdx.x * row_stride", "int64_t{blockIdx.x} * width", Status.FAULT, ""),
    "past the row": ("width; i += WAVE) {\n    y", "width + 1; i += WAVE) {\n    y", Status.FAULT, "bounds"),
    "another's witness": ("0x10", "0x20", Status.FAULT, "wrote witness 0x20, expected 0x10"),
    "no witness": ("store_witness(witness, 0x10);", "", Status.FAULT, "wrote no witness"),
    "the first wave only": ("i += WAVE) {\n    y", "i += width) {\n    y", Status.FAULT, "never written"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_caught_by_what_is_inherited(mistake, tmp_path, monkeypatch):
    old, new, status, told = MISTAKES[mistake]
    text = (FOLDER / "rms_norm.hip").read_text()
    assert text.count(old) == 1
    broken = tmp_path / "rms_norm.hip"
    broken.write_text(text.replace(old, new).replace("../../../kernels", str(paths.kernels())))
    for module in ("op", "checks"):
        monkeypatch.setattr(f"examples.rms_norm.{module}.SOURCE", str(broken))
    mine = [case for case in RmsNormChecks().test_cases() if (case.width, case.rows) == (33, 3)]
    results = [RmsNormChecks().evaluate(case, BOARD) for case in mine]
    failed = [result for result in results if not result.ok]
    assert failed
    assert any(result.status is status and told in result.reason for result in failed), failed[0].reason


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"x": torch.zeros(3, 4).half()}, "x.dtype"), ({"x": torch.zeros(3, 5)}, "weight.shape"),
        ({"x": torch.zeros(4, 3).T}, "x.stride()"), ({"eps": -1.0}, "eps"), ({"arm": ["wave"]}, "arm"),
        ({"board": 5}, "board"), ({"x": torch.zeros(0, 4)}, "x.shape[0]"), ({"grid": 1}, "option grid"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_with_a_fix(change, argument):
    call = {"x": torch.zeros(3, 4), "weight": torch.zeros(4), "board": BOARD, **change}
    with pytest.raises(BadArgument) as caught:
        op.rms_norm(**call)
    assert (caught.value.argument, bool(caught.value.fix)) == (argument, True)


def test_the_oracle_agrees_with_torch():
    x, weight = make("random", 3, 3, 100, torch.float32)
    theirs = torch.nn.functional.rms_norm(x, (100,), weight, 1e-6)
    assert within("y", theirs, *reference(x, weight, 1e-6)).why == ""
