"""The system's Chromium through Playwright; a test that needs it is skipped, with the reason, without it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str:
    """The browser's path; skips the test that asks where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on the path: apt-get install chromium")
    return found


@contextmanager
def browser() -> Iterator:
    """A running browser."""
    where = executable()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium refuses its own sandbox to root
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=where, args=options)
        try:
            yield running
        finally:
            running.close()
