"""What `pytest --nbval` needs here, so that it works without options (loaded by the root conftest.py).

Sets the cell timeout, the kernel and the sanitising rules; keeps the records of these runs out of the tree;
and compares cells tagged `toolchain` only where the compiler is the one behind the committed outputs.
Elsewhere such a cell still runs and is reported as skipped, and their number is printed.
"""

import os
import tempfile
from pathlib import Path

import pytest

from hipbook import paths, records
from hipbook.errors import HipbookError
from hipbook.notebooks import format as gate
from hipbook.notebooks.execute import committed_record

CELL_TIMEOUT_S = 120.0  # nbval's own default notices a dead kernel after 2000 s
_NBVAL_DEFAULT_S = 2000
_REASON = pytest.StashKey[str]()
_CELLS = pytest.StashKey[list[pytest.Item]]()


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if not (getattr(option, "nbval", False) or getattr(option, "nbval_lax", False)):
        return
    if option.nbval_cell_timeout == _NBVAL_DEFAULT_S:
        option.nbval_cell_timeout = CELL_TIMEOUT_S
    if not option.nbval_kernel_name:
        option.nbval_current_env = True
    rules = paths.root() / "tests" / "notebooks" / "sanitize.cfg"
    if option.nbval_sanitize_with is None and rules.is_file():
        option.nbval_sanitize_with = str(rules)
    folder = tempfile.TemporaryDirectory(prefix="hipbook-nbval-")
    os.environ["HIPBOOK_RECORDS"] = folder.name
    config.add_cleanup(folder.cleanup)


def _is_cell(item: pytest.Item) -> bool:
    return type(item).__name__ == "IPyNbCell"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_CELLS] = [item for item in items if _is_cell(item)]
    reasons: dict[Path, str] = {}
    for item in config.stash[_CELLS]:
        if gate.TOOLCHAIN not in gate.tags(item.cell):
            continue
        if item.path not in reasons:
            reasons[item.path] = other_toolchain(item.path)
        if reasons[item.path]:
            item.options["check"] = False
            item.stash[_REASON] = reasons[item.path]


def other_toolchain(notebook: Path) -> str:
    """Why the toolchain's facts in `notebook` cannot be compared here; empty when they can."""
    from hipbook.build import toolchain_identity

    try:
        record = records.read(committed_record(notebook))
        here = toolchain_identity(str(record.board.get("arch")))
    except HipbookError as error:
        return f"toolchain not known: {error.what}"
    return "" if here == record.toolchain else f"made with {record.toolchain}, this is {here}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    result = yield
    if _REASON in item.stash:  # it ran, later cells may need it; its output was not compared
        pytest.skip(item.stash[_REASON])
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    cells = config.stash.get(_CELLS, [])
    if not cells:
        return
    skipped = sum(1 for item in cells if _REASON in item.stash)
    ignored = sum(1 for item in cells if gate.IGNORE in gate.tags(item.cell))
    terminalreporter.write_line(
        f"notebooks: {len(cells) - skipped - ignored} cells compared, {ignored} run without comparing, "
        f"{skipped} toolchain cells not compared (another compiler)"
    )
