"""The comparison report: two arms, two records, text, Markdown, figure, and the command line over them."""

import matplotlib as mpl
import numpy as np
import pytest
from measured_records import BINARY, GPU, a_record, a_session
from typer.testing import CliRunner

from hipbook.errors import BadArgument
from hipbook.measure.calibration import WORLDS, World
from hipbook.measure.session import SessionBound, judge_session
from hipbook.records import store
from hipbook.records.recheck import verdict_of
from hipbook.records.schema import Fact, Verdict
from hipbook.report import comparison, comparison_figure, comparison_text

mpl.use("Agg")

NOISY = World("noisy", between=0.02, within=0.002)
CASES = [("1x38", 1.0, None), ("1x1024", 1.9, None), ("8x1024", 0.93, None), ("64x4096", 1.015, NOISY)]


def five_words():
    """A record with every word of R5 in it."""
    sessions = [
        a_session(ratio, case=case, prediction="FASTER", **({"world": world} if world else {}))
        for case, ratio, world in CASES
    ]
    bound = SessionBound(value=40.0, what="bytes over bandwidth")
    return a_record(*(session.model_copy(update={"bound": bound}) for session in sessions))


RECORD = five_words()
ARMS = comparison.of_arms(RECORD)


def exact(subject, quantity, value, unit="1"):
    return Fact(subject=subject, quantity=quantity, value=value, unit=unit, kind="exact")


def test_arms_are_compared_in_their_sessions():
    words = [str(line.judgement.verdict) for line in ARMS.times]
    assert words == ["EQUIVALENT", "FASTER", "SLOWER", "INCONCLUSIVE(wide_interval)"]
    assert (ARMS.base, ARMS.new, ARMS.made, ARMS.correction) == ("online", "decode", 4, "Holm")
    assert all("4 comparisons, corrected by Holm" in line.judgement.notes for line in ARMS.times)
    line = ARMS.times[1]
    assert line.base / line.new == pytest.approx(1.9, rel=0.01)
    assert len(line.run_ratios) == 10
    assert line.new_of_bound == pytest.approx(40 / line.new)


def test_a_difference_that_does_not_survive_the_family_is_not_reported():
    hopeless = comparison.of_arms(RECORD, method=lambda p: [1.0] * len(p))
    assert [str(line.judgement.verdict) for line in hopeless.times] == [
        "EQUIVALENT",
        *["INCONCLUSIVE(wide_interval)"] * 3,
    ]


def test_rates_are_drawn_the_right_way_round():
    made = comparison.of_arms(a_record(a_session(2.0, better="higher", unit="tokens/s", metric="rate")))
    (line,) = made.times  # the simulated level fell by 2: for a rate that is half as good
    assert str(line.judgement.verdict) == "SLOWER"
    assert (
        np.median(line.run_ratios)
        == pytest.approx(line.judgement.ratio, rel=0.01)
        == pytest.approx(0.5, rel=0.01)
    )


def test_text_says_ratio_interval_floor_verdict_bound_number_and_what_is_not_claimed():
    told = comparison_text.text(ARMS)
    for needed in (
        "1x1024, warm",
        "1.900",
        "noise floor",
        "INCONCLUSIVE(wide_interval)",
        "40% to 76%",
        "4 (4 of times, 0 of counts); correction of times for their number: Holm.",
        "- anything",
        "the arm is the factor under study",
        "predicted",
    ):
        assert needed in told, needed


def test_a_record_without_sessions_has_no_arms():
    with pytest.raises(BadArgument, match="no measuring session"):
        comparison.of_arms(a_record())


def test_two_arms_of_one_record_are_compared_by_their_counts():
    facts = [
        exact("online", "barriers per key", 11),
        exact("online, 1024 keys", "bytes", 8192),
        exact("online_wide, 1024 keys", "bytes", 1),  # another arm, whose name begins alike
        exact("decode", "barriers per key", 0),
        exact("decode, 1024 keys", "bytes", 4096),
        exact("decode, 8 keys", "bytes", 32),
    ]
    made = comparison.of_arms(a_record(facts=facts), ("online", "decode"))
    assert [(line.subject, str(line.verdict)) for line in made.counted] == [
        ("all", "COUNTS_DIFFER(barriers per key, 11 to 0)"),
        ("1024 keys", "COUNTS_DIFFER(bytes, 2)"),
    ]
    assert "2 (0 of times, 2 of counts); correction of times for their number: none" in comparison_text.text(
        made
    )
    with pytest.raises(BadArgument, match="no count of both online and split_kv"):
        comparison.of_arms(a_record(facts=facts), ("online", "split_kv"))
    both = comparison.of_arms(RECORD, ("online", "decode"))
    assert len(both.times) == len(CASES)
    with pytest.raises(BadArgument, match="both decode and online"):
        comparison.of_arms(RECORD, ("decode", "online"))


def test_a_record_whose_verdict_is_not_its_sessions_is_not_reported():
    session = a_session()
    wrong = verdict_of(session, judge_session(session)).model_copy(update={"word": "SLOWER"})
    with pytest.raises(store.BadRecord):
        comparison.of_arms(a_record(session, verdicts=[wrong]))


def test_two_records_are_compared_by_their_counts():
    base = a_record(facts=[exact("a", "barriers", 11), exact("a", "bytes", 4096), exact("b", "waves", 4)])
    new = a_record(facts=[exact("a", "barriers", 0), exact("a", "bytes", 4096), exact("c", "mean", 1.5)])
    made = comparison.of_records(base, new)
    assert [str(line.verdict) for line in made.counted] == [
        "COUNTS_DIFFER(barriers, 11 to 0)",
        "COUNTS_EQUAL(bytes)",
    ]
    assert made.unmatched == ("b: waves", "c: mean")
    told = comparison_text.text(made)
    assert "2 compared, 1 differ." in told
    assert "barriers" in told
    assert "- c: mean" in told


def test_times_of_two_records_carry_no_verdict():
    faster = a_record(a_session(3.0))
    made = comparison.of_records(a_record(a_session(1.0)), faster)
    (decode,) = [line for line in made.times if line.case.startswith("decode")]
    assert decode.judgement.ratio == pytest.approx(3.0, rel=0.02)
    assert str(decode.judgement.verdict) == "INCONCLUSIVE(drift)"
    other_clock = comparison.of_records(a_record(a_session(clock="host_wall")), faster)
    assert other_clock.times == ()


def test_differences_of_environment_are_told_but_for_the_factor():
    base = a_record()
    other = a_record(toolchain="clang 23", parameters={"arm": "decode"})
    assert [one.name for one in comparison.of_records(base, other).environment] == [
        "parameters.arm",
        "toolchain",
    ]
    made = comparison.of_records(base, other, factor="parameters.arm")
    assert [one.name for one in made.environment] == ["toolchain"]
    assert "1 difference, other than the factor under study (parameters.arm)" in comparison_text.text(made)
    assert "no difference but for" in comparison_text.text(comparison.of_records(base, base)).lower()


def test_nothing_in_common_says_so():
    base, new = a_record(facts=[exact("a", "x", 1)]), a_record(facts=[exact("b", "y", 1)])
    assert "Nothing was compared" in comparison_text.text(comparison.of_records(base, new))


def test_markdown_tables_and_escapes():
    nasty = exact("<script>alert(1)</script>|x", "bytes *read*", 1)
    base = a_record(facts=[nasty], not_claimed=["`rm`\n# heading"], parameters={"name": "<b>"})
    new = a_record(facts=[nasty.model_copy(update={"value": 2})], not_claimed=["ok"])
    told = comparison_text.markdown(comparison.of_records(base, new, names=("a_b.json", "[x](y)")))
    assert "<script>" not in told
    assert "<b>" not in told
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\|x" in told
    assert "bytes \\*read\\*" in told
    assert "\n# heading" not in told
    assert "\\[x\\](y)" in told
    rows = [line for line in told.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert comparison_text.markdown(ARMS).startswith("## decode against online\n")


# --- figure ----------------------------------------------------------------------------------------


def test_the_figure_shows_what_it_must_on_a_log_axis():
    drawn = comparison_figure.figure(ARMS)
    (ax,) = drawn.axes
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_yticklabels()] == [line.case for line in ARMS.times]
    bands = [patch for patch in ax.patches if patch.get_width() > 0]
    assert len(bands) == len(ARMS.times)
    for band, line in zip(bands, ARMS.times, strict=True):
        reach = 1 + line.judgement.noise_floor
        assert band.get_x() == pytest.approx(1 / reach)
        assert band.get_x() + band.get_width() == pytest.approx(reach)
    (dots,) = [c for c in ax.collections if len(c.get_offsets()) == 40]
    assert sorted(dots.get_offsets()[:, 0])[-1] == pytest.approx(
        max(r for t in ARMS.times for r in t.run_ratios)
    )
    said = " ".join(text.get_text() for text in ax.texts)
    assert "1.90  FASTER" in said
    assert "INCONCLUSIVE(wide_interval)" in said
    legend = " ".join(text.get_text() for text in drawn.legends[0].get_texts())
    assert "noise floor" in legend
    assert "one block" in legend


def test_the_figure_reads_in_black_and_white():
    """Every pixel is grey, and each word has its own marker."""
    drawn = comparison_figure.figure(ARMS)
    drawn.canvas.draw()
    pixels = np.asarray(drawn.canvas.buffer_rgba())[..., :3].astype(int)
    assert np.ptp(pixels, axis=-1).max() <= 8
    assert len(set(comparison_figure.MARKERS.values())) == 4


def test_nothing_is_drawn_outside_and_an_endless_interval_is_cut():
    lone = comparison.of_arms(a_record(a_session(2.0, runs=2), a_session(1.5, world=WORLDS[4], case="b")))
    drawn = comparison_figure.figure(lone)
    low, high = drawn.axes[0].get_xlim()
    assert 0.1 < low < 1 < 2 < high < 20
    with pytest.raises(BadArgument, match="no times"):
        comparison_figure.figure(comparison.of_records(a_record(), a_record()))


def test_the_alternative_text_names_every_case_and_verdict():
    told = comparison_figure.alt_text(ARMS)
    assert all(line.case in told for line in ARMS.times)
    assert "FASTER: ratio 1.900" in told


# --- command line ----------------------------------------------------------------------------------


@pytest.fixture
def hipbook():
    from hipbook.cli import app

    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


def test_hipbook_compare(tmp_path, hipbook):
    one = store.write(RECORD, tmp_path / "one.record.json")
    two = store.write(
        a_record(board=dict(GPU), facts=[exact("decode", "barriers", 6, "barriers")]),
        tmp_path / "two.record.json",
    )
    named = hipbook("compare", one, "--arms", "online, decode")
    assert named.exit_code == 0, named.output
    assert hipbook("compare", one, "--arms", "online").exit_code != 0
    assert hipbook("compare", one, one, "--arms", "online,decode").exit_code != 0
    arms = hipbook("compare", one, "--figure", tmp_path / "f.png")
    assert arms.exit_code == 0, arms.output
    assert "DECODE AGAINST ONLINE" in arms.output
    assert (tmp_path / "f.png").stat().st_size > 10_000
    records = hipbook("compare", one, two, "--markdown")
    assert records.exit_code == 0, records.output
    assert "## two.record.json against one.record.json" in records.output
    assert "COUNTS_DIFFER(barriers, 0.5)" in records.output


def test_hipbook_compare_refuses_an_edited_record(tmp_path, hipbook):
    one = store.write(RECORD, tmp_path / "one.record.json")
    one.write_text(one.read_text().replace('"cores": 1', '"cores": 2'))
    refused = hipbook("compare", one)
    assert refused.exit_code != 0
    assert "edited after it was written" in str(refused.exception)


def test_hipbook_claims(hipbook, tmp_path):
    listed = hipbook("claims", "list")
    assert "767-container-blocker" in listed.output
    shown = hipbook("claims", "show", "767-container-blocker")
    assert "retracted by  767-container-inert" in shown.output
    assert "Not claimed:" in shown.output
    refuted = hipbook("claims", "show", "767-win-shrinks-with-concurrency")
    assert "Outcome: refuted." in refuted.output
    cited = hipbook("claims", "cite", store.write(RECORD, tmp_path / "one.record.json"))
    assert 'subject = "decode against online, 1x1024, warm"\nword = "FASTER"' in cited.output
    checked = hipbook("claims", "check")
    assert checked.exit_code == 0
    assert "citations stand" in checked.output
    assert hipbook("claims", "show", "nothing").exit_code != 0


def test_hipbook_claims_check_fails_by_name(tmp_path, hipbook, monkeypatch):
    (tmp_path / "a.toml").write_text(
        '[[claim]]\nid = "lost"\nsentence = "s"\nstatus = "measured"\ndate = 2026-09-01\nsource = "x"\n'
        'not_claimed = ["y"]\n'
        'records = [{ path = "data/gone.record.json", subject = "s", word = "FASTER", '
        f'binary = "{BINARY}" }}]\n'
    )
    monkeypatch.setattr("hipbook.records.claims.folder", lambda: tmp_path)
    failed = hipbook("claims", "check")
    assert failed.exit_code == 1
    assert "FAIL lost: data/gone.record.json: no such record in the tree" in failed.output


def test_hipbook_calibrate(hipbook):
    done = hipbook("calibrate", "--sessions", "20")
    assert done.exit_code == 0
    assert "power for a 3% effect" in done.output


def test_verdict_of_a_lone_verdict_is_refused_in_a_comparison(tmp_path):
    lone = a_record(board=dict(GPU), verdicts=[Verdict(word="FASTER", subject="a", reason="I saw it")])
    path = store.write(lone, tmp_path / "lone.record.json")
    with pytest.raises(store.BadRecord, match="no measuring session behind it"):
        comparison.of_files(path, path)
