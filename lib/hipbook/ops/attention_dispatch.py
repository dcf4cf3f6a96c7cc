"""Which arm `auto` takes: the public rule and flag of mudler/vllm.cpp, and where ours goes further.

The public rule: the decode arms serve D 128, 256 and 512; D = 128 only when VT_ATTN_DECODE_D128 is
on; the fused arm serves ratio 2, and ratio 8 at D = 512; everything else runs `online`. It asks for
bf16 throughout. Ours also takes f16, f32 and the mixed cases there. D = 64, and fusion at any other
ratio, are served by name only, so that `auto` stays the choice the reports are about.

The flag is read when an arm is chosen, never kept: an A/B inside one process compares two arms and
not one arm with itself. Upstream's default was off when the arm landed and became on for ROCm later;
unset means the later default, unless `flag_default` says otherwise. Lengths are not looked at (on a
GPU they are not on the host).

On a GPU board `auto` takes split_kv wherever it serves: there the fastest arm is wanted, and times were
measured that say which it is. The public rule is what `auto` means where counts are compared.
"""

import os
from collections.abc import Mapping

from hipbook.errors import BadArgument, Refused
from hipbook.ops.attention_arms import ARMS, Refusal
from hipbook.ops.attention_call import AttentionCall

FLAG = "VT_ATTN_DECODE_D128"
FLAG_DEFAULT_WHEN_LANDED = False
FLAG_DEFAULT_LATER = True  # on ROCm
PUBLIC_HEAD_DIMS = (128, 256, 512)
_ON, _OFF = ("1", "on", "true", "yes"), ("0", "off", "false", "no", "")


def flag_state(env: Mapping[str, str], default: bool = FLAG_DEFAULT_LATER) -> tuple[bool, str]:
    """(on, how it is said) of VT_ATTN_DECODE_D128 in `env`; a value that is neither is refused."""
    value = env.get(FLAG)
    if value is None:
        return default, f"{FLAG} unset: {'on' if default else 'off'} by default"
    word = value.strip().lower()
    if word in _ON or word in _OFF:
        return word in _ON, f"{FLAG}={value}"
    raise BadArgument(FLAG, value, f"must be one of {_ON + _OFF[:-1]}, or unset")


def publicly_fused(head_dim: int, ratio: int) -> bool:
    return ratio == 2 or (ratio == 8 and head_dim == 512)


def choose_arm(
    call: AttentionCall,
    env: Mapping[str, str] | None = None,
    *,
    wave_size: int = 32,
    flag_default: bool = FLAG_DEFAULT_LATER,
    gpu: bool = False,
) -> tuple[str, str]:
    """(arm, reason) that `arm="auto"` takes for `call`. `env` None means os.environ, read now.

    An arm the rule names but that cannot serve the call (a misaligned pointer) gives way to the
    next one: decode_gqa, decode, online. Raises `Refused` when none serves it (D above 512).
    """
    if gpu and ARMS["split_kv"].supports(call, wave_size) is None:
        return "split_kv", "the fastest arm on a GPU board"
    on, flag = flag_state(os.environ if env is None else env, flag_default)
    d, ratio = call.head_dim, call.ratio
    if d not in PUBLIC_HEAD_DIMS:
        wanted, reason = ["online"], f"head_dim {d} is not one of {PUBLIC_HEAD_DIMS}"
    elif d == 128 and not on:
        wanted, reason = ["online"], f"head_dim 128 and {flag}"
    else:
        reason = f"head_dim {d}" + (f" and {flag}" if d == 128 else "")
        if publicly_fused(d, ratio):
            wanted, reason = ["decode_gqa", "decode", "online"], f"{reason}, ratio {ratio} fused"
        else:
            wanted, reason = ["decode", "online"], f"{reason}, ratio {ratio} not fused by the public rule"
    refusals: list[Refusal] = []
    for name in wanted:
        refusal = ARMS[name].supports(call, wave_size)
        if refusal is None:
            return name, "; ".join([reason, *(str(refusal) for refusal in refusals)])
        refusals.append(refusal)
    raise Refused(f"no arm serves this call: {'; '.join(str(refusal) for refusal in refusals)}")
