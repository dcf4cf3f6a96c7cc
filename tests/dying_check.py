"""An `evaluate` that takes its process with it, for tests of the worker pool. Importable by workers."""

import os
import signal

from fake_board import FakeBoard

from hipbook.checks.case import CheckResult, Status


def open_board() -> FakeBoard:
    return FakeBoard()


def evaluate(case, board, **options) -> CheckResult:
    if case.seed == 13:
        os.kill(os.getpid(), signal.SIGSEGV)
    return CheckResult(case.id, case.operation, case.arm, Status.CORRECT, True, values_compared=case.seed)
