"""scale and soft_cap: bounded, so that no arm overflows in f32 where another does not."""

import pytest

from hipbook.errors import BadArgument
from hipbook.ops import validate


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1.1e30, 10**400])
def test_a_factor_that_could_overflow_is_refused(value):
    with pytest.raises(BadArgument, match="at most 1e\\+30"):
        validate.real("scale", value)


def test_what_models_use_passes_and_is_rounded_once():
    assert validate.real("scale", 0.1) == 0.10000000149011612
    assert validate.real("scale", -1e30) < -9e29
    with pytest.raises(BadArgument, match="must be at least 0"):
        validate.real("soft_cap", -1e-60, least=0.0)
