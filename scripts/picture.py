"""Copy the README's picture out of notebook 10's committed outputs, so that it is always a real result."""

import base64
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "notebooks" / "10_paged_attention_gap.ipynb"
PICTURE = ROOT / "docs" / "pictures" / "gap.png"
DRAWN_BY = "plots.small_multiples(rows, gap.PANELS"


def picture_in_notebook() -> bytes:
    """PNG bytes of the one figure that the notebook draws with DRAWN_BY."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    found = [
        base64.b64decode(output.data["image/png"])
        for cell in cells
        if cell.cell_type == "code" and DRAWN_BY in cell.source
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    if len(found) != 1:
        raise SystemExit(f"{NOTEBOOK.name}: {len(found)} figures drawn by {DRAWN_BY}...), expected one")
    return found[0]


def main() -> int:
    picture = picture_in_notebook()
    if not PICTURE.is_file() or PICTURE.read_bytes() != picture:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        PICTURE.write_bytes(picture)
        print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
