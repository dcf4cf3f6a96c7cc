"""Executed notebooks and their records as a folder of HTML that opens from a file path.

Every page holds all it needs (styles and pictures inside), asks for nothing over the network, and runs no
script. Text from records and outputs is escaped; HTML outputs of notebooks keep their tables and nothing
that could run or load something.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import bleach
import jinja2
import latex2mathml.converter
import nbformat
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

import hipbook
from hipbook import records
from hipbook.errors import HipbookError
from hipbook.records import Record
from hipbook.report import tables

_TABLE_TAGS = {
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "caption",
    "p",
    "b",
    "i",
    "strong",
    "em",
    "code",
    "br",
}
_TABLE_ATTRIBUTES = {"th": ["colspan", "rowspan", "scope"], "td": ["colspan", "rowspan"]}


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hipbook.report"), autoescape=True, undefined=jinja2.StrictUndefined
    )


@cache
def _css() -> str:
    source, _, _ = _templates().loader.get_source(_templates(), "style.css")
    return source + HtmlFormatter(style="friendly").get_style_defs(".highlight")


def page(
    template: str, *, home: str, title: str, trail: Sequence[Mapping[str, str]] = (), **fields: Any
) -> str:
    """One page from a template; `home` leads from it to the folder of index.html."""
    return (
        _templates()
        .get_template(template)
        .render(css=_css(), home=home, title=title, trail=trail, version=hipbook.__version__, **fields)
    )


# --- notebooks ------------------------------------------------------------------------------------


def notebook_body(notebook: nbformat.NotebookNode) -> Markup:
    """The cells of a notebook as HTML without a page around it.

    nbconvert's bare template; the complete ones load scripts from a content network.
    """
    clean = nbformat.from_dict(json.loads(json.dumps(notebook)))
    for cell in clean.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            for mime in set(data) - {"image/png", "text/html", "text/plain"}:
                del data[mime]
            if "text/html" in data:
                data["text/html"] = _safe(data["text/html"])
    html, _ = _exporter().from_notebook_node(clean)
    html = html.replace("No description has been provided for this image", _ALT)
    return Markup(html.replace("<pre>", '<pre tabindex="0">'))  # long lines scroll, also by keyboard


class _Prose(IPythonRenderer):
    """Markdown with formulas as MathML, which browsers draw without a script."""

    def inline_math(self, body: str) -> str:
        return latex2mathml.converter.convert(body)

    def block_math(self, body: str) -> str:
        return f"<p>{latex2mathml.converter.convert(body, display='block')}</p>"


@cache
def _exporter() -> HTMLExporter:
    def prose(_context: object, source: str) -> str:
        return MarkdownWithMath(renderer=_Prose(escape=True)).render(source)

    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    exporter.register_filter("markdown2html", jinja2.pass_context(prose))
    return exporter


_ALT = "A figure; its numbers are in the tables of this page"


def _safe(html: str) -> str:
    """The tables of an HTML output; styles and scripts go with their content, other tags lose theirs."""
    html = re.sub(r"(?is)<(style|script)\b.*?</\1\s*>", "", html)
    return bleach.clean(html, tags=_TABLE_TAGS, attributes=_TABLE_ATTRIBUTES, strip=True)


def first_picture(notebook: nbformat.NotebookNode) -> str:
    """The first PNG among the outputs, in base64; empty when there is none."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return re.sub(r"[^A-Za-z0-9+/=]", "", output["data"]["image/png"])
    return ""


def heading(notebook: nbformat.NotebookNode) -> str:
    """The notebook's question: its first heading."""
    for cell in notebook.cells:
        if found := re.match(r"#\s+(.+)", cell.source):
            return found[1].strip()
    return ""


# --- records --------------------------------------------------------------------------------------


def record_page(record: Record, *, raw: str, notebook: str = "") -> str:
    facts = [
        {
            "subject": fact.subject,
            "quantity": fact.quantity,
            "value": tables.cell(fact.value),
            "unit": fact.unit,
            "kind": fact.kind,
            "bound": f"{tables.cell(fact.bound.value)} ({fact.bound.what})" if fact.bound else "",
            "source": fact.source or "",
        }
        for fact in record.facts
    ]
    witnesses = [
        {
            "launch": w.subject,
            "arm": w.arm,
            "expected": hex(w.expected),
            "workgroups by what they wrote": ", ".join(f"{code} in {n:,}" for code, n in w.seen.items()),
        }
        for w in record.witnesses
    ]
    binaries = [
        {
            "architecture": b.arch,
            "sha256": b.sha256[:16],
            "source sha256": (b.source_sha256 or "")[:16],
            "compiler": b.compiler,
            "flags": " ".join(b.flags),
        }
        for b in record.code_objects
    ]
    return page(
        "record.html.j2",
        home="../",
        title=f"Record of {record.made_by}",
        trail=[],
        record=record,
        facts=facts,
        witnesses=witnesses,
        binaries=binaries,
        raw=raw,
        notebook=notebook,
    )


# --- the folder -----------------------------------------------------------------------------------


_MARKER = ".hipbook-report"
_SUMMARY_NOTE = "K+V bytes are what the kernel asked for, before any cache; the floor reads each key once."


def write_site(
    run_folders: Iterable[Path],
    out: Path,
    *,
    title: str,
    lead: str,
    summary: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Render the run folders of `hipbook run` under `out`; the path of its index.html.

    What cannot be read (a run that failed has no record) is shown with its outcome, never left out.
    """
    if out.exists() and any(out.iterdir()) and not (out / _MARKER).exists():
        raise HipbookError(f"{out}: holds other things than a report", fix="name an empty or a new folder")
    shutil.rmtree(out, ignore_errors=True)
    (out / "notebooks").mkdir(parents=True)
    (out / _MARKER).write_text("made by hipbook; written anew each time\n")
    (out / "records").mkdir()
    runs, not_claimed = [], []
    for folder in run_folders:
        run, record = _render(folder, out)
        runs.append(run)
        for sentence in record.not_claimed if record else ():
            if sentence not in not_claimed:
                not_claimed.append(sentence)
    index = page(
        "index.html.j2",
        home="",
        title=title,
        lead=lead,
        runs=runs,
        summary=[{k: tables.cell(v) for k, v in row.items()} for row in summary],
        summary_note=_SUMMARY_NOTE,
        not_claimed=not_claimed,
    )
    (out / "index.html").write_text(index, encoding="utf-8")
    return out / "index.html"


def _render(folder: Path, out: Path) -> tuple[dict[str, Any], Record | None]:
    """The pages of one run, and what the index says of it."""
    outcome = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
    name = outcome["notebook"]
    run = {"name": name, "status": outcome["status"], "why": outcome["why"], "question": "", "told": ""}
    run |= {"page": "", "record": "", "picture": ""}
    record = None
    if outcome["executed"]:
        notebook = nbformat.read(folder / outcome["executed"], as_version=4)
        run |= {
            "page": f"notebooks/{name}.html",
            "question": heading(notebook),
            "picture": first_picture(notebook),
        }
        body = page(
            "notebook.html.j2", home="../", title=heading(notebook) or name, body=notebook_body(notebook)
        )
        (out / run["page"]).write_text(body, encoding="utf-8")
    if outcome["record"]:
        record = records.read(folder / outcome["record"])
        run["record"] = f"records/{name}.html"
        run["question"] = run["question"] or record.question
        run["told"] = f"verdicts {len(record.verdicts)}, figures {len(record.facts)}"
        shutil.copyfile(folder / outcome["record"], out / "records" / outcome["record"])
        back = f"../notebooks/{name}.html" if outcome["executed"] else ""
        (out / run["record"]).write_text(
            record_page(record, raw=outcome["record"], notebook=back), encoding="utf-8"
        )
    return run, record
