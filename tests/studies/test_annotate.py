"""Counts by source line: they add up to the totals, name the author's lines, and change nothing."""

import matplotlib.pyplot as plt
import pytest

from hipbook import boards, paths
from hipbook.errors import BadArgument
from hipbook.ops import models
from hipbook.report import annotate_plots
from hipbook.studies import annotate
from hipbook.studies.arms import run_arm
from hipbook.studies.profile import step_call

BOARD = boards.get(boards.DEFAULT)
CALL = step_call(models.get("Qwen3-0.6B"), [40])


@pytest.fixture(scope="module")
def profiles():
    return {arm: annotate.of_arm(arm, CALL, BOARD, followed=3) for arm in ("online", "decode")}


def line_of(file: str, words: str) -> int:
    lines = (paths.kernels() / file).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if words in line]
    return number


@pytest.mark.parametrize("arm", ["online", "decode"])
def test_lines_add_up_to_a_plain_runs_totals(profiles, arm):
    profile, totals = profiles[arm], run_arm(CALL, arm, BOARD).counters.totals
    lines = profile.lines.values()
    assert profile.kernel == f"paged_attention_{arm}"
    assert profile.instructions == totals["SQ_INSTS"]  # line tables leave the instructions as they are
    assert sum(line.bytes for line in lines) == totals["BYTES_READ"] + totals["BYTES_WRITTEN"]
    assert sum(line.segments32 for line in lines) == totals["SEGMENTS_32B"]
    # wider ones depend on where the host put the output, so on this very run
    assert sum(line.segments128 for line in lines) == profile.counted.totals["SEGMENTS_128B"]
    assert sum(line.lds_bytes for line in lines) == totals["LDS_BYTES_READ"] + totals["LDS_BYTES_WRITTEN"]
    assert sum(line.lds_conflicts for line in lines) == totals["LDS_BANK_CONFLICTS"]
    assert annotate.UNKNOWN not in profile.lines
    assert all((paths.kernels() / file).is_file() for file, _ in profile.lines)


def test_what_a_line_did_is_what_it_says(profiles):
    online = profiles["online"].lines
    file = "paged_attention/online.h"
    v = online[file, line_of(file, "pv[i] = pv[i] * keep + p * to_f32(v[d0 + i])")]
    assert v.bytes == 40 * 16 * 128 * 2  # V, once for each query head
    tree = online[file, line_of(file, "partial[thread] += partial[thread + half];")]
    # seven steps of 64, 32, ... 1 threads, two loads and a store each, a key and head
    assert tree.lds_bytes == 127 * 3 * 4 * 40 * 16
    assert 10 < tree.lanes < 20
    k = line_of("paged_attention/wave_rows.h", "rows_k[j].load(")
    rows = profiles["decode"].lines["paged_attention/wave_rows.h", k]
    assert rows.lanes == 32
    # a barrier of ROCm's header belongs to the line that wrote it
    assert online[file, line_of(file, "partial[thread] = dot;") + 1].instructions > 0


def test_hottest_first_with_the_source(profiles):
    rows = annotate.hottest(profiles["online"], 5)
    counts = [row["instructions"] for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert (
        rows[0]["line"]
        == f"paged_attention/online.h:{line_of('paged_attention/online.h', 'table[key / block_size]')}"
    )
    assert "table[key / block_size]" in rows[0]["source"]
    everything = annotate.hottest(profiles["online"])
    assert sum(row["share, %"] for row in everything) == pytest.approx(100, abs=2)


def test_two_arms_differ_where_their_sources_do(profiles):
    rows = annotate.difference(profiles["online"], profiles["decode"])
    assert (
        sum(row["more"] for row in rows) == profiles["decode"].instructions - profiles["online"].instructions
    )
    sizes = [abs(row["more"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert annotate.difference(profiles["online"], profiles["online"]) == []


def test_a_whole_file(profiles):
    rows = annotate.source(profiles["online"], "paged_attention/online.h")
    assert len(rows) == len((paths.kernels() / "paged_attention/online.h").read_text().splitlines())
    assert rows[0]["instructions"] is None
    with pytest.raises(BadArgument, match="no such file"):
        annotate.source(profiles["online"], "none.h")


def test_one_workgroup_is_followed(profiles):
    for arm, profile in profiles.items():
        events = profile.counted.events
        waves = {"online": 4, "decode": 8}[arm]
        assert set(events["wave"]) == set(range(waves))
        assert len(events) < profile.counted.executions.sum() / 16  # of 16 workgroups; waits are not events
        rows = annotate.lanes_over_time(profile, bins=10)
        assert len(rows) == 10 * waves
        lanes = [row["active lanes"] for row in rows if row["active lanes"] is not None]
        assert len(lanes) > len(rows) / 2
        assert all(0 <= mean <= 32 for mean in lanes)
    lanes = {arm: annotate.lanes_over_time(p, bins=1) for arm, p in profiles.items()}
    assert lanes["online"][0]["active lanes"] < 25  # wave 0: the tree, and thread 0 alone
    assert min(row["active lanes"] for row in lanes["decode"]) > 30


def test_segments_and_the_fewest_there_could_be(profiles):
    for profile in profiles.values():
        for row in annotate.segments_of_loads(profile):
            assert (
                row["segments a time"] >= row["fewest"] - 1e-9
                or row["bytes a time"] > 32 * row["segments a time"]
            )
    narrow = [
        r for r in annotate.segments_of_loads(profiles["online"]) if r["instruction"] == "global_store_b16"
    ]
    assert all(row["segments a time"] == 8 for row in narrow)  # one element in four of each segment


def test_any_operations_case():
    profile = annotate.of_case("quantize_q8k/wave/random/f32/k256/r1/contiguous/s0", BOARD)
    assert profile.kernel.startswith("quantize_q8k")
    assert profile.launches >= 1
    assert any(file == "quantize_q8k/wave.h" for file, _ in profile.lines)


def test_what_cannot_be_annotated_is_refused():
    class Gpu:
        kind, name = "gpu", "nvidia-0"

    with pytest.raises(BadArgument, match="emulated"):
        annotate.of_arm("online", CALL, Gpu())
    with pytest.raises(BadArgument):
        annotate.of_case("paged_attention/none", BOARD)
    with pytest.raises(BadArgument, match="executed nothing"):
        annotate.lanes_over_time(annotate.of_arm("online", CALL, BOARD, followed=1000))


def test_pictures(profiles):
    drawn = annotate_plots.lanes_over_time(
        {arm: annotate.lanes_over_time(p, bins=20) for arm, p in profiles.items()}, title="lanes"
    )
    assert len(drawn.axes) == 3  # two arms and the scale
    drawn = annotate_plots.segments(
        {arm: annotate.segments_of_loads(p) for arm, p in profiles.items()}, title="segments"
    )
    assert len(drawn.axes[0].get_yticklabels()) == sum(
        len(annotate.segments_of_loads(p)) for p in profiles.values()
    )
    plt.close("all")
    for draw in (annotate_plots.lanes_over_time, annotate_plots.segments):
        with pytest.raises(BadArgument):
            draw({}, title="")
