"""Several notebooks at once, each in a subprocess of its own."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from hipbook.sweep import runner
from hipbook.sweep.runner import Outcome


def run_all(
    notebooks: Sequence[Path],
    values_of: Callable[[Path], Mapping[str, Any]] = lambda notebook: {},
    *,
    folder_of: Callable[[Path], Path | None] = lambda notebook: None,
    at_once: int = 1,
    begun: Callable[[Path], None] = lambda notebook: None,
    ended: Callable[[Outcome], None] = lambda outcome: None,
    **limits: Any,
) -> list[Outcome]:
    """The outcomes in the order of `notebooks`. `begun` and `ended` are told as it goes, from threads.

    Ctrl-C ends what runs, leaves it CANCELLED, begins nothing more, and goes on to the caller.
    """

    def one(notebook: Path) -> Outcome:
        begun(notebook)
        return runner.run_notebook(notebook, values_of(notebook), out=folder_of(notebook), **limits)

    pool = ThreadPoolExecutor(max_workers=at_once)
    futures = [pool.submit(one, notebook) for notebook in notebooks]
    try:
        for future in as_completed(futures):
            ended(future.result())
    except BaseException:
        with runner.cancelled():
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
    return [future.result() for future in futures]
