"""The report in a real browser: axe finds nothing, pages fit a phone, nothing is asked for over a network."""

from pathlib import Path

import pytest
from browsers import browser

from hipbook import paths, records
from hipbook.notebooks.execute import committed_record
from hipbook.records import claims
from hipbook.report import site
from hipbook.report.gather import Run

PAGES = (
    "index.html", "coverage.html", "claims.html", "questions/10_paged_attention_gap.html",
    "figures/10_paged_attention_gap-0.html", "notebooks/10_paged_attention_gap-a.html",
    "records/10_paged_attention_gap-a.html", "notebooks/12_decode_attribution.html",
)  # fmt: skip


def committed(name: str, label: str, board: str = "") -> Run:
    """A committed notebook with its record as a run; `board` gives it another board's name."""
    notebook = paths.notebooks() / f"{name}.ipynb"
    file = committed_record(notebook)
    record = records.read(file)
    record = record.model_copy(update={"board": {**record.board, "name": board}}) if board else record
    return Run(
        name,
        "",
        "PASSED",
        "",
        {**record.parameters, "board": board},
        board,
        Path(label),
        record,
        file,
        notebook,
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    runs = [
        committed("10_paged_attention_gap", "a", "gfx1200-emu"),
        committed("10_paged_attention_gap", "b", "b"),
    ]
    failed = Run("11_decode_d128_arm", "", "DEAD_KERNEL", "the kernel died in a cell", {}, "", Path("c"))
    runs += [committed("12_decode_attribution", "d"), failed]
    out = tmp_path_factory.mktemp("report") / "site"
    summary = [{"arm": "online", "values": 4096}]
    site.write_site(runs, out, title="Runs", lead="All", summary=summary, claims=claims.read())
    return out


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.mark.parametrize("width", [375, pytest.param(1280, marks=pytest.mark.long)])
def test_axe_finds_nothing_and_the_page_fits(report, chromium, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    asked: list[str] = []
    page = chromium.new_page(viewport={"width": width, "height": 800})
    page.on("request", lambda request: asked.append(request.url))
    for name in PAGES:
        page.goto((report / name).as_uri())
        found = axe.Axe().run(page)
        told = [
            f"{name} at {width}: {v['id']}: {node['html'][:200]}"
            for v in found.response["violations"]
            for node in v["nodes"]
        ]
        assert told == []
        assert len(found.response["passes"]) > 10
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        broken = page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).length")
        assert broken == 0, name
    assert [url for url in asked if not url.startswith((report.as_uri(), "data:image/png"))] == []
    page.close()


def test_the_keyboard_reaches_the_content_first_and_a_figure_its_record(report, chromium):
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.goto((report / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "to the content"
    page.goto((report / "figures" / "10_paged_attention_gap-0.html").as_uri())
    cell = page.locator("td a").first
    value = cell.inner_text()
    cell.press("Enter")
    page.wait_for_url("**/records/*.html")
    assert value in page.locator("main").inner_text()
    page.close()
