"""The README shows a real result, and names only what exists."""

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
