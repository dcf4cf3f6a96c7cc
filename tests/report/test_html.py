"""The report: complete, self-contained, and safe against text it did not write."""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from hipbook.errors import HipbookError
from hipbook.report import site as report
from hipbook.sweep.runner import run_notebook

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


class Links(HTMLParser):
    """Everything a page would load or lead to, and the tags that could run something."""

    def __init__(self) -> None:
        super().__init__()
        self.loads, self.leads, self.tags, self.handlers = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name in ("src", "data", "poster") or (tag == "link" and name == "href"):
                self.loads.append(value)
            elif name == "href":
                self.leads.append(value)
            elif name.startswith("on"):
                self.handlers.append(name)


def links(path: Path) -> Links:
    parser = Links()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


@pytest.fixture(scope="module")
def runs(write_notebook, tiny_cells, tmp_path_factory) -> list[Path]:
    """The folders of two runs, one of them failed, with hostile text wherever text comes from."""
    cells, folder = tiny_cells, tmp_path_factory.mktemp("report")
    picture = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    frame = f"import pandas as pd\nprint({EVIL!r})\npd.DataFrame({{'name': [{EVIL!r}]}})"
    raw = f"from IPython.display import HTML\nHTML({EVIL + '<table><tr><td>kept</td></tr></table>'!r})"
    evidence = f"run.verdict({EVIL!r}, 'CORRECT', {EVIL!r})\nrun.not_claimed({EVIL!r})"
    good = write_notebook(
        folder,
        (cells["parameters"], "parameters"),
        cells["begin"],
        cells["fact"],
        picture,
        frame,
        raw,
        evidence,
        cells["write"],
    )
    notebook = nbformat.read(good, as_version=4)
    notebook.cells.insert(
        0,
        nbformat.v4.new_markdown_cell(f"# Does it run?\n\n{EVIL}\n\n$4 + \\log_2 t$\n\n|a|b|\n|-|-|\n|1|2|"),
    )
    nbformat.write(notebook, good)
    bad = write_notebook(
        folder, (cells["parameters"], "parameters"), f"raise ValueError({EVIL!r})", name="bad"
    )
    folders = [folder / "runs" / "good", folder / "runs" / "bad"]
    for path, out in zip((good, bad), folders, strict=True):
        run_notebook(path, out=out)
    return folders


@pytest.fixture
def site(runs, tmp_path) -> Path:
    summary = [{"arm": "online", "values": 4096, "NMSE": 2.4e-6}]
    return report.write_site(runs, tmp_path / "site", title="Runs", lead=EVIL, summary=summary).parent


def test_the_site(site):
    pages = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    assert pages == [
        "coverage.html", "index.html", "notebooks/bad.html", "notebooks/tiny.html", "questions/bad.html",
        "questions/tiny.html", "records/tiny.html",
    ]  # fmt: skip
    assert not re.search(r"url\(|@import", (site / "style.css").read_text())
    for name in pages:
        found = links(site / name)
        assert not found.tags & {"script", "iframe", "object", "base", "form", "style"}, name
        assert found.handlers == [], name
        loads = [source for source in found.loads if not source.startswith("data:image/png;base64,")]
        assert loads == ["../" * name.count("/") + "style.css"], name
        for target in found.leads:  # every link stays in the folder and leads somewhere
            if not target.startswith("#"):
                assert (site / name).parent.joinpath(target).is_file(), (name, target)
    index = (site / "index.html").read_text()
    assert index.count("data:image/png") == 1
    assert "Does it run?" in index
    assert "4,096" in index
    assert 'class="word PASSED"' in index
    assert 'class="word RUNTIME_ERROR"' in index  # what failed is shown
    notebook = (site / "notebooks" / "tiny.html").read_text()
    assert "kept" in notebook
    assert "double 16" in notebook
    assert "<th>a</th>" in notebook
    assert "<math" in notebook
    assert "log_2" not in notebook
    assert "double" in (site / "records" / "tiny.html").read_text()


def test_rendering_again_leaves_nothing_of_before(site, runs):
    (site / "notebooks" / "stale.html").write_text("x")
    report.write_site(runs[:1], site, title="Runs", lead="")
    assert not (site / "notebooks" / "stale.html").exists()
    assert not (site / "notebooks" / "bad.html").exists()


def test_a_folder_of_somebody_else_is_not_cleared(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(HipbookError, match="holds other things"):
        report.write_site([], tmp_path, title="Runs", lead="")
    assert (tmp_path / "thesis.txt").exists()
