"""The notebooks in a real JupyterLab, in the system's Chromium: opened, run, seen; then their report."""

import json
import os
import secrets
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from browsers import browser
from sweep_makers import wait_for

from hipbook import paths, records
from hipbook.records import Status
from hipbook.report import site
from hipbook.report.gather import Run

pytestmark = pytest.mark.long

GAP = "10_paged_attention_gap"
NAMES = sorted(path.stem for path in paths.notebooks().glob("*.ipynb"))
RUN_TIMEOUT_S = 300.0


class Lab:
    """A JupyterLab on copies of the notebooks without outputs, and a page of it in the browser."""

    def __init__(self, url: str, token: str, folder: Path, page) -> None:
        self.url, self.token, self.folder, self.page = url, token, folder, page

    def run_all(self, name: str) -> Path:
        """Open a notebook, run all cells, wait for its record, save; the record's path."""
        self.page.goto(f"{self.url}/lab/tree/{name}.ipynb?token={self.token}&reset")
        self.page.locator(".jp-Notebook").wait_for(timeout=120_000)
        self.page.get_by_title("Kernel status: Idle").or_(
            self.page.locator(".jp-Toolbar-kernelName", has_text="Python 3")
        ).first.wait_for(timeout=120_000)
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        made = self.folder / "records"
        wait_for(lambda: list(made.glob(f"{name}-*.record.json")) or self._failed(), RUN_TIMEOUT_S)
        [record] = made.glob(f"{name}-*.record.json")

        self.page.keyboard.press("Control+s")

        def saved() -> bool:
            cells = [cell for cell in self.read(name).cells if cell.cell_type == "code"]
            done = all(cell.execution_count for cell in cells)
            if not done:  # the last cell's count may come after the save
                self.page.wait_for_timeout(2000)
                self.page.keyboard.press("Control+s")
            return done

        wait_for(saved, 120)
        return record

    def read(self, name: str) -> nbformat.NotebookNode:
        """The notebook as it was last saved; a file that is just being written is read again."""
        found = []

        def whole() -> bool:
            try:
                found.append(nbformat.read(self.folder / "notebooks" / f"{name}.ipynb", as_version=4))
            except nbformat.reader.NotJSONError:
                return False
            return True

        wait_for(whole, 30)
        return found[-1]

    def _failed(self) -> bool:
        shown = self.page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr'] pre")
        errors = [text for text in shown.all_inner_texts() if "Error" in text]
        assert not errors, errors[0][-2000:]
        return False


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def lab(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    (folder / "notebooks").mkdir()
    for name in NAMES:
        notebook = nbformat.read(paths.notebooks() / f"{name}.ipynb", as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    own = {name: str(folder / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTERLAB_SETTINGS_DIR")}
    own |= {"JUPYTERLAB_WORKSPACES_DIR": str(folder / "spaces"), "HIPBOOK_RECORDS": str(folder / "records")}
    with open(folder / "lab.log", "wb") as log:
        server = subprocess.Popen(
            [
                sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1",
                f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
                f"--ServerApp.root_dir={folder / 'notebooks'}", "--LabApp.news_url=None",
                *(["--allow-root"] if os.geteuid() == 0 else []),
            ],
            stdout=log, stderr=log, env={**os.environ, **own},
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _answers(f"{url}/api?token={token}", server), 120)
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        yield Lab(url, token, folder, page)
        page.close()
    finally:
        server.terminate()
        server.wait(60)


def _answers(url: str, server: subprocess.Popen) -> bool:
    assert server.poll() is None, "JupyterLab ended"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return "version" in json.load(answer)
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.parametrize("name", [name for name in NAMES if name != GAP])
def test_every_notebook_opens_and_runs_all_its_cells(lab, name):
    record = records.read(lab.run_all(name))
    assert record.status is Status.PASSED
    outputs = [output for cell in lab.read(name).cells for output in cell.get("outputs", [])]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert len(outputs) > 3


def test_the_gap_is_run_its_plot_seen_and_its_record_reached_from_the_report(lab, chromium, tmp_path):
    file = lab.run_all(GAP)
    record = records.read(file)
    assert record.status is Status.PASSED
    committed = records.read(paths.data() / "measured" / f"{GAP}.record.json")
    assert [f for f in record.facts if f.quantity == "barriers per key"] == [
        f for f in committed.facts if f.quantity == "barriers per key"
    ]
    plot = lab.page.locator(".jp-RenderedImage img").first
    plot.scroll_into_view_if_needed()
    assert plot.is_visible()
    assert plot.evaluate("image => image.naturalWidth") > 300

    executed = lab.folder / "notebooks" / f"{GAP}.ipynb"
    board = str(record.board["name"])
    run = Run(GAP, "", "PASSED", "", record.parameters, board, tmp_path, record, file, executed)
    index = site.write_site([run], tmp_path / "site", title="What JupyterLab ran", lead="")
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto(index.as_uri())
    assert page.locator(".card img").evaluate("image => image.naturalWidth") > 300
    page.get_by_role("link", name=f"record of {GAP}").click()
    page.wait_for_url("**/records/*.html")
    shown = page.locator("main").inner_text()
    for fact in record.facts:
        assert fact.quantity in shown
    page.get_by_role("link", name="the executed notebook").click()
    page.wait_for_url("**/notebooks/*.html")
    assert page.locator("main img").count() >= 1
    page.close()
