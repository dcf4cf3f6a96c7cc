"""Results as JUnit XML, which other people's CI reads."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from hipbook.checks.case import CheckResult, Status

# what XML 1.0 cannot hold, not even escaped
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[CheckResult]) -> str:
    """One suite an operation and arm. INCORRECT is a failure, FAULT an error, an allowed refusal is
    skipped with its reason, another one a failure; what was compared is in the properties."""
    suites = ET.Element("testsuites", name="hipbook check", **_counts(results))
    ordered = sorted(results, key=_suite)
    for name, group in groupby(ordered, key=_suite):
        members = list(group)
        suite = ET.SubElement(suites, "testsuite", name=name, **_counts(members))
        for result in members:
            suite.append(_testcase(name, result))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def write_junit(results: Sequence[CheckResult], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(junit_xml(results), encoding="utf-8")


def _suite(result: CheckResult) -> str:
    return f"hipbook.check.{result.operation}.{result.arm}"


def _tag(result: CheckResult) -> str | None:
    if result.ok:
        return "skipped" if result.status is Status.REFUSED else None
    return "error" if result.status is Status.FAULT else "failure"


def _counts(results: Sequence[CheckResult]) -> dict[str, str]:
    tags = [_tag(result) for result in results]
    return {
        "tests": str(len(results)),
        "failures": str(tags.count("failure")),
        "errors": str(tags.count("error")),
        "skipped": str(tags.count("skipped")),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _testcase(suite: str, result: CheckResult) -> ET.Element:
    case = ET.Element("testcase", classname=suite, name=result.case_id, time=f"{result.seconds:.3f}")
    properties = ET.SubElement(case, "properties")
    for name in ("values_compared", "launches", "worst_row_nmse", "max_error_over_bound"):
        value = getattr(result, name)
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        ET.SubElement(properties, "property", name=name, value=text)
    tag = _tag(result)
    if tag:
        reason = _FORBIDDEN.sub("?", result.reason)
        element = ET.SubElement(case, tag, message=reason.split("\n")[0], type=str(result.status))
        element.text = f"{reason}\nhipbook check --case {result.case_id}"
    return case
