"""What `auto` takes, when the flag is read, and what the arms say of themselves."""

from dataclasses import replace

import pytest
import torch

from hipbook.errors import BadArgument, Refused
from hipbook.ops.attention_arms import ARMS, decode_alignment_bytes, gqa_slices, online_threads
from hipbook.ops.attention_call import AttentionCall
from hipbook.ops.attention_dispatch import FLAG, choose_arm


def call(d: int, ratio: int = 2, q=torch.bfloat16, kv=torch.bfloat16, out=None, tokens: int = 1):
    cache = torch.zeros(1, 16, 2, d, dtype=kv)
    return AttentionCall(
        torch.zeros(tokens, 2 * ratio, d, dtype=q), cache, cache.clone(), torch.zeros(1, 1).int(),
        torch.tensor([tokens]).int(), torch.tensor([0, tokens]).int(), scale=1.0, out_dtype=out,
    )  # fmt: skip


ON, OFF = {FLAG: "1"}, {FLAG: "0"}


@pytest.mark.parametrize(
    ("d", "ratio", "env", "arm"),
    [
        (128, 2, ON, "decode_gqa"),
        (128, 2, OFF, "online"),
        (128, 1, ON, "decode"),
        (128, 4, ON, "decode"),  # the public rule fuses ratio 2
        (128, 4, OFF, "online"),
        (256, 2, OFF, "decode_gqa"),  # the flag is about D = 128 alone
        (256, 4, ON, "decode"),
        (256, 8, ON, "decode"),
        (512, 8, OFF, "decode_gqa"),  # and ratio 8 at D = 512
        (512, 2, ON, "decode_gqa"),
        (512, 4, ON, "decode"),
        (64, 2, ON, "online"),  # by name only
        (96, 2, ON, "online"),
        (100, 1, OFF, "online"),
    ],
)
def test_the_public_rule(d, ratio, env, arm):
    assert choose_arm(call(d, ratio), env)[0] == arm


@pytest.mark.parametrize("q", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("kv", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, torch.float32])
def test_every_dtype_combination_reaches_the_decode_arms(q, kv, out):
    assert choose_arm(call(128, 2, q, kv, out), ON)[0] == "decode_gqa"


def test_the_flag_is_read_when_the_arm_is_chosen(monkeypatch):
    seen = []
    for value in ("0", "1", "off", "ON", ""):
        monkeypatch.setenv(FLAG, value)
        seen.append(choose_arm(call(128))[0])
    assert seen == ["online", "decode_gqa", "online", "decode_gqa", "online"]


def test_unset_takes_either_upstream_default_and_says_which():
    arm, reason = choose_arm(call(128), {})
    assert arm == "decode_gqa"
    assert "unset: on by default" in reason
    arm, reason = choose_arm(call(128), {}, flag_default=False)
    assert arm == "online"
    assert "unset: off by default" in reason


def test_a_flag_that_is_neither_on_nor_off_is_refused():
    with pytest.raises(BadArgument, match=FLAG):
        choose_arm(call(128), {FLAG: "2"})


def test_misaligned_pointers_give_way_to_an_arm_that_is_right():
    odd = torch.zeros(4 * 128 + 1, dtype=torch.bfloat16)[1:].view(1, 4, 128)
    arm, reason = choose_arm(replace(call(128), q=odd), ON)
    assert arm == "online"
    assert "needs q aligned" in reason


def test_a_head_dim_no_arm_serves():
    with pytest.raises(Refused, match="up to 512, got 576"):
        choose_arm(call(576), ON)


@pytest.mark.parametrize("d", [32, 80, 96, 100, 160, 192])
def test_decode_arms_refuse_other_head_dims_by_name(d):
    for arm in ("decode", "decode_gqa"):
        refusal = ARMS[arm].supports(call(d), 32)
        assert refusal.kind == "head_dim"
        assert f"{arm} serves head_dim (64, 128, 256, 512), got {d}" in str(refusal)
    assert ARMS["online"].supports(call(d), 32) is None


def test_ratio_17_is_refused_by_the_fused_arm_alone():
    assert ARMS["decode_gqa"].supports(call(128, 17), 32).kind == "ratio"
    assert ARMS["decode"].supports(call(128, 17), 32) is None


def test_strides_count_as_alignment():
    cache = torch.zeros(1, 16, 2, 129, dtype=torch.bfloat16)[..., :128]
    refusal = ARMS["decode"].supports(replace(call(128), k_cache=cache), 32)
    assert refusal.kind == "alignment"
    assert "stride" in str(refusal)


@pytest.mark.parametrize(
    ("kv", "size", "d", "wave", "need"),
    [
        (2, 2, 128, 32, 8),
        (2, 2, 64, 32, 4),
        (2, 2, 64, 64, 2),
        (4, 2, 512, 32, 8),
        (2, 4, 256, 32, 16),
        (4, 4, 128, 32, 16),
    ],
)
def test_alignment_of_a_lanes_vector(kv, size, d, wave, need):
    assert decode_alignment_bytes(kv, size, d, wave) == need


def test_geometry():
    assert [online_threads(d) for d in (1, 64, 65, 128, 129, 256, 512)] == [64, 64, 128, 128, 256, 256, 256]
    assert [gqa_slices(d, r) for d, r in ((128, 16), (256, 8), (256, 16), (512, 5), (512, 16))] == [
        1,
        1,
        2,
        2,
        4,
    ]
    c = call(256, 16, tokens=3)
    assert ARMS["online"].geometry(c, 32).grid == (3, 32, 1)
    assert ARMS["decode"].geometry(c, 64).block == (512, 1, 1)
    assert ARMS["decode_gqa"].geometry(c, 32).grid == (3, 2, 2)


def test_flags_name_one_arm_and_every_dtype():
    c = call(128, 4, torch.bfloat16, torch.float16, torch.float32)
    assert ARMS["decode"].flags(c) == (
        "-DHIPBOOK_Q=bf16",
        "-DHIPBOOK_KV=f16",
        "-DHIPBOOK_OUT=f32",
        "-DHIPBOOK_D=128",
        "-DHIPBOOK_ARM_DECODE=1",
    )
    assert "-DHIPBOOK_RATIO=4" in ARMS["decode_gqa"].flags(c)


def test_witness_codes_differ():
    assert len({arm.witness for arm in ARMS.values()}) == len(ARMS)
