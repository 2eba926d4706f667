"""Limits on a student's code: for a process of its own, and for code that runs in this one."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(frozen=True)
class Limits:
    """What one check may cost. Seconds are of wall-clock time unless said."""

    start_s: float = 30.0  # a fresh Python, on a machine with much to do
    call_s: float = 8.0  # one call of the student's code
    total_s: float = 45.0  # all calls of a check together
    cpu_s: int = 40  # processor time of one child process
    memory_bytes: int = 2 << 30
    file_bytes: int = 1 << 20
    answer_bytes: int = 8 << 20
    lines: int = 1_000_000  # executed in one call, where code runs in this process
    deaths: int = 2  # child processes that may end before their answer


class TimeLimitError(BaseException):
    """The time is over. No Exception, so that no scheduler and no engine can swallow it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimitError inside the block when it takes longer than that.

    It works where the platform has interval timers and this is the main thread; elsewhere the
    block runs without a limit.
    """
    works = hasattr(signal, "setitimer") and (threading.current_thread() is threading.main_thread())
    if not works:
        yield
        return

    def ring(*_: object) -> None:
        raise TimeLimitError(_too_long(seconds))

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def line_limit(lines: int, seconds: float, trusted: tuple[str, ...]) -> Iterator[None]:
    """Raise TimeLimitError once code outside the folders `trusted` has run that many lines.

    Also when it takes longer than `seconds`. Needs neither signals nor a second thread: it ends an
    endless loop in a browser's kernel, which cannot be interrupted.
    """
    left, deadline = lines, time.monotonic() + seconds

    def on_line(frame: FrameType, event: str, argument: object) -> Callable | None:
        nonlocal left
        left -= 1
        if left < 0:
            raise TimeLimitError(f"It did not end within {lines:,} lines.")
        if left % 1024 == 0 and time.monotonic() > deadline:
            raise TimeLimitError(_too_long(seconds))
        return on_line

    def on_call(frame: FrameType, event: str, argument: object) -> Callable | None:
        return None if frame.f_code.co_filename.startswith(trusted) else on_line(frame, event, None)

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(before)


def _too_long(seconds: float) -> str:
    return f"It did not end within {seconds:g} s."
