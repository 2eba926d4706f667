"""Ends a loop in a cell that never ends, where nobody else can: in a browser tab.

There the kernel is one thread that the page cannot interrupt. So the code of the cells, and no
other, reports its loops and calls (sys.monitoring, which costs other code nothing). When it has run
for LIMIT_S with no turn for anything else, it gets an EndlessLoopError.
"""

from __future__ import annotations

import asyncio
import sys
import time
from types import CodeType

LIMIT_S = 10.0
CALL_S = 0.001  # a longer gap between two reports was other code's: it counts as this much
BEAT_S = 0.5
TOOL = 4  # of sys.monitoring's six; debuggers and profilers have others


class EndlessLoopError(RuntimeError):
    """Raised inside a loop that had run for too long."""

    def __init__(self) -> None:
        super().__init__(
            f"it ran for {LIMIT_S:g} s, and a browser tab cannot interrupt it; "
            "does one of its loops end?"
        )

    def _render_traceback_(self) -> list[str]:  # IPython shows this in place of a traceback
        trace, where = self.__traceback__, ""
        while trace is not None:
            code = trace.tb_frame.f_code
            if is_cell(code):
                where = f"In line {trace.tb_lineno} of the cell: "
            trace = trace.tb_next
        return [f"{where}{self}"]


class Guard:
    """Watches this kernel from `start` on. The event loop's own turns say that all is well."""

    def __init__(self) -> None:
        self._ran, self._last = 0.0, time.monotonic()  # seconds of the cells' code; its last report
        self._beat: asyncio.Task | None = None

    def start(self) -> bool:
        """Begin; False where this Python cannot (before 3.12), or where it is on already."""
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is None or monitoring.get_tool(TOOL) is not None:
            return False
        events = monitoring.events
        monitoring.use_tool_id(TOOL, "minillm")
        monitoring.register_callback(TOOL, events.PY_START, self._started)
        monitoring.register_callback(TOOL, events.JUMP, self._jumped)
        monitoring.set_events(TOOL, events.PY_START)
        self._beat = asyncio.get_running_loop().create_task(self._breathe())
        return True

    async def _breathe(self) -> None:
        while True:
            self._ran = 0.0
            await asyncio.sleep(BEAT_S)

    def _started(self, code: CodeType, _offset: int) -> object:
        """A function begins: of the cells' own each call counts, of others none ever again."""
        if not is_cell(code):
            return sys.monitoring.DISABLE
        sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.JUMP)
        return self._look()

    def _jumped(self, _code: CodeType, _offset: int, _to: int) -> object:
        return self._look()

    def _look(self) -> None:
        now = time.monotonic()
        self._ran += min(now - self._last, CALL_S)
        self._last = now
        if self._ran > LIMIT_S:
            self._ran = 0.0  # what handles it has its time, too
            raise EndlessLoopError


def watch() -> bool:
    """Watch this kernel; False where that cannot be, outside a running event loop, or twice."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return Guard().start()


def is_cell(code: CodeType) -> bool:
    """Whether this was typed into a cell."""
    name = code.co_filename
    return name.startswith("<ipython-input") or "ipykernel_" in name
