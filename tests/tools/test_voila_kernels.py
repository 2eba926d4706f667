"""A kernel that waited for a visitor is not ended before the visitor's page has connected."""

from __future__ import annotations

import asyncio

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from tools import voila_kernels
from tools.voila_kernels import UNMET_S, PatientKernelManager


def test_idleness_is_asked_of_kernels_that_a_page_has_met_or_that_none_came_to(
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[str] = []

    async def cull(self, kernel_id: str) -> None:
        asked.append(kernel_id)

    monkeypatch.setattr(AsyncMappingKernelManager, "cull_kernel_if_idle", cull)
    now = [1000.0]
    monkeypatch.setattr(voila_kernels.time, "monotonic", lambda: now[0])
    kernels = PatientKernelManager(cull_idle_timeout=7)
    kernels._kernel_connections = {"met": 0}

    async def visits() -> None:
        for each in ("met", "unmet"):  # given a moment ago, after a long wait
            await kernels.cull_kernel_if_idle(each)
        now[0] += UNMET_S - 1  # a slow machine: the page is still loading
        for each in ("met", "unmet"):
            await kernels.cull_kernel_if_idle(each)
        assert asked == []
        kernels.notify_connect("met")
        await kernels.cull_kernel_if_idle("met")
        assert asked == ["met"]
        now[0] += 2
        await kernels.cull_kernel_if_idle("unmet")

    asyncio.run(visits())
    assert asked == ["met", "unmet"]
