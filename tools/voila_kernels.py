"""The kernels of the dashboard's pages, as Voila asks for them: some wait with their page made.

A kernel that has waited for long counts as idle at the moment a visitor gets it, with the page's
connection still to come: without this it would be ended under that visitor's hands.
"""

from __future__ import annotations

import time

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager


class PatientKernelManager(AsyncMappingKernelManager):
    """Idle time counts from when a kernel was given to a page."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self._given: dict[str, float] = {}

    async def cull_kernel_if_idle(self, kernel_id: str) -> None:
        """Voila asks this of kernels that no longer wait, every cull_interval."""
        now = time.monotonic()
        if now - self._given.setdefault(kernel_id, now) > self.cull_idle_timeout:
            await super().cull_kernel_if_idle(kernel_id)

    async def shutdown_kernel(self, kernel_id: str, *args: object, **settings: object) -> None:
        self._given.pop(kernel_id, None)
        await super().shutdown_kernel(kernel_id, *args, **settings)
