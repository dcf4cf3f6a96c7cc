"""Pages: an executed notebook, a record, and what surrounds them. site.py makes a folder of them.

A page asks for nothing but the folder's own style sheet and pictures, and runs no script. Text from records
and outputs is escaped; HTML outputs of notebooks keep their tables and nothing that could run or load
something.
"""

import json
import re
from functools import cache
from typing import Any

import bleach
import jinja2
import latex2mathml.converter
import nbformat
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import token
from pygments.formatters import HtmlFormatter
from pygments.style import Style

import hipbook
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
        loader=jinja2.PackageLoader("hipbook.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


class _Code(Style):
    """Colours of code with a contrast of at least 4.5 on a cell's ground; pygments' own have less."""

    styles = {  # noqa: RUF012  (pygments' form)
        token.Comment: "italic #576074",
        token.Keyword: "bold #6b2d83",
        token.Literal.String: "#0b6b3a",
        token.Literal.Number: "#8a3b00",
        token.Name.Builtin: "#0a5c9e",
        token.Name.Function: "#0a5c9e",
        token.Operator.Word: "bold #6b2d83",
    }


@cache
def css() -> str:
    """The style sheet of a report's folder."""
    source, _, _ = _templates().loader.get_source(_templates(), "style.css")
    return source + HtmlFormatter(style=_Code).get_style_defs(".highlight")


def page(template: str, *, home: str, title: str, **fields: Any) -> str:
    """One page from a template; `home` leads from it to the folder of index.html."""
    made = _templates().get_template(template)
    return made.render(home=home, title=title, version=hipbook.__version__, **fields)


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


def record_page(record: Record, *, raw: str, notebook: str = "", slug: str = "") -> str:
    """A record in full. `raw` and `notebook` lead to JSON and notebook; `slug` names it in the archive."""
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
    launches: dict[tuple[str, str, str], list[str]] = {}  # alike in all but their names: a row
    for w in record.witnesses:
        seen = ", ".join(f"{code} in {n:,}" for code, n in w.seen.items())
        launches.setdefault((w.arm, hex(w.expected), seen), []).append(w.subject)
    witnesses = [
        {
            "arm": arm,
            "expected": expected,
            "workgroups by what they wrote": seen,
            "launches": f"{len(names):,}: {'; '.join(names)}",
        }
        for (arm, expected, seen), names in launches.items()
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
        slug=slug,
        record=record,
        facts=facts,
        witnesses=witnesses,
        binaries=binaries,
        raw=raw,
        notebook=notebook,
    )
