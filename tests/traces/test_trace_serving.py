"""`vllm bench serve` files: figures per repetition, the stability gate, and what harnesses share."""

import json

import pytest

from hipbook.errors import BadArgument, Refused
from hipbook.measure.comparable import NotComparable
from hipbook.traces import serving
from hipbook.traces.trace import TraceError

WORKLOAD = {
    "model_id": "Qwen/Qwen3-0.6B",
    "num_prompts": 8,
    "max_concurrency": 1,
    "request_rate": "inf",
    "total_input_tokens": 8192,
    "total_output_tokens": 1024,
}


def result(folder, number, tpot, **changes):
    data = {
        **WORKLOAD,
        "completed": 8,
        "mean_tpot_ms": tpot,
        "mean_ttft_ms": 100.0 + number,
        "output_throughput": 1000 / tpot,
        "request_throughput": 0.5,
        **changes,
    }
    path = folder / f"rep{number}.json"
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return path


def series(folder, values, **changes):
    return serving.read_series([result(folder, n, value, **changes) for n, value in enumerate(values)])


def test_stable_repetitions_give_their_median(tmp_path):
    found = series(tmp_path, [42.54, 42.46, 42.19])  # the report's own, d128 off
    assert found.figure("tpot") == 42.46
    assert found.stability("tpot").stable
    row = next(row for row in found.rows() if row["quantity"] == "tpot")
    assert (row["unit"], row["repetitions"], row["figure"]) == ("ms", "42.54, 42.46, 42.19", 42.46)


def test_two_prompts_that_gave_two_answers_are_refused(tmp_path):
    found = series(tmp_path, [6.96, 13.45])  # T5
    with pytest.raises(Refused, match=r"tpot: 6.96, 13.45 ms is unstable"):
        found.figure("tpot")
    assert next(row for row in found.rows() if row["quantity"] == "tpot")["figure"] is None


def test_one_repetition_stands_for_nothing(tmp_path):
    with pytest.raises(Refused, match="one repetition"):
        series(tmp_path, [42.5]).figure("tpot")


def test_an_outlier_is_shown_and_not_averaged_away(tmp_path):
    found = series(tmp_path, [31.14, 23.86, 23.75, 23.68])  # T4
    with pytest.raises(Refused, match=r"31.14"):
        found.figure("tpot")


def test_repetitions_of_another_workload_are_refused_by_name(tmp_path):
    paths = [result(tmp_path, 0, 42.0), result(tmp_path, 1, 42.0, num_prompts=2, completed=2)]
    with pytest.raises(BadArgument, match=r"num_prompts: 8 against 2"):
        serving.read_series(paths)


def test_output_tokens_may_differ_within_a_per_cent(tmp_path):
    assert series(tmp_path, [42.0, 42.1], total_output_tokens=1024).figure("tpot")
    paths = [result(tmp_path, 0, 42.0), result(tmp_path, 1, 42.0, total_output_tokens=1020)]
    assert serving.read_series(paths)
    with pytest.raises(BadArgument, match="total_output_tokens"):
        serving.read_series([paths[0], result(tmp_path, 2, 42.0, total_output_tokens=512)])


def test_failed_requests_are_counted_and_none_completed_is_refused(tmp_path):
    assert serving.read_result(result(tmp_path, 0, 42.0, completed=6)).failed == 2
    with pytest.raises(TraceError, match="no request completed"):
        serving.read_result(result(tmp_path, 1, 42.0, completed=0))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"completed": 3}', '{"mean_tpot_ms": 3}', "\x00"])
def test_other_files_are_clear_errors(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"x\.json"):
        serving.read_result(path)


def test_unknown_quantity_and_no_files(tmp_path):
    with pytest.raises(BadArgument, match="one of tpot"):
        series(tmp_path, [1.0, 1.0]).values("latency")
    with pytest.raises(BadArgument, match="at least one"):
        serving.read_series([])


def test_harnesses_share_what_costs_the_same_in_both():
    same, others = serving.shared(serving.VLLM_SERVE, serving.IN_PROCESS)
    assert same == ["tpot"]
    assert "vllm bench serve also pays http, tokenizer" in others["ttft"]
    assert others["itl"] == "measured by vllm bench serve alone"
    assert serving.require_shared("tpot", serving.VLLM_SERVE, serving.IN_PROCESS) == "tpot"
    with pytest.raises(NotComparable, match=r"(?s)ttft.*http.*compare on what both pay alike: tpot"):
        serving.require_shared("ttft", serving.VLLM_SERVE, serving.IN_PROCESS)
    with pytest.raises(NotComparable, match="measured by neither"):
        serving.require_shared("energy", serving.VLLM_SERVE, serving.IN_PROCESS)
