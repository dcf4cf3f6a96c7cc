"""The page documents what there is."""

import re
from pathlib import Path

from hipbook.cli_trace_pairs import app
from hipbook.traces import counters, schema

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "traces.md").read_text()
LIBRARY = Path(__file__).resolve().parents[2] / "lib" / "hipbook" / "traces"


def test_every_table_and_column_is_documented():
    for table in schema.TABLES.values():
        assert f"**{table.name}**" in PAGE
        for column, (_, meaning) in table.columns.items():
            assert f"`{column}`" in PAGE, f"{table.name}.{column}"
            assert meaning


def test_every_verb_and_every_finding_is_documented():
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert re.search(rf"[{{,]{name}[,}}]", PAGE), name
    for module in ("health.py", "checks.py"):
        text = (LIBRARY / module).read_text()
        for word in re.findall(r'(?:Finding|_finding)\(\s*"(?:problem|caution|note)",\s*"(\w+)"', text):
            assert word in PAGE, word


def test_every_counter_named_on_the_page_is_in_the_catalogue():
    section = PAGE.split("## Counters")[1].split("## Repeated")[0]
    named = set(re.findall(r"`((?:GL2C|SQ|GRBM|GPU|FETCH)_[A-Za-z0-9_]+)`", section))
    assert len(named) > 15
    assert named <= set(counters.catalogue()), named - set(counters.catalogue())


def test_schema_imports_nothing_of_ours():
    assert "hipbook" not in re.sub(r'""".*?"""', "", (LIBRARY / "schema.py").read_text(), flags=re.DOTALL)
