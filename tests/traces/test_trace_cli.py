"""`hipbook trace`: every verb on small files, exit codes, JSON, and figures that are drawn."""

import json
import sys

import pytest
from trace_makers import line_70, trace, write_70
from typer.testing import CliRunner

from hipbook import cli
from hipbook.cli_trace_pairs import app
from hipbook.errors import BadArgument
from hipbook.traces import expect
from hipbook.traces.reconstruction import reconstruct
from hipbook.traces.trace import TraceError
from hipbook.traces.write import write_csv

run = CliRunner()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    for tokens in (1, 3):
        write_csv(reconstruct(tokens), folder / str(tokens), "run")
    return folder / "1", folder / "3"


def invoke(*arguments, code=0):
    result = run.invoke(app, [str(one) for one in arguments])
    assert result.exit_code == code, result.output + str(result.exception)
    return result.output


def test_stats_prints_and_draws(pair, tmp_path):
    out = invoke("stats", pair[0], "--plot", tmp_path / "s.png")
    assert "sum " in out
    assert "busy union" in out
    assert "span" in out
    assert "vt::QuantizeQ8KK" in out
    assert (tmp_path / "s.png").stat().st_size > 5000
    data = json.loads(run.invoke(app, ["stats", str(pair[0]), "--json"]).stdout)
    assert {row["Kernel_Name"] for row in data["rows"]} >= {"vt::QuantizeQ8KK", "vt::GdnPostConvK"}
    assert data["totals"]["rows"] == 3 * 1738


def test_diff_recovers_the_tokens(pair, tmp_path):
    out = invoke("diff", pair[0], 1, pair[1], 3, "--plot", tmp_path / "d.png")
    assert "1738 dispatches, GPU 59.9" in out  # two tokens: the run noise is in the third decimal
    assert "wall 88.700 ms" in out
    assert (tmp_path / "d.png").exists()
    data = json.loads(run.invoke(app, ["diff", str(pair[0]), "1", str(pair[1]), "3", "--json"]).stdout)
    assert len(data["kernels"]) == 5


def test_attribute_adds_up(pair, tmp_path):
    out = invoke("attribute", pair[0], "--plot", tmp_path / "a.png")
    assert "unexplained" in out
    assert "never added" in out
    data = json.loads(run.invoke(app, ["attribute", str(pair[0]), "--json"]).stdout)
    assert sum(row["Wall_Ns"] for row in data["rows"]) == data["wall_ns"]


def test_windows_list_and_choose(pair):
    assert "decode_step" in invoke("windows", pair[1])
    chosen = invoke("windows", pair[1], "--marker", "decode_step", "--occurrence", 1)
    assert "by launch 1738" in chosen
    assert "1738 kernels" in chosen
    by_time = invoke("windows", pair[1], "--marker", "decode_step", "--follow", "time")
    assert "1738 kernels" not in by_time
    period = invoke("windows", pair[1], "--period", "GdnPostConvK", "--edge", "overlapping")
    assert "kernels; sum" in period


def test_compare_names_nothing_between_equals(pair, tmp_path):
    out = invoke("compare", "--base", pair[0], "--new", pair[0])
    assert "no kernel changed beyond the noise" in out
    changed = invoke("compare", "--base", pair[0], "--new", pair[1], "--plot", tmp_path / "c.png")
    assert "more calls" in changed or "faster" in changed
    assert (tmp_path / "c.png").exists()


def test_health_and_strict(tmp_path):
    good = write_70(tmp_path / "1_kernel_trace.csv", [line_70(1), line_70(2)])
    assert "nothing to report" in invoke("health", good, "--strict")
    bad = write_70(tmp_path / "2_kernel_trace.csv", [line_70(1), line_70(2)[:50]])
    assert "rejected_rows (1)" in invoke("health", bad)
    invoke("health", bad, "--strict", code=1)
    data = json.loads(run.invoke(app, ["health", str(bad), "--json"]).stdout)
    assert data["rejected"] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--kernel", "QuantizeQ8"], 0),
        (["--kernel", "QuantizeQ8", "--min-calls", "843"], 0),
        (["--kernel", "QuantizeQ8", "--min-calls", "844"], 1),
        (["--kernel", "NewArm"], 1),
        (["--absent", "NewArm"], 0),
        (["--absent", "Gdn"], 1),
        (["--kernel", "Gdn", "--absent", "Quantize"], 1),
    ],
)
def test_assert_exit_codes(pair, arguments, code):
    out = invoke("assert", pair[0], *arguments, code=code)
    assert ("FAILED" in out) is bool(code)


def test_assert_fails_on_a_trace_without_dispatches(tmp_path):
    empty = write_70(tmp_path / "1_kernel_trace.csv", [])
    assert "nothing was compared" in invoke("assert", empty, "--absent", "anything", code=1)


@pytest.mark.parametrize(("kernel", "options"), [(None, {}), ("(", {}), ("a", {"min_calls": 0})])
def test_assertions_about_nothing_are_refused(kernel, options):
    with pytest.raises(BadArgument):
        expect.expect(trace(("a", 1, 2)), kernel, **options)


def test_rows_without_times_still_show_that_a_kernel_ran():
    assert expect.expect(trace(("a", 0, 0)), "^a$")[0].passed


def test_repeats_timeline_export_counters(pair, tmp_path):
    assert "check" in invoke("repeats", pair[0])
    invoke("timeline", pair[0], tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 5000
    invoke("export", pair[0], tmp_path / "t.json")
    assert "1738" in invoke("windows", tmp_path / "t.json", "--marker", "decode_step")
    invoke("export", tmp_path / "t.json", tmp_path / "csv")
    assert (tmp_path / "csv" / "t_kernel_trace.csv").exists()
    assert isinstance(run.invoke(app, ["counters", str(pair[0])]).exception, TraceError)


def test_serving_prints_the_gate(tmp_path):
    for number, tpot in enumerate((42.54, 42.46, 42.19)):
        (tmp_path / f"{number}.json").write_text(
            json.dumps({"completed": 8, "num_prompts": 9, "mean_tpot_ms": tpot})
        )
    out = invoke("serving", *sorted(tmp_path.iterdir()))
    assert "42.46" in out
    assert "3 requests failed" in out


def test_errors_become_messages_and_exit_code_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hipbook", "trace", "stats", str(tmp_path / "absent")])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert "no such file" in capsys.readouterr().err


def test_two_windows_at_once_are_refused(pair):
    assert isinstance(
        run.invoke(app, ["windows", str(pair[0]), "--graph", "0", "--period", "x"]).exception, BadArgument
    )
