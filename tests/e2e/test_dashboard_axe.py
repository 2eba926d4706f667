"""axe-core on every tab of the dashboard: no serious and no critical fault, in both themes."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import find_program, missing
from tests.e2e.dashboard import DashboardServer, Visitor

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AXE = "axe-core@4.10.3"
TABS = ("Live", "Compare", "Curve", "Cluster", "Replay", "Class")
RUN = """async () => {
    const found = await axe.run(document.querySelector('.mld'));
    return found.violations
        .filter(each => ['serious', 'critical'].includes(each.impact))
        .map(each => [each.id, each.impact, each.help, each.nodes.map(n => n.html.slice(0, 160))]);
}"""


@pytest.fixture(scope="module")
def axe(request: pytest.FixtureRequest) -> str:
    """axe-core's source, fetched once by npm."""
    npm = find_program("npm (Debian: apt install npm)", "npm")
    folder = Path(request.config.cache.mkdir("axe-core"))
    source = folder / f"{AXE.replace('@', '-')}.js"
    if not source.exists():
        packed = subprocess.run(
            [npm, "pack", AXE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=120
        )
        if packed.returncode != 0:
            missing("the npm registry, which has axe-core")
        with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
            source.write_bytes(archive.extractfile("package/axe.min.js").read())
    return source.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server(chromium: str) -> Iterator[DashboardServer]:
    server = DashboardServer("--simulate", "A100-80GB-SXM")
    yield server
    server.stop()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_any_tab(browser, server, axe: str, theme: str):
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    Visitor(page, server.url).open(theme)
    page.evaluate(axe)
    found = {}
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        page.locator(f".mld-tab[aria-selected=true]:text-is('{tab}')").wait_for()
        page.locator(".mld-form, .mlr").first.wait_for(timeout=30_000)
        page.wait_for_timeout(2000)  # figures draw and tables fill
        found[tab] = page.evaluate(RUN)
    context.close()
    assert found == {tab: [] for tab in TABS}
