"""Each sanitising rule matches its context and nothing else: a greedy rule hides a wrong result."""

import re
from pathlib import Path

import pytest
from nbval.plugin import get_sanitize_patterns

RULES = get_sanitize_patterns((Path(__file__).parent / "sanitize.cfg").read_text())

# text, and what the rules make of it
EXAMPLES = [
    ("built 3 kernels t=12.5 ms", "built 3 kernels t=TIME"),
    ("t=3 s", "t=TIME"),
    ("<Figure object at 0x7f12ab34cd56>", "<Figure object at ADDRESS>"),
    # what must stay comparable
    ("barriers per key 11", None),
    ("NMSE 2.4e-06", None),
    ("t=12.5", None),
    ("t=12.5 mbarriers", None),
    ("at=12.5 ms", None),
    ("41.11 us reported", None),
    ("witness 0x20 at 0x20", None),
    ("4,096 bytes", None),
]


def sanitize(text: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(("text", "made"), EXAMPLES)
def test_rules(text, made):
    assert sanitize(text) == (made or text)


def test_every_rule_has_an_example():
    for pattern, _ in RULES:
        assert any(re.search(pattern, text) for text, made in EXAMPLES if made), pattern
