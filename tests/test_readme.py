"""The README shows a real result, and names only what exists."""

import json
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_picture_is_the_one_in_notebook_10():
    script = runpy.run_path(str(ROOT / "scripts" / "picture.py"))
    assert script["PICTURE"].read_bytes() == script["picture_in_notebook"]()
    assert script["PICTURE"].relative_to(ROOT).as_posix() in README


def test_every_file_the_readme_links_to_exists():
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert len(links) > 10
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_every_notebook_is_in_the_readme():
    names = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert len(names) >= 7
    assert [name for name in names if f"notebooks/{name}.ipynb" not in README] == []


def test_the_summary_holds_what_the_record_of_notebook_10_counted():
    block = README.split("<!-- summary:begin -->")[1].split("<!-- summary:end -->")[0]
    record = json.loads((ROOT / "data" / "measured" / "10_paged_attention_gap.record.json").read_text())
    facts = {(fact["subject"], fact["quantity"]): fact["value"] for fact in record["facts"]}
    rows = [line.split() for line in block.splitlines() if re.match(r" {4}(online|decode)", line)]
    assert len(rows) == 3
    for arm, _, _, barriers, instructions, moved, _ in rows:
        where = f"{arm}, 1024 keys"
        assert int(barriers) == facts[arm, "barriers per key"]
        assert int(instructions.replace(",", "")) == facts[where, "wave instructions"]
        assert int(moved.replace(",", "")) == facts[where, "K and V bytes asked for"]


def test_no_block_of_the_readme_is_left_empty():
    assert not re.search(r"<!-- \w+ -->\s*\n", README)
    assert "<!-- summary:begin -->\n<!-- summary:end -->" not in README
