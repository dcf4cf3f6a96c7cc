"""Errors that name the thing, the value, the rule and the fix.

Every error the package raises on purpose is a `HipbookError`: the command line prints its text
and exits with 2; anything else is a bug and keeps its traceback.
"""


class HipbookError(Exception):
    """Base of every error raised on purpose. `fix` says what the reader can do about it."""

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(f"{what}\n  fix: {fix}" if fix else what)
        self.what = what
        self.fix = fix


class BadArgument(HipbookError):
    """An argument that breaks a rule, found before anything ran: names argument, value and rule."""

    def __init__(self, argument: str, value: object, rule: str, *, fix: str = "") -> None:
        super().__init__(f"{argument} = {value}: {rule}", fix=fix)
        self.argument = argument
        self.value = value
        self.rule = rule


class Refused(HipbookError):
    """A valid request that this arm does not serve (an unsupported D, a misaligned pointer)."""


class BuildError(HipbookError):
    """A compiler that is missing, too old or that failed; carries the command and its own words."""


class BoardUnavailable(HipbookError):
    """The board asked for is not on this machine."""


class EmulatorError(HipbookError):
    """A code object the emulated board cannot run; raised before anything executes."""


class KernelFault(HipbookError):
    """The kernel did something it must not (out of bounds, unwritten data, a barrier that never
    completes); raised by the board after it stopped the launch."""
