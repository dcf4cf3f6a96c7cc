"""Notebook 03's GPU part without a GPU: a board that says it is AMD's, the stand-in, a replayed child.

It is here, not in tests/studies, for the stand-in and the run it replays.
"""

from dataclasses import replace
from functools import partial

import pytest

from hipbook import boards, records
from hipbook.boards.emulated import EmulatedBoard
from hipbook.errors import BadArgument
from hipbook.measure.bound import Bandwidth, FasterThanBound
from hipbook.notebooks.investigation import Investigation
from hipbook.profile import overhead, rocprofv3
from hipbook.profile.job import Done, ProfileError, read
from hipbook.profile.process import Ran
from hipbook.report import tables
from hipbook.studies import gpu_profile, profile

RATES = (Bandwidth("memory", 4.0, "wide", 6), Bandwidth("last-level cache", 5.0, "narrow", 6), 20_000)
ARMS, KEYS, MODEL = ["decode", "decode_gqa"], [5], "Qwen3-0.6B"


class GpuLike(EmulatedBoard):
    """Says it is a GPU of `vendor`; children open boards by name, so they get the emulated one."""

    kind = "gpu"

    def __init__(self, vendor: str) -> None:
        super().__init__()
        self.vendor = vendor

    def identity(self):
        return super().identity() | {"kind": "gpu", "vendor": self.vendor}


@pytest.fixture(scope="module")
def seen(first_run, tool, tmp_path_factory):
    """The whole study; runs without a profiler are the first run's account."""

    def plain(job, folder):
        return Ran(folder, read(first_run.folder / "done.json", Done), 3.0, "")

    variables = {"STAND_IN_REPLAY": str(first_run.folder), "STAND_IN_LIMIT": "2"}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in (variables | {rocprofv3.VARIABLE: tool.path}).items():
            patched.setenv(name, value)
        patched.setattr(overhead, "session", partial(overhead.session, plain=plain))
        patched.setattr(gpu_profile, "measured_rates", lambda board: RATES)
        folder = tmp_path_factory.mktemp("study") / "files"
        return gpu_profile.profile(GpuLike("amd"), MODEL, ARMS, KEYS, folder=folder, runs=4)


def test_an_emulated_board_says_what_would_be_profiled():
    seen = gpu_profile.profile(boards.get("gfx1200-emu"), MODEL, ["online", *ARMS], [16, 64])
    told = gpu_profile.told(seen)
    assert "\n" not in told
    assert told.startswith("nothing is profiled on gfx1200-emu, which has no clock")
    assert "200 launches of each of 6 subjects in 4 processes, beside 8 processes without" in told
    run = Investigation("x", "Nothing?", {}, boards.get("gfx1200-emu"))
    gpu_profile.keep(run, seen)
    assert run.summary() == ""


def test_everything_that_was_seen_is_told(seen):
    assert seen.session.job.num_q_heads == 16
    (decode, gqa) = gpu_profile.kernel_rows(seen)
    assert decode["subject"] == "decode, 5 keys"
    assert decode["kernel us (profiler, warm)"] == seen.session.traced[0].median_us("decode, 5 keys")
    assert decode["floor bytes"] == gqa["floor bytes"] == 2 * 5 * 8 * 128 * 2
    assert decode["bound us"] == pytest.approx(20480 / 4.0 / 1e3)  # too much for the cache of 20,000 bytes
    assert decode["of the bound"] == f"{decode['bound us'] / decode['kernel us (profiler, warm)']:.0%}"
    assert decode["bound by"] == "memory, 4 GB/s read"
    costs = gpu_profile.cost_rows(seen)
    assert [row["figure"] for row in costs] == ["wall per launch, us (host_wall)"] * 2 + [
        "start to end, s (host_wall)"
    ]
    counted = gpu_profile.counter_rows(seen)
    assert {row["counter"] for row in counted} == {
        "SQ_WAVES_sum", "SQ_INSTS_VALU", "SQ_INSTS_WAVE32", "FETCH_SIZE",
    }  # fmt: skip
    told = gpu_profile.told(seen)
    for part in (
        "rocprofv3 1.0.0 (ROCm 7.1.0): 4 processes of 200 launches a subject, picked by launch order; 10 ",
        tables.text(costs),
        "no value of LDSBankConflict: unsupported, or a power state: zero in all 20 dispatches",
        "no value of GRBM_COUNT: not collected: ",
    ):
        assert part in told


def test_the_record_names_the_profiler_of_every_figure(seen, tmp_path):
    run = Investigation("gpu_profile", "What does it see?", {"arms": ARMS}, GpuLike("amd"))
    gpu_profile.keep(run, seen)
    run.write(tmp_path)
    (path,) = records.find(tmp_path)
    record = records.read(path)
    assert {fact.kind for fact in record.facts} == {"measured"}
    read = [fact for fact in record.facts if fact.quantity == "read bandwidth"]
    assert [(fact.subject, fact.value, fact.unit) for fact in read] == [
        ("memory", 4.0, "GB/s"), ("last-level cache", 5.0, "GB/s"),
    ]  # fmt: skip
    others = [fact for fact in record.facts if fact not in read]
    assert all(fact.source.startswith("rocprofv3 1.0.0 (ROCm 7.1.0)") for fact in others)
    times = [fact for fact in others if fact.quantity == "kernel time by the profiler"]
    assert all(fact.bound.value == pytest.approx(5.12) for fact in times)
    quantities = {(fact.subject, fact.quantity, fact.unit) for fact in record.facts}
    assert ("decode, 5 keys", "kernel time by the profiler", "us") in quantities
    assert ("decode_gqa, 5 keys", "SQ_WAVES_sum", "waves") in quantities
    assert (overhead.PROCESS, "profiled over unprofiled: start to end (host_wall)", "ratio") in quantities
    assert not any(fact.quantity == "LDSBankConflict" for fact in record.facts)
    assert any(sentence.startswith("LDSBankConflict: unsupported") for sentence in record.not_claimed)
    assert [str(verdict.word) for verdict in record.verdicts] == ["CORRECT", "CORRECT"]
    assert len(record.code_objects) == 2
    made = seen.session.traced[0].ran.done.subjects
    assert {one.sha256 for one in record.code_objects} == {one.code_object["sha256"] for one in made}


def test_what_fits_in_the_cache_is_bounded_by_the_cache_and_the_impossible_is_an_error(seen):
    memory, cache, size = RATES
    fits = replace(seen, rates=(memory, cache, size + 1000))
    assert gpu_profile.kernel_rows(fits)[0]["bound by"] == "last-level cache, 5 GB/s read"
    with pytest.raises(FasterThanBound, match=r"20,480 bytes over 0.5 GB/s"):
        gpu_profile.kernel_rows(replace(seen, rates=(replace(memory, gb_s=0.5), cache, size)))
    unknown = gpu_profile.kernel_rows(replace(seen, rates=None))[0]
    assert unknown["bound us"] is unknown["of the bound"] is None
    assert gpu_profile.measured_rates(GpuLike("amd")) is None


def test_a_vendor_without_a_profiler_and_a_machine_without_the_tool(monkeypatch, tmp_path):
    with pytest.raises(BadArgument, match="a board of intel"):
        gpu_profile.profile(GpuLike("intel"), MODEL, ARMS, KEYS, folder=tmp_path)
    monkeypatch.setenv(rocprofv3.VARIABLE, str(tmp_path / "rocprofv3"))
    with pytest.raises(ProfileError, match="no rocprofv3"):
        gpu_profile.profile(GpuLike("amd"), MODEL, ARMS, KEYS, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_board_that_does_not_count_has_no_rows():
    runs = profile.sweep(MODEL, ["decode"], [4], boards.get("gfx1200-emu"))
    assert len(profile.rows(runs)) == 1
    assert "decode" in profile.table(profile.rows(runs), ["arm", "keys"])
    assert profile.table([], ["arm", "keys"]).startswith("this board does not count")
