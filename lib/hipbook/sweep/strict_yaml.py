"""YAML (and JSON, which is YAML) from people: one mapping, every key once."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from hipbook.errors import HipbookError

MAX_BYTES = 10_000_000  # a parameter or sweep file is written by hand; this one is not


class _Loader(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys and says nothing; ten aliases make a billion values."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            alias = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"*{alias.anchor}: aliases are not read; write the value out", alias.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} is there twice", key_node.start_mark
                    )
                seen.add(key)
        return super().construct_mapping(node, deep)


def read(file: Path, error: type[HipbookError], what: str) -> dict[str, Any]:
    """The mapping in a file, empty for an empty file; `error` with the file, the fault and the place.

    `what` says what the keys are, for the message.
    """
    try:
        raw = Path(file).read_bytes()
        text = raw.decode("utf-8")
    except OSError as fault:
        raise error(f"{file}: {fault.strerror}") from None
    except UnicodeDecodeError as fault:
        raise error(f"{file}: not text: {fault}") from None
    if len(raw) > MAX_BYTES:
        raise error(f"{file}: {len(raw):,} bytes; at most {MAX_BYTES:,}")
    try:
        values = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        raise error(f"{file}: not YAML: {fault}") from None
    if values is not None and not isinstance(values, dict):
        raise error(f"{file}: not a mapping of {what} to values")
    for key in values or {}:
        if not isinstance(key, str):
            raise error(f"{file}: the key {key!r} is {type(key).__name__}, not text", fix="quote it")
    return values or {}
