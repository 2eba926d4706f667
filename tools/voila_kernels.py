"""The kernels of the dashboard's pages, as Voila asks for them: some wait with their page made.

A kernel that has waited for long counts as idle at the moment a visitor gets it, with the page's
connection still to come: without this it would be ended under that visitor's hands.
"""

from __future__ import annotations

import time

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

UNMET_S = 120.0  # a page that has not connected for so long will not come


class PatientKernelManager(AsyncMappingKernelManager):
    """A kernel is looked at for idleness once a page has connected to it, or none has come."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self._given: dict[str, float] = {}
        self._met: set[str] = set()

    def notify_connect(self, kernel_id: str) -> None:
        self._met.add(kernel_id)
        super().notify_connect(kernel_id)

    async def cull_kernel_if_idle(self, kernel_id: str) -> None:
        """Voila asks this of kernels that no longer wait, every cull_interval."""
        now = time.monotonic()
        given = self._given.setdefault(kernel_id, now)
        if kernel_id in self._met or now - given > UNMET_S:
            await super().cull_kernel_if_idle(kernel_id)

    async def shutdown_kernel(self, kernel_id: str, *args: object, **settings: object) -> None:
        self._given.pop(kernel_id, None)
        self._met.discard(kernel_id)
        await super().shutdown_kernel(kernel_id, *args, **settings)
