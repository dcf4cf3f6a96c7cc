"""The report: records, claims and executed notebooks as a folder of pages that opens from a file path.

    index.html              by question: outcomes, verdicts, the way to everything else
    coverage.html           every question's runs, points against boards; what failed or is missing
    claims.html             the ledger, each claim with the records it cites
    questions/NAME.html     all runs of one question, its figures
    figures/NAME-N.html     one quantity on every board; every value leads to its record
    notebooks/SLUG.html     executed notebooks
    records/SLUG.html       records in full
    records.zip             the same as JSON, where there are many

The pages are made beside the old report and take its place at the end.
"""

import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from hipbook import paths, records
from hipbook.errors import HipbookError
from hipbook.records import claims as ledger
from hipbook.report import board_figures, gather, html, tables
from hipbook.report.gather import Run

MARKER = ".hipbook-report"
MAX_LOOSE_RECORDS = 200  # with more, the JSON files are one archive: loose, they are most of the report
MAX_NOTEBOOKS = 24  # rendered of one question, unless all are asked for: one takes half a second and 100 kB
SUMMARY_NOTE = "K+V bytes are what the kernel asked for, before any cache; the floor reads each key once."


def write_site(
    runs: Iterable[Path] | Sequence[Run],
    out: Path,
    *,
    title: str,
    lead: str,
    summary: Sequence[Mapping[str, Any]] = (),
    claims: Sequence[ledger.Claim] = (),
    all_notebooks: bool = False,
) -> Path:
    """Write the report of run folders (or of what `gather.runs_under` found); the path of its index.html.

    Raises HipbookError for an `out` that is no folder, holds other things, or cannot be written; then it is
    as it was.
    """
    found = gather.named(run if isinstance(run, Run) else gather.run_in(run) for run in runs)
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise HipbookError(f"{out}: not a folder", fix="name an empty or a new folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise HipbookError(f"{out}: holds other things than a report", fix="name an empty or a new folder")
    new = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
        _Site(new, found, list(claims), all_notebooks).write(title, lead, summary)
        new.chmod(0o755)
        shutil.rmtree(out, ignore_errors=True)
        new.rename(out)
    except OSError as error:
        raise HipbookError(
            f"{out}: {error.strerror}", fix="choose a folder you can write to: --out"
        ) from None
    finally:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)
    return out / "index.html"


class _Site:
    """One report while it is written."""

    def __init__(self, out: Path, runs: list[Run], claims: list[ledger.Claim], all_notebooks: bool) -> None:
        self.out, self.claims = out, claims
        self.groups = gather.groups(runs)
        self.cited = _cited(claims, {run.slug for run in runs})
        self.with_record = [run for run in [*runs, *self.cited.values()] if run.record]
        self.loose = len(self.with_record) <= MAX_LOOSE_RECORDS
        self.rendered: dict[str, nbformat.NotebookNode] = {}  # slug -> the notebook on a page
        self.all_notebooks = all_notebooks

    def write(self, title: str, lead: str, summary: Sequence[Mapping[str, Any]]) -> None:
        for part in ("notebooks", "records", "questions", "figures"):
            (self.out / part).mkdir()
        (self.out / MARKER).write_text("made by hipbook; written anew each time\n")
        (self.out / "style.css").write_text(html.css(), encoding="utf-8")
        for runs in self.groups.values():
            self._notebooks(runs)
        self._records()
        questions = [self._question(name, runs) for name, runs in self.groups.items()]
        self._coverage()
        if self.claims:
            self._claims()
        not_claimed = dict.fromkeys(s for run in self.with_record for s in run.record.not_claimed)
        self._page(
            "index.html", "index.html.j2", title, lead=lead, questions=questions, claims=len(self.claims),
            summary=[{k: tables.cell(v) for k, v in row.items()} for row in summary],
            summary_note=SUMMARY_NOTE, not_claimed=list(not_claimed),
            archive="" if self.loose else "records.zip",
        )  # fmt: skip

    def _page(self, path: str, template: str, title: str, **fields: Any) -> None:
        text = html.page(template, home="../" * path.count("/"), title=title, **fields)
        (self.out / path).write_text(text, encoding="utf-8")

    # --- parts ------------------------------------------------------------------------------------

    def _notebooks(self, runs: Sequence[Run]) -> None:
        """Render executed notebooks: all, or what failed and the first of each board."""
        executed = [run for run in runs if run.executed]
        if len(executed) > MAX_NOTEBOOKS and not self.all_notebooks:
            first = {run.board: run for run in reversed(executed) if run.status == "PASSED"}
            failed = [run for run in executed if run.status != "PASSED"]
            executed = [*first.values(), *failed][:MAX_NOTEBOOKS]
        for run in executed:
            try:
                notebook = nbformat.read(run.executed, as_version=4)
                body = html.notebook_body(notebook)
            except Exception as error:  # whatever a damaged notebook does to nbformat and nbconvert
                body = f"the executed notebook cannot be read: {type(error).__name__}: {error}"
                notebook = nbformat.v4.new_notebook()
            self.rendered[run.slug] = notebook
            record = f"../records/{run.slug}.html" if run.record else ""
            title = html.heading(notebook) or run.name
            self._page(f"notebooks/{run.slug}.html", "notebook.html.j2", title, body=body, record=record)

    def _records(self) -> None:
        archive = None if self.loose else zipfile.ZipFile(
            self.out / "records.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=6
        )  # fmt: skip
        for run in self.with_record:
            name = f"{run.slug}.record.json"
            if archive is None:
                shutil.copyfile(run.record_file, self.out / "records" / name)
            else:
                archive.write(run.record_file, name)
            notebook = f"../notebooks/{run.slug}.html" if run.slug in self.rendered else ""
            page = html.record_page(
                run.record, raw=name if self.loose else "", notebook=notebook, slug=run.slug
            )
            (self.out / "records" / f"{run.slug}.html").write_text(page, encoding="utf-8")
        if archive is not None:
            archive.close()

    def _question(self, name: str, runs: Sequence[Run]) -> dict[str, Any]:
        """The page of one question, and its card on the index."""
        rendered = [run for run in runs if run.slug in self.rendered]
        first = self.rendered[rendered[0].slug] if rendered else None
        recorded = [run for run in runs if run.record]
        question = (first and html.heading(first)) or (recorded[0].record.question if recorded else "")
        figures = board_figures.draw(name, runs, self.out / "figures")
        slug = gather.slug_of(name)
        for figure in figures:
            self._page(
                f"figures/{figure.slug}.html", "figure.html.j2", f"{figure.quantity}: {name}", figure=figure,
                question=question or name, back=f"../questions/{slug}.html",
            )  # fmt: skip
        names = gather.varied(runs)
        rows = [self._row(run, names) for run in runs]
        skipped = sum(bool(run.executed) for run in runs) - len(rendered)
        self._page(
            f"questions/{slug}.html", "question.html.j2", question or name, name=name, rows=rows,
            verdicts=_verdicts(recorded), figures=figures, not_rendered=skipped,
        )  # fmt: skip
        return {
            "name": name,
            "question": question,
            "page": f"questions/{slug}.html",
            "picture": html.first_picture(first) if first else "",
            "statuses": sorted(Counter(run.status for run in runs).items()),
            "words": sorted(Counter(v.word for run in recorded for v in run.record.verdicts).items()),
            "whys": [run.why for run in runs if run.why and len(runs) == 1],
            "figures": sum(len(run.record.facts) for run in recorded),
            "notebook": f"notebooks/{rendered[0].slug}.html" if rendered else "",
            "record": f"records/{recorded[0].slug}.html" if len(recorded) == 1 else "",
        }

    def _row(self, run: Run, names: Sequence[str]) -> dict[str, Any]:
        return {
            "board": run.board or "no board",
            "point": gather.label(run, names),
            "status": run.status,
            "why": run.why,
            "record": f"records/{run.slug}.html" if run.record else "",
            "notebook": f"notebooks/{run.slug}.html" if run.slug in self.rendered else "",
        }

    def _coverage(self) -> None:
        matrices = []
        for name, runs in self.groups.items():
            names = gather.varied(runs)
            boards = list(dict.fromkeys(run.board for run in runs))
            points: dict[str, dict[str, list[dict[str, Any]]]] = {}
            for run in runs:
                row = points.setdefault(gather.label(run, names), {})
                row.setdefault(run.board, []).append(self._row(run, names))
            states = Counter(_state(run) for run in runs)
            matrices.append(
                {
                    "name": name,
                    "page": f"questions/{gather.slug_of(name)}.html",
                    "boards": [board or "no board" for board in boards],
                    "rows": [
                        {"point": p, "cells": [row.get(b, []) for b in boards]} for p, row in points.items()
                    ],
                    "runs": len(runs),
                    **{state: states[state] for state in ("done", "failed", "missing")},
                }
            )
        self._page("coverage.html", "coverage.html.j2", "Coverage", matrices=matrices)

    def _claims(self) -> None:
        told = []
        for one in self.claims:
            cited = [
                {
                    "text": f"{c.word}: {c.subject}",
                    "path": c.path,
                    "href": f"records/{self.cited[c.path].slug}.html" if c.path in self.cited else "",
                }
                for c in one.records
            ]
            corrected = [
                {"how": str(how), "id": other.id} for other, how in ledger.corrected_by(self.claims, one.id)
            ]
            told.append({"claim": one, "cited": cited, "corrected": corrected})
        self._page("claims.html", "claims.html.j2", "Claims", claims=told)


def _state(run: Run) -> str:
    if run.status in (gather.MISSING, "CANCELLED"):
        return "missing"
    return "done" if run.status == "PASSED" else "failed"


def _verdicts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row a (word, subject): on which boards it was said, how often, and one record that says so."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for verdict in run.record.verdicts:
            key = (str(verdict.word), verdict.subject)
            row = rows.setdefault(
                key, {"word": key[0], "subject": key[1], "boards": Counter(), "reason": verdict.reason,
                      "href": f"../records/{run.slug}.html"}
            )  # fmt: skip
            row["boards"][run.board or "no board"] += 1
    return list(rows.values())


def _cited(claims: Sequence[ledger.Claim], taken: set[str]) -> dict[str, Run]:
    """The records the claims cite, as runs with pages of their own, by path. One not believed is left to
    `hipbook claims check`, which says why.
    """
    found: dict[str, Run] = {}
    for path in dict.fromkeys(cited.path for one in claims for cited in one.records):
        file = paths.root() / path
        try:
            record = records.read(file)
        except records.BadRecord:
            continue
        board = str(record.board.get("name", ""))
        slug = f"cited-{gather.slug_of(Path(path).name.removesuffix(records.store.SUFFIX))}"
        while slug in taken:
            slug += "_"
        taken.add(slug)
        found[path] = Run(
            record.made_by, slug, str(record.status), "", record.parameters, board, file.parent,
            record=record, record_file=file,
        )  # fmt: skip
    return found
