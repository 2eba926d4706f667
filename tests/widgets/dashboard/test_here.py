"""The dashboard without threads: a live engine in the kernel, simulated tabs, and no class."""

from __future__ import annotations

import asyncio

import pytest

from widgets.dashboard import page
from widgets.dashboard.here import HereTab


def in_a_loop(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_requests_run_on_the_simulated_gpu_and_all_figures_follow():
    async def scenario():
        tab = HereTab(threads=False)
        assert tab.panel().children
        tab.play.burst()
        await asyncio.sleep(0.3)
        tab.play.stop()
        report = await tab.play.session.finished()
        assert report.trace.header.device == "A100-80GB-SXM"
        assert report.trace.steps
        for figure in tab.figures:
            assert figure.still().alt
        tab.close()

    in_a_loop(scenario())


@pytest.fixture
def without_threads(monkeypatch):
    monkeypatch.setattr(page, "threads_work", lambda: False)
    monkeypatch.setattr("widgets.background.threads_work", lambda: False)


def test_every_tab_opens_without_a_thread(without_threads):
    async def scenario():
        dashboard = page.Dashboard()
        try:
            for index, name in enumerate(dashboard.makers):
                dashboard.frame.selected = index
                assert dashboard.body.children, name
            [no_class] = dashboard.body.children
            assert "needs the installed course" in no_class.value
            cluster, compare = dashboard.tabs["Cluster"], dashboard.tabs["Compare"]
            assert cluster.start()
            assert compare.start()
            await compare.session.finished()
            while cluster._jobs.busy:
                await asyncio.sleep(0.05)
            assert "In figures" in cluster.table.value
            assert "In figures" in compare.table.value
        finally:
            dashboard.close()

    in_a_loop(scenario())
