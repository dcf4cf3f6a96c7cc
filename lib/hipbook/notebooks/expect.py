"""Errors a notebook means to show."""

from collections.abc import Iterator
from contextlib import contextmanager

from hipbook.errors import HipbookError


class NothingRaised(HipbookError):
    """A block that had to raise did not."""


@contextmanager
def expect(error: type[BaseException]) -> Iterator[None]:
    """Print the error the block raises and go on; fail when it raises nothing, or another kind.

    The `raises-exception` tag is not for this: papermill stops at it and nbval passes when nothing is
    raised. The message is printed, so nbval compares it: raise errors whose text is the same everywhere.
    """
    try:
        yield
    except error as raised:
        print(f"{type(raised).__name__}: {raised}")
    else:
        raise NothingRaised(f"nothing was raised where {error.__name__} was expected")
