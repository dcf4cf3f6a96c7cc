"""The speed bench on a few rows: its files read, every tool gives the same sums, another sum is found out.

How fast it goes is no test's business: `python bench/traces.py` prints it.
"""

import importlib.util
from pathlib import Path

import pytest

from hipbook.traces.read import read_trace


@pytest.fixture(scope="module")
def bench():
    path = Path(__file__).resolve().parents[2] / "bench" / "traces.py"
    spec = importlib.util.spec_from_file_location("bench_traces", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.JSON_DISPATCHES = 300
    return module


def test_every_tool_agrees(bench, tmp_path, monkeypatch, capsys):
    # memory is counted over the whole process, and this one has run other tests
    monkeypatch.setattr(
        bench, "TARGETS", {kind: (limit_s, None) for kind, (limit_s, _) in bench.TARGETS.items()}
    )
    paths = bench.generate(tmp_path, 2000)
    assert bench.report(paths, 1) == 0
    out = capsys.readouterr().out
    assert out.count("target") == 3
    for tool in ("polars", "pandas", "sqlite"):
        assert tool in out
    heights = {kind: read_trace(path).dispatches.height for kind, path in paths.items()}
    assert heights == {"CSV": 2000, "rocpd": 2000, "JSON": 300}


def test_other_sums_are_found_out(bench, tmp_path, monkeypatch, capsys):
    paths = bench.generate(tmp_path, 500)
    monkeypatch.setattr(bench, "with_pandas", lambda path: {"k": 1})
    assert bench.report(paths, 1) == 1
    assert "pandas: group by name and sum: other sums than ours" in capsys.readouterr().out


def test_rows_are_as_long_as_in_the_figures_to_beat(bench):
    made = bench.made(20_000)
    from hipbook.traces import schema
    from hipbook.traces.write import _KERNELS_70, _csv_text

    text = _csv_text(made.dispatches, _KERNELS_70, {"Kind": "KERNEL_DISPATCH"})
    assert 420 < len(text) / 20_000 < 440
    assert made.dispatches["Kernel_Name"].dtype == schema.TEXT
