"""Ends a student's schedule() that never comes back, so that Stop works and the kernel lives.

A thread cannot be killed; but Python code in it can be made to raise. That is done only while
the driver is inside a `schedule` method: the engine then fails that step's requests with a clear
message and goes on, as with any other exception of a scheduler.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from widgets.background import Background
    from widgets.live import Control

PATIENCE_S = 0.5  # after Stop; a schedule() takes microseconds


class ScheduleTimeoutError(RuntimeError):
    """Raised inside a schedule() that was still running when Stop had been pressed."""

    def __init__(self) -> None:
        super().__init__("it did not come back when Stop was pressed; does one of its loops end?")


def interrupt_schedule(control: Control, background: Background) -> bool:
    """Raise ScheduleTimeoutError in the driver if it hangs in schedule(); whether it was done."""
    since = control.in_step_since
    if since is None or time.perf_counter() - since < PATIENCE_S or not background.threads:
        return False
    driver = background.worker(0)
    if not isinstance(driver, threading.Thread) or not _in_schedule(driver):
        return False
    import ctypes  # only where there are threads

    ident = ctypes.c_ulong(driver.ident)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(ScheduleTimeoutError))
    return True


def _in_schedule(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        if frame.f_code.co_name == "schedule":
            return True
        frame = frame.f_back
    return False
