"""Every notebook, headless under plain papermill with other parameters: twice, with one record but for times
and environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hipbook import paths, records

NOTEBOOKS = sorted((paths.root() / "notebooks").glob("*.ipynb"))
# Another board, model, context, seed or dtype for each notebook that has one; none may be left out.
OTHERS = {
    "00_board": {"board": "gfx1201-emu", "workgroups": 3, "seed": 5},
    "01_build": {"board": "gfx1100-emu", "archs": ["gfx1100"], "head_dims": [64], "dtype": "f16"},
    "02_oracle": {"board": "gfx1100-emu", "head_dim": 64, "ratio": 3, "dtype": "f32", "seed": 9},
    "03_profile": {"board": "gfx1151-emu", "model": "Qwen3-4B", "keys": [7, 33], "dtype": "f16", "seed": 3},
    "04_compare": {"board": "gfx1201-emu", "model": "Qwen3-4B", "keys": [19, 40], "seed": 2},
    "10_paged_attention_gap": {
        "board": "gfx1100-emu", "model": "Qwen3-4B", "first_context": 3, "last_context": 5, "long_keys": 130,
        "seed": 4,
    },
    "11_decode_d128_arm": {"board": "gfx1201-emu", "ratios": [3], "keys": 70, "control_head_dim": 512},
    "12_decode_attribution": {"step": 4, "classes": "by_kind", "seed": 77},
    "13_activation_quantizer": {"board": "gfx1100-emu", "seed": 6},
    "14_gdn_post_conv": {"board": "gfx1100-emu", "seed": 6},
    "15_decode_step": {"board": "gfx1201-emu", "seed": 3},
    "16_time_on_a_board": {"board": "gfx1100-emu", "ratio": 4},
    "20_board_sweep": {"arms": ["online", "decode"], "keys": [8], "seed": 2},
}  # fmt: skip


def test_no_notebook_is_left_out():
    assert sorted(OTHERS) == [path.stem for path in NOTEBOOKS]


@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_other_parameters_twice(notebook: Path, tmp_path):
    contents = [run(notebook, OTHERS[notebook.stem], tmp_path / name) for name in ("a", "b")]
    assert contents[0] == contents[1]
    assert len(contents[0]) > 500


def run(notebook: Path, parameters: dict, out: Path) -> str:
    """The record's bytes without times and environment, of a run as a person would make it."""
    out.mkdir()
    (out / "p.yaml").write_text(yaml.safe_dump(parameters))
    command = [sys.executable, "-m", "papermill", notebook, out / "out.ipynb", "-f", out / "p.yaml"]
    env = {**os.environ, "HIPBOOK_RECORDS": str(out)}
    done = subprocess.run(command, cwd=paths.root(), env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    [path] = out.glob("*.record.json")
    assert records.read(path).parameters.items() >= parameters.items()
    data = json.loads(path.read_text())
    assert data.pop("times")["wall_s"] > 0
    data.pop("environment")
    return json.dumps(data, indent=2)
