"""The dashboard at a steady load for minutes: the kernel's and the page's memory stay flat.

MINILLM_MEMORY_MINUTES=10 pytest -s -m slow tests/e2e/test_dashboard_memory.py    # prints the curve
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import CDPSession

from tests.e2e.dashboard import DashboardServer, Visitor

MINUTES = float(os.environ.get("MINILLM_MEMORY_MINUTES") or 6)
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600 + 120 * MINUTES)]
FILLING_S = 200.0  # until rings, strips and histograms hold what they may hold
EVERY_S = 5.0
MOST_KERNEL, MOST_PAGE = 1.5, 1.0  # MB a minute: a leak of every step is tens of them
MOST_NODES = 60.0  # elements a minute
RATE = "12"  # requests a second: some 1,200 tokens a second


@dataclass(frozen=True)
class Reading:
    """minute: since the page was ready. kernel: RSS, page: JavaScript's heap after GC, both MB."""

    minute: float
    kernel: float
    page: float
    nodes: float


@pytest.fixture
def server(chromium: str) -> Iterator[DashboardServer]:
    server = DashboardServer("--simulate", "A100-80GB-SXM")
    yield server
    server.stop()


def test_ten_minutes_keep_memory_flat(browser, server: DashboardServer):
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    visitor = Visitor(context.new_page(), server.url)
    visitor.open()
    page = visitor.page
    rate = page.get_by_label("Your arrivals a second")
    rate.focus()
    while rate.get_attribute("aria-valuetext") != RATE:
        page.keyboard.press("ArrowRight")
    kernel = server.kernel_of(page)
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable")
    begun, readings = time.monotonic(), []
    while (passed := time.monotonic() - begun) < 60 * MINUTES:
        page.wait_for_timeout(EVERY_S * 1000)
        readings.append(Reading(passed / 60, kernel.memory_info().rss / 1e6, *page_size(devtools)))
        print("{:5.2f} min  kernel {:6.1f} MB  page {:6.1f} MB  nodes {:.0f}".format(
            *vars(readings[-1]).values()
        ))  # fmt: skip
    visitor.check_clean()
    context.close()
    full = [each for each in readings if each.minute * 60 > FILLING_S]
    grown = {name: slope(full, name) for name in ("kernel", "page", "nodes")}
    print({name: round(value, 3) for name, value in grown.items()}, "a minute")
    assert grown["kernel"] < MOST_KERNEL
    assert grown["page"] < MOST_PAGE
    assert grown["nodes"] < MOST_NODES


def page_size(devtools: CDPSession) -> tuple[float, float]:
    """MB of JavaScript objects that are in use, and how many elements there are."""
    devtools.send("HeapProfiler.collectGarbage")
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    found = {each["name"]: each["value"] for each in metrics}
    return found["JSHeapUsedSize"] / 1e6, found["Nodes"]


def slope(readings: list[Reading], name: str) -> float:
    """Growth a minute, by the least squares of all readings."""
    minutes = [each.minute for each in readings]
    return statistics.linear_regression(minutes, [getattr(r, name) for r in readings]).slope
