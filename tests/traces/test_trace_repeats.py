"""Repeated work: a duplicate quantization shows, different shapes and interleaved kernels do not."""

import polars as pl
from trace_makers import trace

from hipbook.traces.repeats import repeated_work, runs_of_repeats


def step(now, *, twice=True, grids=None):
    """Quantize (twice), multiply, attend: one layer of a decode step."""
    names = ["QuantizeQ8", *(["QuantizeQ8"] if twice else []), "Gemv", "Attend"]
    return [(name, now + 100 * i, now + 100 * i + 60 + i, None) for i, name in enumerate(names)]


def layers(n, **options):
    return trace(*(row for layer in range(n) for row in step(1000 * (layer + 1), **options)))


def test_duplicate_quantization_is_found():
    found = repeated_work(layers(30))
    assert found.select("Kernel_Name", "Calls", "Runs", "Usual_Length", "Repeated_Calls").rows() == [
        ("QuantizeQ8", 60, 30, 2, 30)
    ]
    assert found["Repeated_Ns"].item() == 30 * 61
    assert repeated_work(layers(30, twice=False)).height == 0


def test_another_grid_another_queue_and_another_length_are_other_work():
    made = layers(3)
    grids = pl.Series("g", [n % 2 * 64 + 64 for n in range(made.dispatches.height)], dtype=pl.Int64)
    other_grid = made.replace_tables(dispatches=made.dispatches.with_columns(grids.alias("Grid_Size_X")))
    assert repeated_work(other_grid).height == 0
    assert repeated_work(trace(("q", 100, 160, None, 1), ("q", 200, 260, None, 2))).height == 0
    assert repeated_work(trace(("q", 100, 160), ("q", 200, 300))).height == 0


def test_known_inputs_decide_where_they_are_known():
    made = trace(("q", 100, 160), ("q", 200, 300), ("q", 400, 460))
    same = runs_of_repeats(made, inputs=pl.Series(["x", "x", "y"]))
    assert same.select("First_Row", "Length", "Repeated_Ns").rows() == [(1, 2, 100)]


def test_order_in_the_file_does_not_matter():
    made = layers(5)
    shuffled = made.replace_tables(dispatches=made.dispatches.reverse())
    assert repeated_work(shuffled).equals(repeated_work(made))
