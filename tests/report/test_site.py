"""The report of a sweep: coverage, figures that lead to their records, nothing left out or half-written."""

import json
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sweep_makers import BEGIN, BOARDS, FACTS, PARAMETERS, FakeEngine, offer

from hipbook import paths, records
from hipbook.errors import HipbookError
from hipbook.records import Status, claims
from hipbook.report import board_figures, gather, html, site
from hipbook.sweep import sweeping
from hipbook.sweep.spec import Sweep

EVIL = '<script>alert("$\\frac")</script>'


class Engine(FakeEngine):
    """One of its boards has a hostile name."""

    def offers(self, wanted):
        return [offer(BOARDS[0]), offer(BOARDS[1]), replace(offer(EVIL), arch="gfx1100")]


@pytest.fixture(scope="module")
def swept(write_notebook, tmp_path_factory) -> Path:
    """A sweep of three boards, two sizes; a job crashed, one has not ended, an outcome is damaged."""
    folder = tmp_path_factory.mktemp("swept")
    write_notebook(folder, (PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")
    (folder / "s.yaml").write_text("")
    fields = {"boards": [BOARDS[0], BOARDS[1], EVIL], "swept": {"product": {"size": [1, 2]}}}
    engine = Engine(ends={(BOARDS[1], 2): [Status.DEAD_KERNEL]})
    planned = sweeping.plan(
        folder / "s.yaml", engine, Sweep(name="s", notebook="tiny.ipynb", **fields), folder / "out"
    )
    sweeping.go(planned, engine, failed_again=True)
    here = sweeping.State(planned.folder)
    controls = [job for job in planned.jobs if job.control and job.board == BOARDS[0]]
    (here.job_folder(controls[0]) / "outcome.json").unlink()
    (here.job_folder(controls[1]) / "outcome.json").write_text('{"status": "PASSED"')
    return planned.folder


@pytest.fixture
def written(swept, tmp_path) -> Path:
    found = gather.runs_under(swept)
    return site.write_site(found, tmp_path / "site", title="Sweep", lead="", claims=claims.read()).parent


class Reader(HTMLParser):
    """Links with the text in them, and pictures with their alternatives."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.pictures: list[tuple[str, str]] = []
        self.tags: set[str] = set()
        self._href = None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        self.tags.add(tag)
        if tag == "a":
            self._href, self._text = told["href"], ""
        if tag == "img":
            self.pictures.append((told["src"], told["alt"]))

    def handle_data(self, data):
        if self._href is not None:
            self._text += data

    def handle_endtag(self, tag):
        if tag == "a":
            self.links.append((self._href, self._text))
            self._href = None


def test_every_link_leads_somewhere_and_nothing_can_run(written):
    pages = sorted(written.rglob("*.html"))
    assert len(pages) > 16
    for page in pages:
        read = Reader(page)
        assert "script" not in read.tags
        for href, _ in read.links:
            target = href.partition("#")[0]
            assert "://" not in href
            assert not target or (page.parent / target).is_file(), (page.name, href)
        for source, alternative in read.pictures:
            assert source.startswith("data:image/png;base64,") or (page.parent / source).is_file()
            assert alternative


def test_the_coverage_counts_what_failed_is_missing_or_cannot_be_read(written):
    text = (written / "coverage.html").read_text()
    told = "15 runs: 12 done, 1 failed, 1 missing."
    assert told.replace("15 runs: 12", "14 runs: 12") in text  # the damaged one has no name to be under
    assert "DEAD_KERNEL" in text
    assert "MISSING" in text
    assert "1 runs: 0 done, 1 failed, 0 missing." in text
    assert "not the outcome of a run" in "".join(p.read_text() for p in (written / "questions").iterdir())
    assert "&lt;script&gt;alert" in text


def test_every_value_of_a_figure_leads_to_the_record_it_is_from(written):
    figures = sorted((written / "figures").glob("*.html"))
    assert len(figures) == 1
    values = [(href, text) for href, text in Reader(figures[0]).links if "/records/" in href]
    assert len(values) == 2 * (3 * 2 - 1)  # two arms, three boards by two sizes, less the one that crashed
    for href, text in values:
        record = records.read(figures[0].parent / href.replace(".html", ".record.json"))
        assert float(text) in [fact.value for fact in record.facts]
        assert f"<td>{text}</td>" in (figures[0].parent / href).read_text()
    [(_, alternative)] = Reader(figures[0]).pictures
    assert "double in keys on 3 boards, 10 values of 2 subjects, 2 to 4" in alternative


def test_figures_reported_by_others_are_in_no_plot(tmp_path, monkeypatch):
    """A time that somebody else reported is not on one axis with our counts (notebook 10 holds both)."""
    drawn = []
    monkeypatch.setattr(board_figures, "_picture", lambda rows, quantity, path: drawn.append(quantity))
    file = paths.data() / "measured" / "10_paged_attention_gap.record.json"
    record = records.read(file)
    assert {fact.quantity for fact in record.facts if fact.kind == "reported"} == {"mean_per_call", "calls"}
    runs = [
        gather.Run("10", b, "PASSED", "", record.parameters, b, tmp_path, record, file) for b in BOARDS[:2]
    ]
    made = board_figures.draw("10", runs, tmp_path)
    assert drawn == [figure.quantity for figure in made]
    assert "wave instructions" in drawn
    assert not {"mean_per_call", "calls"} & set(drawn)
    assert board_figures.draw("10", runs[:1], tmp_path) == []  # one board is no comparison


def test_launches_that_left_one_witness_are_one_row_with_all_their_names():
    record = records.read(paths.data() / "measured" / "10_paged_attention_gap.record.json")
    page = html.record_page(record, raw="")
    alike = {(w.arm, w.expected, str(w.seen)) for w in record.witnesses}
    table = page[page.index("<h2>Witnesses") : page.index("<h2>Parameters")]
    assert table.count("<tr>") == 1 + len(alike) < len(record.witnesses)
    assert [w.subject for w in record.witnesses if w.subject not in table] == []


def test_the_index_is_by_question_with_verdicts(written):
    text = (written / "index.html").read_text()
    assert "Verdicts: CORRECT 24" in text
    assert 'href="questions/tiny.html"' in text
    assert 'href="claims.html"' in text


def test_claims_lead_to_the_records_they_cite(swept, tmp_path):
    path = "data/measured/10_paged_attention_gap.record.json"
    record = records.read(paths.root() / path)
    binary, verdict = record.code_objects[0].sha256, record.verdicts[0]
    cited = claims.RecordCited(path=path, binary=binary, subject=verdict.subject, word=verdict.word)
    first = claims.read()[0]
    ledger = [first.model_copy(update={"records": [cited], "sentence": EVIL}), *claims.read()[1:]]
    out = site.write_site(
        gather.runs_under(swept), tmp_path / "site", title="", lead="", claims=ledger
    ).parent
    page = (out / "claims.html").read_text()
    assert EVIL not in page
    [lead] = [href for href, _ in Reader(out / "claims.html").links if href.startswith("records/")]
    assert verdict.subject in (out / lead).read_text()
    for one in ledger:
        assert f'id="{one.id}"' in page


def test_many_records_are_one_archive(swept, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "MAX_LOOSE_RECORDS", 5)
    out = site.write_site(gather.runs_under(swept), tmp_path / "site", title="", lead="").parent
    assert list(out.rglob("*.record.json")) == []
    with zipfile.ZipFile(out / "records.zip") as archive:
        assert len(archive.namelist()) == 12
        page = out / "records" / archive.namelist()[0].replace(".record.json", ".html")
        assert archive.namelist()[0] in page.read_text()
        (tmp_path / "one.record.json").write_bytes(archive.read(archive.namelist()[0]))
    assert records.read(tmp_path / "one.record.json").made_by == "tiny"


def test_an_out_that_is_a_file_is_refused_and_left_alone(swept, tmp_path):
    (tmp_path / "file").write_text("x")
    for out, said in (
        (tmp_path / "file", "not a folder"),
        (tmp_path / "file" / "deeper", "exists|Not a dir"),
    ):
        with pytest.raises(HipbookError, match=said):
            site.write_site(gather.runs_under(swept), out, title="", lead="")
    assert (tmp_path / "file").read_text() == "x"


def test_a_report_that_fails_half_way_leaves_the_old_one(written, swept, monkeypatch):
    before = {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site._Site, "_coverage", full)
    with pytest.raises(HipbookError, match="No space left on device"):
        site.write_site(gather.runs_under(swept), written, title="", lead="")
    assert {path: path.read_bytes() for path in written.rglob("*") if path.is_file()} == before
    assert [path.name for path in written.parent.iterdir()] == ["site"]


def test_runs_are_in_the_order_of_the_plan(swept):
    found = gather.runs_under(swept)
    jobs = sweeping.State(swept).plan()["jobs"]
    assert [run.folder.name for run in found] == [job.key for job in jobs]


def test_a_folder_without_runs_is_said_so(tmp_path):
    with pytest.raises(HipbookError, match="no run in it"):
        gather.runs_under(tmp_path)
    with pytest.raises(HipbookError, match="no such folder"):
        gather.runs_under(tmp_path / "none")


def test_a_damaged_record_and_one_of_other_parameters_are_refused_by_name(swept, tmp_path):
    recorded = [path.parent for path in swept.glob("jobs/*/*.record.json")]
    folder = next(path for path in recorded if gather.run_in(path).status == "PASSED")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert gather.run_in(tmp_path).status == "PASSED"
    (tmp_path / "outcome.json").write_text(json.dumps(outcome | {"parameters": {"size": 99}}))
    run = gather.run_in(tmp_path)
    assert (run.status, run.record) == (gather.REFUSED, None)
    assert "a record of other parameters" in run.why
    (tmp_path / "outcome.json").write_text(json.dumps(outcome))
    (tmp_path / outcome["record"]).write_text("{}")
    assert "schema_version" in gather.run_in(tmp_path).why
