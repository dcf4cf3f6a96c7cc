"""Records for people: a line each, one in full, and what differs between two."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hipbook.records.schema import Fact, Record
from hipbook.records.store import BadRecord, read


def line(path: Path) -> dict[str, Any]:
    """A row of `hipbook records list`; a file that cannot be believed is a row that says so."""
    try:
        record = read(path)
    except BadRecord as error:
        return {
            "record": path.name,
            "status": "REFUSED",
            "board": "",
            "facts": 0,
            "verdicts": 0,
            "when": error.what,
        }
    return {
        "record": path.name,
        "status": str(record.status),
        "board": record.board.get("name", ""),
        "facts": len(record.facts),
        "verdicts": len(record.verdicts),
        "when": record.times.started,
    }


def in_full(record: Record) -> str:
    """A record as text."""
    board = record.board.get("name", "none")
    lines = [f"{record.made_by}: {record.question}", f"{record.status} on {board}", "", "parameters"]
    lines += [f"  {name} = {value!r}" for name, value in record.parameters.items()]
    lines += ["", "verdicts"] + [
        f"  {v.word}  {v.subject}: {v.reason}" + (f" (predicted {v.expected})" if v.expected else "")
        for v in record.verdicts
    ]
    lines += ["", "facts"] + [f"  {_fact(fact)}" for fact in record.facts]
    lines += ["", "not claimed"] + [f"  {sentence}" for sentence in record.not_claimed]
    lines += ["", "binaries"] + [
        f"  {b.arch} {b.sha256[:16]} {b.compiler} {' '.join(b.flags)}" for b in record.code_objects
    ]
    lines += ["", f"made {record.times.started} at commit {record.environment.commit or 'unknown'}"]
    return "\n".join(lines)


def _fact(fact: Fact) -> str:
    bound = f", bound {fact.bound.value} ({fact.bound.what})" if fact.bound else ""
    source = f", {fact.source}" if fact.source else ""
    return f"{fact.subject}: {fact.quantity} {fact.value} {fact.unit} [{fact.kind}{bound}{source}]"


def differences(a: Record, b: Record) -> list[dict[str, Any]]:
    """Rows (what, in the first, in the second) of everything in the content that differs."""
    left, right = dict(_flat(a.content())), dict(_flat(b.content()))
    return [
        {"what": key, "first": left.get(key, "-"), "second": right.get(key, "-")}
        for key in dict.fromkeys([*left, *right])
        if left.get(key, "-") != right.get(key, "-")
    ]


def _flat(value: Any, at: str = "") -> Iterable[tuple[str, Any]]:
    """Every leaf with its path; facts and verdicts by what they are about, not by their place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{at}[{_name(inner, number)}]")
    else:
        yield at, value


def _name(item: Any, number: int) -> str:
    if isinstance(item, dict) and "subject" in item:
        return ": ".join(str(item[k]) for k in ("subject", "quantity") if k in item)
    return str(number)
