"""A kernel that waited for a visitor is idle from when it was given, not from when it was made."""

from __future__ import annotations

import asyncio

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from tools import voila_kernels


def test_idle_time_counts_from_when_a_kernel_was_given(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    async def cull(self, kernel_id: str) -> None:
        asked.append(kernel_id)

    monkeypatch.setattr(AsyncMappingKernelManager, "cull_kernel_if_idle", cull)
    now = [1000.0]
    monkeypatch.setattr(voila_kernels.time, "monotonic", lambda: now[0])
    kernels = voila_kernels.PatientKernelManager(cull_idle_timeout=60)

    async def visits() -> None:
        await kernels.cull_kernel_if_idle("a")  # given a moment ago, after a long wait
        now[0] += 59
        await kernels.cull_kernel_if_idle("a")
        await kernels.cull_kernel_if_idle("b")
        assert asked == []
        now[0] += 2
        await kernels.cull_kernel_if_idle("a")
        await kernels.cull_kernel_if_idle("b")

    asyncio.run(visits())
    assert asked == ["a"]
