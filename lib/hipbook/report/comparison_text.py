"""A comparison as text for a terminal and as Markdown for a pull request."""

from collections.abc import Sequence
from dataclasses import replace

from hipbook.measure.comparable import Difference
from hipbook.measure.counts import CountWord
from hipbook.report import tables
from hipbook.report.comparison import Comparison, CountLine, TimeLine

LONGEST_LIST = 12  # differences and counts named one by one; the rest are counted


def text(comparison: Comparison) -> str:
    """The report for a terminal."""
    return _render(
        comparison, tables.text, heading=lambda level, words: words.upper() if level == 1 else words
    )


def markdown(comparison: Comparison) -> str:
    """The same for a pull request. Strings of records are escaped: a kernel's name is not markup."""
    return _render(
        _escaped(comparison), tables.markdown, heading=lambda level, words: f"{'#' * (level + 1)} {words}"
    )


def _render(one: Comparison, table, heading) -> str:
    parts = [
        heading(1, f"{one.new} against {one.base}"),
        one.question,
        f"Board: {' and '.join(dict.fromkeys(one.boards))}.",
    ]
    if one.times:
        parts += [heading(2, "Times"), table(_time_rows(one.times)), *_remarks(one.times)]
    if one.counted:
        differ = [line for line in one.counted if line.verdict.word is CountWord.COUNTS_DIFFER]
        parts += [heading(2, "Exact counts"), f"{len(one.counted)} compared, {len(differ)} differ."]
        if differ:
            parts.append(table(_count_rows(differ[:LONGEST_LIST])))
            parts += _rest(differ, "differences")
    if not one.made:
        parts.append("Nothing was compared: the two have no count and no time in common.")
    parts += [heading(2, "Environment"), *_environment(one)]
    if one.unmatched:
        parts += [heading(2, "In one record only"), *_listed(one.unmatched)]
    parts += [
        heading(2, "Comparisons made"),
        f"{one.made} ({len(one.times)} of times, {len(one.counted)} of counts); "
        f"correction of times for their number: {one.correction if one.times else 'none'}.",
        heading(2, "Not claimed"),
        *(_listed(one.not_claimed) or ["nothing was said"]),
    ]
    return "\n\n".join(parts) + "\n"


def _time_rows(lines: Sequence[TimeLine]) -> list[dict]:
    rows = []
    for line in lines:
        low, high = line.judgement.interval
        floor = line.judgement.noise_floor
        bound = None if line.new_of_bound is None else f"{line.base_of_bound:.0%} to {line.new_of_bound:.0%}"
        rows.append(
            {
                "case": line.case,
                f"base {line.unit}": f"{line.base:.4g}",
                f"new {line.unit}": f"{line.new:.4g}",
                "ratio": f"{line.judgement.ratio:.3f}",
                "95 % interval": f"{low:.3f} .. {high:.3f}" if high < 1e6 else "none: one run",
                "noise floor": "unknown" if floor is None else f"{floor:.2%}",
                "verdict": str(line.judgement.verdict),
                "predicted": line.prediction,
                "of bound": bound,
            }
        )
    columns = {name: None for row in rows for name in row}
    return [{name: row.get(name) for name in columns} for row in rows]


def _count_rows(lines: Sequence[CountLine]) -> list[dict]:
    return [
        {
            "subject": line.subject,
            "quantity": line.quantity,
            "base": line.verdict.base,
            "new": line.verdict.new,
            "verdict": str(line.verdict),
        }
        for line in lines
    ]


def _remarks(lines: Sequence[TimeLine]) -> list[str]:
    """Why each word, what was noted, and the bounds; cases of which the same is said share a paragraph."""
    cases: dict[str, list[str]] = {}
    for line in lines:
        one = line.judgement
        told = [one.verdict.why]
        if line.run_ratios:
            told += [*one.outliers, *one.notes]
        told.append(f"bound {line.bound}" if line.bound else "no bound was derived")
        cases.setdefault("; ".join(told), []).append(line.case)
    return [f"{'; '.join(names)}: {told}." for told, names in cases.items()]


def _environment(one: Comparison) -> list[str]:
    if one.factor == "arm":
        return ["Both sides ran in one record's run; the arm is the factor under study."]
    if not one.environment:
        return [f"No difference but for the factor under study ({one.factor or 'none named'})."]
    what = f"other than the factor under study ({one.factor})" if one.factor else "and no factor was named"
    number = len(one.environment)
    return [
        f"{number} difference{'s' if number > 1 else ''}, {what}:",
        *_listed([str(entry) for entry in one.environment]),
    ]


def _listed(entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    shown = "\n".join(f"- {entry}" for entry in entries[:LONGEST_LIST])
    return [shown, *_rest(entries, "entries")]


def _rest(entries: Sequence, noun: str) -> list[str]:
    left = len(entries) - LONGEST_LIST
    return [f"and {left} more {noun}."] if left > 0 else []


def _escaped(one: Comparison) -> Comparison:
    """The comparison with every string of a record made harmless in Markdown."""
    return replace(
        one,
        question=_plain(one.question),
        base=_plain(one.base),
        new=_plain(one.new),
        boards=tuple(_plain(board) for board in one.boards),
        times=tuple(
            replace(line, case=_plain(line.case), bound=line.bound and _plain(line.bound))
            for line in one.times
        ),
        counted=tuple(
            replace(line, subject=_plain(line.subject), quantity=_plain(line.quantity))
            for line in one.counted
        ),
        environment=tuple(
            Difference(_plain(entry.name), _plain_value(entry.base), _plain_value(entry.new))
            for entry in one.environment
        ),
        not_claimed=tuple(_plain(entry) for entry in one.not_claimed),
        unmatched=tuple(_plain(entry) for entry in one.unmatched),
    )


def _escaped_count(line: CountLine) -> CountLine:
    verdict = replace(line.verdict, quantity=_plain(line.verdict.quantity))
    return CountLine(_plain(line.subject), _plain(line.quantity), verdict)


def _plain_value(value):
    """A value whose repr is harmless: strings and containers are escaped, numbers stay."""
    return value if value is None or isinstance(value, bool | int | float) else _plain(str(value))


def _plain(words: str) -> str:
    """One line, with Markdown's and HTML's own characters escaped."""
    flat = " ".join(words.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{letter}" if letter in "\\`*_[]#" else letter for letter in flat)
