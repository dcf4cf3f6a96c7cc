"""The check engine: every arm of every operation held to its oracle, and what was compared counted."""

from hipbook.checks.case import Case, CheckResult, Operation, Status
from hipbook.checks.full_record import full_record, read_full_record, stale_arms, write_full_record
from hipbook.checks.junit import junit_xml, write_junit
from hipbook.checks.pairwise import Design, pairwise
from hipbook.checks.progress import progress
from hipbook.checks.runner import (
    LEVELS,
    OPERATIONS,
    Summary,
    build_all,
    evaluate,
    parse_case,
    run_checks,
    select,
    summarise,
)

__all__ = [
    "LEVELS",
    "OPERATIONS",
    "Case",
    "CheckResult",
    "Design",
    "Operation",
    "Status",
    "Summary",
    "build_all",
    "evaluate",
    "full_record",
    "junit_xml",
    "pairwise",
    "parse_case",
    "progress",
    "read_full_record",
    "run_checks",
    "select",
    "stale_arms",
    "summarise",
    "write_full_record",
    "write_junit",
]
