"""Fixtures for browser tests: `lab` (a JupyterLab server) and `page` (a LabPage on it).

    def test_lesson(lab, page):
        shutil.copy("notebooks/05_….ipynb", lab.root)
        assert run_notebook(page, "05_….ipynb") == []
        page.page.locator("canvas").first.wait_for()
        page.check_clean()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.capabilities import find_program, missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

    from tests.e2e.lab import LabPage, LabServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything that takes a page is marked `browser`."""
    for item in items:
        if "page" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of an installed Chromium or Chrome."""
    return find_program("Chromium (Debian: apt install chromium)", *CHROMIUM_NAMES)


CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


# One browser a module and not a session: while Playwright's synchronous interface is open, this
# thread has a running event loop, and tests elsewhere need to start their own.
@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the Python package playwright")
    with sync_playwright() as opened:
        yield opened


@pytest.fixture(scope="module")
def browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    from tests.e2e.lab import CHROMIUM_ARGUMENTS

    opened = playwright.chromium.launch(
        executable_path=chromium, headless=True, args=list(CHROMIUM_ARGUMENTS)
    )
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab on a free loopback port; put notebooks below `lab.root`."""
    from tests.e2e.lab import LabServer

    server = LabServer(tmp_path_factory.mktemp("lab-root"), tmp_path_factory.mktemp("lab-state"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def page(browser: Browser, lab: LabServer) -> Iterator[LabPage]:
    """A fresh browser context (1280 × 900, nothing cached); its kernels end with the test."""
    from tests.e2e.lab import LabPage

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    lab_page = LabPage(context.new_page(), lab)
    yield lab_page
    context.close()
    lab.shut_down_kernels()
