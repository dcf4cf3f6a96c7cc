"""Near ties (T15): margins in ulps, flips that errors explain and flips they do not, goldens, the gate."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from hipbook.errors import BadArgument
from hipbook.measure.counts import CountWord, correctness
from hipbook.measure.near_ties import (
    Distribution,
    byte_identical,
    compare_greedy,
    digest,
    distribution,
    flip_gate,
    greedy,
    margins_ulps,
    meets_golden,
    to_bf16,
    ulp_bf16,
)
from hipbook.oracle.paged_attention import reference
from hipbook.studies import tie_study
from hipbook.studies.tie_model import VOCABULARY, decode, make_model

PROMPT = [1, 2, 3, 4, 5]
STEPS = 40


def test_bf16_is_rounded_once():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(4000) * 10.0 ** rng.integers(-30, 30, 4000)
    exact = to_bf16(values)
    assert (np.abs(exact - values) <= ulp_bf16(values) / 2).all()
    # just above the midpoint of 1 and 1 + 2^-7, by less than float32 can say: two roundings would go down
    midpoint = 1 + 2.0**-8
    assert to_bf16(np.array([midpoint * (1 + 2.0**-40), midpoint, midpoint * (1 - 2.0**-40)])).tolist() == [
        1 + 2.0**-7,
        1.0,
        1.0,
    ]
    assert to_bf16(-np.array([midpoint * (1 + 2.0**-40)])).tolist() == [-(1 + 2.0**-7)]


def test_ulps_and_margins():
    assert ulp_bf16(np.array([1.0, 1.99, 2.0, -4.0])).tolist() == [2.0**-7, 2.0**-7, 2.0**-6, 2.0**-5]
    assert ulp_bf16(np.array([0.0]))[0] == 2.0**-133
    logits = np.array([[1.0, 1.0 + 2.0**-9, 0.0], [2.0, 2.0 - 2.0**-6, 0.0], [8.0, 1.0, 0.0]])
    assert margins_ulps(logits).tolist() == [0.0, 1.0, 7.0 / 2.0**-4]
    assert greedy(logits).tolist() == [0, 0, 0]  # an exact tie after rounding: the lowest index


def test_a_flip_is_held_against_errors_not_against_itself():
    base = np.array([[4.0, 3.9, 0.0]])
    new = np.array([[3.9, 4.0, 0.0]])
    wide, narrow = np.full((1, 3), 0.0501), np.full((1, 3), 1e-6)
    near = compare_greedy(base, new, wide, wide)
    assert len(near.flips) == 1
    assert near.flips[0].explained
    assert near.flips[0].margin_ulps == pytest.approx(3, abs=1)
    assert near.verdict().word is CountWord.CORRECT
    far = compare_greedy(np.array([[4.0, 3.0, 0.0]]), np.array([[3.0, 4.0, 0.0]]), narrow, narrow)
    assert far.unexplained == far.flips
    assert far.verdict().word is CountWord.INCORRECT


def test_a_flip_far_from_a_tie_is_unexplained_even_where_logits_are_near():
    """A gap of 1 with errors that allow 0.6 at the two choices, though no logit moved out of its bound."""
    base, new = np.array([[4.0, 3.0, 0.0]]), np.array([[3.4, 3.5, 0.0]])
    error = np.full((1, 3), 0.31)
    assert compare_greedy(base, new, error, error).verdict().word is CountWord.CORRECT
    error = np.array([[0.31, 0.26, 0.1]])
    tight = compare_greedy(base, new, error, np.array([[0.31, 0.26, 0.1]]) * 0.5)
    assert tight.verdict().word is CountWord.INCORRECT


def test_logits_apart_beyond_the_errors_are_incorrect_even_without_a_flip():
    error = np.full((1, 3), 0.1)
    apart = compare_greedy(np.array([[4.0, 0.0, 0.0]]), np.array([[4.0, 0.5, 0.0]]), error, error)
    assert apart.flips == ()
    assert apart.worst_distance == pytest.approx(2.5)
    assert apart.verdict().word is CountWord.INCORRECT
    assert "1 logits of two arms lie further apart" in apart.verdict().detail


def test_nothing_compared_is_incorrect_and_nonsense_refused():
    empty = np.zeros((0, 4))
    assert compare_greedy(empty, empty, empty, empty).verdict().word is CountWord.INCORRECT
    one = np.ones((1, 4))
    with pytest.raises(BadArgument, match="one shape"):
        compare_greedy(one, one, one, np.ones((1, 3)))
    with pytest.raises(BadArgument, match="finite"):
        compare_greedy(one * np.nan, one, one, one)


# --- the decode loop -------------------------------------------------------------------------------


def torch_arm(*, round_p=False, forget=0):
    """Attention in float32 torch: plain, with probabilities rounded to bf16 (vLLM's way), or a key short."""

    def attend(call):
        keys = torch.arange(int(call.seq_lens[0]) - forget)
        blocks = call.block_table[0][keys // call.block_size].long()
        k, v = (cache[blocks, keys % call.block_size].float() for cache in (call.k_cache, call.v_cache))
        k, v = (side.repeat_interleave(call.ratio, dim=1) for side in (k, v))
        scores = torch.einsum("hd,nhd->hn", call.q[0].float(), k) * call.scale
        weights = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
        total = weights.sum(dim=1, keepdim=True)
        if round_p:
            weights = weights.bfloat16().float()
        return (torch.einsum("hn,nhd->hd", weights, v) / total).bfloat16()[None]

    return attend


def bound(call):
    return reference(call).bound


@contextmanager
def one_thread():
    """Tensors of a few kilobytes: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


MODEL = make_model(3)
with one_thread():
    BASE = decode(MODEL, torch_arm(), bound, prompt=PROMPT, steps=STEPS)


def against_base(attend):
    new = decode(MODEL, attend, bound, prompt=PROMPT, steps=STEPS, forced=BASE.tokens)
    return compare_greedy(BASE.logits, new.logits, BASE.error, new.error), distribution(
        BASE.logits, new.logits
    )


def test_the_loop_meets_ties_and_is_seeded():
    again = decode(make_model(3), torch_arm(), bound, prompt=PROMPT, steps=STEPS)
    assert digest(again.logits) == digest(BASE.logits)
    assert digest(decode(make_model(4), torch_arm(), bound, prompt=PROMPT, steps=2).logits) != digest(
        BASE.logits[:2]
    )
    same, apart = against_base(torch_arm())
    assert (same.flips, same.worst_distance) == ((), 0.0)
    assert same.exact_ties > 10
    assert apart.mean_kl_nats == 0
    assert len(set(BASE.tokens)) > 5
    assert MODEL.block_table[0].tolist() != [0, 1, 2, 3]


def test_another_rounding_flips_tokens_only_at_near_ties():
    choices, apart = against_base(torch_arm(round_p=True))
    assert len(choices.flips) >= 2
    assert choices.unexplained == ()
    assert max(flip.margin_ulps for flip in choices.flips) <= 2
    assert 0 < choices.worst_distance < 0.5
    assert 0 < apart.mean_kl_nats < 1e-4
    assert choices.verdict().word is CountWord.CORRECT


def test_an_arm_that_forgets_a_key_is_found_out():
    choices, apart = against_base(torch_arm(forget=1))
    assert choices.verdict().word is CountWord.INCORRECT
    assert choices.worst_distance > 1
    assert choices.unexplained
    assert apart.mean_kl_nats > 1e-3


def test_the_loop_refuses_what_it_cannot_hold():
    with pytest.raises(BadArgument):
        decode(MODEL, torch_arm(), bound, prompt=[], steps=2)
    with pytest.raises(BadArgument):
        decode(MODEL, torch_arm(), bound, prompt=PROMPT, steps=60)
    with pytest.raises(BadArgument, match="one token a step"):
        decode(MODEL, torch_arm(), bound, prompt=PROMPT, steps=3, forced=[1])


def test_a_study_compares_on_the_same_prefixes(monkeypatch):
    """After one flip two free runs answer different questions; the study keeps to the base's tokens."""
    arms = {"plain": torch_arm(), "rounded": torch_arm(round_p=True), "auto": torch_arm()}
    monkeypatch.setattr(tie_study, "_arm", lambda name, board: arms[name])
    found = tie_study.study("plain", "rounded", "gfx1200-emu", tokens=60)
    assert found.choices.flips
    assert found.goldens["plain"] != found.goldens["rounded"]
    assert found.choices.verdict().word is CountWord.CORRECT
    assert found.flag_off.word is CountWord.CORRECT
    assert found.golden.word is CountWord.INCORRECT  # the tree has none of this arm
    assert "golden" in str(found.gate)
    arms["auto"] = torch_arm(round_p=True)  # a flag that is off and does not take the base arm
    assert tie_study.study("plain", "rounded", "gfx1200-emu", tokens=60).flag_off.word is CountWord.INCORRECT


# --- goldens and the gate --------------------------------------------------------------------------


def test_goldens_are_per_arm():
    goldens = {"online": [1, 2, 3]}
    assert meets_golden(goldens, "online", [1, 2, 3]).word is CountWord.CORRECT
    assert meets_golden(goldens, "online", [1, 2, 4]).word is CountWord.INCORRECT
    assert meets_golden(goldens, "online", [1, 2]).word is CountWord.INCORRECT
    none = meets_golden(goldens, "decode", [1, 2, 3])
    assert none.word is CountWord.INCORRECT
    assert "goldens are per arm" in none.detail


def test_flag_off_is_byte_identical_or_not():
    before = BASE.logits.tobytes()
    assert byte_identical(before, bytes(before)).word is CountWord.CORRECT
    changed = bytearray(before)
    changed[7] ^= 1
    assert byte_identical(before, bytes(changed)).detail == f"1 of {len(before):,} bytes failed"
    assert byte_identical(before, before[:-1]).word is CountWord.INCORRECT
    assert byte_identical(b"", b"").word is CountWord.INCORRECT
    assert byte_identical(b"", b"a").word is CountWord.INCORRECT


def test_distribution_against_torch():
    rng = np.random.default_rng(1)
    base, new = rng.standard_normal((2, 50, VOCABULARY))
    seen = distribution(base, new)
    kl = torch.nn.functional.kl_div(
        torch.log_softmax(torch.from_numpy(new), -1),
        torch.log_softmax(torch.from_numpy(base), -1),
        log_target=True,
        reduction="none",
    ).sum(-1)
    assert seen.mean_kl_nats == pytest.approx(float(kl.mean()))
    assert seen.worst_kl_nats == pytest.approx(float(kl.max()))
    assert 0 < seen.top_k_agreement < 0.3
    assert distribution(base, base).top_k_agreement == 1
    with pytest.raises(BadArgument):
        distribution(base, new[:, :4])


with one_thread():
    ROUNDED, FORGETFUL = (against_base(arm)[0] for arm in (torch_arm(round_p=True), torch_arm(forget=1)))

GOOD = {
    "choices": ROUNDED,
    "apart": Distribution(tokens=300, mean_kl_nats=1e-5, worst_kl_nats=1e-4, top_k_agreement=0.99),
    "flag_off": correctness(100, 0, what="bytes"),
    "golden": correctness(100, 0, what="golden tokens"),
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"choices": FORGETFUL}, "greedy tokens"),
        ({"apart": replace(GOOD["apart"], tokens=299)}, "299 tokens compared"),
        ({"apart": replace(GOOD["apart"], mean_kl_nats=2e-3)}, "mean KL"),
        ({"apart": replace(GOOD["apart"], top_k_agreement=0.9)}, "agreement"),
        ({"flag_off": correctness(100, 1)}, "not byte-identical"),
        ({"golden": meets_golden({}, "decode", [])}, "no golden"),
    ],
)
def test_a_default_flips_only_when_everything_holds(change, says):
    assert flip_gate(**GOOD).may_flip
    gate = flip_gate(**{**GOOD, **change})
    assert not gate.may_flip
    assert len(gate.reasons) == 1
    assert says in str(gate)
